# SPDX-License-Identifier: Apache-2.0
"""The daemon dies or makes way for the next one; whoever reads notices a pause and nothing else."""

import mmap
import os
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from e2e.content import content, size_of
from e2e.held_kernel import Reader, tell_a_held_kernel, thread_in
from e2e.objects import put_all
from e2e.readers import UNTIL_STOPPED, Readers
from rig.faulty import FaultyFront
from rig.leat import leat_program
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
        log = Path("leat", "run", "daemon.log")
        print(next(above / log for above in Path(mount).parents if (above / log).exists()).read_text())
        readers.stop()
        counts = readers.finish()
    assert set(counts) == {"opens", "reads"}, counts
    assert readers.longest_s < STALL_S


def test_kernel_listings_end_with_their_snapshot(leat, mount, s3, bucket):
    def names():
        return [sorted(os.listdir(mount)), sorted(os.listdir(mount / "d"))]

    leat.run("snapshot", "build", mount, "--name", "one", "--use")
    shown = {"one": names()}
    for name in ("new", "d/new"):
        s3.put_object(Bucket=bucket, Key=name, Body=b"new")
    leat.run("snapshot", "build", mount, "--name", "two")
    shown["two"] = [sorted([*shown["one"][0], "new"]), sorted([*shown["one"][1], "new"])]
    for name in ("two", "one", "two"):
        leat.kill_daemon()
        leat.run("snapshot", "use", name, mount)
        assert names() == shown[name], name


def test_unused_names_end_with_their_snapshot(leat, mount, s3, bucket):
    many = [f"z{number:04}" for number in range(1000)]  # of the last of them the kernel has but names
    for name in many:
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    leat.run("snapshot", "build", mount, "--name", "one", "--use")
    before = set(os.listdir(mount))
    assert set(many) <= before
    for name in many[-100:]:
        s3.delete_object(Bucket=bucket, Key=name)
    leat.run("snapshot", "build", mount, "--name", "two")
    leat.kill_daemon()  # the next one has not been asked for the root
    leat.run("snapshot", "use", "two", mount)
    assert set(os.listdir(mount)) == before - set(many[-100:])


def test_store_names_end_after_death_and_snapshot(leat, mount, s3, bucket):
    """What the kernel holds for good is forgotten though the daemon that told it is not there any more."""
    before = {name: (mount / name).stat().st_size for name in FILES}
    s3.delete_object(Bucket=bucket, Key="d/f1")
    s3.put_object(Bucket=bucket, Key="d/f2", Body=b"of another size")
    leat.run("snapshot", "build", mount, "--name", "one")
    leat.kill_daemon()
    leat.run("snapshot", "use", "one", mount)
    assert not (mount / "d/f1").exists()
    assert (mount / "d/f2").read_bytes() == b"of another size"
    for name in sorted(set(FILES) - {"d/f1", "d/f2"}):
        assert (mount / name).stat().st_size == before[name]


@pytest.mark.parametrize("asked", [False, True])
def test_a_refresh_covers_the_previous_daemon(leat, mount, s3, bucket, asked):
    sizes = {name: (mount / name).stat().st_size for name in FILES}
    before = sorted(os.listdir(mount / "d"))
    s3.delete_object(Bucket=bucket, Key="d/f1")
    s3.put_object(Bucket=bucket, Key="d/f2", Body=b"of another size")
    s3.put_object(Bucket=bucket, Key="d/new", Body=b"new")
    leat.kill_daemon()
    assert {name: (mount / name).stat().st_size for name in FILES} == sizes
    if asked:  # then the next one knows what there is now, and not what was shown
        assert not (mount / "d/none").exists()
    leat.run("refresh", mount / "d")
    assert sorted(os.listdir(mount / "d")) == sorted({*before, "new"} - {"f1"})
    assert not (mount / "d/f1").exists()
    assert (mount / "d/f2").read_bytes() == b"of another size"
    assert (mount / "d/f7").read_bytes() == bytes_of("d/f7")


