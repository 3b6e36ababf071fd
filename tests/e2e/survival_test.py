# SPDX-License-Identifier: Apache-2.0
"""The daemon dies or makes way for the next one; whoever reads notices a pause and nothing else."""

import mmap
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from e2e.content import content, size_of
from e2e.readers import UNTIL_STOPPED, Readers
from rig.mounts import mounts_below
from rig.process import is_alive, wait_until

KIB, MIB = 1024, 1024 * 1024
FILES = {f"d/f{number}": size for number, size in enumerate(
    [100, 5000, 64 * KIB, 100 * KIB, 700 * KIB, MIB, 3 * MIB + 5, 9 * MIB])}
# Nobody may wait longer, on a machine that has nothing else to do; a busy one gets more.
STALL_S = 10


def bytes_of(name):
    return content(name, 1, 0, size_of(FILES[name], 1))


@pytest.fixture
def mount(leat, store, s3, bucket, folder):
    for name in FILES:
        s3.put_object(Bucket=bucket, Key=name, Body=bytes_of(name))
    path = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
    if not leat.json("mounts")["mounts"][0]["features"]["survives"]:
        pytest.skip("this kernel sends a successor nothing again (it needs Linux 6.9)")
    return path


@contextmanager
def reading(mount, seed, processes=4):
    readers = Readers(mount, FILES, seed, processes=processes, opens=UNTIL_STOPPED)
    try:
        yield readers
        assert readers.running()
    finally:
        readers.stop()
        counts = readers.finish()
    assert set(counts) == {"opens", "reads"}, counts
    assert readers.longest_s < STALL_S


def test_readers_notice_no_death(leat, mount, seed, scale):
    moments = random.Random(seed)
    with reading(mount, seed):
        for _ in range(8 * scale):
            leat.kill_daemon()
            time.sleep(moments.uniform(0, 0.3))  # a moment of its life as good as any other
    assert leat.json("status")["restarts"] == 8 * scale


def test_readers_notice_no_upgrade(leat, mount, seed, scale):
    with reading(mount, seed):
        for _ in range(5 * scale):
            before = leat.daemon_pid()
            leat.run("upgrade")
            assert leat.daemon_pid() != before
    status = leat.json("status")
    assert [mounted["path"] for mounted in status["mounts"]] == [str(mount)]


def test_a_daemon_that_dies_while_it_starts(leat, mount, seed, scale):
    """Killed at any moment, the next one included that is just taking over."""
    moments = random.Random(seed)
    with reading(mount, seed):
        for _ in range(3 * scale):
            before = leat.daemon_pid()
            for _ in range(2):
                victim = leat.daemon_pid()
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda: leat.daemon_pids()[1:] not in ([], [victim]), "the next one")
                time.sleep(moments.uniform(0, 0.05))
            leat.wait_for_next(before)


def test_what_is_open_stays_open(leat, mount):
    file = os.open(mount / "d/f7", os.O_RDONLY)
    whole = bytes_of("d/f7")
    assert os.pread(file, 1000, 0) == whole[:1000]
    mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    listing = os.scandir(mount / "d")
    names = {next(listing).name}
    before = os.fstat(file)
    for _ in range(3):
        leat.kill_daemon()
        assert os.fstat(file) == before
        assert os.pread(file, len(whole), 0) == whole
        assert mapped[:] == whole
        assert (mount / "d/f3").read_bytes() == bytes_of("d/f3")
    names.update(entry.name for entry in listing)
    assert names == {name.split("/")[1] for name in FILES}
    mapped.close()
    os.close(file)
    leat.umount(mount)


def test_mounts_stay_as_they_were_changed(leat, store, s3, bucket, mount, folder):
    inner = leat.mount(store, f"{bucket}/d", mount / "d", freshness="max-age=5s")
    leat.run("mounts", "set", mount, "quota=100MiB", "umask=077")
    other = leat.mount(store, bucket, os.path.join(folder, "other"))
    leat.run("mounts", "move", other, os.makedirs(f"{folder}/moved") or f"{folder}/moved")
    leat.run("snapshot", "build", mount, "--name", "monday", "--use")
    before = leat.json("mounts")
    for way in (leat.kill_daemon, lambda: leat.run("upgrade")):
        way()
        assert leat.json("mounts") == before
        assert leat.json("snapshot", "ls")["snapshots"][0]["used_by"] == [str(mount)]
        assert (inner / "f2").read_bytes() == bytes_of("d/f2")
        assert os.stat(mount / "d/f1").st_mode & 0o777 == 0o644  # the inner mount's
    leat.run("mounts", "unset", mount, "quota")
    leat.umount(inner)
    leat.kill_daemon()
    after = {one["path"]: one for one in leat.json("mounts")["mounts"]}
    assert set(after) == {str(mount), f"{folder}/moved"}
    assert "quota" not in after[str(mount)]["options"]
    assert after[str(mount)]["umask"] == "077"


