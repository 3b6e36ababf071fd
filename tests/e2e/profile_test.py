# SPDX-License-Identifier: Apache-2.0
"""Profiles, folders without opens, and folders that do without what the kernel offers."""

import errno
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KIB, MIB = 1024, 1024 * 1024


@pytest.fixture
def objects(s3, bucket):
    for number in range(200):
        s3.put_object(Bucket=bucket, Key=f"d/{number:03}", Body=f"sample {number} ".encode() * 900)
    s3.put_object(Bucket=bucket, Key="big", Body=os.urandom(3 * MIB))
    return bucket


def mount_with(leat, store, bucket, folder, *options, **more):
    return leat.mount(store, bucket, os.path.join(folder, "mnt"), *options, **more)


def read_all(mount):
    return {path.name: path.read_bytes() for path in sorted((mount / "d").iterdir())}


def read_ahead_of(directory):
    device = os.stat(directory).st_dev
    text = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb").read_text()
    return int(text) * KIB


def table_of_profiles():
    """Of docs/commands/mount.md: profile -> what its row says that it sets."""
    rows = re.findall(r"^\| `(training|serving|interactive|small-files)` \| .* \| (.*) \|$",
                      (ROOT / "docs/commands/mount.md").read_text(), re.MULTILINE)
    return {name: dict(re.findall(r"`([a-z_]+)=([^`]+)`", text)) for name, text in rows}


@pytest.mark.parametrize("profile", ["training", "serving", "interactive", "small-files"])
def test_a_profile_sets_what_is_documented(leat, store, objects, folder, profile):
    mount = mount_with(leat, store, objects, folder, "--profile", profile, freshness="")
    shown = leat.json("mounts")["mounts"][0]
    has = dict(shown["options"], freshness=shown["freshness"])
    documented = table_of_profiles()[profile]
    assert len(documented) >= 4
    assert {name: has.get(name) for name in documented} == documented
    assert has["folder_profile"] == profile
    assert read_ahead_of(mount) == (128 * KIB if profile == "interactive" else MIB)
    assert shown["read_only"] is True
    assert shown["features"]["no_open"] == (profile == "small-files")
    assert len(read_all(mount)) == 200
    assert len((mount / "big").read_bytes()) == 3 * MIB


def test_what_is_given_goes_before_the_profile(leat, store, objects, folder):
    mount = mount_with(leat, store, objects, folder, "--profile", "interactive", "--option",
                       "kernel_readahead=64KiB", "--option", "quota=1GiB", freshness="immutable")
    shown = leat.json("mounts")["mounts"][0]
    assert shown["freshness"] == "immutable"
    assert shown["options"]["quota"] == "1GiB"
    assert read_ahead_of(mount) == 64 * KIB


def test_changed_options_outlive_the_daemon(leat, store, objects, folder):
    mount = mount_with(leat, store, objects, folder, "--profile", "serving", freshness="")
    leat.run("mounts", "unset", mount, "priority")
    leat.run("mounts", "set", mount, "freshness=immutable")
    leat.kill_daemon()
    shown = leat.json("mounts")["mounts"][0]
    assert shown["freshness"] == "immutable"
    assert "priority" not in shown["options"]
    assert shown["options"]["prefetch_window"] == "128MiB"


@pytest.mark.parametrize("options, said", [
    (("--profile", "fast"), "'fast' is none of training, serving, interactive, small-files"),
    (("--option", "no_open=perhaps"), "must be 'true' or 'false'"),
    (("--option", "kernel_readahead=1TiB"), "must be from"),
    (("--option", "no_open=true", "--option", "freshness=validate"), "opens are disabled"),
    (("--option", "no_open=true", "--path-option", "d:freshness=validate"), "opens are disabled"),
])
def test_what_cannot_be_is_refused(leat, store, objects, folder, options, said):
    done = mount_with(leat, store, objects, folder, *options, freshness="", check=False)
    assert done.returncode != 0
    assert said in done.stderr


