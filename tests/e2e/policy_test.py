# SPDX-License-Identifier: Apache-2.0
"""Mounts that change while they are used: options, options of paths, moves, refresh."""

import os
import subprocess
from pathlib import Path

import pytest

from e2e.objects import put_all
from rig.process import wait_until


@pytest.fixture
def mounted(leat, store, s3, bucket, folder):
    put_all(s3, bucket, {f"set/d{i % 3}/f{i}": b"x" * (1000 + i) for i in range(30)})
    return leat.mount(store, "data/set", Path(folder) / "mnt", freshness="immutable")


def test_owner_mode_and_age_change_while_open(leat, mounted):
    name = mounted / "d0" / "f0"
    held = os.open(name, os.O_RDONLY)
    listed = os.listdir(mounted / "d0")
    assert name.stat().st_uid == os.geteuid()
    assert os.fstat(held).st_mode & 0o777 == 0o644
    view = leat.json("mounts", "set", mounted, "uid=1234", "umask=077", "freshness=max-age=1s")
    assert (view["uid"], view["umask"], view["freshness"]) == (1234, "077", "max-age=1s")
    assert os.fstat(held).st_uid == 1234
    assert os.fstat(held).st_mode & 0o777 == 0o600
    for path in (name, mounted / "d0", mounted):
        assert path.stat().st_uid == 1234, path
    assert os.pread(held, 10, 0) == b"x" * 10
    assert os.listdir(mounted / "d0") == listed
    assert leat.json("mounts", "unset", mounted, "uid", "umask")["uid"] == os.geteuid()
    assert os.fstat(held).st_uid == os.geteuid()
    os.close(held)


def test_a_shorter_max_age_holds_for_open_files(leat, mounted, s3, bucket):
    name = mounted / "d1" / "f1"
    assert name.read_bytes() == b"x" * 1001
    s3.put_object(Bucket=bucket, Key="set/d1/f1", Body=b"other")
    assert name.read_bytes() == b"x" * 1001, "immutable"
    leat.run("mounts", "set", mounted, "freshness=max-age=0s")
    assert name.read_bytes() == b"other"


def test_a_refreshed_name_is_in_kernel_listings(leat, mounted, s3, bucket):
    folder = mounted / "d2"
    before = sorted(os.listdir(folder))
    assert sorted(os.listdir(folder)) == before  # the second time from the kernel
    s3.put_object(Bucket=bucket, Key="set/d2/added", Body=b"1")
    assert sorted(os.listdir(folder)) == before
    done = leat.json("refresh", folder)
    assert done["changes"] == [{"kind": "added", "path": f"{folder}/added"}]
    wait_until(lambda: sorted(os.listdir(folder)) == sorted([*before, "added"]),
               "the listing to have the new name")
    s3.delete_object(Bucket=bucket, Key="set/d2/added")
    assert leat.run("refresh", mounted).stdout.splitlines()[0] == f"- {folder}/added"
    wait_until(lambda: sorted(os.listdir(folder)) == before, "the listing to lose the name")


def test_a_nested_mount_is_in_the_kernels_listing(leat, mounted, store, s3):
    s3.create_bucket(Bucket="inner")
    s3.put_object(Bucket="inner", Key="x", Body=b"inner")
    for _ in range(2):
        assert "f0" in os.listdir(mounted / "d0")
    leat.run("mount", "s3://inner", mounted / "d0" / "nested", "--option",
             f"endpoint={store.endpoint}", "--option", "region=us-east-1",
             credentials=store.credentials)
    wait_until(lambda: "nested" in os.listdir(mounted / "d0"), "the mount to show")
    leat.run("mounts", "move", mounted / "d0" / "nested", mounted / "d1" / "moved")
    wait_until(lambda: "moved" in os.listdir(mounted / "d1"), "the mount to show where it is now")
    wait_until(lambda: "nested" not in os.listdir(mounted / "d0"), "and not where it was")
    assert (mounted / "d1" / "moved" / "x").read_bytes() == b"inner"


def test_a_path_has_options_of_its_own(leat, mounted, s3, bucket, folder, store):
    fresh = mounted / "d0" / "f3"
    leat.run("mounts", "set", fresh, "freshness=validate")
    leat.run("mounts", "set", mounted / "d1", "pin=true", "cache=always")
    view = leat.json("mounts")["mounts"][0]
    assert view["paths"] == [{"path": "d0/f3", "options": {"freshness": "validate"}},
                             {"path": "d1", "options": {"cache": "always", "pin": "true"}}]
    assert fresh.read_bytes() == b"x" * 1003
    s3.put_object(Bucket=bucket, Key="set/d0/f3", Body=b"other")
    wait_until(lambda: fresh.read_bytes() == b"other", "the change to be seen at an open")
    assert (mounted / "d1" / "f4").read_bytes() == b"x" * 1004

    def pools():
        return {pool["mount"]: pool for pool in leat.json("status")["cache"]["pools"]}
    assert pools()[f"{mounted}/d1"]["pinned"] and not pools()[str(mounted)]["pinned"]
    wait_until(lambda: pools()[f"{mounted}/d1"]["used_bytes"] > 0, "its bytes to be on the disk")
    leat.run("mounts", "unset", mounted / "d1", "pin", "cache")
    assert not pools().get(f"{mounted}/d1", {"pinned": False})["pinned"]
    other = leat.mount(store, "data/set", Path(folder) / "other", "--path-option",
                       "d0/f3:freshness=validate", "--option", "quota=64MiB")
    view = [one for one in leat.json("mounts")["mounts"] if one["path"] == str(other)][0]
    assert view["paths"] == [{"path": "d0/f3", "options": {"freshness": "validate"}}]
    assert view["options"]["quota"] == "64MiB"


