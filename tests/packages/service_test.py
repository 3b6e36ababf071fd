# SPDX-License-Identifier: Apache-2.0
"""The units: systemd's own check, and what they start, under a service manager that only listens.

systemd itself does not run here: what it does when a process ends, and its options for hardening but
capabilities, are not tested.
"""

import configparser
import os
import re
import shlex
import signal
import socket
import struct

import pytest

from packages.machine_test import SteadyReader, check_content, data, status  # noqa: F401
from rig.process import is_alive, wait_until

UNITS = ["lib/systemd/system/leat.service", "usr/lib/systemd/user/leat.service",
         "usr/lib/systemd/user/leat-mount@.service"]
# Each gives a service a mount namespace of its own (systemd.exec(5)): nobody would see its folders.
OWN_NAMESPACE = re.compile(
    r"^(Private(Tmp|Devices|Mounts|IPC|Users)|Protect(System|Home|Kernel\w+|ControlGroups|Proc|Hostname)"
    r"|ProcSubset|MountFlags|DynamicUser|Root\w+|BindPaths|BindReadOnlyPaths|TemporaryFileSystem"
    r"|(ReadOnly|ReadWrite|Inaccessible|Exec|NoExec)Paths|MountImages|ExtensionImages"
    r"|ExtensionDirectories|MountAPIVFS|LoadCredential\w*)=", re.MULTILINE)


def unit(tree, name):
    text = (tree / name).read_text()
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str
    parser.read_string(text)
    return parser


@pytest.mark.parametrize("name", UNITS)
def test_no_unit_hides_folders(tree, name):
    assert not OWN_NAMESPACE.findall((tree / name).read_text())


def test_user_units_leave_fusermount_its_rights(tree):
    for name in UNITS[1:]:
        assert "NoNewPrivileges" not in unit(tree, name)["Service"]


def test_systemd_knows_what_the_units_say(installed):
    installed.run("cp", f"/{UNITS[2]}", "/run/leat-mount@train.service")  # verify wants an instance
    for words in ([f"/{UNITS[0]}"], ["--user", f"/{UNITS[1]}", "/run/leat-mount@train.service"]):
        done = installed.run("systemd-analyze", "verify", *words, check=False, XDG_RUNTIME_DIR="/run")
        about_us = [line for line in (done.stdout + done.stderr).splitlines() if "leat" in line]
        assert about_us == [] and done.returncode == 0, done.stdout + done.stderr


class Manager:
    """Listens where systemd would; `next` is what was said, and by which process."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(self.path)

    def next(self, timeout_s=30):
        self.socket.settimeout(timeout_s)
        text, extra, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
        return text.decode(), struct.unpack("iii", extra[0][2])[0]

    def said_more(self):
        try:
            return self.next(timeout_s=0.01)
        except (TimeoutError, BlockingIOError):
            return None


def rights(tree, name):
    """Words before a command that leave it the capabilities that the unit does, and no others."""
    lines = re.findall(r"^CapabilityBoundingSet=(.*)$", (tree / name).read_text(), re.MULTILINE)
    if not lines:
        return []
    left = [f"+{word.removeprefix('CAP_').lower()}" for line in lines for word in line.split()]
    return ["setpriv", "--no-new-privs", "--bounding-set", ",".join(["-all", *left])]


@pytest.mark.parametrize("name", UNITS[:2])
def test_what_the_unit_starts_is_a_service(installed, data, tree, name):  # noqa: F811
    service = unit(tree, name)["Service"]
    assert service["Type"] == "notify"
    manager = Manager(installed.shared / "notify")
    process = installed.start(*rights(tree, name), *shlex.split(service["ExecStart"]),
                              NOTIFY_SOCKET=manager.path)
    assigned, main = manager.next()
    assert assigned == "READY=1"
    assert status(installed)["mounts"] == []

    installed.run("mkdir", "-p", "/mnt/train")
    installed.run("mount", "-t", "leat", "-o", "cache=always", data, "/mnt/train")
    check_content(installed, "/mnt/train")
    reader = SteadyReader(installed, "/mnt/train")
    before = status(installed)["pid"]
    installed.run(*shlex.split(service["ExecReload"]))
    assert status(installed)["pid"] != before
    # What systemd believes to be the service is the same process, and it has said nothing else.
    assert is_alive(main) and manager.said_more() is None
    before = status(installed)["pid"]
    installed.run("kill", "-9", before)

    def succeeded():
        done = installed.run("leat", "status", "--json", check=False)
        return done.returncode == 0 and f'"pid": {before},' not in done.stdout

    wait_until(succeeded, "the next daemon")
    rounds, errors = reader.stop()
    assert rounds > 0 and errors == []
    assert is_alive(main) and manager.said_more() is None

    # It stays without a folder, and goes with what is mounted.
    installed.run("umount", "/mnt/train")
    installed.run("mount", "-t", "leat", data, "/mnt/train")
    os.kill(main, signal.SIGTERM)
    assert manager.next() == ("STOPPING=1", main)
    assert process.wait(timeout=60) == 0
    assert installed.mounts() == []
    assert "leat" not in installed.programs()


def test_mounts_of_a_user_are_what_a_file_says(installed, data, tree):  # noqa: F811
    """The commands of leat-mount@.service, with the variables of its file as systemd puts them in."""
    service = unit(tree, UNITS[2])["Service"]
    installed.run("mkdir", "-p", "/mnt/my folder")
    values = {"SOURCE": str(data), "DIRECTORY": "/mnt/my folder",
              "OPTIONS": "--freshness immutable -o cache=always"}

    def words(line):
        # ${NAME} is one word, $NAME as many as it has (systemd.service(5)).
        for word in line.split():
            whole = re.fullmatch(r"\$\{(\w+)\}", word)
            if whole:
                yield values[whole[1]]
            elif word.startswith("$"):
                yield from values[word[1:]].split()
            else:
                yield word

    installed.run(*words(service["ExecStart"]))
    assert status(installed)["mounts"][0]["freshness"] == "immutable"
    check_content(installed, "/mnt/my folder")
    installed.run(*words(service["ExecStop"]))
    assert installed.mounts() == []
