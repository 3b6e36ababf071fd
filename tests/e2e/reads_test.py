# SPDX-License-Identifier: Apache-2.0
"""Ways of reading: past the page cache, mapped, with large buffers for names, and files that grow or
shrink in the store. Each is tried on a file that comes from the store and on one that is cached, which
the kernel may read by itself."""

import ctypes
import errno
import mmap
import os
import random
import struct
import subprocess

import pytest

from e2e.content import content, size_of, version_of
from e2e.objects import put_all
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
SIZE = 8 * MIB + 12345
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def data(s3, bucket):
    body = random.Random(1).randbytes(SIZE)
    s3.put_object(Bucket=bucket, Key="file", Body=body)
    return body


@pytest.fixture
def mount(leat, store, bucket, data, folder):
    return leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")


def complete(leat, path):
    """Cached as a whole, so that the next open may be the kernel's."""
    leat.run("load", path)
    wait_until(lambda: int(os.getxattr(path, "user.leat.cached_bytes")) == SIZE, "the file to be cached")


@pytest.fixture(params=["cold", "cached"])
def path(request, leat, mount):
    if request.param == "cached":
        complete(leat, mount / "file")
    return mount / "file"


def direct_read(descriptor, offset, size):
    """By a buffer at a page's start, which is what O_DIRECT asks for at most."""
    with mmap.mmap(-1, max(size, 1)) as buffer:
        count = os.preadv(descriptor, [memoryview(buffer)[:size]], offset)
        return buffer[:count]