def test_a_death_during_snapshot_invalidation(leat, store, s3, bucket, folder, mount):
    front = FaultyFront(store, folder, seed=0, share=0)
    names = [f"many/{number}" for number in range(60)]
    try:
        put_all(s3, bucket, {**dict.fromkeys(names, b"old"), "e/f": b"old", "e/g": b"old"})
        shown = leat.mount(front, bucket, os.path.join(folder, "shown"), freshness="immutable")
        leat.run("mounts", "set", shown / "e", "freshness=max-age=100ms")
        put_all(s3, bucket, dict.fromkeys(names, b"newer"))
        leat.run("snapshot", "build", shown, "--name", "two")
        put_all(s3, bucket, dict.fromkeys(names, b"old"))
        assert {(shown / name).stat().st_size for name in names} == {3}
        leat.kill_daemon()  # the next one does not know what the kernel holds but by its record
        reader = Reader(shown / "e/f")
        time.sleep(0.2)
        front.hold("prefix=e")
        reader.ask("held")
        wait_until(lambda: front.held, "the lookup to wait for the store")
        daemon = leat.daemon_pid()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(leat.run, "snapshot", "use", "two", shown, check=False)
            wait_until(lambda: thread_in(daemon, "fuse_reverse_inval_entry"), "the kernel to be told")
            os.kill(daemon, signal.SIGKILL)
            front.hold(None)
        assert reader.answer() == "No such file or directory"
        wait_until(lambda: {(shown / name).stat().st_size for name in names} == {5},
                   "the snapshot that was just taken into use")
    finally:
        front.stop()


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_refresh_that_a_death_ends_says_so(leat, mount, store, in_flight):
    os.listdir(mount / "d")  # of names that nobody has asked for there is nothing to refresh
    os.kill(store.pid, signal.SIGSTOP)
    try:
        process = subprocess.Popen([leat_program(), "refresh", str(mount)], env=leat.environment(),
                                   stderr=subprocess.PIPE, text=True)
        wait_until(lambda: [job for job in leat.json("jobs")["jobs"] if job["state"] == "running"],
                   "the job to begin")
        if in_flight:  # the command's question is on its way when the daemon ends
            os.kill(leat.daemon_pid(), signal.SIGSTOP)
            time.sleep(1)
        leat.kill_daemon()
        _, said = process.communicate(timeout=60)
    finally:
        os.kill(store.pid, signal.SIGCONT)
    assert process.returncode == 1
    assert f"the daemon ended before the refresh of {mount} was done" in said, said
    assert "run the command again" in said and "there is no job" not in said


@pytest.fixture
def inner(leat, store, s3, mount):
    """A nested mount, of a bucket of its own."""
    other = store.bucket("inner")
    put_all(s3, other, {name: bytes_of(name) for name in FILES})
    return leat.mount(store, other, mount / "in", freshness="immutable")


def test_a_refresh_covers_held_nested_names(leat, s3, inner):
    folder = os.open(inner / "d", os.O_RDONLY | os.O_DIRECTORY)  # nobody looks its name up again
    try:
        before = os.listdir(folder)
        s3.put_object(Bucket="inner", Key="d/new", Body=b"new")
        leat.kill_daemon()
        assert os.listdir(folder) == before
        assert os.stat("f1", dir_fd=folder).st_uid == os.stat(inner).st_uid
        leat.run("refresh", inner)
        assert set(os.listdir(folder)) == {*before, "new"}
    finally:
        os.close(folder)


def test_a_nested_local_folder_goes_on(leat, mount, folder):
    local = Path(folder, "local")
    local.mkdir()
    (local / "file").write_bytes(b"here")
    inner = mount / "in"
    leat.run("mount", f"file://{local}", inner)
    assert (inner / "file").read_bytes() == b"here"
    time.sleep(1.5)  # so that the kernel would ask for the mount's own folder again
    leat.kill_daemon()
    assert (inner / "file").read_bytes() == b"here"


def test_nested_mount_readers_survive_a_death(leat, inner, seed, scale):
    moments = random.Random(seed)
    with reading(inner, seed):
        for _ in range(4 * scale):
            leat.kill_daemon()
            time.sleep(moments.uniform(0, 0.3))


