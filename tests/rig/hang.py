# SPDX-License-Identifier: Apache-2.0
"""What hangs: the processes of a run, where in the kernel they wait, and the mounts of the tests.

`python -m rig.hang SESSION`: a process of its own, since what it reads may keep it waiting, too; it says
first what never does.
"""

import os
import sys
from pathlib import Path

from rig import mounts
from rig.leftovers import NAMES
from rig.process import all_pids, stat_fields

PROC = Path("/proc")
# Functions of the kernel in which callers wait for a FUSE daemon.
FUSE_WAITS = ("fuse_", "request_wait_answer")


def text_of(path):
    try:
        return path.read_text(errors="replace").strip("\n\0")
    except OSError as error:
        return f"({error.strerror})"


def processes():
    """pid -> (state, parent, session), of all that there are."""
    found = {}
    for pid in all_pids():
        try:
            fields = stat_fields(pid)
        except OSError:
            continue
        found[pid] = fields[0], int(fields[1]), int(fields[3])
    return found


def descendants(found, pid):
    for child in sorted(found):
        if found[child][1] == pid:
            yield child
            yield from descendants(found, child)


def hung_threads(pid):
    """Those that no signal ends, or that wait for a FUSE daemon, with where in the kernel."""
    for thread in sorted((PROC / str(pid) / "task").glob("*")):
        try:
            fields = (thread / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        where = text_of(thread / "wchan")
        if fields[0] == "D" or where.startswith(FUSE_WAITS):
            yield thread.name, where, text_of(thread / "stack")


def show(line):
    print(line, flush=True)


def describe(session):
    found = processes()
    ours = [pid for pid in sorted(found) if found[pid][2] == session]
    below = set(ours)
    for pid in ours:
        below |= set(descendants(found, pid))
    show(f"processes of session {session}: pid, parent, state, where it waits, program")
    for pid in sorted(below):
        show(f"  {pid:7} {found[pid][1]:7} {found[pid][0]} {text_of(PROC / str(pid) / 'wchan'):28}"
             f" {text_of(PROC / str(pid) / 'comm')}")
    show("threads of any process that no signal ends, or that wait for FUSE:")
    for pid in sorted(found):
        for thread, where, stack in hung_threads(pid):
            show(f"  {text_of(PROC / str(pid) / 'comm')} {pid}, thread {thread}: {where}")
            for line in stack.splitlines():
                show(f"      {line}")
    show("mounts of tests: device, folder")
    for mount in mounts.mounts():
        if any(map(NAMES.match, mount.point.split("/"))):
            show(f"  {mount.device} {mount.kind} {mount.point}")
    show("their command lines:")
    for pid in sorted(below):
        line = text_of(PROC / str(pid) / "cmdline").replace("\0", " ")
        show(f"  {pid:7} {line[:400]}")


if __name__ == "__main__":
    describe(int(sys.argv[1]) if len(sys.argv) > 1 else os.getsid(0))