def test_what_lingers_is_served_on(leat, mount):
    file = os.open(mount / "d/f7", os.O_RDONLY)
    leat.run("umount", "--lazy", mount)
    leat.kill_daemon()
    assert os.pread(file, 9 * MIB, MIB) == bytes_of("d/f7")[MIB:]
    assert leat.json("mounts")["mounts"] == []
    os.close(file)
    wait_until(lambda: not leat.daemon_pids(), "the daemon of no mounts to end")


def test_the_store_need_not_be_there(leat, store, mount):
    """What is open and what is cached is served by the next daemon without asking anybody."""
    whole = bytes_of("d/f7")
    assert (mount / "d/f7").read_bytes() == whole
    file = os.open(mount / "d/f7", os.O_RDONLY)
    store.stop()
    leat.kill_daemon()
    assert os.pread(file, len(whole), 0) == whole
    os.close(file)


def test_a_killed_daemon_that_hangs_makes_way(leat, store, s3, bucket, folder):
    """A thread of it tells the kernel to forget a name, for which the kernel wants the lock of a folder
    that a lookup holds; only the next daemon can answer that."""
    from e2e.restart_test import Reader, thread_in
    from rig.faulty import FaultyFront
    front = FaultyFront(store, folder, 1, share=0)
    try:
        s3.put_object(Bucket=bucket, Key="d/f0", Body=bytes_of("d/f0"))
        s3.put_object(Bucket=bucket, Key="d/old", Body=content("d/old", 1, 0, 9 * MIB + 512))
        mount = leat.mount(front, bucket, os.path.join(folder, "mnt"), freshness="max-age=2s")
        changed, waiting = Reader(mount / "d/old"), Reader(mount / "d/f0")
        s3.put_object(Bucket=bucket, Key="d/old", Body=content("d/old", 2, 0, 9 * MIB + 1024))
        time.sleep(2.2)  # what is believed of the names in d ends, and the next lookup lists them
        front.hold("prefix=d")
        waiting.ask("held")
        wait_until(lambda: front.held, "the lookup to wait for the store")
        daemon = leat.daemon_pid()
        changed.ask("read")  # finds that the object has changed
        if os.getuid() != 0:
            pytest.skip("seeing where threads wait needs root")
        wait_until(lambda: thread_in(daemon, "fuse_reverse_inval_entry"), "the kernel to be told")
        os.kill(daemon, signal.SIGKILL)
        front.hold(None)
        assert waiting.answer() == "No such file or directory"
        assert changed.answer() == "Stale file handle"
        wait_until(lambda: not is_alive(daemon), "the killed daemon to be gone")
        assert (mount / "d/f0").read_bytes() == bytes_of("d/f0")
    finally:
        front.stop()


def test_without_its_supervisor_a_daemon_works_on(leat, store, bucket, mount, folder):
    supervisor, daemon = leat.daemon_pids()
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: not is_alive(supervisor), "the supervisor to be gone")
    assert (mount / "d/f6").read_bytes() == bytes_of("d/f6")
    second = leat.mount(store, bucket, os.path.join(folder, "second"))
    assert (second / "d/f5").read_bytes() == bytes_of("d/f5")
    leat.run("mounts", "set", mount, "ttl=1d")
    leat.umount(second)
    leat.umount(mount)
    wait_until(lambda: not is_alive(daemon), "the daemon of no mounts to end")
    assert mounts_below(folder) == []


def test_a_daemon_that_dies_again_and_again_is_given_up(leat, mount):
    """Then nobody waits for ever: programs get errors, and a new mount works."""
    file = os.open(mount / "d/f7", os.O_RDONLY)
    supervisor = leat.daemon_pids()[0]

    def kill_next():
        for pid in leat.daemon_pids()[1:]:
            os.kill(pid, signal.SIGKILL)
        return not is_alive(supervisor)

    wait_until(kill_next, "the supervisor to give up", timeout_s=60, interval_s=0.005)
    with pytest.raises(OSError):
        os.pread(file, 10, 5 * MIB)
    os.close(file)
    assert "no other is started" in (leat.runtime_dir / "daemon.log").read_text()


def test_an_interrupted_start_leaves_nothing(leat, store, bucket, folder):
    """The very first daemon is killed before it could say anything: the command says so."""
    directory = os.path.join(folder, "mnt")
    os.makedirs(directory)
    process = subprocess.Popen(
        [sys.executable, "-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])",
         os.environ.get("LEAT_BIN") or "build/release/leat", "mount", f"s3://{bucket}", directory,
         "--option", f"endpoint={store.endpoint}", "--option", "region=us-east-1",
         "--cache-dir", leat.cache_dir, "--cache-size", leat.cache_size],
        env=leat.environment(store.credentials), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True)
    wait_until(lambda: len(leat.daemon_pids()) >= 2 or process.poll() is not None, "a daemon",
               interval_s=0.001)
    for pid in leat.daemon_pids()[1:]:
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    leat.stop()
    assert mounts_below(folder) == []
