# SPDX-License-Identifier: Apache-2.0
"""The daemon ends, politely or not; the cache stays and the bytes are right."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from e2e.content import content, size_of
from e2e.held_kernel import tell_a_held_kernel, thread_in
from e2e.readers import UNTIL_STOPPED, Readers
from rig.faulty import FaultyFront
from rig.leat import leat_program
from rig.mounts import connections_below, mounts_below
from rig.process import is_alive, is_ending, wait_until

KIB, MIB = 1024, 1024 * 1024
FILES = {f"d/f{number}": size for number, size in enumerate(
    [100, 5000, 64 * KIB, 100 * KIB, 700 * KIB, MIB, 3 * MIB + 5, 9 * MIB])}


@pytest.fixture
def filled(s3, bucket):
    for name, size in FILES.items():
        s3.put_object(Bucket=bucket, Key=name, Body=content(name, 1, 0, size_of(size, 1)))
    return bucket


def read_all(mount):
    for name, size in FILES.items():
        assert (mount / name).read_bytes() == content(name, 1, 0, size_of(size, 1)), name


def gets(store):
    return sum(1 for operation, *_ in store.requests() if operation == "GetObject")


def test_cached_bytes_outlive_the_store(leat, store, filled, folder):
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"), freshness="immutable")
    read_all(mount)
    store.stop()
    read_all(mount)


def test_restart_keeps_the_cache(leat, store, filled, folder):
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"), freshness="immutable")
    read_all(mount)
    leat.umount(mount)
    leat.stop()
    before = gets(store)
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"), freshness="immutable")
    read_all(mount)
    assert gets(store) == before, "the second daemon fetched again what the first had cached"


def test_umount_leaves_nothing_behind(leat, store, filled, folder):
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"))
    read_all(mount)
    leat.umount(mount)
    assert not os.path.ismount(mount)
    assert os.listdir(mount) == []
    wait_until(lambda: not leat.daemon_pids(), "the daemon of no mounts to end")


def test_remount_after_kill(leat, store, filled, folder):
    """A dead daemon's folder can be mounted again by the same command, without cleaning up first."""
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"), freshness="immutable")
    read_all(mount)
    leat.kill9()
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"), freshness="immutable")
    read_all(mount)


def test_kill_loop_under_readers(leat, store, filled, folder, seed, scale):
    directory = os.path.join(folder, "mnt")
    mount = leat.mount(store, filled, directory, freshness="immutable")
    readers = Readers(mount, FILES, seed, processes=3, opens=UNTIL_STOPPED, dying=True)
    kills = 6 * scale
    try:
        for _ in range(kills):
            leat.kill9()
            leat.mount(store, filled, directory, freshness="immutable")
            read_all(mount)
            assert mounts_below(folder) == [directory], "a dead folder lies below the new one"
        assert readers.running()
    finally:
        readers.stop()
        counts = readers.finish()
    assert counts["opens"] > 0
    read_all(mount)


@pytest.fixture
def front(store, folder, seed):
    faulty = FaultyFront(store, folder, seed, share=0)
    yield faulty
    faulty.stop()


@pytest.fixture
def hung(leat, front, s3, filled, folder):
    """A mount whose daemon was killed while it told the kernel to forget a name of a folder in which a
    program looks another one up. Without help none of the two ever ends. (mount, pid, reader)"""
    if os.getuid() != 0:
        pytest.skip("seeing where threads wait, and ending FUSE connections, needs root")
    leat.supervised = False  # by nobody
    mount, daemon, _, waiting = tell_a_held_kernel(leat, front, s3, filled, folder)
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: is_ending(daemon) and thread_in(daemon, "fuse_reverse_inval_entry")
               and len(os.listdir(f"/proc/{daemon}/task")) == 2, "all but the first thread and that one "
               "to be gone")
    assert is_alive(daemon)
    return mount, daemon, waiting