def test_past_the_page_cache(path, data, seed):
    random_source = random.Random(seed)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        for offset, size in [(0, 4 * KIB), (4 * KIB, 4 * MIB), (SIZE // 4096 * 4096, 64 * KIB),
                             (0, 16 * MIB)]:
            assert direct_read(descriptor, offset, size) == data[offset:offset + size], (offset, size)
        assert direct_read(descriptor, align(SIZE) + 4096, 4096) == b"", "past the end"
        for _ in range(40):
            offset = random_source.randrange(0, SIZE, 4096)
            size = random_source.randrange(4096, 2 * MIB, 4096)
            assert direct_read(descriptor, offset, size) == data[offset:offset + size], (offset, size)
    finally:
        os.close(descriptor)


def align(offset):
    return (offset + 4095) // 4096 * 4096


def test_past_the_page_cache_without_alignment(path, data, seed):
    """What the kernel reads by itself is bound to the rules of the cache's file system, which may
    refuse it; it is never answered with other bytes."""
    random_source = random.Random(seed)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        for _ in range(40):
            offset, size = random_source.randrange(SIZE), random_source.randrange(1, MIB)
            try:
                got = direct_read(descriptor, offset, size)
            except OSError as error:
                assert error.errno == errno.EINVAL, error
                continue
            assert got == data[offset:offset + size], (offset, size)
        assert direct_read(descriptor, align(SIZE), 4096) == b""
    finally:
        os.close(descriptor)


def test_mapped(path, data, seed):
    random_source = random.Random(seed)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            with mmap.mmap(descriptor, 0, flags=flags, prot=mmap.PROT_READ) as mapped:
                for _ in range(50):
                    offset, size = random_source.randrange(SIZE), random_source.randrange(1, 64 * KIB)
                    assert mapped[offset:offset + size] == data[offset:offset + size], (offset, size)
                assert mapped[:] == data
        with pytest.raises(PermissionError):
            mmap.mmap(descriptor, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        with mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE,
                       prot=mmap.PROT_READ | mmap.PROT_WRITE) as own:
            own[5:8] = b"own"
            assert own[:10] == data[:5] + b"own" + data[8:10]
        assert os.pread(descriptor, 10, 0) == data[:10], "a private change is nobody else's"
    finally:
        os.close(descriptor)


def test_mapped_and_read_by_many_ways_at_once(path, data):
    plain, direct = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(plain, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as mapped:
            for offset in range(0, SIZE, 256 * KIB):
                piece = data[offset:offset + 64 * KIB]
                assert mapped[offset:offset + 64 * KIB] == piece
                assert direct_read(direct, offset, 64 * KIB) == piece
                assert os.pread(plain, 64 * KIB, offset) == piece
    finally:
        os.close(plain)
        os.close(direct)


def entries(descriptor, buffer_bytes):
    """Names by getdents64(2), as libraries with large buffers read them, and the calls it took."""
    buffer = ctypes.create_string_buffer(buffer_bytes)
    names, calls = [], 0
    while (count := libc.getdents64(descriptor, buffer, buffer_bytes)) > 0:
        calls += 1
        at = 0
        while at < count:
            length = struct.unpack_from("=H", buffer, at + 16)[0]
            names.append(ctypes.string_at(ctypes.addressof(buffer) + at + 19))
            at += length
    assert count == 0, os.strerror(ctypes.get_errno())
    return names, calls


@pytest.mark.parametrize("buffer_kib", [1, 32, 64, 1024])
def test_names_of_255_bytes_by_large_buffers(leat, store, s3, bucket, folder, buffer_kib):
    names = [f"{number:04}".ljust(255, "n") for number in range(300)] + ["a", "é" * 127]
    put_all(s3, bucket, {f"d/{name}": b"" for name in names})
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    descriptor = os.open(mount / "d", os.O_RDONLY | os.O_DIRECTORY)
    try:
        found, calls = entries(descriptor, buffer_kib * KIB)
        assert sorted(found) == sorted([b".", b"..", *(name.encode() for name in names)])
        assert buffer_kib != 64 or calls <= 4
        os.lseek(descriptor, 0, os.SEEK_SET)
        assert entries(descriptor, buffer_kib * KIB)[0] == found
    finally:
        os.close(descriptor)
    assert (mount / "d" / names[0]).stat().st_size == 0


def put_version(s3, bucket, base, version):
    s3.put_object(Bucket=bucket, Key="f", Body=content("f", version, 0, size_of(base, version)))


@pytest.mark.parametrize("change", ["grows", "shrinks"])
def test_a_file_that_changes_its_size(leat, store, s3, bucket, folder, change):
    """One that is open is the old one or ESTALE, with the old size; the next open is the new one."""
    first, second = (0, 6000) if change == "grows" else (6000, 0)
    base = 4 * MIB
    put_version(s3, bucket, base, first)
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="max-age=1s")
    old = os.open(mount / "f", os.O_RDONLY)
    try:
        assert os.pread(old, 64 * KIB, 0) == content("f", first, 0, 64 * KIB)
        put_version(s3, bucket, base, second)
        wait_until(lambda: (mount / "f").stat().st_size == size_of(base, second), "the new size")
        assert (mount / "f").read_bytes() == content("f", second, 0, size_of(base, second))
        stale = 0
        for offset in range(0, size_of(base, first) + MIB, 192 * KIB):
            try:
                got = os.pread(old, 64 * KIB, offset)
            except OSError as error:
                assert error.errno == errno.ESTALE, error
                stale += 1
                continue
            assert got == content("f", first, 0, size_of(base, first))[offset:offset + 64 * KIB]
            assert version_of("f", got, offset) in (first, None)
        assert os.fstat(old).st_size == size_of(base, first)
        print(f"{change}: {stale} reads of the old version answered ESTALE")
        assert stale > 0, "what was not read of it is gone"
    finally:
        os.close(old)
    # Between opens, and as often as one likes.
    put_version(s3, bucket, base, first)
    wait_until(lambda: (mount / "f").stat().st_size == size_of(base, first), "the size to go back")
    assert (mount / "f").read_bytes() == content("f", first, 0, size_of(base, first))


def test_what_is_gone_is_never_an_end_of_file(leat, store, s3, bucket, folder):
    """A read that reaches bytes that are gone may stop before them; the next one is ESTALE.

    Every other 256 KiB of the file are in the page cache, so that reads of 1 MiB begin in what is
    there and end in what is not.
    """
    size, step = 8 * MIB, 512 * KIB
    body = random.Random(3).randbytes(size)
    s3.put_object(Bucket=bucket, Key="f", Body=body)
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), "-o", "prefetch_window=0",
                       freshness="max-age=1s")
    held = os.open(mount / "f", os.O_RDONLY)
    try:
        os.posix_fadvise(held, 0, 0, os.POSIX_FADV_RANDOM)
        for offset in range(0, size, step):
            assert os.pread(held, 64 * KIB, offset) == body[offset:offset + 64 * KIB]
        s3.put_object(Bucket=bucket, Key="f", Body=b"other")
        wait_until(lambda: (mount / "f").stat().st_size == 5, "the new version")
        stopped = stale = 0
        for offset in range(0, size - MIB, 192 * KIB):
            at = offset
            try:
                while at < offset + MIB:
                    got = os.pread(held, offset + MIB - at, at)
                    assert got, f"an end of file at {at} of {size}"
                    assert got == body[at:at + len(got)]
                    stopped += len(got) < offset + MIB - at
                    at += len(got)
            except OSError as error:
                assert error.errno == errno.ESTALE, error
                stale += 1
        print(f"{stopped} reads stopped early, {stale} ended in ESTALE")
        assert stale > 0
        assert os.fstat(held).st_size == size
        os.lseek(held, 0, os.SEEK_SET)
        cat = subprocess.run(["cat"], stdin=held, capture_output=True, check=False, timeout=60)
        assert cat.returncode != 0 and b"Stale file handle" in cat.stderr, cat.stderr
        with open(held, "rb", closefd=False) as file, pytest.raises(OSError) as failed:
            file.seek(0)
            file.read()
        assert failed.value.errno == errno.ESTALE
    finally:
        os.close(held)


def test_random_pages_of_a_mapping(leat, store, s3, bucket, folder, seed):
    """Little more than a block is fetched for each, and who reads on is not held up by that."""
    size, pages = 128 * MIB, 300
    body = random.Random(2).randbytes(size)
    s3.put_object(Bucket=bucket, Key="large", Body=body)
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
    random_source = random.Random(seed)
    before = store.counters()["bytes"]
    with open(mount / "large", "rb") as file:
        with mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
            for _ in range(pages):
                at = random_source.randrange(size // 4096) * 4096
                assert mapped[at:at + 4096] == body[at:at + 4096]
            fetched = store.counters()["bytes"] - before
            # Three times and once the whole read-ahead, then blocks; all of the file without that.
            assert fetched < 40 * pages * 4096, f"{fetched / pages / 4096:.1f} times what was asked"
            assert mapped[:] == body
        for at in range(1, size - 3 * MIB, 5 * MIB):  # also of a file that was taken for mapped
            assert os.pread(file.fileno(), 2 * MIB, at) == body[at:at + 2 * MIB]
