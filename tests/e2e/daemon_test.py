# SPDX-License-Identifier: Apache-2.0
"""How the daemon starts and ends, and what it takes from whoever starts it. Sources are local folders."""

import errno
import os
import select
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from rig.leat import leat_program
from rig.mounts import mounts_below
from rig.process import is_alive, wait_until


@pytest.fixture
def source(folder):
    path = Path(folder) / "source"
    (path / "sub").mkdir(parents=True)
    (path / "file").write_bytes(b"text" * 1000)
    (path / "sub" / "inner").write_bytes(b"inner" * 1000)
    return path


@pytest.fixture
def mnt(folder):
    path = Path(folder) / "mnt"
    path.mkdir()
    return path


def mount(leat, source, directory, *options, **more):
    leat.run("mount", source, directory, "--cache-dir", leat.cache_dir, "--cache-size",
             leat.cache_size, *options, **more)


def bind(source, target):
    target.mkdir()
    if subprocess.run(["mount", "--bind", source, target], capture_output=True).returncode != 0:
        pytest.skip("no bind mounts here")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_foreground_daemon_ends_by_a_signal(leat, source, mnt, number):
    daemon = subprocess.Popen(
        [leat_program(), "mount", source, mnt, "--foreground", "--cache-dir", leat.cache_dir],
        env=leat.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (mnt / "file").exists(), "the folder")
    daemon.send_signal(number)
    out, log = daemon.communicate(timeout=30)
    assert daemon.returncode == 0, log
    assert out == "" and "ended" in log
    assert mounts_below(mnt) == []


def test_a_foreground_daemon_is_upgraded_and_ends(leat, source, mnt):
    """As in a container, whose first process it is."""
    daemon = subprocess.Popen(
        [leat_program(), "mount", source, mnt, "--foreground", "--cache-dir", leat.cache_dir],
        env=leat.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (mnt / "file").exists(), "the folder")
    with open(mnt / "file", "rb") as file:
        leat.run("upgrade", timeout_s=30)
        assert file.read() == b"text" * 1000
    assert (mnt / "sub" / "inner").read_bytes() == b"inner" * 1000
    daemon.send_signal(signal.SIGTERM)
    log = daemon.communicate(timeout=30)[1]
    assert daemon.returncode == 0, log
    assert mounts_below(mnt) == []


def test_umount_of_a_bind_mounted_folder(leat, source, mnt, folder):
    mount(leat, source, mnt)
    other = Path(folder) / "other"
    bind(mnt, other)
    unmounted = threading.Event()

    def look():  # so that the kernel has just been told of it, and believes that
        while not unmounted.wait(0.02):
            (other / "file").exists()

    with open(other / "file", "rb") as file:
        looker = threading.Thread(target=look)
        looker.start()
        try:
            leat.run("umount", mnt, timeout_s=30)
            assert not (mnt / "file").exists() and not (other / "file").exists()
        finally:
            unmounted.set()
            looker.join()
        assert file.read() == b"text" * 1000
    daemon = leat.daemon_pid()
    subprocess.run(["umount", other], check=True)
    wait_until(lambda: not is_alive(daemon), "the daemon to end with the last place")


@pytest.mark.parametrize("unmounted", [False, True])
def test_a_daemon_ends_despite_a_bind_mount(leat, source, mnt, folder, unmounted):
    mount(leat, source, mnt)
    other = Path(folder) / "other"
    bind(mnt, other)
    if unmounted:
        leat.run("umount", mnt, timeout_s=30)
    daemon = leat.daemon_pid()
    os.kill(daemon, signal.SIGTERM)
    wait_until(lambda: not is_alive(daemon), "the daemon to end", timeout_s=30)
    with pytest.raises(OSError) as gone:
        (other / "file").read_bytes()
    assert gone.value.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    subprocess.run(["umount", "-l", other], check=True)


