# SPDX-License-Identifier: Apache-2.0
"""Mounts of a cluster that take writes: clients have a token only, and workers write to the store. What
one client has written, the others see at once."""

import contextlib
import errno
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from e2e.content import content
from e2e.written_folder import compare
from e2e.writing_test import FileSide, Front, S3Side, errno_of
from rig.cluster import Cluster
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
# A second is promised; the rest is for a machine that has much else to do.
SEEN_WITHIN_S = 2


class Writing:
    """A cluster with an empty directory at /out of its namespace, and the store behind that."""

    def __init__(self, cluster, side):
        self.cluster, self.side = cluster, side
        self.token = cluster.new_token(cluster.folder / "writer", "writer", "--write", "/out")

    def mount(self, *options, path="/out", token=None):
        """A new client's folder."""
        return self.cluster.client().mount_cluster(path, "--writable", *options,
                                                   token=token or self.token)


@pytest.fixture(params=["s3", "file"])
def writing(request, make_cluster, s3, bucket, folder):
    local = Path(folder) / "local"
    local.mkdir()
    cluster = make_cluster(3, LEAT_WORKER_LOCAL_PATHS=str(local))
    if request.param == "s3":
        s3.create_bucket(Bucket="out")
        cluster.mount("out", "/out")
        return Writing(cluster, S3Side(s3, "out"))
    cluster.workers[0].run("cluster", "mount", f"file://{local}", "/out")
    wait_until(lambda: all(any(one["path"] == "/out" and not one.get("trouble")
                               for one in worker.status()["mounts"]) for worker in cluster.workers),
               "the mount at all workers")
    return Writing(cluster, FileSide(local))


on_s3 = pytest.mark.parametrize("writing", ["s3"], indirect=True)


def soon(condition, what):
    wait_until(condition, what, timeout_s=SEEN_WITHIN_S, interval_s=0.02)


def is_there(path):
    """By a listing, too."""
    return path.exists() and path.name in os.listdir(path.parent)


def test_a_closed_file_is_seen_by_all(writing):
    mounts = [writing.mount() for _ in range(2)]
    local = writing.cluster.workers[0].mount_cluster("/out")
    for mount in [*mounts, local]:
        assert os.listdir(mount) == []
    for number in range(4):
        name, body = f"f{number}", content(f"f{number}", 1, 0, 100 * KIB)
        (mounts[number % 2] / name).write_bytes(body)
        assert (mounts[number % 2] / name).read_bytes() == body
        assert writing.side.read(name) == body
        for mount in [*mounts, local]:
            soon(lambda mount=mount, name=name: is_there(mount / name), f"{name} in {mount}")
            assert (mount / name).read_bytes() == body
        (mounts[number % 2] / name).write_bytes(b"again")
        for mount in [*mounts, local]:
            soon(lambda mount=mount, name=name: (mount / name).read_bytes() == b"again",
                 f"the new {name} in {mount}")


def test_names_change_for_all_clients(writing):
    ours, theirs = writing.mount(), writing.mount()
    (ours / "dir").mkdir()
    soon(lambda: is_there(theirs / "dir"), "the directory")
    (ours / "dir" / "a").write_bytes(b"one")
    soon(lambda: is_there(theirs / "dir" / "a"), "the file")
    with open(theirs / "dir" / "a", "ab") as file:
        file.write(b" two")
    soon(lambda: (ours / "dir" / "a").read_bytes() == b"one two", "what was appended")
    os.rename(ours / "dir" / "a", ours / "b")
    soon(lambda: is_there(theirs / "b") and not is_there(theirs / "dir" / "a"), "the new name")
    assert (theirs / "b").read_bytes() == b"one two"
    os.rename(ours / "dir", ours / "moved")
    soon(lambda: is_there(theirs / "moved") and not is_there(theirs / "dir"), "the directory's name")
    os.unlink(theirs / "b")
    soon(lambda: not is_there(ours / "b"), "the removal")
    os.rmdir(ours / "moved")
    soon(lambda: os.listdir(theirs) == [], "the end of the directory")
    assert writing.side.names() == []


def test_a_tree_is_renamed(writing):
    ours, theirs = writing.mount(), writing.mount()
    for name in ["d/x", "d/sub/y", "d/sub/deep/z"]:
        (ours / name).parent.mkdir(parents=True, exist_ok=True)
        (ours / name).write_bytes(name.encode())
    soon(lambda: is_there(theirs / "d" / "sub" / "y"), "the tree")
    os.rename(ours / "d", ours / "e")
    assert writing.side.names() == ["e/sub/deep/z", "e/sub/y", "e/x"]
    assert (ours / "e/sub/y").read_bytes() == b"d/sub/y"
    soon(lambda: is_there(theirs / "e" / "sub" / "deep" / "z"), "the tree under its new name")
    soon(lambda: not (theirs / "d").exists(), "the end of the old name")


