# SPDX-License-Identifier: Apache-2.0
"""`.leat` in the root of a mount: what a shell with nothing but the folder can find out."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from rig.process import wait_until
from rig.store import ACCESS_KEY, SECRET_KEY

MIB = 1024 * 1024
FILES = {"README", "errors", "metrics", "status"}


@pytest.fixture
def objects(s3, bucket):
    for number in range(3):
        s3.put_object(Bucket=bucket, Key=f"d/{number}", Body=bytes([number]) * 2 * MIB)
    return bucket


@pytest.fixture
def mount(leat, store, objects, folder):
    return leat.mount(store, objects, os.path.join(folder, "mnt"))


def status_of(mount):
    return json.loads((mount / ".leat/status").read_text())


def errors_of(mount):
    return [json.loads(line) for line in (mount / ".leat/errors").read_text().splitlines()]


def output_of(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def test_who_walks_does_not_see_it(mount, folder):
    assert os.listdir(mount) == ["d"]
    assert (mount / ".leat").is_dir()
    assert set(os.listdir(mount / ".leat")) == FILES
    assert output_of("ls", "-A", mount).split() == ["d"]
    assert ".leat" not in output_of("find", mount)
    assert ".leat" not in output_of("du", "-a", mount)
    copy = os.path.join(folder, "copy")
    output_of("cp", "-r", mount, copy)
    assert os.listdir(copy) == ["d"]
    if shutil.which("rsync"):
        output_of("rsync", "-a", f"{mount}/", os.path.join(folder, "synced"))
        assert os.listdir(os.path.join(folder, "synced")) == ["d"]
    assert not os.path.exists(mount / "d/.leat")


def test_it_tells_of_its_mount(leat, store, mount, objects, folder):
    other = leat.mount(store, objects, os.path.join(folder, "other"))
    (mount / "d/0").read_bytes()
    wait_until(lambda: status_of(mount)["cache"]["mount_bytes"] >= 2 * MIB, "the cache to have it")
    status = status_of(mount)
    assert status["version"] == leat.json("version")["version"]
    assert status["mount"] == next(one for one in leat.json("mounts")["mounts"]
                                   if one["path"] == str(mount))
    assert status["mount"]["source"] == f"s3://{objects}/"
    assert status["mount"]["inspection"] is True
    assert str(other) not in json.dumps(status), "of others it tells nothing"
    assert sum(status["reads"].values()) > 0
    assert status["errors"] == 0
    metrics = (mount / ".leat/metrics").read_text()
    assert re.search(r"^leat_vfs_opens_total [1-9]", metrics, re.MULTILINE)
    assert "--no-inspection" in (mount / ".leat/README").read_text()
    for name in FILES - {"errors"}:
        content = output_of("cat", mount / ".leat" / name)
        assert content.encode()[:10] == (mount / ".leat" / name).read_bytes()[:10]
        assert SECRET_KEY not in content and ACCESS_KEY not in content
    assert output_of("head", "-c", "1", mount / ".leat/status") == "{"
    shutil.copy(mount / ".leat/status", os.path.join(folder, "kept"))
    assert json.loads(Path(folder, "kept").read_text())["version"] == status["version"]
    listed = output_of("ls", "-la", mount / ".leat")
    assert all(re.search(rf"-rw-r--r--.* {name}$", listed, re.MULTILINE) for name in FILES), listed


def test_it_takes_no_change(mount):
    for change in (lambda: (mount / ".leat/status").write_text("x"),
                   lambda: os.unlink(mount / ".leat/status"),
                   lambda: os.mkdir(mount / ".leat/x"),
                   lambda: os.rmdir(mount / ".leat")):
        with pytest.raises(OSError) as refused:
            change()
        assert refused.value.errno == errno.EROFS


def test_why_a_path_failed_is_readable_there(leat, store, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), "--option", "io_timeout=1s",
                       freshness="max-age=0s")
    assert (mount / "d/0").read_bytes() == b"\0" * 2 * MIB
    with open(mount / "d/1", "rb", buffering=0) as file:
        store.stop()
        with pytest.raises(OSError):
            file.read(10)
        reason = os.getxattr(file.fileno(), "user.leat.last_error").decode()
    assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ .*d/1", reason), reason
    with pytest.raises(OSError) as failed:
        os.stat(mount / "d/2")
    assert failed.value.errno == errno.EIO
    errors = errors_of(mount)
    by_path = {error["path"]: error for error in errors}
    assert "d/1" in by_path, errors
    # Whichever name of the path was asked for first.
    looked_up = by_path.get("d") or by_path["d/2"]
    assert looked_up["code"] == "unavailable"
    program = Path("/proc/self/comm").read_text().strip()
    assert {(error["pid"], error["program"]) for error in errors} == {(os.getpid(), program)}
    for error in (by_path["d/1"], looked_up):
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", error["time"])
        assert re.search("refused|connect|unreachable", error["reason"], re.IGNORECASE), error
        assert SECRET_KEY not in error["reason"] and "Signature" not in error["reason"]
    assert [error["time"] for error in errors] == sorted(error["time"] for error in errors)
    assert b"connect" in os.getxattr(mount, "user.leat.last_error") or "d" not in by_path
    assert status_of(mount)["errors"] == len(errors)
    store.start()


def test_it_can_be_left_out(leat, store, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), "--no-inspection")
    assert leat.json("mounts")["mounts"][0]["inspection"] is False
    assert not os.path.exists(mount / ".leat")
    if leat.json("mounts")["mounts"][0]["features"]["survives"]:
        leat.kill_daemon()
        assert not os.path.exists(mount / ".leat")
        assert leat.json("mounts")["mounts"][0]["inspection"] is False
    moved = os.path.join(folder, "moved")
    os.mkdir(moved)
    leat.run("mounts", "move", mount, moved)
    assert not os.path.exists(os.path.join(moved, ".leat"))


def test_a_name_of_the_store_wins(leat, store, s3, objects, mount):
    assert status_of(mount)["version"]
    s3.put_object(Bucket=objects, Key=".leat/status", Body=b"my own")
    s3.put_object(Bucket=objects, Key=".leat/more", Body=b"and more")
    leat.run("refresh", mount)
    assert sorted(os.listdir(mount)) == [".leat", "d"]
    assert (mount / ".leat/status").read_bytes() == b"my own"
    assert sorted(os.listdir(mount / ".leat")) == ["more", "status"]
    for key in (".leat/status", ".leat/more"):
        s3.delete_object(Bucket=objects, Key=key)
    leat.run("refresh", mount)
    assert status_of(mount)["version"]


def test_a_mount_inside_is_shown_by_the_outer_one(leat, store, objects, mount):
    inner = leat.mount(store, f"{objects}/d", mount / "d")
    assert not os.path.exists(inner / ".leat")
    status = status_of(mount)
    assert [one["path"] for one in status["inside"]] == [str(inner)]
    leat.umount(inner)


def test_it_goes_on_after_the_daemon(leat, mount):
    if not leat.json("mounts")["mounts"][0]["features"]["survives"]:
        pytest.skip("this kernel sends a successor nothing again (it needs Linux 6.9)")
    directory = os.open(mount / ".leat", os.O_RDONLY | os.O_DIRECTORY)
    file = os.open(mount / ".leat/metrics", os.O_RDONLY)
    leat.kill_daemon()
    # What was made for it is gone with the daemon; it does not hang, nor show another's.
    with pytest.raises(OSError) as stale:
        os.pread(file, 1000, 0)
    assert stale.value.errno == errno.ESTALE
    os.close(file)
    assert set(os.listdir(directory)) == FILES
    again = os.open("status", os.O_RDONLY, dir_fd=directory)
    assert json.loads(os.read(again, MIB))["restarts"] == 1
    os.close(again)
    os.close(directory)
    assert status_of(mount)["restarts"] == 1
    leat.umount(mount)


def test_it_is_there_while_the_store_hangs(leat, store, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), freshness="max-age=0s")
    os.kill(store.pid, signal.SIGSTOP)
    try:
        assert status_of(mount)["mount"]["path"] == str(mount)
        assert errors_of(mount) == []
    finally:
        os.kill(store.pid, signal.SIGCONT)
