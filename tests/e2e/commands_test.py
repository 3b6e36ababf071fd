# SPDX-License-Identifier: Apache-2.0
"""The command line shows the same tree as the folder, and prepares and frees the cache."""

import json
import os
import re
import subprocess

import pytest

from rig.leat import leat_program
from rig.process import wait_until

MIB = 1024 * 1024


@pytest.fixture
def objects(s3, bucket):
    for key, size in {"a/one": 100, "a/two": 3 * MIB, "b/three": 70000, "empty": 0}.items():
        s3.put_object(Bucket=bucket, Key=key, Body=os.urandom(size))
    return bucket


@pytest.fixture
def mount(leat, store, objects, folder):
    return leat.mount(store, objects, os.path.join(folder, "mnt"), freshness="immutable")


def gets(store):
    return sum(1 for operation, *_ in store.requests() if operation == "GetObject")


def test_ls(leat, mount):
    names = [entry["name"] for entry in leat.json("ls", mount)["entries"]]
    assert sorted(name.rstrip("/") for name in names) == ["a", "b", "empty"]
    assert "one" in leat.run("ls", mount / "a").stdout


def test_stat(leat, mount, objects):
    told = leat.json("stat", mount / "a/two")
    assert told["size"] == 3 * MIB
    assert told["kind"] == "file"
    assert told["version"].startswith('etag:"')
    assert told["source"] == f"s3://{objects}/a/two"
    assert told["cached_bytes"] == 0
    assert told["mount"] == told["fuse_mount"] == str(mount)
    assert told["served_by"] == "daemon"
    assert "cached   0 % (0 B)" in leat.run("stat", mount / "a/two").stdout
    assert f"fuse     {mount} (the daemon answers)" in leat.run("stat", mount / "a/two").stdout
    with open(mount / "a/two", "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        file.read(4096)
    # Readers have the bytes before the disk does.
    share = re.compile(r"cached   [1-9]\d? % \(\d+\.0 \w+\)")
    wait_until(lambda: share.search(leat.run("stat", mount / "a/two").stdout), "a share of it")


def test_stat_of_what_the_kernel_reads_by_itself(leat, mount):
    if not leat.json("mounts")["mounts"][0]["features"]["passthrough"]:
        pytest.skip("this kernel has no passthrough")
    leat.run("load", mount / "a")
    wait_until(lambda: leat.json("stat", mount / "a/two")["served_by"] == "kernel", "passthrough")
    text = leat.run("stat", mount / "a/two").stdout
    assert "cached   100 % (3.0 MiB)" in text
    assert f"fuse     {mount} (the kernel reads it by itself: passthrough)" in text
    # A small file lies in a segment with others.
    assert leat.json("stat", mount / "a/one")["served_by"] == "daemon"
    assert "served_by" not in leat.json("stat", mount / "a")


def test_stat_of_a_store_has_no_door(leat, store, objects):
    source = f"s3://{objects}/a/two?endpoint={store.endpoint}&region=us-east-1"
    told = json.loads(leat.run("stat", "--json", source, credentials=store.credentials).stdout)
    assert told["fuse_mount"] == told["mount"] == "" and "served_by" not in told
    assert "fuse" not in leat.run("stat", source, credentials=store.credentials).stdout


def test_cat(leat, mount):
    done = leat.run("cat", mount / "b/three", text=False)
    assert done.stdout == (mount / "b/three").read_bytes()


def test_cp(leat, mount, folder):
    leat.run("cp", mount / "a/two", os.path.join(folder, "copy"))
    with open(os.path.join(folder, "copy"), "rb") as file:
        assert file.read() == (mount / "a/two").read_bytes()


def test_load_then_no_store_is_needed(leat, store, mount):
    leat.run("load", mount / "a")
    before = gets(store)
    store.stop()
    assert len((mount / "a/two").read_bytes()) == 3 * MIB
    assert len((mount / "a/one").read_bytes()) == 100
    store.start()
    assert gets(store) == before


def test_free_then_the_store_is_asked_again(leat, store, mount):
    first = (mount / "a/two").read_bytes()
    leat.run("free", mount / "a")
    before = gets(store)
    assert leat.run("cat", mount / "a/two", text=False).stdout == first
    assert gets(store) > before


def test_mounts_and_status(leat, store, objects, mount):
    told = leat.json("mounts")["mounts"]
    assert [entry["path"] for entry in told] == [str(mount)]
    assert told[0]["source"] == f"s3://{objects}/"
    assert objects in leat.run("mounts").stdout
    status = leat.json("status")
    assert status["pid"] in leat.daemon_pids()


def test_extended_attributes(mount):
    (mount / "a/two").read_bytes()
    names = os.listxattr(mount / "a/two")
    assert any(name.startswith("user.leat.") for name in names)
    with pytest.raises(OSError):
        os.getxattr(mount / "a/two", "user.leat.no_such_attribute")


def test_help_has_examples(leat):
    assert "mount" in leat.run("--help").stdout
    for command in ("mount", "umount", "mounts", "ls", "stat", "cat", "cp", "load", "free", "status",
                    "jobs", "bench"):
        told = leat.run(command, "--help").stdout
        assert "xample" in told, f"leat {command} --help shows no example"


def test_commands_without_a_daemon_say_so(leat, folder):
    done = leat.run("ls", os.path.join(folder, "nowhere"), check=False)
    assert done.returncode != 0
    assert "leat mount" in done.stderr, done.stderr


def test_errors_name_object_and_reason(leat, mount):
    done = leat.run("cat", mount / "nothing", check=False)
    assert done.returncode != 0
    assert "nothing" in done.stderr and "Traceback" not in done.stderr


def test_a_failed_load_is_one_json_document(leat, mount):
    done = leat.run("load", mount / "nothing", "--json", check=False)
    assert done.returncode == 3
    told = json.loads(done.stdout)
    assert told["state"] == "failed" and told["error"]["code"] == "not_found"
    assert done.stderr.count(str(mount / "nothing")) <= 2, done.stderr


def test_cancelling_a_job_that_has_ended_says_so(leat, mount):
    leat.run("load", mount / "a")
    assert "had ended already: done" in leat.run("jobs", "cancel", "1").stdout


def test_a_path_outside_all_mounts_is_reported(leat, mount, folder):
    for command in ("ls", "stat", "load"):
        done = leat.run(command, os.path.join(folder, "store"), check=False)
        assert done.returncode == 3
        assert "in no mount" in done.stderr, done.stderr


def test_reading_is_the_same_by_path_and_by_url(leat, store, objects, mount):
    url = f"s3://{objects}?endpoint={store.endpoint}&region=us-east-1".replace("?", "{}?")
    for place, code in (("/a", "is_directory"), ("/nothing", "not_found")):
        for name in (f"{mount}{place}", url.format(place)):
            done = leat.run("cat", name, "--json", check=False, credentials=store.credentials)
            assert json.loads(done.stdout)["error"]["code"] == code, done.stderr
    for name in (f"{mount}/a/one", url.format("/a/one")):
        done = leat.run("cat", "--offset", "101", name, "--json", check=False,
                        credentials=store.credentials)
        assert json.loads(done.stdout)["error"]["code"] == "out_of_range"


def test_unwritable_output_is_an_error(leat):
    with open("/dev/full", "w") as full:
        done = subprocess.run([leat_program(), "--help"], stdout=full, stderr=subprocess.PIPE,
                              env=leat.environment(), check=False)
    assert done.returncode == 1 and b"standard output" in done.stderr


def test_du(leat, store, mount, objects):
    told = leat.json("du", mount)
    assert (told["files"], told["directories"]) == (4, 2)
    assert told["bytes"] == 3 * MIB + 70100 and told["cached_bytes"] == 0
    assert {entry["path"]: entry["bytes"] for entry in told["entries"]} == {
        str(mount / "a"): 3 * MIB + 100, str(mount / "b"): 70000}
    leat.run("load", mount / "b")
    lines = leat.run("du", mount).stdout.splitlines()
    assert re.fullmatch(rf" *68\.4 KiB +1 file +100% +{mount}/b", lines[1]), lines
    assert re.fullmatch(rf" *3\.1 MiB +4 files +2% +{mount}", lines[-1]), lines
    assert leat.json("du", "-d", "0", mount)["entries"] == []
    url = f"s3://{objects}/a?endpoint={store.endpoint}&region=us-east-1"
    told = leat.json("du", url, credentials=store.credentials)
    assert told["bytes"] == 3 * MIB + 100 and "cached_bytes" not in told


def said_of(leat, *words):
    done = leat.run(*words, check=False)
    assert done.returncode != 0, done.stdout
    return done.returncode, done.stderr


def test_what_is_in_no_mount_is_said_so(leat, mount, objects, folder):
    for words in (("load", "/etc"), ("free", "/etc"), ("refresh", "/etc"), ("pin", "/etc"),
                  ("ls", "/etc"), ("stat", "/etc"), ("mounts", "set", "/etc", "ttl=1h"),
                  ("snapshot", "build", "/etc")):
        code, said = said_of(leat, *words)
        assert code == 3 and "/etc is a local path in no mount" in said, (words, said)
        assert "does not exist" not in said, said
    missing = os.path.join(folder, "nofile")
    for words in (("load", missing), ("stat", missing), ("pin", missing)):
        code, said = said_of(leat, *words)
        assert code == 3 and f"{missing} does not exist: it is in no mount, and there is no such local" \
            in said, (words, said)


def test_a_mounted_store_is_named_by_its_mount(leat, store, mount, objects, folder):
    code, said = said_of(leat, "load", f"s3://{objects}/a")
    assert code == 2 and f"use 'leat load {mount}/a'" in said, said
    code, said = said_of(leat, "umount", f"s3://{objects}")
    assert code == 2 and f"use 'leat umount {mount}'" in said, said
    source, local = os.path.join(folder, "source"), os.path.join(folder, "local")
    os.makedirs(os.path.join(source, "d"))
    os.mkdir(local)
    leat.run("mount", source, local)
    code, said = said_of(leat, "load", os.path.join(source, "d"))
    assert code == 3 and f"is the source of one: use {local}/d" in said, said
    leat.umount(local)


def test_a_name_that_does_not_exist_is_not_pinned(leat, mount):
    code, said = said_of(leat, "pin", mount / "a/thre")
    assert code == 3 and f"cannot pin {mount}/a/thre" in said and "is still to come" in said
    assert leat.json("pin")["pinned"] == []
    leat.run("pin", mount / "a/two")
    leat.run("unpin", mount / "a/two")


def test_a_rejected_copy_names_the_key(leat, mount, objects, folder):
    local = os.path.join(folder, "file")
    with open(local, "w") as file:
        file.write("x")
    code, said = said_of(leat, "cp", local, mount / "a/new")
    assert code == 1 and f"s3://{objects}/a/new" in said and f"'leat refresh {mount}'" in said