def test_a_large_file_is_written_in_pieces(writing):
    ours, theirs = writing.mount(), writing.mount()
    body = content("large", 1, 0, 41 * MIB + 7)
    (ours / "large").write_bytes(body)
    assert writing.side.read("large") == body
    soon(lambda: is_there(theirs / "large"), "the file")
    assert (theirs / "large").read_bytes() == body
    with open(ours / "large", "r+b") as file:
        file.seek(20 * MIB)
        file.write(b"in the middle")
    changed = body[:20 * MIB] + b"in the middle" + body[20 * MIB + 13:]
    assert writing.side.read("large") == changed
    soon(lambda: (theirs / "large").read_bytes() == changed, "the change")


@on_s3
def test_two_writers_keep_both_contents(writing):
    ours, theirs = writing.mount(), writing.mount()
    (ours / "f").write_bytes(b"old")
    soon(lambda: is_there(theirs / "f"), "the file")
    with open(ours / "f", "r+b", buffering=0) as file:
        file.write(b"ours")
        (theirs / "f").write_bytes(b"theirs")
        assert errno_of(os.fsync, file.fileno()) == errno.EIO
    soon(lambda: (ours / "f").read_bytes() == b"theirs", "their content")
    kept = [name for name in writing.side.names() if name.startswith("f.conflict-")]
    assert len(kept) == 1 and writing.side.read(kept[0]) == b"ours"
    assert "somebody else wrote" in (ours / ".leat/errors").read_text()
    soon(lambda: is_there(theirs / kept[0]), "the conflict's file at the other client")


@on_s3
def test_attributes_are_kept(writing):
    ours, theirs = writing.mount(), writing.mount()
    (ours / "f").write_bytes(b"x")
    os.chmod(ours / "f", 0o751)
    os.utime(ours / "f", ns=(0, 1_500_000_000_987_654_321))
    soon(lambda: is_there(theirs / "f"), "the file")
    soon(lambda: os.stat(theirs / "f").st_mode & 0o7777 == 0o751, "the mode")
    assert os.stat(theirs / "f").st_mtime_ns == 1_500_000_000_987_654_321
    os.symlink("f", ours / "link")
    soon(lambda: os.path.islink(theirs / "link"), "the link")


@on_s3
def test_without_the_right_nothing_changes(writing):
    cluster = writing.cluster
    (writing.mount() / "theirs").write_bytes(b"x")
    mount = writing.mount(token=cluster.token)
    for what in [lambda: (mount / "f").write_bytes(b"x"), lambda: os.unlink(mount / "theirs"),
                 lambda: os.rename(mount / "theirs", mount / "g"), lambda: os.mkdir(mount / "d")]:
        assert errno_of(what) == errno.EACCES
    assert "tester may not write /out" in (mount / ".leat/errors").read_text()
    assert writing.side.names() == ["theirs"]
    lines = [line for worker in cluster.workers for line in worker.log.read_text().splitlines()
             if "audit: tester" in line and "may not write /out" in line]
    assert lines


@on_s3
def test_the_whole_namespace_takes_writes(writing):
    cluster = writing.cluster
    token = cluster.new_token(cluster.folder / "all", "all", "--write", "/")
    mount = writing.mount(path="/", token=token)
    assert sorted(os.listdir(mount)) == ["out", "train"]
    (mount / "out" / "f").write_bytes(b"x")
    assert errno_of(os.mkdir, mount / "new") == errno.EROFS
    assert errno_of(os.rmdir, mount / "out") in (errno.EROFS, errno.ENOTEMPTY)
    assert errno_of(os.rename, mount / "out" / "f", mount / "train" / "f") == errno.EXDEV
    shutil.move(mount / "out" / "f", mount / "train" / "f")
    assert (mount / "train" / "f").read_bytes() == b"x"
    assert writing.side.names() == []


@on_s3
def test_write_back_waits_at_the_client(writing):
    ours, theirs = writing.mount("-o", "write=back"), writing.mount()
    for number in range(20):
        (ours / f"f{number}").write_bytes(content(f"f{number}", 1, 0, 30 * KIB))
    client = writing.cluster.clients[0]
    client.run("flush", ours)
    assert len(writing.side.names()) == 20
    soon(lambda: len(os.listdir(theirs)) == 20, "the files")
    client.run("umount", ours)


def waits_after_renames():
    """A directory that was renamed is gone on all workers within a second, and not before."""
    due = 0.0

    def look(plain, operation):
        nonlocal due
        time.sleep(max(0.0, due - time.monotonic()))
        if operation[0] == "rename" and (plain / operation[1]).is_dir():
            due = time.monotonic() + 1.2
        return False
    return look


def test_it_behaves_as_a_folder(writing, folder, seed, scale):
    plain = Path(folder) / "plain"
    plain.mkdir()
    mount = writing.mount()
    top = mount / "top"
    top.mkdir()
    compare(top, plain, seed, 300 * scale, waits_after_renames())
    time.sleep(1.2)  # what other clients see
    wanted = {str(one.relative_to(plain)): one.read_bytes()
              for one in plain.rglob("*") if one.is_file()}
    there = writing.mount() / "top"
    assert {str(one.relative_to(there)): one.read_bytes()
            for one in there.rglob("*") if one.is_file()} == wanted, f"seed {seed}"


