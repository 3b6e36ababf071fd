# SPDX-License-Identifier: Apache-2.0
"""The daemon ends, politely or not; the cache stays and the bytes are right."""

import os

import pytest

from e2e.content import content, size_of
from e2e.readers import UNTIL_STOPPED, Readers
from rig.mounts import mounts_below
from rig.process import wait_until

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
