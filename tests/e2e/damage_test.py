# SPDX-License-Identifier: Apache-2.0
"""Cached bytes that change on the disk behind the daemon's back: what programs read, and what
`leat cache verify` says."""

import mmap
import os
from pathlib import Path

import pytest

from e2e.content import content, unit, name_mark
from e2e.objects import put_all
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
WRONG = b"\xa5" * 8


def bytes_of(name, size):
    return content(name, 1, 0, size)


@pytest.fixture
def show(leat, store, s3, bucket, folder):
    """Mounts a bucket with these files (name: size), everything read and on the disk."""
    mount = Path(folder) / "mnt"

    def start(sizes):
        put_all(s3, bucket, {name: bytes_of(name, size) for name, size in sizes.items()})
        leat.mount(store, bucket, mount, freshness="immutable")
        for name, size in sizes.items():
            assert (mount / name).read_bytes() == bytes_of(name, size), name
        wait_until(lambda: sum(one["complete"] for one in leat.json("cache", "ls")["objects"])
                   == len(sizes), "everything to be on the disk")
        return mount
    return start


def again(leat, store, bucket, mount):
    leat.umount(mount)
    leat.stop()
    return lambda: leat.mount(store, bucket, mount, freshness="immutable")


def files_of(leat, pattern):
    return sorted(Path(leat.cache_dir).glob(pattern))


def damage(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(WRONG)


def damage_bytes_of(leat, name, at):
    """Changes the file `name` from `at` on, wherever the cache keeps it; `at`: of a unit."""
    wanted = unit(name_mark(name), 1, at // 512)
    for path in files_of(leat, "**/*.data"):
        found = path.read_bytes().find(wanted)
        if found >= 0:
            damage(path, found)
            return path
    raise AssertionError(f"{name} is not in the cache")


def forget_pages(path):
    """What the kernel keeps of a file that nobody has mapped."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def log_of(leat):
    return Path(leat.json("status")["log_file"]).read_text()


def test_damage_between_stop_and_start_is_found(leat, store, bucket, show):
    size = 8 * MIB
    mount = show({"large": size})
    start = again(leat, store, bucket, mount)
    damage_bytes_of(leat, "large", 5 * MIB)
    start()
    for _ in range(3):
        assert (mount / "large").read_bytes() == bytes_of("large", size)
        forget_pages(mount / "large")
    wait_until(lambda: "its checksum differs" in log_of(leat), "the log to say so")
    # Once more without damage, until the kernel reads it by itself.
    again(leat, store, bucket, mount)()
    if leat.json("mounts")["mounts"][0]["features"]["passthrough"]:
        wait_until(lambda: leat.json("stat", mount / "large")["served_by"] == "kernel", "passthrough")
    assert (mount / "large").read_bytes() == bytes_of("large", size)


def test_verify_drops_kernel_pages_of_bad_blocks(leat, store, bucket, show):
    sizes = {f"small{number}": 20_000 for number in range(20)}
    mount = show(sizes)
    again(leat, store, bucket, mount)()
    for name, size in sizes.items():  # and so compares it
        assert (mount / name).read_bytes() == bytes_of(name, size), name
    with open(mount / "small3", "rb") as file, \
            mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        damage_bytes_of(leat, "small3", 4096)
        forget_pages(mount / "small3")
        # What was verified is compared no more until the next start or verification.
        assert (mount / "small3").read_bytes()[4096:4104] == WRONG
        assert mapping[4096:4104] == WRONG
        found = leat.run("cache", "verify", check=False)
        assert found.returncode == 1 and "did not pass" in found.stderr, found.stderr
        assert mapping[:] == bytes_of("small3", 20_000)
        assert (mount / "small3").read_bytes() == bytes_of("small3", 20_000)
        assert leat.run("cache", "verify").returncode == 0
    for name, size in sizes.items():
        assert (mount / name).read_bytes() == bytes_of(name, size), name


def test_a_damaged_open_file_is_reopened(leat, show):
    size = 4 * MIB
    mount = show({"large": size, "other": size})
    with open(mount / "large", "rb"):
        damage_bytes_of(leat, "large", 2 * MIB)
        assert leat.run("cache", "verify", check=False).returncode == 1
        assert (mount / "large").read_bytes() == bytes_of("large", size)
        assert leat.run("cache", "verify").returncode == 0
    assert (mount / "large").read_bytes() == bytes_of("large", size)
    assert (mount / "other").read_bytes() == bytes_of("other", size)


@pytest.fixture
def many(leat, show):
    sizes = {f"small{number:03}": 3000 for number in range(200)}
    mount = show(sizes)
    leat.run("cache", "verify")
    return mount, sizes


def damage_an_index(leat):
    index = files_of(leat, "segments/*.index")[0]
    damage(index, index.stat().st_size // 10)


def test_a_damaged_index_is_found_and_said(leat, many):
    mount, sizes = many
    damage_an_index(leat)
    found = leat.run("cache", "verify", check=False)
    assert found.returncode == 1
    assert "bytes of indexes" in found.stderr, found.stderr
    assert "verified 199 objects" in leat.run("cache", "verify").stdout
    for name, size in sizes.items():
        assert (mount / name).read_bytes() == bytes_of(name, size), name


def test_a_damaged_index_without_a_daemon(leat, store, bucket, many):
    mount, _ = many
    start = again(leat, store, bucket, mount)
    damage_an_index(leat)
    found = leat.run("cache", "verify", "--cache-dir", leat.cache_dir, check=False)
    assert found.returncode == 1
    assert "bytes of indexes" in found.stderr, found.stderr
    assert "verified 199 objects" in leat.run("cache", "verify", "--cache-dir",
                                              leat.cache_dir).stdout
    # A start finds it as well, and reports it to the first verification.
    damage_an_index(leat)
    start()
    assert "bytes of records" in log_of(leat)
    assert "bytes of indexes" in leat.run("cache", "verify", check=False).stderr
    leat.run("cache", "verify")
