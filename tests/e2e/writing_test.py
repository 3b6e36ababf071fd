# SPDX-License-Identifier: Apache-2.0
"""Mounts that take writes: programs see a folder, and the store has ordinary objects."""

import contextlib
import ctypes
import errno
import mmap
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.content import content
from e2e.written_folder import compare
from rig.faulty import FaultyFront
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024


class S3Side:
    """The bucket, seen by a client that is not ours."""

    has_posix_files = False

    def __init__(self, s3, bucket):
        self.s3, self.bucket = s3, bucket

    def read(self, key):
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def write(self, key, body):
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def remove(self, key):
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def names(self):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        return sorted(key for key in keys if not key.endswith("/"))  # without markers


class FileSide:
    """The same of a local directory."""

    has_posix_files = True

    def __init__(self, root):
        self.root = Path(root)

    def read(self, key):
        return (self.root / key).read_bytes()

    def write(self, key, body):
        (self.root / key).parent.mkdir(parents=True, exist_ok=True)
        (self.root / key).write_bytes(body)

    def remove(self, key):
        (self.root / key).unlink()

    def names(self):
        return sorted(str(one.relative_to(self.root)) for one in self.root.rglob("*") if one.is_file())


class Written:
    """A mount that takes writes, and its store."""

    def __init__(self, leat, mount_again, mount, side):
        self.leat, self.mount_again, self.mount, self.side = leat, mount_again, mount, side

    def remount(self):
        self.leat.umount(self.mount)
        self.mount_again()


def written_mount(request, leat, folder, *words):
    """A mount with these words, of the store that the fixture's parameter names."""
    mount = Path(folder) / "mnt"
    if request.param == "s3":
        store, s3 = request.getfixturevalue("store"), request.getfixturevalue("s3")
        bucket = request.getfixturevalue("bucket")
        side = S3Side(s3, bucket)

        def again():
            leat.mount(store, bucket, mount, *words)
    else:
        root = Path(folder) / "source"
        root.mkdir()
        side = FileSide(root)

        def again():
            with contextlib.suppress(OSError):  # it may be the folder of a dead daemon
                mount.mkdir()
            leat.run("mount", root, mount, *words, "--cache-dir", leat.cache_dir,
                     "--cache-size", leat.cache_size, "--freshness", "max-age=1s")
    again()
    return Written(leat, again, mount, side)


@pytest.fixture(params=["s3", "file"])
def written(request, leat, folder):
    return written_mount(request, leat, folder, "--writable")


@pytest.fixture
def on_files(leat, folder):
    """A local directory that other users may use."""
    root, mount = Path(folder) / "source", Path(folder) / "mnt"
    root.mkdir()

    def again():
        mount.mkdir(exist_ok=True)
        leat.run("mount", root, mount, "--writable", "--allow-other", "--cache-dir", leat.cache_dir,
                 "--cache-size", leat.cache_size, "--freshness", "max-age=1s")
    again()
    return Written(leat, again, mount, FileSide(root))


@pytest.fixture
def on_s3(leat, store, s3, bucket, folder):
    mount = leat.mount(store, bucket, Path(folder) / "mnt", "--writable")
    return Written(leat, lambda: leat.mount(store, bucket, mount, "--writable"), mount,
                   S3Side(s3, bucket))


def run(*words, cwd, **environment):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True,
                          timeout=120, env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def errno_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except OSError as error:
        return error.errno
    return 0


# ---- files

def test_a_closed_file_is_in_the_store(written):
    for name, size in {"empty": 0, "small": 5000, "large": 20 * MIB + 3}.items():
        (written.mount / name).write_bytes(content(name, 1, 0, size))
        assert written.side.read(name) == content(name, 1, 0, size)
        assert (written.mount / name).read_bytes() == content(name, 1, 0, size)
    assert written.side.names() == ["empty", "large", "small"]
    assert sorted(os.listdir(written.mount)) == ["empty", "large", "small"]