def test_the_daemon_holds_nothing_of_its_caller(leat, source, mnt):
    ours, theirs = os.pipe()
    subprocess.run([leat_program(), "mount", source, mnt, "--cache-dir", leat.cache_dir],
                   env=leat.environment(), pass_fds=[theirs], check=True, stdin=subprocess.DEVNULL)
    os.close(theirs)
    assert select.select([ours], [], [], 30)[0], "the daemon holds the caller's pipe open"
    assert os.read(ours, 1) == b""
    os.close(ours)
    daemon = leat.daemon_pid()
    assert Path(f"/proc/{daemon}/comm").read_text() == "leat\n"


def test_a_writable_runtime_folder_is_rejected(leat, source, mnt):
    mount(leat, source, mnt)
    os.chmod(leat.runtime_dir, 0o777)
    done = leat.run("mounts", check=False)
    assert done.returncode == 1 and "chmod 700" in done.stderr
    os.chmod(leat.runtime_dir, 0o700)
    leat.run("mounts")


def test_other_options_of_a_running_daemon_fail(leat, source, mnt, folder):
    mount(leat, source, mnt)
    config = Path(folder) / "leat.toml"
    config.write_text("[fetch]\nrequests_per_store_max = 7\n")
    second = Path(folder) / "second"
    second.mkdir()
    done = leat.run("mount", source, second, "--config", config, check=False)
    assert done.returncode == 1
    assert "fetch.requests_per_store_max = 1024, not 7" in done.stderr
    config.write_text("[fetch]\nrequests_per_store_max = 1024\n")
    leat.run("mount", source, second, "--config", config)


def test_a_relative_cache_folder_is_rejected(leat, source, mnt):
    done = leat.run("mount", source, mnt, check=False, credentials={"LEAT_CACHE_DIRECTORY": "here"})
    assert done.returncode == 2 and "absolute" in done.stderr


def test_a_nested_mount_in_use_is_not_unmounted(leat, source, mnt, folder):
    inside = Path(folder) / "inside"
    inside.mkdir()
    data = os.urandom(9 * 1024 * 1024)
    (inside / "large").write_bytes(data)
    mount(leat, source, mnt)
    nested = mnt / "sub" / "nested"
    leat.run("mount", inside, nested)
    with open(nested / "large", "rb") as file:
        assert file.read(10) == data[:10]
        done = leat.run("umount", nested, check=False)
        assert done.returncode == 1 and "in use by pid" in done.stderr
        leat.run("umount", "--lazy", nested)
        assert not nested.exists()
        assert file.read() == data[10:]
    leat.run("mount", inside, nested)
    leat.run("umount", nested)


def test_mounts_say_what_was_asked_for(leat, source, mnt):
    mount(leat, source, mnt, "--umask", "027")
    told = leat.json("mounts")["mounts"][0]
    assert told["umask"] == "027" and told["read_only"] is True
    nested = mnt / "sub" / "nested"
    leat.run("mount", source / "sub", nested, "--read-only")
    assert [m["read_only"] for m in leat.json("mounts")["mounts"]] == [True, True]
    leat.umount(nested)


def test_secrets_in_a_source_are_not_repeated(leat, source, mnt):
    done = leat.run("mount", "s3://bucket/x?secret_access_key=HUSH&region=HUSH", mnt, "--no-probe",
                    check=False)
    assert done.returncode == 2
    assert "secret_access_key" in done.stderr and "HUSH" not in done.stderr
    done = leat.run("mount", "s3://AKIA:HUSH@bucket?x", mnt, check=False)
    assert done.returncode == 2 and "HUSH" not in done.stderr
    assert "HUSH" not in (leat.runtime_dir / "daemon.log").read_text()


def test_names_that_are_no_text(leat, source, mnt, folder):
    strange = os.fsdecode(b"\xff\xfe name")
    (source / strange).mkdir()
    (source / strange / strange).write_bytes(b"strange")
    mount(leat, source, mnt, "--option", "cache=always")
    assert leat.run("cat", mnt / strange / strange).stdout == "strange"
    told = leat.json("stat", mnt / strange / strange)
    assert told["name_encoded"] == "%FF%FE%20name"
    assert leat.json("load", mnt / strange)["files_done"] == 1
    copy = Path(folder) / "copy"
    leat.run("cp", "-r", mnt / strange, copy)
    assert os.listdir(copy) == [strange]
