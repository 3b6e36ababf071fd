# SPDX-License-Identifier: Apache-2.0
"""Snapshots: a mount that goes by one shows one consistent data set, whatever the store does."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.content import content
from e2e.objects import put_all

NAMES = [f"d{i % 7}/f{i}" for i in range(60)] + ["top"]


def body(name, version=1):
    return content(name, version, 0, 3000 + 512 * version)


@pytest.fixture
def mounted(leat, store, s3, bucket, folder):
    put_all(s3, bucket, {f"set/{name}": body(name) for name in NAMES})
    mount = Path(folder) / "mnt"
    return leat.mount(store, "data/set", mount, freshness="max-age=0s")


def names_below(mount):
    return {str(Path(at, name).relative_to(mount)) for at, _, names in os.walk(mount)
            for name in names}


def test_names_and_versions_stay(leat, mounted, s3, bucket, store):
    leat.run("snapshot", "build", mounted, "--name", "before", "--use")
    assert leat.json("mounts")["mounts"][0]["freshness"] == "snapshot"
    assert (mounted / "d0" / "f0").read_bytes() == body("d0/f0")  # and so it is cached
    put_all(s3, bucket, {"set/new": b"new", "set/d0/f0": body("d0/f0", 2),
                         "set/d1/f1": body("d1/f1", 2)})
    s3.delete_object(Bucket=bucket, Key="set/top")
    assert names_below(mounted) == set(NAMES)
    assert not (mounted / "new").exists()
    assert (mounted / "d0" / "f0").read_bytes() == body("d0/f0")
    # Another version than the one that the snapshot names is not to be had.
    with pytest.raises(OSError):
        (mounted / "d1" / "f1").read_bytes()
    # And no request asks for names.
    listed = 'leat_source_requests_total{store_op="list"}'
    before = leat.json("status")["counters"].get(listed, 0)
    assert names_below(mounted) == set(NAMES)
    for name in NAMES:
        assert (mounted / name).stat().st_size == len(body(name))
    assert leat.json("status")["counters"].get(listed, 0) == before

    leat.run("snapshot", "release", mounted)
    assert (mounted / "new").exists()
    assert not (mounted / "top").exists()
    assert (mounted / "d0" / "f0").read_bytes() == body("d0/f0", 2)
    assert (mounted / "d1" / "f1").read_bytes() == body("d1/f1", 2)


def test_two_are_compared_and_exchanged(leat, mounted, s3, bucket):
    leat.run("snapshot", "build", mounted, "--name", "one")
    put_all(s3, bucket, {"set/new": b"new", "set/d0/f0": body("d0/f0", 2)})
    s3.delete_object(Bucket=bucket, Key="set/top")
    leat.run("snapshot", "build", mounted, "--name", "two")
    found = leat.json("snapshot", "diff", "one", "two")
    assert {(one["kind"], one["path"]) for one in found["differences"]} == {
        ("added", "new"), ("changed", "d0/f0"), ("removed", "top")}
    assert "1 added, 1 removed, 1 changed" in leat.run("snapshot", "diff", "one", "two").stdout
    for name, there in (("one", "top"), ("two", "new"), ("one", "top")):
        leat.run("snapshot", "use", name, mounted)
        assert (mounted / there).exists(), name
    shown = {one["name"]: one for one in leat.json("snapshot", "ls")["snapshots"]}
    assert shown["one"]["used_by"] == [str(mounted)]
    assert shown["two"]["used_by"] == []
    assert shown["one"]["files"] == len(NAMES)
    busy = leat.run("snapshot", "rm", "one", check=False)
    assert busy.returncode == 1
    assert "release" in busy.stderr
    leat.run("snapshot", "rm", "two")
    assert leat.run("snapshot", "rm", "two", check=False).returncode == 3


def readdirs(leat):
    return leat.json("status")["counters"].get("leat_fuse_readdirs_total", 0)


def test_kernel_listings_stay_until_a_switch(leat, mounted, s3, bucket):
    leat.run("snapshot", "build", mounted, "--name", "one", "--use")
    shown = {"one": names_below(mounted)}
    before = readdirs(leat)
    assert names_below(mounted) == shown["one"] == set(NAMES)
    assert readdirs(leat) == before
    put_all(s3, bucket, {"set/new": b"new", "set/d3/new": b"new", "set/d9/new": b"new"})
    s3.delete_object(Bucket=bucket, Key="set/top")
    leat.run("snapshot", "build", mounted, "--name", "two")
    shown["two"] = set(NAMES) - {"top"} | {"new", "d3/new", "d9/new"}
    for name in ("two", "one", "two", "one"):
        leat.run("snapshot", "use", name, mounted)
        assert names_below(mounted) == shown[name], name
    # The store changes behind neither; what is not a snapshot is not kept for long.
    leat.run("snapshot", "release", mounted)
    assert names_below(mounted) == shown["two"]
    leat.run("snapshot", "use", "one", mounted)
    assert names_below(mounted) == shown["one"]


def test_a_directory_opened_before_a_switch(leat, mounted, s3, bucket):
    leat.run("snapshot", "build", mounted, "--name", "one", "--use")
    early = [os.open(mounted / "d3", os.O_RDONLY | os.O_DIRECTORY) for _ in range(3)]
    try:
        assert "new" not in os.listdir(early[0])  # it has read, the others have not
        put_all(s3, bucket, {"set/d3/new": b"new"})
        leat.run("snapshot", "build", mounted, "--name", "two")
        leat.run("snapshot", "use", "two", mounted)
        for descriptor in early:  # listdir reads from the start
            assert "new" in os.listdir(descriptor)
    finally:
        for descriptor in early:
            os.close(descriptor)
    assert "new" in os.listdir(mounted / "d3")


def test_names_during_switches_are_consistent(leat, mounted, s3, bucket):
    leat.run("snapshot", "build", mounted, "--name", "one", "--use")
    s3.delete_object(Bucket=bucket, Key="set/d3/f3")
    put_all(s3, bucket, {f"set/d3/new{i}": b"new" for i in range(300)})
    leat.run("snapshot", "build", mounted, "--name", "two")
    stopping = threading.Event()

    def read():
        while not stopping.is_set():
            assert len(os.listdir(mounted / "d3")) > 5

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for name in ("two", "one") * 6:
                leat.run("snapshot", "use", name, mounted)
                # Kept for good: what a reader of the time before left wrong would stay wrong.
                assert ("new7" in os.listdir(mounted / "d3")) == (name == "two"), name
        finally:
            stopping.set()
    for reader in readers:
        reader.result()


def test_a_used_snapshot_is_not_removed(leat, mounted, folder):
    leat.run("snapshot", "build", mounted, "--name", "one")
    leat.run("snapshot", "share", "one", Path(folder) / "kept.snapshot")
    for _ in range(10):
        with ThreadPoolExecutor() as threads:
            ended = [threads.submit(leat.run, "snapshot", *words, check=False)
                     for words in (("use", "one", mounted), ("rm", "one"))]
        used, removed = (one.result().returncode == 0 for one in ended)
        assert used != removed, "it is used and there, or gone and not used"
        if used:
            leat.run("snapshot", "release", mounted)
        else:
            leat.run("snapshot", "add", Path(folder) / "kept.snapshot", "--name", "one")


def test_is_shared_by_a_file(leat, mounted, folder, store):
    leat.run("snapshot", "build", mounted, "--name", "mine")
    shared = Path(folder) / "shared.snapshot"
    leat.run("snapshot", "share", "mine", shared)
    leat.run("snapshot", "add", shared, "--name", "theirs")
    assert leat.run("snapshot", "add", shared, "--name", "theirs", check=False).returncode == 1
    leat.run("snapshot", "use", "theirs", mounted)
    assert names_below(mounted) == set(NAMES)
    # Of a part of it, too; but not of another store.
    part = leat.mount(store, "data/set/d1", Path(folder) / "part")
    leat.run("snapshot", "use", "theirs", part)
    assert names_below(part) == {name[3:] for name in NAMES if name.startswith("d1/")}
    damaged = bytearray(shared.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    shared.write_bytes(damaged)
    refused = leat.run("snapshot", "add", shared, "--name", "bad", check=False)
    assert refused.returncode == 1
    assert "cannot be used" in refused.stderr


def test_what_cannot_be_is_said(leat, mounted):
    for words, code in ((("build", "/nowhere"), 3), (("build", mounted / "top"), 1),
                        (("build", mounted, "--name", "../x"), 2), (("use", "none", mounted), 3),
                        (("diff", "none", "none"), 3), (("rm", "none"), 3),
                        (("release", "/nowhere"), 3)):
        done = leat.run("snapshot", *words, check=False)
        assert done.returncode == code, (words, done.stderr)
    assert leat.json("snapshot", "ls")["snapshots"] == []
