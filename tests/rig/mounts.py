# SPDX-License-Identifier: Apache-2.0
"""Mounts and FUSE connections as the kernel lists them. Nothing here asks a mounted folder itself, since
one whose daemon hangs would not answer."""

import ctypes
import errno
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from rig.process import entries_of

FSOPEN, FSCONFIG, FSMOUNT = 430, 431, 432  # system calls, of the same number everywhere
CLOEXEC, FSCONFIG_CMD_CREATE = 1, 6
MNT_FORCE, MNT_DETACH, UMOUNT_NOFOLLOW = 1, 2, 8
CONNECTIONS = "/sys/fs/fuse/connections"

libc = ctypes.CDLL(None, use_errno=True)


class Mount(NamedTuple):
    device: str  # "0:41"; its second number names the FUSE connection
    point: str
    kind: str
    source: str

    @property
    def connection(self):
        return int(self.device.split(":")[1]) if self.kind.split(".")[0] == "fuse" else None


def unescape(text):
    return text.encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")


def mounts():
    """All of this mount namespace, in the order in which they were made."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        words = line.split()
        rest = words[words.index("-") + 1:]
        found.append(Mount(words[2], unescape(words[4]), rest[0], unescape(rest[1])))
    return found


def is_below(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def place_of(folder):
    """Its path without links, by its parent: the folder itself may not answer."""
    parent, name = os.path.split(os.path.abspath(folder))
    return os.path.join(os.path.realpath(parent), name)


def mounts_below(folder):
    """Mount points in or below `folder`, innermost first."""
    folder = place_of(folder)
    return [mount.point for mount in mounts() if is_below(mount.point, folder)][::-1]


def connections_below(folder):
    folder = place_of(folder)
    return {mount.connection for mount in mounts()
            if mount.connection is not None and is_below(mount.point, folder)}


def connections_of(pid):
    """Those that a process holds, also in threads that outlive the others (kernel >= 6.16)."""
    found = set()
    for thread in entries_of(f"/proc/{pid}/task"):
        for entry in entries_of(thread / "fdinfo"):
            try:
                text = entry.read_text()
            except OSError:
                continue
            found |= {int(line.split()[1]) for line in text.splitlines()
                      if line.startswith("fuse_connection:")}
    return found


def open_control(connection):
    """The descriptor of its `abort`, through a mount of fusectl that nobody else sees if need be."""
    name = f"{connection}/abort"
    try:
        return os.open(f"{CONNECTIONS}/{name}", os.O_WRONLY)
    except FileNotFoundError:
        if os.geteuid() != 0:
            raise
    made = libc.syscall(FSOPEN, b"fusectl", CLOEXEC)
    if made < 0:
        raise OSError(ctypes.get_errno(), "fsopen of fusectl")
    try:
        libc.syscall(FSCONFIG, made, FSCONFIG_CMD_CREATE, None, None, 0)
        mounted = libc.syscall(FSMOUNT, made, CLOEXEC, 0)
    finally:
        os.close(made)
    if mounted < 0:
        raise OSError(ctypes.get_errno(), "fsmount of fusectl")
    try:
        return os.open(name, os.O_WRONLY, dir_fd=mounted)
    finally:
        os.close(mounted)


def abort(connection):
    """Whoever waits for its daemon gets an error. True unless there is none such, or not for us."""
    try:
        control = open_control(connection)
    except OSError:
        return False
    try:
        os.write(control, b"1")
    finally:
        os.close(control)
    return True


def abort_below(folder):
    """Ends the FUSE connections of the mounts below `folder`; nothing of them hangs from then on."""
    return sorted(connection for connection in connections_below(folder) if abort(connection))


def in_own_mounts(script):
    """Words in front of a command, which then sees mounts that nobody else does."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{script}\nexec "$@"',
            "sh"]


# For one that looks at every folder of the machine: those of other tests come and go, or are dead.
WITHOUT_FOLDERS = in_own_mounts("umount --all --lazy --internal-only --types fuse.leat || true")


def detach(point):
    """Takes a mount away, its name at once and the rest when nobody uses it."""
    if libc.umount2(os.fsencode(point), MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW) == 0:
        return True
    if ctypes.get_errno() != errno.EPERM:
        return False
    try:
        done = subprocess.run(["fusermount3", "-u", "-z", point], capture_output=True, timeout=10,
                              stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def detach_below(folder):
    for point in mounts_below(folder):
        detach(point)