def test_parents_of_a_mount_go_with_it(leat, store, bucket, mount):
    leat.run("snapshot", "build", mount, "--name", "one", "--use")
    deep = leat.mount(store, bucket, mount / "way" / "to" / "it", freshness="immutable")
    assert "way" in os.listdir(mount)
    leat.run("umount", deep)
    assert "way" not in os.listdir(mount)


def test_a_replaced_snapshot_is_seen_after_death(leat, mount, s3, bucket):
    leat.run("snapshot", "build", mount, "--name", "one", "--use")
    before = {name: (mount / name).stat().st_size for name in FILES}
    s3.put_object(Bucket=bucket, Key="d/f1", Body=b"of another size")
    leat.run("snapshot", "build", mount, "--name", "one")
    assert {name: (mount / name).stat().st_size for name in FILES} == before
    leat.kill_daemon()
    wait_until(lambda: (mount / "d/f1").stat().st_size == len(b"of another size"), "the other one")


def test_concurrent_snapshot_uses_keep_order(leat, mount, s3, bucket):
    for number in (1, 2, 3):
        s3.put_object(Bucket=bucket, Key="d/f0", Body=b"x" * number)
        leat.run("snapshot", "build", mount, "--name", f"s{number}")
    for _ in range(5):
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda number: leat.run("snapshot", "use", f"s{number}", mount), (1, 2, 3)))
        shown = (mount / "d/f0").stat().st_size
        used = [one["name"] for one in leat.json("snapshot", "ls")["snapshots"] if one["used_by"]]
        leat.kill_daemon()
        assert used == [f"s{shown}"]
        assert [one["name"] for one in leat.json("snapshot", "ls")["snapshots"] if one["used_by"]] == used
        assert (mount / "d/f0").stat().st_size == shown


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


def test_a_daemon_that_dies_while_it_starts(leat, store, bucket, mount, folder, seed, scale):
    """Killed at any moment, the next one included that is just taking over one mount after another."""
    moments = random.Random(seed)
    for number in range(4):
        leat.mount(store, bucket, os.path.join(folder, f"other{number}"))
    before_all = leat.json("mounts")
    with reading(mount, seed):
        for _ in range(3 * scale):
            before = leat.daemon_pid()
            for _ in range(2):
                victim = leat.daemon_pid()
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda: leat.daemon_pid() != victim, "the next one")
                time.sleep(moments.uniform(0, 0.05))
            leat.wait_for_next(before)
            time.sleep(0.15)  # one that lives so long has not died of what its predecessor died of
    assert leat.json("mounts") == before_all


def test_what_is_open_stays_open(leat, s3, bucket, mount):
    file = os.open(mount / "d/f7", os.O_RDONLY)
    whole = bytes_of("d/f7")
    assert os.pread(file, 1000, 0) == whole[:1000]
    mapped = mmap.mmap(file, 0, prot=mmap.PROT_READ)
    for number in range(3000):
        s3.put_object(Bucket=bucket, Key=f"many/{number:05}", Body=b"")
    leat.run("refresh", mount)
    listing = os.scandir(mount / "many")
    names = {next(listing).name}
    before = os.fstat(file)
    for _ in range(3):
        leat.kill_daemon()
        assert os.fstat(file) == before
        assert os.pread(file, len(whole), 0) == whole
        assert mapped[:] == whole
        assert (mount / "d/f3").read_bytes() == bytes_of("d/f3")
    names.update(entry.name for entry in listing)
    assert names == {f"{number:05}" for number in range(3000)}
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


@contextmanager
def telling_the_kernel(leat, store, s3, bucket, folder):
    if os.getuid() != 0:
        pytest.skip("seeing where threads wait needs root")
    front = FaultyFront(store, folder, 1, share=0)
    try:
        s3.put_object(Bucket=bucket, Key="d/f0", Body=bytes_of("d/f0"))
        mount, daemon, changed, waiting = tell_a_held_kernel(leat, front, s3, bucket, folder)
        yield front, daemon
        assert waiting.answer() == "No such file or directory"
        assert changed.answer() == "Stale file handle"
        wait_until(lambda: not is_alive(daemon), "the daemon before to be gone")
        assert (mount / "d/f0").read_bytes() == bytes_of("d/f0")
    finally:
        front.stop()


