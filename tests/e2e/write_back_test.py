# SPDX-License-Identifier: Apache-2.0
"""Mounts with write=back: close returns when this host has the file, and the store gets it later."""

import contextlib
import errno
import mmap
import os
import re
import threading
import time
from pathlib import Path

import pytest

from e2e.content import content
from e2e.written_folder import compare
from e2e.writing_test import Front, errno_of, written_mount
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
BACK = ("--writable", "-o", "write=back")


@pytest.fixture(params=["s3", "file"])
def written(request, leat, folder):
    return written_mount(request, leat, folder, *BACK)


@pytest.fixture
def front(store, folder, seed):
    front = Front(store, folder, seed, share=0)
    yield front
    front.stop()


def unsent(leat):
    return leat.json("mounts")["mounts"][0]["unsent"]


def mounted_known(leat, front, bucket, folder):
    """Its names are known for a while, so that new ones need no request."""
    mount = leat.mount(front, bucket, Path(folder) / "mnt", *BACK, "-o", "io_timeout=3s",
                       freshness="max-age=1m")
    os.listdir(mount)
    return mount


def left_unsent(leat, front, bucket, folder):
    """A folder that was unmounted with a file `f` that its store does not have."""
    mount = mounted_known(leat, front, bucket, folder)
    front.refuses = True
    (mount / "f").write_bytes(b"one")
    leat.run("umount", "--no-flush", mount)
    front.refuses = False
    return mount


def all_files(root):
    return {str(one.relative_to(root)): one.read_bytes() for one in Path(root).rglob("*")
            if one.is_file()}


def test_close_does_not_wait_for_the_store(leat, front, s3, bucket, folder):
    mount = mounted_known(leat, front, bucket, folder)
    front.refuses = True
    began = time.monotonic()
    (mount / "f").write_bytes(b"one")
    with open(mount / "g", "wb") as file:
        file.write(content("g", 1, 0, 3 * MIB))
        os.fsync(file.fileno())
    assert time.monotonic() - began < 5
    assert (mount / "f").read_bytes() == b"one"
    state = unsent(leat)
    assert state["changes"] == 2 and state["bytes"] == 3 * MIB + 3
    failed = leat.run("flush", mount, check=False)
    assert failed.returncode == 1 and "leat:" in failed.stderr
    kept = leat.run("umount", mount, check=False)
    assert kept.returncode != 0 and "--no-flush" in kept.stderr and "stays mounted" in kept.stderr
    assert unsent(leat)["error"]
    front.refuses = False
    said = leat.run("flush", mount).stdout
    assert "the store has everything: 2 changes" in said
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == b"one"
    assert s3.get_object(Bucket=bucket, Key="g")["Body"].read() == content("g", 1, 0, 3 * MIB)
    assert "already" in leat.run("flush").stdout


def test_the_kernel_writes_by_itself(written):
    """New and truncated files, by writes and by mappings, without a request of the kernel."""
    def count(name):
        text = (written.mount / ".leat" / "metrics").read_text()
        return int(re.search(rf"^{re.escape(name)} (\d+)$", text, re.MULTILINE)[1])

    opens = 'leat_fuse_opens_total{mode="passthrough"}'
    before, requests = count(opens), count("leat_fuse_writes_total")
    with open(written.mount / "large", "w+b") as file:
        file.write(content("large", 1, 0, 3 * MIB))
        file.flush()
        with mmap.mmap(file.fileno(), 0) as mapping:
            mapping[:4] = b"head"
            os.fsync(file.fileno())
            mapping[-4:] = b"tail"
        assert os.fstat(file.fileno()).st_size == 3 * MIB
    log = open(written.mount / "log", "ab", buffering=0)
    for number in range(3):
        log.write(b"line %d\n" % number)
        assert (written.mount / "log").read_bytes().count(b"\n") == number + 1
    expected = b"head" + content("large", 1, 0, 3 * MIB)[4:-4] + b"tail"
    assert (written.mount / "large").read_bytes() == expected
    os.fsync(log.fileno())
    written.leat.run("flush", written.mount)
    assert written.side.read("large") == expected
    assert written.side.read("log") == b"line 0\nline 1\nline 2\n"
    log.write(b"more\n")
    log.close()
    written.leat.run("flush", written.mount)
    assert written.side.read("log").endswith(b"line 2\nmore\n")
    assert count(opens) > before and count("leat_fuse_writes_total") == requests