# ---- trouble

class Saver(threading.Thread):
    """Saves files, each under a new name, until it is stopped; the names that succeeded."""

    def __init__(self, mount, prefix, size):
        super().__init__()
        self.mount, self.prefix, self.size = mount, prefix, size
        self.saved, self.failed, self.longest_s = [], [], 0.0
        self.stopping = threading.Event()

    def run(self):
        number = 0
        while not self.stopping.is_set():
            name = f"{self.prefix}{number}"
            begin = time.monotonic()
            try:
                (self.mount / name).write_bytes(content(name, 1, 0, self.size))
                self.saved.append(name)
            except OSError as failed:
                self.failed.append((name, failed.errno))
            self.longest_s = max(self.longest_s, time.monotonic() - begin)
            number += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join()

    def more(self, count):
        wanted = len(self.saved) + count
        wait_until(lambda: len(self.saved) >= wanted, f"{count} more files", timeout_s=60)


def test_a_killed_worker_tears_no_file(writing):
    mount = writing.mount()
    victim = writing.cluster.workers[1]
    for directory in ["a", "b", "c", "d"]:  # with several owners
        (mount / directory).mkdir()
    with contextlib.ExitStack() as stack:
        savers = [stack.enter_context(Saver(mount / directory, f"{directory}-", size))
                  for directory, size in [("a", 20 * KIB), ("b", 300 * KIB), ("c", 9 * MIB),
                                          ("d", 20 * KIB)]]
        for saver in savers:
            saver.more(3)
        victim.kill()
        for saver in savers:
            saver.more(5)
    for saver in savers:
        print(f"{len(saver.saved)} saved, {saver.failed} failed, longest {saver.longest_s:.1f} s")
        assert saver.longest_s < 40
        for name in saver.saved:
            assert writing.side.read(f"{saver.mount.name}/{name}") == content(name, 1, 0, saver.size)
        for name, _ in saver.failed:
            (saver.mount / name).write_bytes(content(name, 1, 0, saver.size))
    sizes = {f"{saver.mount.name}/": saver.size for saver in savers}
    for name in writing.side.names():
        assert len(writing.side.read(name)) == sizes[name[:2]], name


@pytest.fixture
def behind_a_front(folder, store, s3, seed):
    """A cluster over a store that fails, with a client's folder, the front and the store."""
    s3.create_bucket(Bucket="out")
    front = Front(store, folder, seed, share=0)
    cluster = Cluster(Path(folder) / "cluster", front, 2)
    try:
        cluster.start()
        cluster.mount("out", "/out", "-o", "io_timeout=3s")
        writing = Writing(cluster, S3Side(s3, "out"))
        yield writing.mount("-o", "io_timeout=3s"), front, writing.side
    finally:
        cluster.close()
        front.stop()


def test_a_failing_store_fails_the_close(behind_a_front):
    mount, front, side = behind_a_front
    (mount / "f").write_bytes(b"before")
    front.refuses = True
    begin = time.monotonic()
    with open(mount / "f", "wb", buffering=0) as file:
        file.write(b"after")
        assert errno_of(os.fsync, file.fileno()) in (errno.EIO, errno.ETIMEDOUT)
        assert time.monotonic() - begin < 60
        assert (mount / "f").read_bytes() == b"after", "it is kept here"
        front.refuses = False
        os.fsync(file.fileno())
    assert side.read("f") == b"after"


def test_a_lossy_store_loses_nothing(behind_a_front, seed):
    mount, front, side = behind_a_front
    (mount / "d").mkdir()
    front.share = 0.05
    bodies = {f"d/f{number}": content(f"f{number}", 1, 0, (number + 1) * 20 * KIB)
              for number in range(30)}
    for name, body in bodies.items():
        for _ in range(5):
            with contextlib.suppress(OSError):
                (mount / name).write_bytes(body)
                break
        else:
            pytest.fail(f"seed {seed}: {name} cannot be written")
    front.share = 0
    assert {name: side.read(name) for name in bodies} == bodies, f"seed {seed}"
    assert sorted(side.names()) == sorted(bodies), "no conflict with itself"


def test_no_write_leaves_the_allowed_folders(make_cluster, folder):
    root = Path(folder) / "local"
    (root / "allowed").mkdir(parents=True)
    (root / "outside").mkdir()
    (root / "allowed" / "door").symlink_to(root / "outside")
    cluster = make_cluster(1, LEAT_WORKER_LOCAL_PATHS=str(root / "allowed"))
    cluster.workers[0].run("cluster", "mount", f"file://{root}/allowed", "/out")
    mount = Writing(cluster, FileSide(root / "allowed")).mount()
    wait_until(lambda: "door" in os.listdir(mount), "the mount")
    assert errno_of((mount / "door" / "f").write_bytes, b"x") == errno.EACCES
    (mount / "f").write_bytes(b"x")
    assert os.listdir(root / "outside") == []
    assert (root / "allowed" / "f").read_bytes() == b"x"