class TestWithoutOpens:
    @pytest.fixture
    def mount(self, leat, store, objects, folder):
        mount = mount_with(leat, store, objects, folder, "--profile", "small-files", freshness="")
        if not leat.json("mounts")["mounts"][0]["features"]["no_open"]:
            pytest.skip("this kernel tells of every open")
        return mount

    def test_no_open_is_told(self, leat, mount):
        before = read_all(mount)
        assert read_all(mount) == before
        counters = leat.json("status")["counters"]
        assert not any(value for name, value in counters.items()
                       if name.startswith("leat_fuse_opens_total"))
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC):
            with pytest.raises(OSError) as failed:
                os.open(mount / "d" / "000", flags)
            assert failed.value.errno == errno.EROFS

    def test_open_files_outlive_daemon_and_store(self, leat, store, mount):
        before = read_all(mount)
        files = [os.open(path, os.O_RDONLY) for path in sorted((mount / "d").iterdir())]
        store.stop()
        before_upgrade = leat.daemon_pid()
        leat.run("upgrade")  # kill -9 may cost what was cached last
        assert leat.daemon_pid() != before_upgrade
        for fd, content in zip(files, before.values()):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            assert os.pread(fd, MIB, 0) == content
            os.close(fd)
        for name, content in before.items():  # the kernel has the names
            assert (mount / "d" / name).read_bytes() == content

    def test_validate_is_refused_later_too(self, leat, mount):
        done = leat.run("mounts", "set", mount, "freshness=validate", check=False)
        assert done.returncode != 0 and "opens are disabled" in done.stderr
        leat.run("mounts", "set", mount, "freshness=max-age=1s")

    def test_a_new_version_is_seen_at_the_next_open(self, leat, s3, bucket, mount):
        leat.run("mounts", "set", mount, "freshness=max-age=1s")
        path = mount / "d" / "007"
        before = path.read_bytes()
        with open(path, "rb") as old:
            s3.put_object(Bucket=bucket, Key="d/007", Body=b"another")
            leat.run("refresh", mount / "d")
            assert path.read_bytes() == b"another"
            assert old.read() == before


def test_a_local_folder_without_opens(leat, folder):
    source = Path(folder) / "source"
    (source / "d").mkdir(parents=True)
    for number in range(50):
        (source / "d" / f"{number}").write_bytes(os.urandom(70_000))
    mount = Path(folder) / "mnt"
    mount.mkdir()
    leat.run("mount", source, mount, "--profile", "small-files", "--cache-dir", leat.cache_dir,
             "--cache-size", leat.cache_size)
    for path in (source / "d").iterdir():
        assert (mount / "d" / path.name).read_bytes() == path.read_bytes()


# One by one in src/frontends/fuse/feature_set_test.cc.
@pytest.mark.parametrize("without", ["after-5.15", "resend", "readdirplus,large-requests,async-read"])
def test_a_folder_that_does_without(leat, store, objects, folder, without, monkeypatch):
    environment = leat.environment
    monkeypatch.setattr(leat, "environment", lambda credentials=None: dict(
        environment(credentials), LEAT_FUSE_DISABLED_FEATURES=without))
    mount = mount_with(leat, store, objects, folder)
    before = read_all(mount)
    assert len(before) == 200
    features = leat.json("mounts")["mounts"][0]["features"]
    assert features["readdirplus"] == ("readdirplus" not in without)
    survives = "resend" not in without and without != "after-5.15" and features["passthrough"]
    if not survives:
        assert not features["survives"]
    subprocess.run(["find", mount, "-newer", "/"], check=True, capture_output=True)
    leat.kill_daemon()  # mounted anew, or it goes on
    assert read_all(mount) == before
    assert len((mount / "big").read_bytes()) == 3 * MIB


def test_an_unknown_feature_is_refused(leat, store, objects, folder, monkeypatch):
    environment = leat.environment
    monkeypatch.setattr(leat, "environment", lambda credentials=None: dict(
        environment(credentials), LEAT_FUSE_DISABLED_FEATURES="passthru"))
    done = mount_with(leat, store, objects, folder, check=False)
    assert done.returncode != 0
    assert "'passthru' is no feature of FUSE" in done.stderr
    assert "after-5.15" in done.stderr
