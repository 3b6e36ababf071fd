# SPDX-License-Identifier: Apache-2.0
"""A machine of its own for the reader of a page, out of namespaces: what it mounts, starts and writes is
gone when the first process of it ends, and the machine that the tests run on has seen nothing.

Its programs are the machine's, its loopback is empty, and /etc, /opt, /usr and /var can be written to
without a change to the real ones. /fast, /mnt, /run and the reader's home are new. What has to lie on
a disk lies in the test's folder.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from docs.pages import ROOT
from rig.mounts import MNT_DETACH, UMOUNT_NOFOLLOW, libc, mounts

HOME = "/reader"
HOST = "reader"
HOSTS = f"127.0.0.1 localhost {HOST} namenode etcd1 etcd2 etcd3\n"
COVERED = ("etc", "opt", "usr", "var")  # by an overlay that takes what is written
OWN = ("fast", "mnt", "proc", "run")
# On the disk: the kernel reads cached files by itself from there alone, and stores keep attributes.
ON_DISK = {"fast": "/fast", "home": HOME, "stores": "/stores", "cache": "/var/cache/leat",
           "state": "/var/lib/leat"}
SWITCH = "/sys/module/fuse/parameters/enable_uring"  # that `leat doctor --fix` sets
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8913, 0x8914, 0x8916, 1
INSIDE = "10.0.0.1"  # and with it all of 10.0.0.0/8: machines of pages that need several


def words(module, *arguments):
    """The command line that runs a Python module as the first process of such a machine."""
    return ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--uts", "--fork",
            "--kill-child=KILL", sys.executable, "-m", module, *map(str, arguments)]


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True, stdin=subprocess.DEVNULL)


def bind(source, target):
    mount("--bind", source, target)


def cover(name, new):
    above = new / ".above" / name
    for folder in ("upper", "work"):
        (above / folder).mkdir(parents=True)
    mount("-t", "overlay", "overlay", "-o",
          f"lowerdir=/{name},upperdir={above}/upper,workdir={above}/work", new / name)


def forget_folders():
    """FUSE mounts of others, of which this namespace got copies. Not by force: that would end them."""
    for one in mounts()[::-1]:
        if one.connection is not None:
            libc.umount2(os.fsencode(one.point), MNT_DETACH | UMOUNT_NOFOLLOW)


def lay_out(new):
    """The root of the new machine at `new`."""
    mount("-t", "tmpfs", "reader", new)
    for entry in os.scandir("/"):
        target = new / entry.name
        if entry.is_symlink():
            target.symlink_to(os.readlink(entry.path))
        elif entry.is_dir():
            target.mkdir()
            if entry.name in COVERED:
                cover(entry.name, new)
            elif entry.name not in OWN:
                mount("--rbind", entry.path, target)
    for name in OWN:
        (new / name).mkdir(exist_ok=True)
    mount("-t", "proc", "proc", new / "proc")


def enter(new):
    old = new / ".old"
    old.mkdir()
    subprocess.run(["pivot_root", str(new), str(old)], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/.old"], check=True)
    os.rmdir("/.old")


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
        fcntl.ioctl(control, SIOCSIFADDR, struct.pack(
            "16sH2x4s16x", b"lo:1", socket.AF_INET, socket.inet_aton(INSIDE)))


def furnish(folder, leat):
    """What the reader has: the binary where the pages put it, places on the disk, names of hosts."""
    for name, place in ON_DISK.items():
        source = Path(folder, name)
        source.mkdir(exist_ok=True)
        os.makedirs(place, exist_ok=True)
        bind(source, place)
    program = Path("/usr/local/bin/leat")
    program.touch()
    bind(leat, program)
    sudo = Path("/usr/local/bin/sudo")
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    # As after apt-get install etcd-server.
    Path("/usr/local/bin/etcd").symlink_to(Path(os.environ["LEAT_DEPS_DIR"], "etcd/usr/bin/etcd"))
    Path("/etc/hosts").write_text(HOSTS)
    if os.path.exists(SWITCH):
        copy = Path(folder, "enable_uring")
        copy.write_text("N\n")
        bind(copy, SWITCH)


def become(folder, leat):
    """Makes this process, which `words` started, the first one of the machine."""
    forget_folders()
    new = Path(folder, "root")
    new.mkdir()
    lay_out(new)
    enter(new)
    socket.sethostname(HOST)
    raise_loopback()
    furnish(folder, leat)
    os.chdir(HOME)


def serve_as_first(work):
    """Runs `work` in a child, and ends with it; meanwhile takes in orphans that ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    while True:
        pid, status = os.wait()
        if pid == child:
            sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)


def environment():
    """Of a shell at that machine, without anything of the one around it."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME,
            "LANG": "C.UTF-8", "USER": "root", "SHELL": "/bin/bash", "TERM": "dumb",
            "PWD": HOME}


def outside(deps, folder):
    """The environment of the first process."""
    return {**environment(), "PYTHONPATH": str(ROOT / "tests"), "PYTHONDONTWRITEBYTECODE": "1",
            "LEAT_DEPS_DIR": str(deps), "LEAT_TEST_FOLDER": str(folder)}
