# SPDX-License-Identifier: Apache-2.0
"""A bucket looks like the folder that its keys describe: names, sizes, times, bytes."""

import ctypes
import errno
import hashlib
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.content import content
from e2e.objects import client, put_all
from rig.store import Store

pytestmark = pytest.mark.xdist_group("tree")  # one tree for all

KIB, MIB = 1024, 1024 * 1024
ODD_NAMES = [
    "with space", "ünïcödé", "日本語.txt", "emoji-🦆", "-dash", ".hidden", "a+b=c&d", "per%20cent%",
    "hash#?query", "quote'\"", "back\\slash", "[glob]*", "tab\there", "n" * 255, "é" * 127, "..dots..",
    "~tilde~", "semi;colon", "UPPER", "upper",
]
# Around the cache's 64 KiB blocks and the 1 MiB border between segments and files.
SIZES = [0, 1, 4095, 4096, 4097, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB - 1, MIB, MIB + 1,
         MIB + 64 * KIB, 3 * MIB + 12345, 8 * MIB, 8 * MIB + 1]


def walk(root):
    """Relative path -> SHA-256 of a file's bytes, or None for a directory."""
    found = {}
    for base, directories, files in os.walk(root):
        for name in directories:
            found[os.path.relpath(os.path.join(base, name), root)] = None
        for name in files:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = hashlib.sha256(file.read()).hexdigest()
    return found


def expected_tree(objects, prefix=""):
    found = {}
    for key, body in objects.items():
        if not key.startswith(prefix):
            continue
        parts = key[len(prefix):].split("/")
        for depth in range(1, len(parts)):
            found["/".join(parts[:depth])] = None
        found["/".join(parts)] = hashlib.sha256(body).hexdigest()
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for the whole file: no test here changes an object."""
    server = Store(tmp_path_factory.mktemp("store")).start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def bucket(store):
    client(store).create_bucket(Bucket="data")
    return "data"


@pytest.fixture(scope="module")
def objects(store, bucket):
    tree = {f"odd/{name}": name.encode() for name in ODD_NAMES}
    tree.update({f"odd folder ü/{name}/inner": b"in" for name in ODD_NAMES if "\\" not in name})
    tree.update({f"sizes/{size}": content(f"sizes/{size}", 1, 0, size) for size in SIZES})
    tree["/".join(f"level{depth}" for depth in range(20)) + "/leaf"] = b"deep"
    tree["tools/script.py"] = b"#!/usr/bin/env python3\nprint(6 * 7)\n"
    tree["tools/true"] = Path("/bin/true").read_bytes()
    # More than one page of a listing.
    tree.update({f"wide/f{number:04}": b"%d" % number for number in range(1500)})
    put_all(client(store), bucket, tree)
    return tree


def test_tree_is_equal(leat, store, bucket, objects, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    assert walk(mount) == expected_tree(objects)
    assert walk(mount) == expected_tree(objects), "the second time, from the cache"


def test_prefix_is_the_root(leat, store, bucket, objects, folder):
    mount = leat.mount(store, f"{bucket}/sizes", os.path.join(folder, "mnt"))
    assert walk(mount) == expected_tree(objects, "sizes/")


def test_attributes_are_those_of_the_objects(leat, store, s3, bucket, objects, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    for size in SIZES:
        status = os.stat(mount / "sizes" / str(size))
        modified = s3.head_object(Bucket=bucket, Key=f"sizes/{size}")["LastModified"]
        assert status.st_size == size
        assert abs(status.st_mtime - modified.timestamp()) < 1.0
        assert status.st_mode & 0o170000 == 0o100000
        assert status.st_uid == os.getuid()
    assert os.stat(mount / "sizes").st_mode & 0o170000 == 0o040000


def test_df_shows_room_and_status_the_cache(leat, store, bucket, objects, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    leat.run("load", mount / "sizes")
    shown = {}
    for flag in ("-Pk", "-Pi"):
        line = subprocess.run(["df", flag, mount], capture_output=True, text=True, check=True)
        words = line.stdout.splitlines()[-1].split()
        shown[flag] = [int(word) for word in words[1:4]] + [words[4]]
    assert shown["-Pk"] == [2 ** 40, 0, 2 ** 40, "0%"], "KiB"
    assert shown["-Pi"][1:] == [0, shown["-Pi"][0], "0%"], shown
    cache = leat.json("status")["cache"]
    assert 0 < cache["used_bytes"] < cache["capacity_bytes"]
    metrics = (mount / ".leat/metrics").read_text()
    assert re.search(r"^leat_cache_used_bytes\{[^}]*\} [1-9]", metrics, re.MULTILINE), metrics
    assert re.search(r"^leat_cache_capacity_bytes\{[^}]*\} [1-9]", metrics, re.MULTILINE)


def test_reads_at_any_place(leat, store, bucket, objects, folder, seed):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    random_source = random.Random(seed)
    for size in (s for s in SIZES if s):
        fd = os.open(mount / "sizes" / str(size), os.O_RDONLY)
        try:
            for _ in range(20):
                offset = random_source.randrange(size + 10)
                length = random_source.randrange(1, 200 * KIB)
                want = content(f"sizes/{size}", 1, offset, max(0, min(length, size - offset)))
                assert os.pread(fd, length, offset) == want, f"size {size}, [{offset}, +{length})"
        finally:
            os.close(fd)


def test_missing_names(leat, store, bucket, objects, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    for name in ("nothing", "odd/nothing", "nothing/below", "n" * 200):
        with pytest.raises(FileNotFoundError):
            os.stat(mount / name)
    with pytest.raises(NotADirectoryError):
        os.stat(mount / "sizes" / "1" / "below")
    with pytest.raises(OSError):
        os.stat(mount / ("n" * 256))


def test_programs_read_it(leat, store, bucket, objects, folder):
    """grep, cp, tar and mmap see what they see on any file system."""
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    copy = os.path.join(folder, "copy")
    subprocess.run(["cp", "-r", mount / "sizes", copy], check=True)
    assert walk(copy) == expected_tree(objects, "sizes/")
    found = subprocess.run(["grep", "-rlx", "deep", mount / "level0"], capture_output=True, text=True,
                           check=True)
    assert found.stdout.count("\n") == 1
    listed = subprocess.run(["tar", "-cf", "/dev/null", "-C", mount, "wide"], capture_output=True,
                            text=True)
    assert listed.returncode == 0, listed.stderr


def test_files_are_not_executed(leat, store, bucket, objects, folder):
    """They have no execute bit; an interpreter reads a script as any file."""
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    for name in ("script.py", "true"):
        path = mount / "tools" / name
        assert not os.access(path, os.X_OK) and path.stat().st_mode & 0o111 == 0
        with pytest.raises(PermissionError):
            subprocess.run([path], check=True)
    done = subprocess.run([sys.executable, mount / "tools" / "script.py"], capture_output=True,
                          text=True, check=True)
    assert done.stdout == "42\n"


def test_files_have_no_handles(leat, store, bucket, objects, folder):
    """So the kernel's NFS server, which asks for them, does not export the folder."""
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    libc = ctypes.CDLL(None, use_errno=True)
    handle = ctypes.create_string_buffer((128).to_bytes(4, sys.byteorder), 136)
    path, mount_id = os.fsencode(mount / "sizes" / "1"), ctypes.c_int()
    assert libc.name_to_handle_at(-100, path, handle, ctypes.byref(mount_id), 0) == -1  # AT_FDCWD
    assert ctypes.get_errno() == errno.EOPNOTSUPP
