# SPDX-License-Identifier: Apache-2.0
"""The Debian package on a machine: installed, used, replaced under a program that reads, taken away."""

import json
import os
import time
from pathlib import Path

import pytest

from e2e.content import content
from e2e.objects import client
from packages.conftest import install
from rig import schemas
from rig.process import wait_until
from rig.store import REGION, Store

READER = Path(__file__).resolve().parent / "steady_reader.py"
NOBODY = 65534  # a user that is in every list, which fusermount3 asks for
FILES = {"a": 3_000_000, "b": 70_000, "c": 5}


@pytest.fixture
def data(machine):
    """A local folder as the store, cached as a bucket would be."""
    folder = machine.shared / "data"
    folder.mkdir()
    for name, size in FILES.items():
        (folder / name).write_bytes(content(name, 1, 0, size))
    (machine.shared / "reader.py").write_text(READER.read_text())
    return folder


def mount(machine, data, directory="/mnt/train", *flags):
    machine.run("mkdir", "-p", directory)
    machine.run("leat", "mount", data, directory, "-o", "cache=always", "--cache-dir",
                machine.shared / "cache", *flags)
    return directory


def check_content(machine, directory):
    for name, size in FILES.items():
        there = machine.run("sha256sum", f"{directory}/{name}", f"{machine.shared}/data/{name}")
        sums = {line.split()[0] for line in there.stdout.splitlines()}
        assert len(sums) == 1, name
        assert machine.run("stat", "-c", "%s", f"{directory}/{name}").stdout.strip() == str(size)


class SteadyReader:
    def __init__(self, machine, directory):
        self.process = machine.start("python3", machine.shared / "reader.py", directory)
        assert self.process.stdout.readline() == "reading\n"
        self.machine = machine

    def stop(self):
        """How often it has read everything, and what went wrong."""
        pid = self.machine.run("pgrep", "-f", "reader.py").stdout.split()[0]
        self.machine.run("kill", pid)
        said = json.loads(self.process.communicate(timeout=60)[0])
        return said["rounds"], said["errors"]


def status(machine):
    return schemas.check(["status"], machine.run("leat", "status", "--json").stdout)


def mounts_of(said):
    """Mounts of a status, without `passthrough_files`: it counts what a reader has open just then."""
    return [{k: v for k, v in mount.items() if k != "passthrough_files"} for mount in said["mounts"]]


def test_it_installs_and_a_folder_can_be_read(installed, data):
    assert installed.run("leat", "version").stdout.startswith("leat ")
    assert installed.run("dpkg", "-V", "leat").stdout == ""
    directory = mount(installed, data)
    check_content(installed, directory)
    installed.run("leat", "umount", directory)
    assert installed.mounts() == []


def test_the_pages_can_be_read(installed):
    for page, word in (("leat", "mount"), ("mount.leat", "env_file="), ("mount.fuse.leat", "fstab")):
        assert word in installed.run("man", "-P", "cat", page).stdout


def test_an_upgrade_takes_no_folder_away(installed, data, next_packages):
    directory = mount(installed, data)
    before = status(installed)
    reader = SteadyReader(installed, directory)
    install(installed, next_packages.deb)
    # The package leaves the daemon alone: it is the old program still.
    assert status(installed)["pid"] == before["pid"]
    assert " (deleted)" in os.readlink(installed.path(f"/proc/{before['pid']}/exe"))
    assert installed.mounts() == [directory]
    installed.run("leat", "upgrade")
    after = status(installed)
    assert after["pid"] != before["pid"]
    assert mounts_of(after) == mounts_of(before)
    assert os.readlink(installed.path(f"/proc/{after['pid']}/exe")).endswith("/usr/bin/leat")
    time.sleep(0.2)
    rounds, errors = reader.stop()
    assert rounds > 0 and errors == []
    check_content(installed, directory)
    installed.run("leat", "umount", directory)


