# SPDX-License-Identifier: Apache-2.0
"""Objects are overwritten, deleted and added while processes read: each open file is one version."""

import contextlib
import ctypes
import errno
import os
import random
import struct

import pytest

from e2e.content import content, size_of, version_of
from e2e.readers import Readers
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
BASE_SIZES = [200, 5000, 64 * KIB, 300 * KIB, MIB, 2 * MIB + 4096]


class Writer:
    """Changes objects at random; knows what is there now."""

    def __init__(self, s3, bucket, files):
        self.s3, self.bucket, self.files = s3, bucket, files
        self.version = dict.fromkeys(files, 0)
        self.alive = dict.fromkeys(files, False)

    def put(self, name):
        self.version[name] += 1
        version = self.version[name]
        body = content(name, version, 0, size_of(self.files[name], version))
        self.s3.put_object(Bucket=self.bucket, Key=name, Body=body)
        self.alive[name] = True

    def change_one(self, random_source):
        name = random_source.choice(list(self.files))
        if self.alive[name] and random_source.random() < 0.2:
            self.s3.delete_object(Bucket=self.bucket, Key=name)
            self.alive[name] = False
        else:
            self.put(name)


def newest_version_seen(path, name):
    """The version that a fresh open gives; None while the old one is believed and not cached."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        if error.errno == errno.ESTALE:
            return None
        raise
    version = version_of(name, data, 0)
    return version if data == content(name, version, 0, len(data)) else None


@pytest.fixture
def writer(s3, bucket):
    files = {f"d{number % 3}/f{number}": BASE_SIZES[number % len(BASE_SIZES)] for number in range(18)}
    writer = Writer(s3, bucket, files)
    for name in list(files)[:12]:
        writer.put(name)
    return writer


def test_one_version_per_open_file(leat, store, bucket, writer, folder, seed, scale):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    readers = Readers(mount, writer.files, seed, processes=4, opens=120 * scale)
    random_source = random.Random(seed)
    try:
        while readers.running():
            writer.change_one(random_source)
    finally:
        counts = readers.finish()
    assert counts["opens"] > 0 and counts["reads"] > 0
    for name, alive in writer.alive.items():
        path = mount / name
        if alive:
            wait_until(lambda p=path, n=name: p.exists()
                       and newest_version_seen(p, n) == writer.version[n],
                       f"{name} to show version {writer.version[name]}")
        else:
            wait_until(lambda p=path: not p.exists(), f"{name} to be gone")


def test_an_open_file_keeps_its_version(leat, store, s3, bucket, folder):
    """What was cached stays readable; what was not gives ESTALE, never the new bytes."""
    name, base = "f", 4 * MIB
    s3.put_object(Bucket=bucket, Key=name, Body=content(name, 1, 0, size_of(base, 1)))
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    fd = os.open(mount / name, os.O_RDONLY)
    try:
        head = os.pread(fd, 4096, 0)
        assert head == content(name, 1, 0, 4096)
        s3.put_object(Bucket=bucket, Key=name, Body=content(name, 2, 0, size_of(base, 2)))
        wait_until(lambda: newest_version_seen(mount / name, name) == 2, "version 2")
        assert os.fstat(fd).st_size == size_of(base, 1)
        for offset in range(0, size_of(base, 1), 256 * KIB):
            try:
                data = os.pread(fd, 4096, offset)
            except OSError as error:
                assert os.strerror(error.errno) == os.strerror(116), error
                continue
            assert data == content(name, 1, offset, len(data))
    finally:
        os.close(fd)


def test_new_names_and_new_folders_appear(leat, store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="a/old", Body=b"1")
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    assert sorted(os.listdir(mount)) == ["a"]
    assert not (mount / "b").exists()
    s3.put_object(Bucket=bucket, Key="a/new", Body=b"2")
    s3.put_object(Bucket=bucket, Key="b/c/new", Body=b"3")
    wait_until(lambda: sorted(os.listdir(mount)) == ["a", "b"], "the new folder")
    wait_until(lambda: sorted(os.listdir(mount / "a")) == ["new", "old"], "the new file")
    wait_until(lambda: (mount / "b/c/new").exists(), "the file in the new folder")
    assert (mount / "b/c/new").read_bytes() == b"3"


def test_immutable_asks_the_store_once(leat, store, s3, bucket, folder):
    for number in range(50):
        s3.put_object(Bucket=bucket, Key=f"d/{number}", Body=b"x" * 1000)
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")

    def read_all():
        for name in sorted(os.listdir(mount / "d")):
            (mount / "d" / name).read_bytes()

    read_all()
    before = len(store.requests())
    read_all()
    assert len(store.requests()) == before


class Watch:
    """Names of the inotify events since the last call."""

    EVENT = struct.Struct("iIII")
    NAMES = {0x1: "access", 0x2: "modify", 0x4: "attrib", 0x100: "create", 0x200: "delete",
             0x400: "delete-self", 0x20: "open"}

    def __init__(self, *paths):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for path in paths:
            watched = self.libc.inotify_add_watch(self.descriptor, os.fsencode(path), sum(self.NAMES))
            assert watched > 0, os.strerror(ctypes.get_errno())

    def events(self):
        found = set()
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.descriptor, 1 << 16)
            while data:
                _, mask, _, size = self.EVENT.unpack_from(data)
                found |= {name for bit, name in self.NAMES.items() if mask & bit}
                data = data[self.EVENT.size + size:]
        return found

    def close(self):
        os.close(self.descriptor)


def test_store_changes_raise_no_event(leat, store, s3, bucket, folder):
    """Programs that wait for files by inotify have to look again themselves."""
    for name in ("d/changed", "d/gone"):
        s3.put_object(Bucket=bucket, Key=name, Body=b"1")
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    directory = mount / "d"
    assert sorted(os.listdir(directory)) == ["changed", "gone"]
    watch = Watch(mount, directory, directory / "changed", directory / "gone")
    try:
        s3.put_object(Bucket=bucket, Key="d/new", Body=b"2")
        s3.put_object(Bucket=bucket, Key="d/changed", Body=b"22")
        s3.delete_object(Bucket=bucket, Key="d/gone")
        leat.run("refresh", directory)
        assert not watch.events()
        wait_until(lambda: sorted(os.listdir(directory)) == ["changed", "new"], "the new names")
        assert (directory / "changed").read_bytes() == b"22"
        assert watch.events() <= {"open", "access"}, "what this test did itself"
    finally:
        watch.close()