def test_a_rename_waits_for_no_store(leat, front, s3, bucket, folder):
    """The store has a part of the directory, as of a checkpoint that is being uploaded."""
    mount = mounted_known(leat, front, bucket, folder)
    (mount / "tmp").mkdir()
    (mount / "tmp" / "a").write_bytes(content("a", 1, 0, MIB))
    leat.run("flush", mount)
    front.refuses = True
    (mount / "tmp" / "b").write_bytes(content("b", 1, 0, MIB))
    began = time.monotonic()
    os.rename(mount / "tmp", mount / "final")
    assert time.monotonic() - began < 5
    assert sorted(os.listdir(mount / "final")) == ["a", "b"] and os.listdir(mount) == ["final"]
    assert (mount / "final" / "b").read_bytes() == content("b", 1, 0, MIB)
    front.refuses = False
    leat.run("flush", mount)
    keys = [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert [key for key in keys if not key.endswith("/")] == ["final/a", "final/b"]
    for name in "ab":
        assert (mount / "final" / name).read_bytes() == content(name, 1, 0, MIB)


def test_unmounting_sends_what_is_left(written):
    (written.mount / "d").mkdir()
    for number in range(50):
        (written.mount / "d" / f"f{number}").write_bytes(b"x" * number)
    written.leat.umount(written.mount)
    assert written.side.names() == sorted(f"d/f{number}" for number in range(50))


def test_the_next_mount_sends_what_is_left(leat, front, s3, bucket, folder):
    mount = left_unsent(leat, front, bucket, folder)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    leat.mount(front, bucket, mount, "--writable")  # whatever its mode is now
    assert (mount / "f").read_bytes() == b"one"
    leat.run("flush", mount)
    assert s3.get_object(Bucket=bucket, Key="f")["Body"].read() == b"one"


def test_another_source_does_not_get_it(leat, front, s3, bucket, folder):
    mount = left_unsent(leat, front, bucket, folder)
    s3.create_bucket(Bucket=f"{bucket}-other")
    refused = leat.mount(front, f"{bucket}-other", mount, "--writable", check=False)
    assert refused.returncode != 0 and "not in the store yet" in refused.stderr


def test_local_paths_are_never_sent(written):
    written.leat.run("mounts", "set", written.mount / "scratch", "write=local")
    (written.mount / "scratch").mkdir()
    (written.mount / "scratch" / "tmp").write_bytes(b"here")
    (written.mount / "kept").write_bytes(b"there")
    written.leat.run("flush", written.mount)
    assert written.side.names() == ["kept"]
    assert unsent(written.leat)["local_bytes"] == 4
    written.leat.kill_daemon()
    wait_until(lambda: errno_of(os.listdir, written.mount) == 0, "the mount to be back")
    assert (written.mount / "scratch" / "tmp").read_bytes() == b"here"
    os.rename(written.mount / "scratch" / "tmp", written.mount / "published")
    written.leat.run("flush", written.mount)
    assert written.side.read("published") == b"here"


def test_modes_are_for_mounts_that_write(leat, store, bucket, folder):
    refused = leat.mount(store, bucket, Path(folder) / "mnt", "-o", "write=back", check=False)
    assert refused.returncode != 0 and "--writable" in refused.stderr
    refused = leat.mount(store, bucket, Path(folder) / "mnt", "--writable", "-o", "write=often",
                         check=False)
    assert refused.returncode != 0 and "through, back or local" in refused.stderr


def test_full_staging_waits_then_says_so(leat, front, s3, bucket, folder):
    leat.cache_size = "64MiB"  # half of it may be staged
    mount = mounted_known(leat, front, bucket, folder)
    for number in range(4):
        (mount / f"f{number}").write_bytes(content(f"f{number}", 1, 0, 12 * MIB))
    leat.run("flush", mount)
    front.refuses = True
    failures = [errno_of((mount / f"g{number}").write_bytes, bytes(12 * MIB)) for number in range(4)]
    assert failures[:2] == [0, 0] and errno.ENOSPC in failures
    front.refuses = False
    leat.run("flush", mount)
    for number in range(4):
        body = s3.get_object(Bucket=bucket, Key=f"f{number}")["Body"].read()
        assert body == content(f"f{number}", 1, 0, 12 * MIB)
    for number in range(2):
        assert s3.get_object(Bucket=bucket, Key=f"g{number}")["Body"].read() == bytes(12 * MIB)


# ---- checkpoints

PARTS, PART_BYTES = 4, 400 * KIB


def save_checkpoint(directory, number):
    """As PyTorch's distributed checkpoint: parts, then metadata under a temporary name, a rename."""
    for part in range(PARTS):
        with open(directory / f"{number}.part{part}", "wb") as file:
            file.write(content(f"{number}.part{part}", 1, 0, PART_BYTES))
            os.fsync(file.fileno())
    temporary = directory / f"{number}.metadata.tmp"
    with open(temporary, "wb") as file:
        file.write(b"complete")
        os.fsync(file.fileno())
    os.rename(temporary, directory / f"{number}.metadata")


def check_complete(number, read):
    for part in range(PARTS):
        name = f"{number}.part{part}"
        assert read(name) == content(name, 1, 0, PART_BYTES), f"{name} of a complete checkpoint"


def test_a_named_checkpoint_is_complete(written):
    """In the store at any moment, and in the folder after kill -9 of the daemon at any moment."""
    acknowledged, stop, failed = [], threading.Event(), []
    # While the daemon is away, the directory below takes the files.
    (written.mount / "checkpoints").mkdir()

    def save():
        number = 0
        while not stop.is_set():
            with contextlib.suppress(OSError):
                save_checkpoint(written.mount / "checkpoints", number)
                acknowledged.append(number)
            number += 1

    def watch():
        while not stop.is_set():
            try:
                names = written.side.names()
                for name in names:
                    if name.endswith(".metadata"):
                        number = name.split("/")[1].split(".")[0]
                        check_complete(number, lambda part: written.side.read(f"checkpoints/{part}"))
            except AssertionError as error:
                failed.append(error)
                return
            time.sleep(0.2)
    threads = [threading.Thread(target=save), threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        before = len(acknowledged)
        wait_until(lambda: len(acknowledged) > before + 5, "checkpoints")
        written.leat.kill_daemon()
        wait_until(lambda: errno_of(os.listdir, written.mount / "checkpoints") == 0,
                   "the mount to be back")
        for number in list(acknowledged):
            read = (written.mount / "checkpoints" / f"{number}.metadata").read_bytes
            assert read() == b"complete"
            check_complete(number,
                           lambda part: (written.mount / "checkpoints" / part).read_bytes())
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    written.leat.run("flush", written.mount)
    for number in acknowledged:
        assert written.side.read(f"checkpoints/{number}.metadata") == b"complete"
        check_complete(number, lambda part: written.side.read(f"checkpoints/{part}"))


# ---- the model

def test_it_behaves_as_a_folder(written, folder, seed, scale):
    """With kills and remounts between the operations, and the store's side at the end."""
    for number in range(4):
        plain = Path(folder) / f"plain{number}"
        plain.mkdir()
        top = written.mount / f"top{number}"
        top.mkdir()
        compare(top, plain, seed + number, 300 * scale, lambda *_: False)
        if number % 2 == 0:
            written.leat.kill_daemon()
            wait_until(lambda: errno_of(os.listdir, top) == 0, "the mount to be back")  # noqa: B023
        else:
            written.remount()
        assert all_files(top) == all_files(plain), f"seed {seed + number}"
        written.leat.run("flush", top)
        stored = {name.removeprefix(f"top{number}/"): written.side.read(name)
                  for name in written.side.names() if name.startswith(f"top{number}/")}
        assert stored == all_files(plain), f"seed {seed + number}, in the store"