def test_a_kill_after_an_upgrade_starts_the_new(
        installed, data, next_packages):
    directory = mount(installed, data)
    before = status(installed)
    reader = SteadyReader(installed, directory)
    install(installed, next_packages.deb)
    installed.run("kill", "-9", before["pid"])

    def succeeded():
        done = installed.run("leat", "status", "--json", check=False)
        return done.returncode == 0 and json.loads(done.stdout)["pid"] != before["pid"]

    wait_until(succeeded, "the next daemon")
    time.sleep(0.2)
    rounds, errors = reader.stop()
    assert rounds > 0 and errors == []
    installed.run("leat", "umount", directory)


def test_removal_keeps_settings_purge_the_cache(installed, data):
    installed.write("/etc/leat/leat.toml", "[cache]\nsize = \"1GiB\"\n")
    directory = mount(installed, data)
    installed.run("leat", "umount", directory)
    installed.write("/var/cache/leat/kept", "bytes")
    installed.run("dpkg", "--no-triggers", "-r", "leat")
    assert not installed.path("/usr/bin/leat").exists()
    assert installed.path("/etc/leat/leat.toml").exists()
    listed = installed.run("dpkg", "-L", "leat").stdout.split()
    assert [path for path in listed if path.startswith("/etc/leat")]
    installed.run("dpkg", "--no-triggers", "-P", "leat")
    left = installed.run("find", "/etc", "/usr", "/lib", "/var/lib/systemd", "-xdev", "-name",
                         "*leat*", "-newer", "/run/up").stdout.split()
    assert left == []
    assert not installed.path("/etc/leat").exists()
    assert installed.path("/var/cache/leat/kept").read_text() == "bytes"


def test_a_removal_leaves_a_folder_in_use(installed, data):
    """The daemon was started by a mount, so it is no service that dpkg could stop."""
    directory = mount(installed, data)
    reader = SteadyReader(installed, directory)
    installed.run("dpkg", "--no-triggers", "-r", "leat")
    time.sleep(0.2)
    rounds, errors = reader.stop()
    assert rounds > 0 and errors == []
    installed.run("umount", directory)
    wait_until(lambda: "leat" not in installed.programs(), "the daemon to end with its last folder")


def test_fstab(installed, data):
    first, second = "/mnt/first", "/mnt/my folder"
    installed.run("mkdir", "-p", first, second)
    cache = installed.shared / "cache"
    options = [f"ro,allow_other,_netdev,nofail,cache=always,cache_dir={cache},freshness=immutable,"
               "profile=training",
               "noauto,user,exec,x-systemd.requires=leat.service,uid=7,umask=077"]
    installed.write("/run/fstab", f"{data} {first} leat {options[0]} 0 0\n"
                                  f"{data} /mnt/my\\040folder leat {options[1]} 0 0\n")
    installed.run("mount", "-T", "/run/fstab", first)
    check_content(installed, first)
    installed.run("mount", "-T", "/run/fstab", "-a")  # what is mounted is left alone
    installed.run("mount", "-T", "/run/fstab", first)
    assert installed.mounts() == [first]
    shown = installed.run("findmnt", "-n", "-o", "FSTYPE,SOURCE,OPTIONS", first).stdout
    assert shown.split()[0] == "fuse.leat" and "ro," in shown and "allow_other" in shown
    mounted = status(installed)["mounts"][0]
    assert mounted["read_only"] and mounted["freshness"] == "immutable"
    installed.run("mount", "-T", "/run/fstab", second)
    assert installed.run("stat", "-c", "%u %a", f"{second}/a").stdout.split() == ["7", "600"]
    for directory in (second, first):
        installed.run("umount", directory)
    wait_until(lambda: "leat" not in installed.programs(), "the daemon to end with its last folder")


def test_fstab_of_a_bucket(installed):
    server = Store(installed.folder / "store").start()
    try:
        client(server).put_object(Bucket=server.bucket("data"), Key="train/c", Body=b"12345")
        keys = server.credentials
        installed.write("/etc/leat/train.aws", "[default]\n" + "".join(
            f"{name.lower()} = {value}\n" for name, value in keys.items()), 0o600)
        installed.write("/run/fstab", f"s3://data/train /mnt/train leat ro,allow_other,_netdev,nofail,"
                        f"x-systemd.requires=leat.service,profile=training,region={REGION},"
                        f"endpoint={server.endpoint},credentials=/etc/leat/train.aws 0 0\n")
        installed.run("mkdir", "-p", "/mnt/train")
        for _ in range(2):
            installed.run("mount", "-T", "/run/fstab", "-a")
        assert installed.mounts() == ["/mnt/train"]
        assert installed.run("cat", "/mnt/train/c").stdout == "12345"
        installed.run("umount", "/mnt/train")
    finally:
        server.stop()


