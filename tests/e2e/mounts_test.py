# SPDX-License-Identifier: Apache-2.0
"""Several mounts in one daemon: nested, sharing a cache, and all of them read-only."""

import errno
import os
import re
import subprocess
import sys

import pytest

from rig.process import wait_until

MIB = 1024 * 1024


def gets(store):
    return sum(1 for operation, *_ in store.requests() if operation == "GetObject")


@pytest.fixture
def objects(s3, bucket):
    for key in ("top", "a/one", "a/two", "b/c/three"):
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode() * 1000)
    s3.put_object(Bucket=bucket, Key="big", Body=os.urandom(3 * MIB))
    return bucket


def test_nested_mounts(leat, store, s3, objects, folder):
    s3.create_bucket(Bucket="other")
    s3.put_object(Bucket="other", Key="x/inner", Body=b"inner")
    outer = leat.mount(store, objects, os.path.join(folder, "mnt"))
    inner = outer / "a" / "nested"
    done = leat.run("mount", "s3://other", inner, "--option", f"endpoint={store.endpoint}",
                    "--option", "region=us-east-1", "--cache-dir", leat.cache_dir,
                    "--cache-size", leat.cache_size, credentials=store.credentials)
    assert done.returncode == 0
    assert (inner / "x" / "inner").read_bytes() == b"inner"
    assert sorted(os.listdir(outer / "a")) == ["nested", "one", "two"]
    leat.umount(inner)
    assert sorted(os.listdir(outer / "a")) == ["one", "two"]
    assert (outer / "a" / "one").read_bytes() == b"a/one" * 1000


def test_two_mounts_share_the_cache(leat, store, objects, folder):
    whole = leat.mount(store, objects, os.path.join(folder, "whole"), freshness="immutable")
    part = leat.mount(store, f"{objects}/a", os.path.join(folder, "part"), freshness="immutable")
    first = (whole / "a" / "one").read_bytes()
    after_first = gets(store)
    assert after_first >= 1
    assert (part / "one").read_bytes() == first
    assert gets(store) == after_first, "the second mount of the bucket fetched again"
    assert len(leat.daemon_pids()) >= 1
    assert len(leat.json("mounts")["mounts"]) == 2


def test_one_request_however_many_readers(leat, store, objects, folder):
    """16 processes open the same cold file at once; its bytes cross the wire once."""
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), freshness="immutable")
    before = store.counters()["bytes"]
    readers = [subprocess.Popen(["cksum", mount / "big"], stdout=subprocess.PIPE) for _ in range(16)]
    sums = {reader.communicate()[0] for reader in readers}
    assert len(sums) == 1
    assert store.counters()["bytes"] - before < 1.2 * 3 * MIB


def expect_read_only(operation):
    with pytest.raises(OSError) as raised:
        operation()
    assert raised.value.errno in (errno.EROFS, errno.EACCES, errno.EPERM), raised.value


def test_changes_are_refused(leat, store, s3, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"))
    expect_read_only(lambda: (mount / "new").write_bytes(b"x"))
    expect_read_only(lambda: open(mount / "top", "r+b"))
    expect_read_only(lambda: open(mount / "top", "ab"))
    expect_read_only(lambda: os.truncate(mount / "top", 0))
    expect_read_only(lambda: os.unlink(mount / "top"))
    expect_read_only(lambda: os.rename(mount / "top", mount / "moved"))
    expect_read_only(lambda: os.mkdir(mount / "directory"))
    expect_read_only(lambda: os.rmdir(mount / "a"))
    expect_read_only(lambda: os.symlink("top", mount / "link"))
    expect_read_only(lambda: os.link(mount / "top", mount / "hard"))
    expect_read_only(lambda: os.chmod(mount / "top", 0o600))
    expect_read_only(lambda: os.utime(mount / "top"))
    expect_read_only(lambda: os.setxattr(mount / "top", "user.x", b"1"))
    assert (mount / "top").read_bytes() == b"top" * 1000
    assert s3.list_objects_v2(Bucket=objects)["KeyCount"] == 5


def test_a_mount_is_shown_as_read_only(leat, store, objects, folder):
    """Also after the daemon's death, and of a mount inside another one."""
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), "--allow-other")
    inner = leat.mount(store, f"{objects}/a", mount / "inner")
    wait_until((inner / "one").exists, "the inner mount to show")

    def look():
        options = subprocess.run(["findmnt", "-n", "-o", "OPTIONS", mount], capture_output=True,
                                 text=True, check=True).stdout.strip().split(",")
        assert "ro" in options and "rw" not in options
        for path in (mount, mount / "top", inner, inner / "one"):
            assert subprocess.run(["test", "-w", path]).returncode == 1, path
            assert subprocess.run(["test", "-r", path]).returncode == 0, path
        assert os.getxattr(mount / "top", "user.leat.source")
    look()
    if leat.json("mounts")["mounts"][0]["features"]["survives"]:
        leat.kill_daemon()
        look()
    leat.umount(inner)
    leat.umount(mount)


