# SPDX-License-Identifier: Apache-2.0
"""Mounted folders of this host: read where they are, cached only where mount or disk say so."""

import errno
import os
import random
from pathlib import Path

import pytest

from e2e.content import content, size_of
from e2e.readers import Readers
from rig.leat import Leat
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
SIZES = {"a/small": 5000, "a/empty": 0, "b/packed": 300 * KIB, "b/c/large": 5 * MIB + 17}


@pytest.fixture
def tree(folder):
    root = Path(folder) / "source"
    for name, size in SIZES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(random.Random(name).randbytes(size))
    return root


@pytest.fixture
def outer(folder):
    """A second leat with a daemon of its own, for a folder that is mounted from another one."""
    program = Leat(Path(folder) / "outer")
    yield program
    program.close()


def mount(leat, source, directory, *options, freshness="max-age=1s"):
    directory = Path(directory)
    directory.mkdir(exist_ok=True)
    leat.run("mount", source, directory, "--cache-dir", leat.cache_dir,
             "--cache-size", leat.cache_size, "--freshness", freshness, *options)
    return directory


def assert_same(mounted, source):
    for name in SIZES:
        assert (mounted / name).read_bytes() == (source / name).read_bytes(), name


def cached(leat):
    """Objects in the page store."""
    stats = leat.json("status")["cache"]
    return stats["files"] + stats["packed_objects"]


def counter(leat, name):
    return leat.json("status")["counters"].get(name, 0)


def attribute(path, name):
    return os.getxattr(path, f"user.leat.{name}").decode()


def passed_through(leat):
    return counter(leat, 'leat_fuse_opens_total{mode="passthrough"}')


def test_a_local_folder_is_read_where_it_is(leat, tree, folder):
    mounted = mount(leat, tree, f"{folder}/mnt")
    assert_same(mounted, tree)
    assert cached(leat) == 0
    assert passed_through(leat) == 0, "others may write into these files"
    assert attribute(mounted / "b/packed", "cache") == "none"
    assert attribute(mounted / "b/packed", "cached_bytes") == "0"
    loaded = leat.run("load", mounted).stdout
    assert loaded.startswith("nothing to load: 4 files"), loaded
    assert leat.json("load", mounted)["files_uncached"] == 4
    assert cached(leat) == 0
    printed = leat.run("cat", mounted / "a/small", text=False).stdout
    assert printed == (tree / "a/small").read_bytes()


def test_cache_always_keeps_a_local_folder(leat, tree, folder):
    mounted = mount(leat, tree, f"{folder}/mnt", "--option", "cache=always")
    leat.run("load", mounted)
    for name, size in SIZES.items():
        assert attribute(mounted / name, "cached_bytes") == str(size)
        assert attribute(mounted / name, "cache") == "disk"
    assert_same(mounted, tree)
    assert cached(leat) == len(SIZES) - 1, "all but the empty one"


def test_two_mounts_of_one_tree_may_differ(leat, tree, folder):
    kept = mount(leat, f"file://{tree}/b?cache=always", f"{folder}/kept")
    unkept = mount(leat, tree / "b", f"{folder}/unkept")
    assert (unkept / "packed").read_bytes() == (tree / "b/packed").read_bytes()
    assert cached(leat) == 0
    assert (kept / "packed").read_bytes() == (tree / "b/packed").read_bytes()
    wait_until(lambda: cached(leat) == 1, "the mount with cache=always to keep the file")


def test_unchanged_files_are_passed_through(leat, tree, folder):
    mounted = mount(leat, tree, f"{folder}/mnt", freshness="immutable")
    assert_same(mounted, tree)
    features = leat.json("mounts")["mounts"][0]["features"]
    if features["passthrough"]:
        assert passed_through(leat) == len(SIZES)
    assert cached(leat) == 0


def test_a_file_changed_in_place_is_never_mixed(leat, tree, folder):
    """Who has it open gets the bytes of the version that was opened, or ESTALE."""
    name, size = "b/c/large", 4 * MIB
    path = tree / name
    path.write_bytes(content(name, 1, 0, size))
    mounted = mount(leat, tree, f"{folder}/mnt")
    with open(mounted / name, "rb", buffering=0) as old:
        assert os.pread(old.fileno(), 4096, 0) == content(name, 1, 0, 4096)
        inode = path.stat().st_ino
        with open(path, "r+b") as file:
            file.write(content(name, 2, 0, size))
        assert path.stat().st_ino == inode
        stale = 0
        for offset in range(0, size, 256 * KIB):
            try:
                data = os.pread(old.fileno(), 4096, offset)
            except OSError as error:
                assert error.errno == errno.ESTALE
                stale += 1
                continue
            assert data == content(name, 1, offset, len(data))
        assert stale > 0
        assert (mounted / name).read_bytes() == content(name, 2, 0, size)


def test_open_files_are_one_version_when_replaced(leat, tree, folder, seed, scale):
    files = {f"d/f{number}": size for number, size in enumerate((200, 64 * KIB, MIB, 2 * MIB))}
    versions = dict.fromkeys(files, 0)
    (tree / "d").mkdir()

    def replace(name):
        versions[name] += 1
        fresh = tree / "d" / ".fresh"
        fresh.write_bytes(content(name, versions[name], 0, size_of(files[name], versions[name])))
        fresh.rename(tree / name)

    for name in files:
        replace(name)
    mounted = mount(leat, tree, f"{folder}/mnt")
    readers = Readers(mounted, files, seed, processes=3, opens=80 * scale)
    random_source = random.Random(seed)
    try:
        while readers.running():
            replace(random_source.choice(list(files)))
    finally:
        counts = readers.finish()
    assert counts["opens"] > 0 and counts["reads"] > 0
    assert cached(leat) == 0


def test_a_network_file_system_is_cached(leat, outer, tree, folder):
    """FUSE counts as one: a folder that another leat shows."""
    inner = mount(leat, tree, f"{folder}/inner")
    mounted = mount(outer, inner, f"{folder}/mnt")
    assert_same(mounted, tree)
    assert attribute(mounted / "b/packed", "cache") == "disk"
    wait_until(lambda: cached(outer) == len(SIZES) - 1, "what was read to be kept")
    never = mount(outer, inner, f"{folder}/never", "--option", "cache=never")
    assert attribute(never / "b/packed", "cache") == "memory"
    outer.stop()  # before what it reads


def test_cache_never_keeps_nothing_of_a_bucket(leat, store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100_000)
    mounted = leat.mount(store, bucket, f"{folder}/mnt", "--option", "cache=never")
    assert (mounted / "k").read_bytes() == b"x" * 100_000
    assert attribute(mounted / "k", "cache") == "memory"
    assert cached(leat) == 0
    wrong = leat.mount(store, bucket, f"{folder}/wrong", "--option", "cache=maybe", check=False)
    assert "must be 'auto', 'always' or 'never'" in wrong.stderr