def test_fstab_by_the_type_that_the_kernel_shows(installed, data):
    installed.run("mkdir", "-p", "/mnt/train")
    installed.run("mount", "-t", "fuse.leat", "-o", "noexec", data, "/mnt/train")
    options = installed.run("findmnt", "-n", "-o", "OPTIONS", "/mnt/train").stdout
    assert {"noexec", "nosuid", "nodev"} <= set(options.strip().split(","))
    installed.run("umount", "/mnt/train")


@pytest.mark.parametrize("words, code, said", [
    (["-t", "leat", "{data}", "/mnt/none"], 32, "there is no such directory"),
    (["-t", "leat", "-o", "quoter=1GiB", "{data}", "/mnt/train"], 1, "quoter"),
    (["-t", "leat", "-o", "readonly", "{data}", "/mnt/train"], 1, "readonly"),
    (["-t", "leat", "-o", "env_file=/run/open.env", "{data}", "/mnt/train"], 1, "chmod 600"),
    (["-t", "leat", "-f", "{data}", "/mnt/train"], 0, ""),
])
def test_mount_says_why_not(installed, data, words, code, said):
    installed.run("mkdir", "-p", "/mnt/train")
    installed.write("/run/open.env", "AWS_SECRET_ACCESS_KEY=hidden\n", mode=0o644)
    done = installed.run("mount", *[word.format(data=data) for word in words], check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and "hidden" not in done.stderr + done.stdout
    assert installed.mounts() == []


def test_a_remount_is_refused_with_what_does_it(installed, data):
    directory = mount(installed, data)
    done = installed.run("mount", "-o", "remount,ro", directory, check=False)
    assert done.returncode == 32 and "leat mount set" in done.stderr
    installed.run("leat", "umount", directory)


def test_variables_of_a_file_are_the_daemons(installed, data):
    installed.run("mkdir", "-p", "/mnt/one", "/mnt/two", "/mnt/three")
    installed.write("/run/one.env", "AWS_ACCESS_KEY_ID=one\nAWS_SECRET_ACCESS_KEY='a b'\n", 0o600)
    installed.write("/run/two.env", "AWS_ACCESS_KEY_ID=two\n", 0o600)
    installed.run("mount", "-t", "leat", "-o", "env_file=/run/one.env", data, "/mnt/one")
    environ = installed.path(f"/proc/{status(installed)['pid']}/environ").read_bytes().split(b"\0")
    assert b"AWS_SECRET_ACCESS_KEY=a b" in environ
    installed.run("mount", "-t", "leat", "-o", "env_file=/run/one.env", data, "/mnt/two")
    done = installed.run("mount", "-t", "leat", "-o", "env_file=/run/two.env", data, "/mnt/three",
                         check=False)
    assert done.returncode == 32
    assert "AWS_ACCESS_KEY_ID" in done.stderr and "credentials=FILE" in done.stderr
    for directory in ("/mnt/two", "/mnt/one"):
        installed.run("umount", directory)


def test_a_user_mounts_and_unmounts(installed, data):
    """As people who log in have it: a runtime directory of their own, and fusermount3."""
    home = installed.shared / "home"
    for path in (home / "mnt", home / "run"):
        path.mkdir(parents=True)
    for path in (home, home / "mnt", home / "run"):
        os.chown(path, NOBODY, NOBODY)
    home.joinpath("run").chmod(0o700)

    def as_user(*command):
        return installed.run("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                             *command, HOME=str(home), XDG_RUNTIME_DIR=str(home / "run"))

    as_user("leat", "mount", data, home / "mnt")
    as_user("cmp", f"{home}/mnt/a", data / "a")
    as_user("leat", "umount", home / "mnt")
    assert installed.mounts() == []