@pytest.mark.parametrize("command", ["mounts", "umount", "mount", "daemon", "doctor"])
def test_a_hung_killed_daemon_blocks_nobody(leat, front, filled, hung, command):
    mount, daemon, waiting = hung
    front.hold(None)
    if command == "daemon":  # whose runtime folder is not that of the environment
        other = dict(leat.environment(front.credentials), LEAT_RUNTIME_DIR=f"{leat.folder}/other")
        process = subprocess.Popen(
            [leat_program(), "daemon", "--runtime-dir", leat.runtime_dir, "--log-file",
             leat.folder / "log", "--set", f"cache.directory={leat.cache_dir}"],
            env=other, stdin=subprocess.DEVNULL)
        log = leat.folder / "log"
        wait_until(lambda: log.exists() and "serves" in log.read_text(), "the new daemon")
        assert "hangs in the kernel" in log.read_text()
        process.terminate()
        assert process.wait(timeout=60) == 0
    elif command == "mount":
        leat.mount(front, filled, mount)
    elif command == "doctor":  # finds it, and says so where it says everything
        told = json.loads(leat.run("doctor", "--json", check=False, timeout_s=60).stdout)
        found = [finding for finding in told["findings"] if finding["name"] == "daemon.dead"]
        assert [finding["level"] for finding in found] == ["note"]
        assert f"pid {daemon}) was killed and hangs in the kernel" in found[0]["what"]
    else:
        done = leat.run(command, *([mount] if command == "umount" else []), check=False, timeout_s=60)
        assert f"pid {daemon}) was killed and hangs in the kernel" in done.stderr, done.stderr
        assert done.returncode == {"mounts": 4, "umount": 4}[command]
    wait_until_gone(daemon)
    assert waiting.answer() in ("Software caused connection abort",
                                "Transport endpoint is not connected")
    if command != "mount":
        assert mounts_below(mount) == []
        leat.mount(front, filled, mount)
    assert mounts_below(mount) == [str(mount)]
    read_all(mount)


def wait_until_gone(daemon):
    """A command has waited for that; a thread that ends may be listed for a moment more."""
    wait_until(lambda: not is_alive(daemon), "the daemon to be gone", timeout_s=2)


def test_killed_daemon_without_rights_has_advice(leat, hung):
    mount, daemon, waiting = hung
    if os.path.ismount("/sys/fs/fuse/connections"):
        pytest.skip("root may abort every connection where the control files are mounted")
    connection = connections_below(mount).pop()
    weak = ["setpriv", "--bounding-set", "-sys_admin", leat_program(), "mounts"]
    done = subprocess.run(weak, env=leat.environment(), stdin=subprocess.DEVNULL, timeout=60,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (f"run as root: mount -t fusectl fusectl /sys/fs/fuse/connections; "
            f"echo 1 > /sys/fs/fuse/connections/{connection}/abort") in done.stderr, done.stderr
    assert is_alive(daemon)
    leat.run("mounts", check=False)
    wait_until_gone(daemon)
    assert "connection" in waiting.answer()


def test_a_daemon_that_is_slow_is_left_alone(leat, store, filled, folder):
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"))
    read_all(mount)
    daemon = leat.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        url = f"s3://{filled}/d/f0?endpoint={store.endpoint}&region=us-east-1"
        assert leat.json("stat", url, credentials=store.credentials)["size"] == size_of(100, 1)
    finally:
        os.kill(daemon, signal.SIGCONT)
    read_all(mount)
    assert leat.daemon_pid() == daemon


def test_the_mount_record_ends_with_the_daemon(leat, store, filled, folder):
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"))
    record = leat.runtime_dir / "daemon.mounts"
    assert str(mount) in record.read_text()
    leat.umount(mount)
    wait_until(lambda: not leat.daemon_pids(), "the daemon of no mounts to end")
    assert not record.exists()


def test_a_suspended_mount_goes_on(leat, store, filled, folder):
    """As of a machine that sleeps: daemon and supervisor stand still, and the store's connections are
    gone when they go on. Readers wait, and read on."""
    mount = leat.mount(store, filled, os.path.join(folder, "mnt"))
    names = list(FILES)
    with open(mount / names[-1], "rb", buffering=0) as begun:
        assert begun.read(100) == content(names[-1], 1, 0, 100)
        pids = leat.daemon_pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        read = []
        reader = threading.Thread(target=lambda: read.append((mount / names[-2]).read_bytes()))
        reader.start()
        store.stop()
        store.start()
        time.sleep(2)  # the time that it sleeps
        assert reader.is_alive()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        reader.join(timeout=60)
        size = size_of(FILES[names[-2]], 1)
        assert read == [content(names[-2], 1, 0, size)]
        assert begun.read(100) == content(names[-1], 1, 100, 100)
    read_all(mount)
    assert leat.daemon_pids() == pids, "nobody took them for dead"
