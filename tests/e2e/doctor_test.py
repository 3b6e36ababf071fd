# SPDX-License-Identifier: Apache-2.0
"""leat doctor on this machine: what it says is data, it changes nothing and leaves nothing behind.
--fix is not run here: it would change the machine (src/doctor/host_fixes_test.cc has it)."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from rig import schemas
from rig.leat import leat_program
from rig.mounts import WITHOUT_FOLDERS
from rig.process import wait_until

LEVELS = {"ok", "note", "problem"}
PROBLEM = 5  # exit code


def no_probe_is_mounted():
    """Those of other tests that run meanwhile go by themselves."""
    return "leat-doctor" not in Path("/proc/self/mountinfo").read_text()


def look(leat, *arguments, timeout_s=120):
    """What doctor finds, by its JSON; its exit code says whether there is a problem."""
    done = leat.run("doctor", "--json", "--cache-dir", leat.cache_dir, *arguments, check=False,
                    timeout_s=timeout_s)
    told = json.loads(done.stdout)
    levels = [finding["level"] for finding in told["findings"]]
    assert set(levels) <= LEVELS
    assert told["problems"] == levels.count("problem")
    assert told["notes"] == levels.count("note")
    assert done.returncode == (PROBLEM if told["problems"] else 0), done.stderr
    assert ("error" in told) == bool(told["problems"])
    return told


def named(told, name, subject=""):
    found = [finding for finding in told["findings"]
             if finding["name"] == name and finding["subject"] == subject]
    assert len(found) == 1, [finding["name"] for finding in told["findings"]]
    return found[0]


def test_every_finding_has_a_cost_and_an_action(leat):
    told = look(leat)
    assert told["fixes"] == []
    for finding in told["findings"]:
        assert set(finding) == {"level", "name", "subject", "what", "cost", "action"}
        assert finding["what"]
        if finding["level"] != "ok":
            assert finding["cost"], finding
            assert finding["action"], finding


def test_text_has_the_same_findings(leat):
    leat.before = WITHOUT_FOLDERS
    told = look(leat)
    done = leat.run("doctor", "--cache-dir", leat.cache_dir, check=False)
    for name in {finding["name"] for finding in told["findings"]}:
        assert re.search(rf"^(ok|note|problem) +{re.escape(name)} ", done.stdout, re.MULTILINE), name
    assert re.search(r"(no|\d+) problems?, (no|\d+) notes?\n$", done.stdout)


def test_the_kernel_is_asked_and_nothing_stays(leat):
    before = set(os.listdir(leat.folder)), set(os.listdir(leat.cache_dir))
    told = look(leat)
    wait_until(no_probe_is_mounted, "the probe's mount to be gone")
    assert (set(os.listdir(leat.folder)), set(os.listdir(leat.cache_dir))) == before
    assert named(told, "fuse.device")["level"] == "ok", "the tests mount folders"
    assert re.fullmatch(r"7\.\d+", told["kernel"]["protocol"])
    assert told["kernel"]["readdirplus"] is True
    assert named(told, "daemon")["what"].startswith("none runs")


def test_a_cache_that_cannot_be_used_is_a_problem(leat):
    (leat.cache_dir / "thesis.tex").write_text("not a cache")
    found = named(look(leat), "cache.directory", str(leat.cache_dir))
    assert found["level"] == "problem"
    assert "thesis.tex" in found["what"]
    done = leat.run("doctor", "--cache-dir", leat.cache_dir, check=False)
    assert done.returncode == PROBLEM
    assert "cache.directory" in done.stderr


def test_an_invalid_configuration_is_a_problem(leat, folder):
    config = Path(folder) / "leat.toml"
    config.write_text("[cache]\nsise = 5\n")
    found = named(look(leat, "--config", config), "config")
    assert found["level"] == "problem"
    assert "leat.toml:2" in found["what"]
    assert f"leat config check {config}" in found["action"]


def test_a_running_daemon_reports_its_mounts(leat, store, bucket, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), "--no-passthrough")
    told = look(leat)
    assert f"pid {leat.daemon_pid()}" in named(told, "daemon")["what"]
    assert named(told, "daemon.mount", str(mount))["what"].startswith("no passthrough: it was not")
    assert "in use by the daemon" in named(told, "cache.directory", str(leat.cache_dir))["what"]
    assert leat.json("mounts")["mounts"][0]["passthrough_off"] == "it was not requested"
    # Another daemon's doctor knows nothing of it but that the cache is taken.
    other = dict(leat.environment(), LEAT_RUNTIME_DIR=os.path.join(folder, "other"))
    done = subprocess.run([leat_program(), "doctor", "--json", "--cache-dir", leat.cache_dir],
                          capture_output=True, text=True, env=other, timeout=120, check=False)
    assert done.returncode == PROBLEM
    found = named(schemas.check(["doctor"], done.stdout), "cache.directory", str(leat.cache_dir))
    assert f"in use by process {leat.daemon_pid()}" in found["what"]


def test_a_mount_without_a_daemon_is_a_problem(leat, store, bucket, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    leat.kill9()
    found = named(look(leat), "folder.dead", str(mount))
    assert found["action"] == f"leat umount {mount}"
    leat.umount(mount)
    assert not [finding for finding in look(leat)["findings"] if finding["subject"] == str(mount)]


def test_a_stopped_daemon_is_reported_at_once(leat, store, bucket, folder):
    leat.mount(store, bucket, os.path.join(folder, "mnt"))
    daemon = leat.json("status")["pid"]
    os.kill(daemon, signal.SIGSTOP)
    try:
        # A pipeline with it ends, too: nothing that was left behind holds its output open.
        # Nor is it asked again and again: that took 55 s.
        found = named(look(leat, timeout_s=40), "daemon")
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert found["level"] == "problem", found
    assert f"pid {daemon}) lives and does not answer" in found["what"]


# In a mount namespace of its own with another /dev/fuse, where it is asked for.
AS_USER = """
[ -z "$DEVICE" ] || mount --bind "$DEVICE" /dev/fuse || exit 1
[ -z "$CONF" ] || [ ! -e /etc/fuse.conf ] || mount --bind "$CONF" /etc/fuse.conf || exit 1
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
@pytest.mark.parametrize("device_for_all", [False, True])
def test_an_ordinary_user_sees_what_it_may_do(folder, device_for_all):
    place = Path(folder) / "shared"
    for path in (place, place / "run"):
        path.mkdir(mode=0o700)
        os.chown(path, 65534, 65534)
    os.chmod(folder, 0o711)
    # The program may lie where such a user cannot go.
    program = shutil.copy(leat_program(), place / "leat")
    device = Path(folder) / "fuse"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(10, 229))
    os.chmod(device, 0o666 if device_for_all else 0o600)
    environment = {"PATH": os.environ["PATH"], "LEAT_RUNTIME_DIR": str(place / "run"),
                   "XDG_CACHE_HOME": str(place / "cache"), "TMPDIR": str(place),
                   "DEVICE": str(device)}

    def doctor(*arguments):
        done = subprocess.run(["unshare", "--mount", "sh", "-c", AS_USER, "sh", program, "doctor",
                               *arguments], capture_output=True, text=True, env=environment,
                              timeout=120, check=False)
        assert done.returncode in (0, PROBLEM), done.stderr
        return done

    told = schemas.check(["doctor"], doctor("--json").stdout)
    rights = named(told, "host.rights")
    assert (rights["level"], "65534" in rights["what"]) == ("note", True)
    # Whoever may open the device asks the kernel by fusermount3; nobody else can.
    opened = named(told, "fuse.device")["level"] == "ok"
    assert device_for_all or not opened
    asked = opened and named(told, "fuse.mount")["level"] == "ok"
    assert (told["kernel"] is not None) == asked, named(told, "kernel.fuse")
    assert re.search(r"(no|\d+) problems?, \d+ notes?\n$", doctor().stdout)
    wait_until(no_probe_is_mounted, "the probe's mount to be gone")
    assert [name for name in os.listdir(place) if name.startswith("leat-doctor")] == []


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_missing_user_allow_other_gets_advice(folder):
    place = Path(folder) / "shared"
    for path in (place, place / "run", place / "mnt", place / "source", place / "bin"):
        path.mkdir(mode=0o700)
        os.chown(path, 65534, 65534)
    os.chmod(folder, 0o711)
    program = shutil.copy(leat_program(), place / "leat")
    device, conf = Path(folder) / "fuse", Path(folder) / "fuse.conf"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(10, 229))
    os.chmod(device, 0o666)
    conf.write_text("# user_allow_other\n")
    helper = place / "bin/fusermount3"
    helper.write_text("#!/bin/sh\necho fusermount3: option allow_other only allowed if ... >&2\nexit 1\n")
    helper.chmod(0o755)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", AS_USER, "sh", program, "mount", "--allow-other",
         place / "source", place / "mnt"], capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": f"{place}/bin:{os.environ['PATH']}", "LEAT_RUNTIME_DIR": str(place / "run"),
             "LEAT_TELEMETRY_LISTEN": "off", "XDG_CACHE_HOME": str(place / "cache"),
             "TMPDIR": str(place), "DEVICE": str(device), "CONF": str(conf)})
    assert done.returncode == 1
    assert "/etc/fuse.conf has no line 'user_allow_other'" in done.stderr, done.stderr
    assert "mount without --allow-other" in done.stderr