def test_a_cached_file_is_as_read_only(leat, store, objects, folder):
    """Passthrough gives the kernel the cache's own file: a writing open must not reach it."""
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), freshness="immutable")
    before = (mount / "big").read_bytes()
    assert (mount / "big").read_bytes() == before
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        expect_read_only(lambda f=flags: os.open(mount / "big", f))
    assert (mount / "big").read_bytes() == before


def test_mounting_twice_at_one_folder_is_refused(leat, store, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"))
    done = leat.mount(store, f"{objects}/a", mount, check=False)
    assert done.returncode != 0
    assert str(mount) in done.stderr
    assert (mount / "top").exists()


@pytest.mark.parametrize("prefix, url", [("what?", "what%3F"), ("a b", "a%20b"), ("a b", "a b"),
                                         ("a%20b", "a%2520b"), ("100%", "100%"), ("x#y&z", "x#y&z")])
def test_every_key_can_be_mounted(leat, store, s3, bucket, folder, prefix, url):
    s3.put_object(Bucket=bucket, Key=f"{prefix}/file", Body=b"inside")
    mount = leat.mount(store, f"{bucket}/{url}", os.path.join(folder, "mnt"))
    assert (mount / "file").read_bytes() == b"inside"
    shown = leat.json("mounts")["mounts"][0]["source"]
    leat.umount(mount)
    # What is shown can be mounted.
    leat.mount(store, shown.removeprefix("s3://"), mount)
    assert (mount / "file").read_bytes() == b"inside"
    listed = leat.run("ls", f"{shown}?endpoint={store.endpoint}&region=us-east-1",
                      credentials=store.credentials)
    assert "file" in listed.stdout


def test_an_empty_prefix_is_said(leat, store, objects, folder):
    folders = [os.path.join(folder, name) for name in ("empty", "full")]
    for one in folders:
        os.makedirs(one)
    said = {}
    for one, prefix in zip(folders, ("nothing", "a"), strict=True):
        done = leat.run("mount", f"s3://{objects}/{prefix}", one, "--option",
                        f"endpoint={store.endpoint}", "--cache-dir", leat.cache_dir,
                        credentials=store.credentials)
        said[prefix] = done.stderr
    assert f"nothing is there under s3://{objects}/nothing/" in said["nothing"]
    assert "nothing is there" not in said["a"]
    assert all("empty" not in mount for mount in leat.json("mounts")["mounts"])


@pytest.mark.parametrize("source, meant", [("s3:/bucket/x", "s3://bucket/x"),
                                           ("S3://bucket", "s3://bucket"),
                                           ("s3a://bucket/x", "s3://bucket/x/"),
                                           ("gcs://bucket", "gs://bucket/")])
def test_what_was_meant_is_said(leat, folder, source, meant):
    target = os.path.join(folder, "mnt")
    os.makedirs(target)
    done = leat.run("mount", source, target, "--cache-dir", leat.cache_dir, check=False)
    assert done.returncode != 0
    assert f"did you mean '{meant}'?" in done.stderr


@pytest.fixture
def web(folder):
    """Python's own web server, which has no ranges and no ETags, over a directory."""
    served = os.path.join(folder, "served")
    os.makedirs(os.path.join(served, "data", "sub"))
    process = subprocess.Popen([sys.executable, "-u", "-m", "http.server", "0", "--bind",
                                "127.0.0.1", "--directory", served], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        port = re.search(r"port (\d+)", process.stdout.readline()).group(1)
        yield served, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_web_server_without_ranges_is_read(leat, web, folder):
    served, url = web
    contents = {"data/a b?.txt": b"small", "data/sub/large": os.urandom(9 * MIB)}
    for name, content in contents.items():
        with open(os.path.join(served, name), "wb") as file:
            file.write(content)
    mount = os.path.join(folder, "mnt")
    os.makedirs(mount)
    leat.run("mount", f"{url}/data", mount, "--cache-dir", leat.cache_dir)
    assert sorted(os.listdir(mount)) == ["a b?.txt", "sub"]
    for name, content in contents.items():
        with open(os.path.join(mount, name.removeprefix("data/")), "rb") as file:
            assert file.read() == content
    with open(os.path.join(mount, "sub", "large"), "rb") as file:
        file.seek(5 * MIB)
        assert file.read(1000) == contents["data/sub/large"][5 * MIB:5 * MIB + 1000]
