# SPDX-License-Identifier: Apache-2.0
"""What the kernel says about a process, and waiting for something to become true."""

import os
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def wait_until(condition, what, timeout_s=15.0, interval_s=0.02):
    """The condition's first true value; an AssertionError that names `what` after the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain for {what}"
        time.sleep(interval_s)


def cpu_seconds(pid):
    """User and system time of a process with all its threads, and of its reaped children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(ticks) for ticks in fields[11:15]) / TICKS_PER_SECOND


def bytes_written(pid):
    """Bytes that the process gave to write(2) and sendfile(2), sockets included."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/io has no wchar")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def pids_with_environment(name, value):
    """Processes whose environment at their start held name=value, with the name of their program."""
    wanted = f"{name}={value}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = os.path.basename(os.readlink(entry / "exe"))
        except OSError:
            continue  # gone meanwhile, or somebody else's
    return found


def mounts_below(folder):
    """Mount points in or below `folder`, innermost first."""
    folder = os.path.realpath(folder)
    points = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = line.split()[1].encode().decode("unicode_escape").encode("latin-1").decode()
        if point == folder or point.startswith(folder + "/"):
            points.append(point)
    return points[::-1]


def disk_bytes(folder):
    """Bytes that the files below `folder` take on disk; files that vanish meanwhile count as 0."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(base, name)).st_blocks * 512
            except OSError:
                continue
    return total
