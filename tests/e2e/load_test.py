# SPDX-License-Identifier: Apache-2.0
"""`leat load`, `free` and `pin`: which files, how fast, read back, and on after the daemon's death."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from rig.process import wait_until

MIB = 1024 * 1024


@pytest.fixture
def objects(s3, bucket):
    files = {f"part-{p}/{n}.{kind}": os.urandom(50_000)
             for p in range(3) for n in range(4) for kind in ("jpg", "txt")}
    files["big"] = os.urandom(12 * MIB)
    for key, body in files.items():
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    return files


@pytest.fixture
def mounted(leat, store, bucket, objects, folder):
    return leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")


def cached(leat, mounted, objects):
    return {key for key in objects
            if leat.json("stat", mounted / key)["cached_bytes"] == len(objects[key])}


def test_patterns_choose(leat, mounted, objects):
    told = leat.json("load", mounted, "--include", "part-[01]/**", "--exclude", "*.txt")
    wanted = {key for key in objects if key[:6] in ("part-0", "part-1") and key.endswith("jpg")}
    assert told["files_done"] == len(wanted)
    assert cached(leat, mounted, objects) == wanted
    leat.json("free", mounted, "--regex", "^part-1/")
    assert cached(leat, mounted, objects) == {key for key in wanted if key[:6] == "part-0"}


def test_files_from_lists_only_its_folders(leat, store, mounted, objects, folder):
    names = Path(folder) / "names"
    names.write_text("part-1/2.jpg\npart-2\n")
    before = len(store.requests())
    told = leat.json("load", mounted, "--files-from", names)
    assert told["files_done"] == 9
    listed = [request for request in store.requests()[before:] if request[0].startswith("List")]
    assert len(listed) <= 3
    # Names below a folder that is no mount, too; and NULs as `find -print0` writes them.
    names.write_bytes(b"0.jpg\0")
    assert leat.json("load", mounted / "part-0", "--files-from", names)["files_done"] == 1
    names.write_bytes(b"")
    assert leat.run("load", mounted, "--files-from", names, check=False).returncode == 2


def test_a_list_of_very_many_names(leat, mounted, folder):
    names = Path(folder) / "names"
    names.write_text("".join(f"nowhere/{n:07}\n" for n in range(100_000)) + "part-0/0.jpg\n")
    assert leat.json("load", mounted, "--files-from", names)["files_done"] == 1


def test_everything_is_read_back(leat, mounted, objects):
    told = leat.json("load", mounted, "--verify")
    assert told["bytes_verified"] == told["bytes_done"] == sum(map(len, objects.values()))
    assert "read back" in leat.run("load", mounted, "--verify").stdout


def test_keys_that_cannot_be_names_are_no_failure(leat, mounted, s3, bucket, objects):
    s3.put_object(Bucket=bucket, Key="sub/odd ", Body=b"x")
    s3.put_object(Bucket=bucket, Key="sub/even", Body=b"x")
    leat.run("refresh", mounted)
    done = leat.run("load", mounted)
    assert "; skipped 1 key that cannot be names of files" in done.stdout, done.stdout
    assert re.search(rf"skipped 1 key in {mounted}/sub, for example 'sub/+.*'", done.stderr)
    told = leat.json("load", mounted)
    assert (told["state"], told["names_skipped"], told["files_failed"]) == ("done", 1, 0)
    assert [one["directory"] for one in told["skipped"]] == [str(mounted / "sub")]
    strict = leat.run("load", "--strict", mounted, "--json", check=False)
    assert strict.returncode == 1
    told = json.loads(strict.stdout)
    assert told["error"]["code"] == "unsupported" and told["names_skipped"] == 1
    assert leat.run("load", "--strict", mounted / "part-0").returncode == 0
    assert leat.run("load", "--strict", "--background", mounted, check=False).returncode == 2


def test_broken_links_are_no_failure(leat, folder):
    source = Path(folder) / "source"
    source.mkdir()
    (source / "file").write_bytes(b"x" * 1000)
    (source / "broken").symlink_to("nowhere")
    mounted = Path(folder) / "local"
    mounted.mkdir()
    leat.run("mount", source, mounted, "--option", "cache=always", "--cache-dir", leat.cache_dir)
    told = leat.json("load", mounted)
    assert (told["state"], told["files_done"]) == ("done", 1)
    assert told["skipped"] == [{"directory": str(mounted), "names": 1, "example": "broken"}]


def test_bandwidth_is_kept(leat, mounted):
    begun = time.monotonic()
    told = leat.json("load", mounted, "--include", "big", "--bandwidth", "8MiB", "--requests", "1")
    # 12 MiB in pieces of 8 MiB, the second of which waits for the first one's second.
    assert told["bytes_fetched"] == 12 * MIB
    assert time.monotonic() - begun > 0.9


def test_a_wrong_pattern_is_said(leat, mounted):
    done = leat.run("load", mounted, "--include", "a[b", check=False)
    assert done.returncode == 2
    assert "the '[' is not closed" in done.stderr


def test_a_load_goes_on_under_its_number(leat, mounted, objects):
    """After a crash, and after an upgrade; what waits for it does not notice."""
    # A minute's work.
    slow = ("--include", "part-*/**", "--bandwidth", "20KB", "--requests", "1", "--background")
    first = leat.json("load", mounted, *slow)["id"]
    wait_until(lambda: leat.json("jobs", "show", first)["files_done"] >= 2, "some files")
    leat.kill_daemon()
    again = leat.json("jobs", "show", first)
    assert again["state"] == "running" and again["path"] == str(mounted)
    leat.run("upgrade")
    assert leat.json("jobs", "show", first)["state"] == "running"
    # A new one has a number of its own, and one that ended is not begun again.
    second = leat.json("free", mounted / "part-2")
    assert second["id"] > first
    leat.run("jobs", "cancel", first)
    wait_until(lambda: leat.json("jobs", "show", first)["state"] == "cancelled", "its end")
    leat.kill_daemon()
    assert leat.json("jobs")["jobs"] == []


def test_jobs_are_shown_and_waited_for(leat, mounted):
    number = leat.json("load", mounted, "--background")["id"]
    assert leat.json("jobs", "wait", number)["state"] == "done"
    assert f"job {number}: load of {mounted}, done" in leat.run("jobs", "show", number).stdout
    assert leat.run("jobs", "wait", 99, check=False).returncode == 3


def test_pin(leat, mounted, objects):
    leat.run("pin", "--load", mounted / "part-1")
    told = leat.json("pin")["pinned"]
    assert [one["path"] for one in told] == [str(mounted / "part-1")]
    assert told[0]["cached_bytes"] >= 8 * 50_000
    assert cached(leat, mounted, objects) == {key for key in objects if key[:6] == "part-1"}
    leat.run("unpin", mounted / "part-1")
    assert leat.json("pin")["pinned"] == []


def test_mounts_add_update_and_rm(leat, store, bucket, objects, folder):
    folder = Path(folder) / "other"
    folder.mkdir()
    leat.run("mounts", "add", f"s3://{bucket}", folder, "--option", f"endpoint={store.endpoint}",
             "--option", "region=us-east-1", "--cache-dir", leat.cache_dir,
             credentials=store.credentials)
    assert (folder / "part-0/0.jpg").read_bytes() == objects["part-0/0.jpg"]
    leat.run("mounts", "update", folder, "freshness=immutable")
    assert leat.json("mounts", "ls")["mounts"][0]["freshness"] == "immutable"
    leat.run("mounts", "rm", folder)
    assert not os.path.ismount(folder)