def test_a_killed_daemon_that_hangs_makes_way(leat, store, s3, bucket, folder):
    with telling_the_kernel(leat, store, s3, bucket, folder) as (front, daemon):
        os.kill(daemon, signal.SIGKILL)
        front.hold(None)


def test_an_upgrade_of_a_daemon_that_hangs(leat, store, s3, bucket, folder):
    with telling_the_kernel(leat, store, s3, bucket, folder) as (front, daemon):
        leat.run("upgrade")
        assert leat.daemon_pid() != daemon
        front.hold(None)


def test_a_shutdown_does_not_wait_for_the_kernel(leat, store, s3, bucket, folder):
    front = FaultyFront(store, folder, seed=0, share=0)
    try:
        s3.put_object(Bucket=bucket, Key="d/f0", Body=bytes_of("d/f0"))
        mount, daemon, _, _ = tell_a_held_kernel(leat, front, s3, bucket, folder)
        supervisor = leat.daemon_pids()[0]
        with ThreadPoolExecutor(1) as pool:
            pool.submit(leat.run, "mounts", "set", mount, "ttl=1d", check=False)
            time.sleep(0.5)
            begin = time.monotonic()
            os.kill(supervisor, signal.SIGTERM)
            wait_until(lambda: not is_alive(daemon), "the daemon to end")
            assert time.monotonic() - begin < 8
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
    done = leat.run("upgrade", check=False)
    assert done.returncode == 1 and is_alive(daemon), "nobody would start the next one"
    leat.umount(second)
    leat.umount(mount)
    wait_until(lambda: not is_alive(daemon), "the daemon of no mounts to end")
    assert mounts_below(folder) == []


def test_a_daemon_in_a_crash_loop_is_abandoned(leat, mount):
    """Then nobody waits for ever: programs get errors, and a new mount works."""
    file = os.open(mount / "d/f7", os.O_RDONLY)
    supervisor = leat.daemon_pids()[0]

    def kill_next():
        for pid in leat.daemon_pids()[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not is_alive(supervisor)

    wait_until(kill_next, "the supervisor to give up", timeout_s=60, interval_s=0.005)
    with pytest.raises(OSError):
        os.pread(file, 10, 5 * MIB)
    os.close(file)
    assert "no other is started" in (leat.runtime_dir / "daemon.log").read_text()


@pytest.mark.parametrize("moment_s", [0, 0.02, 0.05, 0.1, 0.3])
def test_a_shutdown_during_a_takeover_is_orderly(leat, mount, folder, moment_s):
    supervisor, daemon = leat.daemon_pids()
    os.kill(daemon, signal.SIGKILL)
    time.sleep(moment_s)
    os.kill(supervisor, signal.SIGTERM)
    wait_until(lambda: not leat.daemon_pids(), "all to end")
    assert mounts_below(folder) == []


def test_a_lingering_mount_spares_a_new_one(leat, mount):
    file = os.open(mount / "d/f7", os.O_RDONLY)
    leat.run("umount", "--lazy", mount)
    subprocess.run(["mount", "-t", "tmpfs", "leat-test", mount], check=True)
    try:
        leat.kill_daemon()
        assert os.pread(file, 1000, 0) == bytes_of("d/f7")[:1000]
        leat.stop()
        assert os.path.ismount(mount)
    finally:
        subprocess.run(["umount", mount], check=True)
        os.close(file)


def test_a_mount_during_a_takeover_waits_for_it(leat, store, bucket, mount, folder, scale):
    for number in range(3 * scale):
        os.kill(leat.daemon_pid(), signal.SIGKILL)
        other = leat.mount(store, bucket, os.path.join(folder, f"other{number}"))
        assert len(leat.daemon_pids()) == 2, "a second supervisor"
        assert (other / "d/f2").read_bytes() == bytes_of("d/f2")
    assert len(leat.json("mounts")["mounts"]) == 3 * scale + 1


def test_an_unmount_without_a_daemon_is_kept(leat, mount):
    os.kill(leat.daemon_pid(), signal.SIGKILL)
    subprocess.run(["umount", "-l", mount], check=True)
    wait_until(lambda: not leat.daemon_pids(), "a daemon of no mounts to end")
    assert mounts_below(mount) == []
