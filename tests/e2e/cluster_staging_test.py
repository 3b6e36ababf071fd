# SPDX-License-Identifier: Apache-2.0
"""Mounts of a cluster with write=back: two workers hold what is written before the store has it."""

import contextlib
import os
import shutil
import threading
from pathlib import Path

import pytest

from e2e.cluster_writing_test import Saver, is_there, soon
from e2e.content import content
from e2e.written_folder import compare
from e2e.writing_test import Front, S3Side
from rig.cluster import Cluster
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024


class Staging:
    """Three workers, a store that can be made to fail, and an empty mount at /out with write=back."""

    def __init__(self, folder, store, s3, seed):
        s3.create_bucket(Bucket="out")
        self.front = Front(store, folder, seed, share=0)
        self.side = S3Side(s3, "out")
        self.cluster = Cluster(Path(folder) / "cluster", self.front, 3)

    def start(self):
        self.cluster.start()
        self.cluster.mount("out", "/out", "-o", "write=back", "-o", "io_timeout=3s")
        self.token = self.cluster.new_token(self.cluster.folder / "writer", "writer", "--write", "/out")
        return self

    def mount(self, *options):
        return self.cluster.client().mount_cluster("/out", "--writable", *options, token=self.token)

    def unsent(self):
        for worker in self.cluster.workers:
            if worker.process.poll() is None:
                return next(one.get("unsent_changes", 0) for one in worker.status()["mounts"]
                            if one["path"] == "/out")
        raise AssertionError("no worker")

    def primary(self):
        """The worker with the log, by its own words."""
        return max(self.cluster.workers, key=lambda one: "has the staged writes of /out"
                   in one.log.read_text())

    def flush(self, mount):
        client = next(one for one in self.cluster.clients if one.folder / "mnt" == mount)
        client.run("flush", mount)

    def close(self):
        self.cluster.close()
        self.front.stop()


@pytest.fixture
def staging(folder, store, s3, seed):
    made = Staging(folder, store, s3, seed)
    try:
        yield made.start()
    finally:
        made.close()


def test_a_write_does_not_wait_for_the_store(staging):
    ours, theirs = staging.mount(), staging.mount()
    staging.front.refuses_changes = True
    bodies = {f"f{number}": content(f"f{number}", 1, 0, size)
              for number, size in enumerate([0, 5, 20 * KIB, 300 * KIB, 9 * MIB])}
    for name, body in bodies.items():
        (ours / name).write_bytes(body)
        soon(lambda name=name: is_there(theirs / name), name)
        assert (theirs / name).read_bytes() == body
    assert staging.side.names() == []
    assert staging.unsent() == len(bodies)
    text = staging.cluster.workers[0].run("cluster", "status").stdout
    assert "5 writes with 9.3 MiB are on workers, and not in the store yet" in text
    staging.front.refuses_changes = False
    staging.flush(ours)
    assert {name: staging.side.read(name) for name in staging.side.names()} == bodies
    assert staging.unsent() == 0
    for name, body in bodies.items():
        assert (theirs / name).read_bytes() == body


def test_a_named_checkpoint_is_complete(staging):
    """As PyTorch's distributed checkpoint: two writers, and a rename at the end."""
    first, second = staging.mount(), staging.mount()
    for step in range(5):
        directory = f"step-{step}.tmp"
        (first / directory).mkdir()
        soon(lambda directory=directory: is_there(second / directory), directory)
        for rank, mount in enumerate([first, second]):
            (mount / directory / f"__{rank}.distcp").write_bytes(
                content(f"{step}-{rank}", 1, 0, 3 * MIB))
        soon(lambda directory=directory: is_there(first / directory / "__1.distcp"), "all parts")
        (first / directory / ".metadata").write_bytes(b"%d" % step)
        os.rename(first / directory, first / f"step-{step}")
        seen = {name.split("/")[0] for name in staging.side.names()}
        for name in seen:
            if not name.endswith(".tmp"):
                parts = [key for key in staging.side.names() if key.startswith(f"{name}/")]
                assert len(parts) == 3, parts
    staging.flush(first)
    assert len(staging.side.names()) == 15
    soon(lambda: sorted(os.listdir(second)) == [f"step-{step}" for step in range(5)], "the names")
    for step in range(5):
        for rank in range(2):
            assert (second / f"step-{step}" / f"__{rank}.distcp").read_bytes() == \
                content(f"{step}-{rank}", 1, 0, 3 * MIB)