def test_fsync_saves_an_open_file(written):
    with open(written.mount / "log", "wb", buffering=0) as file:
        file.write(b"one\n")
        os.fsync(file.fileno())
        assert written.side.read("log") == b"one\n"
        file.write(b"two\n")
        assert written.side.read("log") == b"one\n"
        assert (written.mount / "log").read_bytes() == b"one\ntwo\n", "readers here see it at once"
    assert written.side.read("log") == b"one\ntwo\n"


def test_parts_of_an_object_are_changed(written):
    body = bytearray(content("x", 1, 0, 3 * MIB))
    written.side.write("x", bytes(body))
    with open(written.mount / "x", "r+b") as file:
        file.seek(MIB + 5)
        file.write(b"changed")
    body[MIB + 5:MIB + 12] = b"changed"
    assert written.side.read("x") == bytes(body)
    with open(written.mount / "x", "ab") as file:
        file.write(b"end")
    os.truncate(written.mount / "x", 3 * MIB + 2)
    assert written.side.read("x") == bytes(body) + b"en"
    os.truncate(written.mount / "x", 3 * MIB + 10)
    assert written.side.read("x") == bytes(body) + b"en" + bytes(8)


def test_a_mapping_is_written(written):
    (written.mount / "m").write_bytes(bytes(100 * KIB))
    with open(written.mount / "m", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[50 * KIB:50 * KIB + 4] = b"here"
    wait_until(lambda: written.side.read("m")[50 * KIB:50 * KIB + 4] == b"here", "the mapping to be saved")


def test_space_is_allocated(written):
    with open(written.mount / "f", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 64 * KIB)
        assert os.fstat(file.fileno()).st_size == 64 * KIB
        file.seek(MIB)
        file.write(b"x")
    assert written.side.read("f") == bytes(MIB) + b"x"


def test_writers_append_without_loss(written):
    (written.mount / "log").touch()

    def append(number):
        descriptor = os.open(written.mount / "log", os.O_WRONLY | os.O_APPEND)
        for line in range(50):
            os.write(descriptor, f"{number} {line}\n".encode())
        os.close(descriptor)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    lines = written.side.read("log").decode().splitlines()
    assert sorted(lines) == sorted(f"{number} {line}" for number in range(4) for line in range(50))


def test_direct_io_is_written(written):
    descriptor = os.open(written.mount / "d", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    block = mmap.mmap(-1, 64 * KIB)
    block.write(content("d", 1, 0, 64 * KIB))
    assert os.pwrite(descriptor, block, 0) == 64 * KIB
    os.close(descriptor)
    assert written.side.read("d") == content("d", 1, 0, 64 * KIB)


# ---- names

def test_names_change_in_the_store(written):
    (written.mount / "a").write_bytes(b"1")
    inode = os.stat(written.mount / "a").st_ino
    os.rename(written.mount / "a", written.mount / "b")
    assert written.side.names() == ["b"]
    assert os.stat(written.mount / "b").st_ino == inode
    os.makedirs(written.mount / "d/e")
    os.rename(written.mount / "b", written.mount / "d/e/c")
    assert written.side.read("d/e/c") == b"1"
    os.unlink(written.mount / "d/e/c")
    assert os.listdir(written.mount / "d/e") == [], "the directory stays"
    written.remount()
    assert os.listdir(written.mount / "d/e") == []
    assert errno_of(os.rmdir, written.mount / "d") == errno.ENOTEMPTY
    os.rmdir(written.mount / "d/e")
    os.rmdir(written.mount / "d")
    assert os.listdir(written.mount) == [] and written.side.names() == []


def test_errors_are_those_of_a_folder(written):
    (written.mount / "f").write_bytes(b"x")
    (written.mount / "d").mkdir()
    mount = written.mount
    assert errno_of(os.mkdir, mount / "d") == errno.EEXIST
    assert errno_of(os.mkdir, mount / "f/x") == errno.ENOTDIR
    assert errno_of(os.unlink, mount / "d") == errno.EISDIR
    assert errno_of(os.rmdir, mount / "f") == errno.ENOTDIR
    assert errno_of(os.rename, mount / "f", mount / "d") == errno.EISDIR
    assert errno_of(os.rename, mount / "d", mount / "f") == errno.ENOTDIR
    assert errno_of(os.rename, mount / "none", mount / "x") == errno.ENOENT
    assert errno_of(os.open, mount / "f", os.O_CREAT | os.O_EXCL) == errno.EEXIST
    assert errno_of(open, mount / ("f" * 300), "w") == errno.ENAMETOOLONG
    assert errno_of(os.link, mount / "d", mount / "g") == errno.EPERM
    assert errno_of(os.setxattr, mount / "f", "trusted.x", b"1") == errno.EOPNOTSUPP


def test_object_stores_have_no_special_files(on_s3):
    mount = on_s3.mount
    (mount / "f").write_bytes(b"x")
    assert errno_of(os.link, mount / "f", mount / "g") == errno.EPERM
    assert errno_of(os.mkfifo, mount / "p") == errno.EPERM
    assert errno_of(os.setxattr, mount / "f", "user.x", b"1") == errno.EOPNOTSUPP
    (mount / "e").write_bytes(b"x")
    assert errno_of(exchange, mount / "f", mount / "e") == errno.EINVAL
    errors = (mount / ".leat/errors").read_text()
    assert "no hard links and no special files" in errors, errors


def test_removed_files_stay_open(written):
    (written.mount / "a").write_bytes(content("a", 1, 0, 2 * MIB))
    (written.mount / "b").write_bytes(b"new")
    written.remount()
    with open(written.mount / "a", "rb") as file:
        os.rename(written.mount / "b", written.mount / "a")
        assert (written.mount / "a").read_bytes() == b"new"
        os.unlink(written.mount / "a")
        assert file.read() == content("a", 1, 0, 2 * MIB)
    assert written.side.names() == []


def test_directories_are_renamed(written):
    for name in ["d/x", "d/sub/y"]:
        (written.mount / name).parent.mkdir(parents=True, exist_ok=True)
        (written.mount / name).write_bytes(name.encode())
    inode = os.stat(written.mount / "d/x").st_ino
    os.rename(written.mount / "d", written.mount / "e")
    assert os.stat(written.mount / "e/x").st_ino == inode
    assert written.side.names() == ["e/sub/y", "e/x"]
    assert (written.mount / "e/sub/y").read_bytes() == b"d/sub/y"
    assert not (written.mount / "d").exists()


def test_attributes_survive_a_remount(written):
    path = written.mount / "f"
    path.write_bytes(b"x")
    os.chmod(path, 0o751)
    os.chown(path, 1234, 4321)
    os.utime(path, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
    for _ in range(2):
        found = os.stat(path)
        assert found.st_mode & 0o7777 == 0o751
        assert (found.st_uid, found.st_gid) == (1234, 4321)
        assert found.st_mtime_ns == 1_500_000_000_987_654_321
        written.remount()
    path.write_bytes(b"longer")
    written.remount()
    found = os.stat(path)
    assert (found.st_mode & 0o7777, found.st_uid, found.st_size) == (0o751, 1234, 6)
    assert found.st_mtime > time.time() - 100, "a write sets the time"


def test_attributes_are_those_of_s3fs(on_s3):
    path = on_s3.mount / "f"
    path.write_bytes(b"x")
    os.chmod(path, 0o755)
    os.utime(path, ns=(0, 1_500_000_000_000_000_001))
    head = on_s3.side.s3.head_object(Bucket="data", Key="f")["Metadata"]
    assert (head["mode"], head["uid"], head["mtime"]) == ("33261", str(os.getuid()),
                                                           "1500000000.000000001"), head
    on_s3.side.s3.put_object(Bucket="data", Key="theirs", Body=b"t", Metadata={
        "mode": "33152", "uid": "7", "gid": "8", "mtime": "1400000000"})
    wait_until((on_s3.mount / "theirs").exists, "their file")
    found = os.stat(on_s3.mount / "theirs")
    assert (found.st_mode, found.st_uid, found.st_gid) == (0o100600, 7, 8)
    assert found.st_mtime == 1_400_000_000


def test_symbolic_links_are_kept(written):
    mount = written.mount
    (mount / "f").write_bytes(b"x")
    os.symlink("f", mount / "link")
    os.symlink("nowhere", mount / "dangling")
    then = 1_000_000_000
    os.utime(mount / "dangling", (then, then), follow_symlinks=False)
    for _ in range(2):
        assert os.readlink(mount / "link") == "f"
        assert (mount / "link").read_bytes() == b"x"
        assert os.path.islink(mount / "dangling")
        assert not os.path.exists(mount / "dangling")
        assert os.lstat(mount / "dangling").st_mtime == then
        written.remount()
    links = run("find", ".", "-type", "l", cwd=mount).split()
    assert sorted(links) == ["./dangling", "./link"]
    os.unlink(mount / "link")
    assert (mount / "f").exists()


# ---- what only a file system has

def exchange(one, other):
    """renameat2(2) with RENAME_EXCHANGE."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def test_hard_links_are_one_file(on_files):
    mount, root = on_files.mount, on_files.side.root
    (mount / "a").write_bytes(b"one")
    os.link(root / "a", root / "c")
    os.link(mount / "a", mount / "b")
    assert {os.stat(mount / name).st_ino for name in "ab"} == {os.stat(mount / "a").st_ino}
    with open(mount / "b", "r+b", buffering=0) as file:
        file.write(b"two")
        assert (mount / "a").read_bytes() == b"two", "before the close"
    assert (root / "a").read_bytes() == b"two" and os.stat(root / "a").st_nlink == 3
    assert (root / "c").read_bytes() == b"two"
    os.chmod(mount / "a", 0o640)
    assert os.stat(mount / "b").st_mode & 0o777 == 0o640
    os.unlink(mount / "a")
    assert (mount / "b").read_bytes() == b"two" and os.stat(mount / "b").st_nlink == 2
    on_files.remount()
    assert os.stat(mount / "b").st_ino == os.stat(mount / "c").st_ino


def test_special_files_work(on_files):
    os.mkfifo(on_files.mount / "p", 0o600)
    assert stat.S_ISFIFO(os.lstat(on_files.side.root / "p").st_mode)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((on_files.mount / "p").read_bytes)
        (on_files.mount / "p").write_bytes(b"through the pipe")
        assert read.result(timeout=30) == b"through the pipe"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(on_files.mount / "s"))
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(on_files.mount / "s"))
    assert stat.S_ISSOCK(os.lstat(on_files.side.root / "s").st_mode)


def test_names_are_exchanged(on_files):
    mount = on_files.mount
    (mount / "f").write_bytes(b"file")
    (mount / "d").mkdir()
    (mount / "d/in").write_bytes(b"in")
    with open(mount / "f", "rb") as held:  # else the kernel may forget it, and its number
        exchange(mount / "f", mount / "d")
        assert os.stat(mount / "d").st_ino == os.fstat(held.fileno()).st_ino
        assert held.read() == b"file"
    assert (mount / "d").read_bytes() == b"file" and (mount / "f/in").read_bytes() == b"in"
    assert stat.S_ISREG(os.lstat(on_files.side.root / "d").st_mode)
    assert errno_of(exchange, mount / "f", mount / "none") == errno.ENOENT


def test_extended_attributes_are_kept(on_files):
    path = on_files.mount / "f"
    path.write_bytes(b"x")
    os.setxattr(path, "user.colour", b"green")
    os.setxattr(on_files.mount, "user.root", b"yes")
    path.write_bytes(b"replaced")
    for _ in range(2):
        assert os.getxattr(path, "user.colour") == b"green"
        assert "user.colour" in os.listxattr(path)
        assert errno_of(os.getxattr, path, "user.none") == errno.ENODATA
        on_files.remount()
    assert os.getxattr(on_files.mount, "user.root") == b"yes"
    assert errno_of(os.setxattr, path, "user.colour", b"", os.XATTR_CREATE) == errno.EEXIST
    os.removexattr(path, "user.colour")
    assert os.listxattr(on_files.side.root / "f") == []


def test_a_file_without_a_name_gets_one(written):
    descriptor = os.open(written.mount, os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(descriptor, b"text")
    assert os.listdir(written.mount) == [] and os.fstat(descriptor).st_nlink == 0
    directory = os.open(written.mount, os.O_PATH)
    # With a directory's descriptor Python follows the link in /proc.
    os.link(f"/proc/self/fd/{descriptor}", "f", dst_dir_fd=directory)
    os.close(directory)
    os.close(descriptor)
    assert written.side.read("f") == b"text"
    assert os.stat(written.mount / "f").st_mode & 0o777 == 0o640
    os.close(os.open(written.mount, os.O_TMPFILE | os.O_RDWR, 0o640))
    assert written.side.names() == ["f"]


CHANGES_OF_A_STRANGER = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
if sys.argv[1] == "truncate":
    os.truncate(sys.argv[2], 1)
else:
    with open(sys.argv[2], "r+b", buffering=0) as file:
        file.write(b"z")
"""


@pytest.mark.parametrize("change", ["truncate", "write"])
def test_others_clear_set_user_id(on_files, folder, change):
    os.chmod(folder, 0o755)
    path = on_files.mount / "f"
    path.write_bytes(b"xyz")
    os.chmod(path, 0o6777)
    run("python3", "-c", CHANGES_OF_A_STRANGER, change, path, cwd="/")
    assert os.stat(path).st_mode & 0o7777 == 0o777
    os.chmod(path, 0o6777)
    os.chown(path, 65534, 65534)
    assert os.stat(path).st_mode & 0o7777 == 0o777
    assert os.stat(on_files.side.root / "f").st_mode & 0o7777 == 0o777


# ---- other writers

def test_a_conflict_keeps_both(on_s3):
    (on_s3.mount / "f").write_bytes(b"old")
    with open(on_s3.mount / "f", "r+b", buffering=0) as file:
        file.write(b"ours")
        on_s3.side.write("f", b"theirs")
        assert errno_of(os.fsync, file.fileno()) == errno.EIO
    wait_until(lambda: (on_s3.mount / "f").read_bytes() == b"theirs", "their content")
    kept = [name for name in on_s3.side.names() if name.startswith("f.conflict-")]
    assert len(kept) == 1 and on_s3.side.read(kept[0]) == b"ours"
    assert "somebody else wrote" in (on_s3.mount / ".leat/errors").read_text()


def test_a_changed_object_is_seen(written):
    (written.mount / "f").write_bytes(b"one")
    written.side.write("f", b"two, by somebody else")
    wait_until(lambda: (written.mount / "f").read_bytes() == b"two, by somebody else", "the change")
    written.side.remove("f")
    wait_until(lambda: not (written.mount / "f").exists(), "the removal")
    (written.mount / "f").write_bytes(b"three")
    assert written.side.read("f") == b"three"


# ---- trouble

class Front(FaultyFront):
    """Refuses everything for as long as `refuses` says, or all changes, or answers of a share of the
    requests get lost."""

    refuses = refuses_changes = False

    def choose(self, request):
        is_change = not request.startswith((b"GET", b"HEAD"))
        if self.refuses or (self.refuses_changes and is_change):
            return "refuse"
        fault = super().choose(request)
        return fault and self.random.choice(["refuse", "reset", "lost", "lost"])


@pytest.fixture
def front(store, folder, seed):
    front = Front(store, folder, seed, share=0)
    yield front
    front.stop()


def test_a_failing_store_fails_the_close(leat, front, s3, bucket, folder):
    mount = leat.mount(front, bucket, Path(folder) / "mnt", "--writable", "-o", "io_timeout=3s")
    (mount / "f").write_bytes(b"one")
    front.refuses = True
    file = open(mount / "f", "wb", buffering=0)
    file.write(b"two")
    began = time.monotonic()
    assert errno_of(os.fsync, file.fileno()) in (errno.EIO, errno.ETIMEDOUT)
    assert time.monotonic() - began < 60
    assert (mount / "f").read_bytes() == b"two", "it is kept here"
    front.refuses = False
    os.fsync(file.fileno())
    file.close()
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == b"two"


def test_a_lossy_store_loses_nothing(leat, front, s3, bucket, folder):
    mount = leat.mount(front, bucket, Path(folder) / "mnt", "--writable")
    front.share = 0.2
    bodies = {f"f{number}": content(f"f{number}", 1, 0, 10 * KIB) for number in range(40)}
    bodies["large"] = content("large", 1, 0, 20 * MIB)
    for name, body in bodies.items():
        (mount / name).write_bytes(body)
    front.share = 0
    for name, body in bodies.items():
        assert s3.get_object(Bucket=bucket, Key=name)["Body"].read() == body, name
    assert front.faults, "the store failed now and then"
    kept = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert sorted(kept) == sorted(bodies), "no conflict with itself"


def test_what_was_closed_survives_a_kill(written):
    """An acknowledged file is whole, whatever happens to the daemon; a final name is never torn.
    Between two daemons nothing is mounted, and files go to the directory below."""
    acknowledged, stop = [], threading.Event()

    def save():
        number = 0
        while not stop.is_set():
            body = content(f"c{number}", 1, 0, 700 * KIB)
            with contextlib.suppress(OSError):
                (written.mount / f"c{number}.tmp").write_bytes(body)
                os.rename(written.mount / f"c{number}.tmp", written.mount / f"c{number}")
                acknowledged.append(number)
            number += 1
            time.sleep(0.01)
    saver = threading.Thread(target=save)
    saver.start()
    for _ in range(3):
        before = len(acknowledged)
        wait_until(lambda: len(acknowledged) > before + 5, "checkpoints")
        written.leat.kill_daemon()
        wait_until(lambda: errno_of(os.listdir, written.mount) == 0, "the mount to be back")
    stop.set()
    saver.join()
    for name in written.side.names():
        if not name.endswith(".tmp") and not name.startswith(".leat-"):
            assert written.side.read(name) == content(name, 1, 0, 700 * KIB), name
    names = set(written.side.names())
    written.leat.umount(written.mount)
    names |= set(os.listdir(written.mount))
    assert {f"c{number}" for number in acknowledged} <= names


def test_a_full_staging_disk_says_so(leat, store, s3, bucket, folder):
    disk = Path(folder) / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "leat-test", disk], check=True)
    try:
        leat.cache_dir, leat.cache_size = disk / "cache", "8MiB"
        mount = leat.mount(store, bucket, Path(folder) / "mnt", "--writable")
        assert errno_of((mount / "large").write_bytes, bytes(40 * MIB)) == errno.ENOSPC
        os.unlink(mount / "large")
        (mount / "small").write_bytes(b"fits")
        assert s3.get_object(Bucket=bucket, Key="small")["Body"].read() == b"fits"
    finally:
        leat.stop()
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_killed_writers_file_is_kept(written):
    with subprocess.Popen(["python3", "-c", "import sys, time\n"
                           "f = open(sys.argv[1], 'wb', buffering=0); f.write(b'partial')\n"
                           "print(flush=True); time.sleep(60)", written.mount / "f"],
                          stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
    wait_until(lambda: "f" in written.side.names(), "the file to be saved")
    assert written.side.read("f") == b"partial"


def test_only_writable_mounts_take_writes(leat, store, s3, bucket, folder):
    mount = leat.mount(store, bucket, Path(folder) / "mnt")
    assert errno_of((mount / "f").write_bytes, b"x") == errno.EROFS
    refused = leat.mount(store, bucket, Path(folder) / "other", "--writable", "-o", "no_open=true",
                         check=False)
    assert refused.returncode != 0 and "no_open" in refused.stderr
    assert leat.json("status")["mounts"][0]["read_only"] is True


# ---- programs

def test_git_commits_and_clones(written):
    repository = written.mount / "repo"
    names = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
             "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    run("git", "init", "-q", repository, cwd="/", **names)
    for number in range(3):
        (repository / f"f{number}").write_text(f"text {number}\n")
        run("git", "add", ".", cwd=repository, **names)
        run("git", "commit", "-qm", f"commit {number}", cwd=repository, **names)
    run("git", "clone", "-q", repository, written.mount / "clone", cwd="/", **names)
    assert len(run("git", "log", "--oneline", cwd=written.mount / "clone", **names).splitlines()) == 3
    run("git", "fsck", "--strict", cwd=written.mount / "clone", **names)


@pytest.fixture
def tree(folder):
    """A tree of files with modes and times, outside of the mount."""
    root = Path(folder) / "tree"
    for number in range(20):
        path = root / f"d{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(path.name, 1, 0, 3000 * number))
        path.chmod(0o644 if number % 2 else 0o755)
        os.utime(path, (1_500_000_000 + number, 1_400_000_000 + number))
    return root


def of_tree(root):
    return {str(one.relative_to(root)): (one.read_bytes(), one.stat().st_mode & 0o777,
                                         int(one.stat().st_mtime))
            for one in root.rglob("*") if one.is_file()}


@pytest.mark.parametrize("copy", ["cp", "rsync", "tar"])
def test_trees_are_copied_with_attributes(written, tree, copy):
    to = written.mount / "copy"
    if copy == "cp":
        run("cp", "-a", tree, to, cwd="/")
    elif copy == "rsync":
        run("rsync", "-a", f"{tree}/", f"{to}/", cwd="/")
        assert "Number of regular files transferred: 0" in run("rsync", "-a", "--stats", f"{tree}/",
                                                               f"{to}/", cwd="/")
    else:
        to.mkdir()
        packed = subprocess.run(["tar", "c", "-C", tree, "."], capture_output=True, check=True).stdout
        subprocess.run(["tar", "x", "-C", to], input=packed, check=True)
    assert of_tree(to) == of_tree(tree)
    written.remount()
    assert of_tree(to) == of_tree(tree)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_sqlite_keeps_a_database(written, mode):
    with contextlib.closing(sqlite3.connect(written.mount / "x.db")) as database:
        database.execute(f"PRAGMA journal_mode={mode}")
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        for number in range(5):
            with database:
                database.executemany("INSERT INTO t (b) VALUES (?)",
                                     [(f"{number} {one}",) for one in range(50)])
    written.remount()
    with contextlib.closing(sqlite3.connect(written.mount / "x.db")) as database:
        assert database.execute("SELECT COUNT(*) FROM t").fetchone() == (250,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_make_builds_a_project(written):
    project = written.mount / "project"
    project.mkdir()
    (project / "Makefile").write_text(
        "all: hello\nhello: main.o part.o\n\t$(CC) -o $@ $^\n%.o: %.c\n\t$(CC) -c -o $@ $<\n")
    (project / "main.c").write_text("int part(void); int main(void) { return part(); }\n")
    (project / "part.c").write_text("int part(void) { return 0; }\n")
    run("make", "CC=clang-19", cwd=project)
    run(project / "hello", cwd=project)
    assert "up to date" in run("make", "CC=clang-19", "hello", cwd=project)


def test_editors_and_archivers_work(written):
    (written.mount / "text").write_text("one\ntwo\n")
    run("sed", "-i", "s/one/1/", written.mount / "text", cwd="/")
    assert written.side.read("text") == b"1\ntwo\n"
    run("python3", "-m", "zipfile", "-c", written.mount / "z.zip", "text", cwd=written.mount)
    assert run("python3", "-m", "zipfile", "-l", written.mount / "z.zip", cwd="/").count("text") == 1


# ---- the model

def test_it_behaves_as_a_folder(written, folder, seed, scale):
    for number in range(3):
        plain = Path(folder) / f"plain{number}"
        plain.mkdir()
        top = written.mount / f"top{number}"
        top.mkdir()
        compare(top, plain, seed + number, 400 * scale)
        written.remount()
        kept = {str(one.relative_to(top)): one.read_bytes() for one in top.rglob("*") if one.is_file()}
        wanted = {str(one.relative_to(plain)): one.read_bytes()
                  for one in plain.rglob("*") if one.is_file()}
        assert kept == wanted, f"seed {seed + number}"