def test_a_mount_moves_with_what_it_is(leat, mounted, folder):
    target = Path(folder) / "target"
    leat.run("mounts", "set", mounted, "quota=64MiB", "umask=027")
    missing = leat.run("mounts", "move", mounted, target, check=False)
    assert missing.returncode != 0 and mounted.joinpath("d0", "f0").read_bytes()
    target.mkdir()
    with open(mounted / "d0" / "f0", "rb") as held:
        busy = leat.run("mounts", "move", mounted, target, check=False)
        assert busy.returncode != 0 and "is in use" in busy.stderr
        assert held.read(5) == b"xxxxx"
    assert not os.listdir(target)
    leat.run("mounts", "move", mounted, target)
    assert not os.listdir(mounted)
    assert (target / "d0" / "f0").read_bytes() == b"x" * 1000
    assert (target / "d0" / "f0").stat().st_mode & 0o777 == 0o640
    view = leat.json("mounts")["mounts"][0]
    assert (view["path"], view["options"]["quota"]) == (str(target), "64MiB")
    leat.umount(target)


def test_a_mount_cannot_move_over_its_source(leat, folder):
    source, mount = Path(folder) / "source", Path(folder) / "mnt"
    (source / "sub").mkdir(parents=True)
    (source / "f").write_bytes(b"1")
    mount.mkdir()
    leat.run("mount", source, mount, "--cache-dir", leat.cache_dir)
    for target in (source, source / "sub"):
        refused = leat.run("mounts", "move", mount, target, check=False)
        assert refused.returncode != 0 and str(source) in refused.stderr
    assert (mount / "f").read_bytes() == b"1"


def test_an_invalid_option_changes_nothing(leat, mounted, folder):
    before = leat.json("mounts")
    for words, said in ((("endpoint=http://x",), "there is no option 'endpoint'"),
                        (("freshness=snapshot",), "leat snapshot use"),
                        (("isolated=true",), "mount it again"),
                        (("quota=2GiB", "ttl=x"), "ttl"),
                        (("quota",), "not of the form name=value")):
        done = leat.run("mounts", "set", mounted, *words, check=False)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)
    done = leat.run("mounts", "set", mounted / "d0", "uid=5", check=False)
    assert done.returncode == 2 and "whole mounts" in done.stderr
    assert leat.run("mounts", "set", folder, "ttl=1h", check=False).returncode == 3
    assert leat.json("mounts") == before


def test_an_isolated_mount_shares_no_bytes(leat, mounted, store, folder):
    alone = leat.mount(store, "data/set", Path(folder) / "alone", "--option", "isolated=true")
    assert (mounted / "d0" / "f6").read_bytes() == (alone / "d0" / "f6").read_bytes()
    wait_until(lambda: len({one["store"] for one in leat.json("cache", "ls")["objects"]}) == 2,
               "the bytes to be cached for each of them")
    (Path(folder) / "other").mkdir()
    refused = leat.run("mounts", "move", alone, Path(folder) / "other", check=False)
    assert refused.returncode != 0 and "isolated" in refused.stderr


def test_a_mount_may_begin_with_a_snapshot(leat, mounted, store, s3, bucket, folder):
    leat.run("snapshot", "build", mounted, "--name", "first")
    s3.put_object(Bucket=bucket, Key="set/later", Body=b"1")
    leat.mount(store, "data/set", Path(folder) / "frozen", "--snapshot", "first")
    assert "later" not in os.listdir(Path(folder) / "frozen")
    missing = leat.mount(store, "data/set", Path(folder) / "none", "--snapshot", "none", check=False)
    assert missing.returncode == 3 and "leat snapshot ls" in missing.stderr


def test_many_held_names_are_all_told(leat, store, s3, bucket, folder):
    """More than the queue to the kernel holds would take minutes to make here; this is many."""
    put_all(s3, bucket, {f"many/{i % 10}/{i:05}": b"" for i in range(2000)})
    mount = leat.mount(store, "data/many", Path(folder) / "many", freshness="immutable")
    names = [Path(at, name) for at, _, found in os.walk(mount) for name in found]
    assert len(names) == 2000
    assert all(name.stat().st_uid == os.geteuid() for name in names)
    leat.run("mounts", "set", mount, "uid=4321")
    assert all(name.stat().st_uid == 4321 for name in names)


def test_what_others_mounted_over_a_folder_stays(leat, mounted):
    over = mounted / "d0"
    subprocess.run(["mount", "-t", "tmpfs", "none", over], check=True)
    try:
        (over / "mine").touch()
        leat.run("mounts", "set", mounted, "uid=77")
        assert (mounted / "d1").stat().st_uid == 77
        assert os.path.ismount(over) and os.listdir(over) == ["mine"]
    finally:
        subprocess.run(["umount", over], check=True)
    assert over.stat().st_uid == 77