@pytest.mark.parametrize("lost", ["primary", "other"])
def test_a_lost_worker_loses_nothing(staging, lost):
    """Killed with its disk, while the store takes nothing."""
    mount = staging.mount()
    for directory in ["a", "b", "c"]:
        (mount / directory).mkdir()
    staging.front.refuses_changes = True
    with contextlib.ExitStack() as stack:
        savers = [stack.enter_context(Saver(mount / directory, f"{directory}-", size))
                  for directory, size in [("a", 2 * KIB), ("b", 300 * KIB), ("c", 5 * MIB)]]
        for saver in savers:
            saver.more(3)
        primary = staging.primary()
        victim = primary if lost == "primary" else next(
            one for one in staging.cluster.workers if one is not primary)
        victim.kill()
        shutil.rmtree(victim.folder / "cache", ignore_errors=True)
        for saver in savers:
            saver.more(3)
    staging.front.refuses_changes = False
    for saver in savers:
        print(f"{len(saver.saved)} saved, {saver.failed} failed, longest {saver.longest_s:.1f} s")
        for name in saver.saved:
            assert (saver.mount / name).read_bytes() == content(name, 1, 0, saver.size), name
    staging.flush(mount)
    for saver in savers:
        for name in saver.saved:
            assert staging.side.read(f"{saver.mount.name}/{name}") == content(name, 1, 0, saver.size)


def test_all_workers_may_end(staging):
    mount = staging.mount()
    staging.front.refuses_changes = True
    for number in range(10):
        (mount / f"f{number}").write_bytes(content(f"f{number}", 1, 0, 30 * KIB))
    os.rename(mount / "f0", mount / "renamed")
    for worker in staging.cluster.workers:
        worker.kill()
    for worker in staging.cluster.workers:
        worker.start()
    staging.cluster.wait_for_ring(staging.cluster.workers)
    wait_until(lambda: (mount / "renamed").exists(), "the workers", timeout_s=60)
    staging.front.refuses_changes = False
    wait_until(lambda: staging.unsent() == 0, "the store to have it", timeout_s=60)
    assert sorted(staging.side.names()) == sorted([f"f{n}" for n in range(1, 10)] + ["renamed"])


def test_a_drained_worker_may_go(staging):
    mount = staging.mount()
    staging.front.refuses_changes = True
    (mount / "f").write_bytes(b"x" * 100)
    primary = staging.primary()
    others = [one for one in staging.cluster.workers if one is not primary]
    drain = threading.Thread(target=primary.run, args=("cluster", "drain"))
    drain.start()
    wait_until(lambda: any("has the staged writes of /out" in one.log.read_text() for one in others),
               "another worker with the log", timeout_s=30)
    staging.front.refuses_changes = False
    drain.join()
    primary.kill()
    assert (mount / "f").read_bytes() == b"x" * 100
    (mount / "g").write_bytes(b"y")
    staging.flush(mount)
    assert staging.side.read("f") == b"x" * 100 and staging.side.read("g") == b"y"


def test_somebody_elses_object_is_kept(staging):
    ours = staging.mount()
    staging.front.refuses_changes = True
    (ours / "f").write_bytes(b"ours")
    staging.side.write("f", b"theirs")
    staging.front.refuses_changes = False
    staging.flush(ours)
    kept = [name for name in staging.side.names() if name.startswith("f.conflict-")]
    assert len(kept) == 1 and staging.side.read(kept[0]) == b"ours"
    assert staging.side.read("f") == b"theirs"


def test_a_mount_with_unsent_writes_stays(staging):
    mount = staging.mount()
    staging.front.refuses_changes = True
    (mount / "f").write_bytes(b"x")
    worker = staging.cluster.workers[0]
    refused = worker.run("cluster", "umount", "/out", check=False)
    assert refused.returncode != 0 and "are not in the store yet" in refused.stderr
    staging.front.refuses_changes = False
    staging.flush(mount)
    worker.run("cluster", "umount", "/out")
    assert staging.side.read("f") == b"x"


def test_it_behaves_as_a_folder(staging, folder, seed, scale):
    plain = Path(folder) / "plain"
    plain.mkdir()
    mount = staging.mount()
    top = mount / "top"
    top.mkdir()
    compare(top, plain, seed, 300 * scale, lambda _plain, _operation: False)
    wanted = {str(one.relative_to(plain)): one.read_bytes()
              for one in plain.rglob("*") if one.is_file()}
    staging.flush(mount)
    there = staging.mount() / "top"
    assert {str(one.relative_to(there)): one.read_bytes()
            for one in there.rglob("*") if one.is_file()} == wanted, f"seed {seed}"
    assert {name.removeprefix("top/"): staging.side.read(name)
            for name in staging.side.names()} == wanted, f"seed {seed}"


def test_write_copies_are_checked(staging):
    worker = staging.cluster.workers[0]
    endpoint = ["-o", f"endpoint={staging.cluster.store.endpoint}"]
    for options, words in [(["-o", "write_copies=2"], "belongs to write=back"),
                           (["-o", "write=back", "-o", "write_copies=9"], "from 1 to 4"),
                           (["-o", "write=local"], "never reach their store")]:
        done = worker.run("cluster", "mount", "s3://out", "/more", *endpoint, *options, check=False)
        assert done.returncode != 0 and words in done.stderr, done.stderr
