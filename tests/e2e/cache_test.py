# SPDX-License-Identifier: Apache-2.0
"""What an operator does with the cache of a running daemon, and with several cache directories."""

from pathlib import Path

import pytest

from e2e.content import content
from e2e.objects import put_all
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
SIZES = {f"small{i}": 7000 + 131 * i for i in range(40)} | {
    f"large{i}": 2 * MIB + 4097 * i for i in range(8)}


@pytest.fixture
def second(leat):
    """A second cache directory."""
    return Path(leat.folder) / "cache2"


@pytest.fixture
def mounted(leat, second, store, s3, bucket, folder):
    put_all(s3, bucket, {f"set/{name}": content(name, 1, 0, size) for name, size in SIZES.items()})
    return leat.mount(store, "data/set", Path(folder) / "mnt", "--cache-dir", second)


def read_all(mount):
    for name, size in SIZES.items():
        assert (mount / name).read_bytes() == content(name, 1, 0, size), name


def cached(leat, *options):
    return {one["key"]: one for one in leat.json("cache", "ls", *options)["objects"]}


def bytes_of_stores(leat):
    counters = leat.json("status")["counters"]
    return sum(value for name, value in counters.items() if name.startswith("leat_source_bytes_total"))


def read_and_kept(leat, mount):
    """What is small is in its file, and so in the listing, about a second after it came."""
    read_all(mount)
    wait_until(lambda: all(one["complete"] for one in cached(leat).values())
               and len(cached(leat)) == len(SIZES), "everything to be on disk")


def test_two_directories_share_what_is_cached(leat, second, mounted):
    read_and_kept(leat, mounted)
    objects = cached(leat)
    assert objects.keys() == {f"set/{name}" for name in SIZES}
    for name, size in SIZES.items():
        one = objects[f"set/{name}"]
        assert one["size"] == one["cached_bytes"] == size
        assert one["mount"] == str(mounted)
        assert one["packed"] == name.startswith("small")
    assert {one["directory"] for one in objects.values()} == {str(leat.cache_dir), str(second)}
    shown = leat.json("status")["cache"]
    assert [one["path"] for one in shown["directories"]] == [str(leat.cache_dir), str(second)]
    assert all(one["state"] == "normal" for one in shown["directories"])
    assert shown["capacity_bytes"] == 2 * 1024 * MIB
    assert f"{second}, " in leat.run("status").stdout
    # After a restart each directory has what it had.
    leat.umount(mounted)
    wait_until(lambda: not leat.daemon_pids(), "the daemon to end")
    assert cached(leat, "--cache-dir", second).keys() == {
        key for key, one in objects.items() if one["directory"] == str(second)}


def test_damage_is_found_told_and_healed(leat, mounted):
    read_and_kept(leat, mounted)
    assert "verified 48 objects" in leat.run("cache", "verify").stdout
    one = next(one for one in cached(leat).values() if not one["packed"])
    damaged = next((Path(one["directory"]) / "files").glob("*/*.data"))
    with open(damaged, "r+b") as file:
        file.seek(100_000)
        byte = file.read(1)
        file.seek(100_000)
        file.write(bytes([byte[0] ^ 1]))
    found = leat.run("cache", "verify", check=False)
    assert found.returncode == 1
    assert "found damage" in found.stderr, found.stderr
    assert len(cached(leat)) == len(SIZES) - 1
    assert leat.run("cache", "verify").returncode == 0
    read_all(mounted)
    assert "verify" in leat.run("jobs").stdout


def test_evicts_what_it_is_told_to(leat, mounted):
    read_and_kept(leat, mounted)
    used = leat.json("status")["cache"]["used_bytes"]
    gone = leat.json("cache", "evict", "--size", "4MiB", "--mount", mounted)["bytes"]
    assert 4 * MIB <= gone <= 10 * MIB
    assert leat.json("status")["cache"]["used_bytes"] <= used - gone + MIB
    nothing = leat.run("cache", "evict", "--all", "--mount", "/nowhere", check=False)
    assert nothing.returncode == 3
    leat.run("cache", "evict", "--all")
    assert cached(leat) == {}
    read_all(mounted)


def test_a_moved_cache_stays_warm(leat, second, mounted, store, folder):
    read_and_kept(leat, mounted)
    busy = leat.run("cache", "move", second, Path(folder) / "elsewhere", check=False)
    assert busy.returncode == 1
    assert "in use by process" in busy.stderr
    leat.umount(mounted)
    wait_until(lambda: not leat.daemon_pids(), "the daemon to end")
    leat.run("cache", "move", second, Path(folder) / "elsewhere")
    assert not second.exists()
    leat.mount(store, "data/set", mounted, "--cache-dir", Path(folder) / "elsewhere")
    assert len(cached(leat)) == len(SIZES)
    before = bytes_of_stores(leat)
    read_all(mounted)
    assert bytes_of_stores(leat) == before
