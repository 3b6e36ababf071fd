# SPDX-License-Identifier: Apache-2.0
"""What the kernel says about a process, and waiting for something to become true."""

import os
import re
import signal
import time
from pathlib import Path

PF_EXITING = 4  # of the flags in /proc/PID/stat
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def wait_until(condition, what, timeout_s=30.0, interval_s=0.02):
    """The condition's first true value; an AssertionError that names `what` after the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout_s} s in vain for {what}"
        time.sleep(interval_s)


def stat_fields(pid):
    """Of /proc/PID/stat, from the state on: proc_pid_stat(5) numbers them from 3."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def name_of(pid):
    """The first 15 bytes of it; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def parent_of(pid):
    return int(stat_fields(pid)[1])


def cpu_seconds(pid):
    """User and system time of a process with all its threads, and of its reaped children."""
    return sum(int(ticks) for ticks in stat_fields(pid)[11:15]) / TICKS_PER_SECOND


def bytes_written(pid):
    """Bytes that the process gave to write(2) and sendfile(2), sockets included."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/io has no wchar")


def memory_peak(pid):
    """The most resident bytes that a process has had."""
    lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def start_time(pid):
    """Clock ticks from the boot to its start, which tell it from another one of its number; 0: none."""
    try:
        return int(stat_fields(pid)[19])
    except OSError:
        return 0


def is_alive(pid):
    """False for what is gone or only waits to be reaped, without a thread that still ends. A thread
    that has ended may be listed for a moment longer."""
    return any(thread_fields(thread)[0] not in "ZX" for thread in entries_of(f"/proc/{pid}/task"))


def thread_fields(thread):
    """As `stat_fields`, of the /proc folder of a thread; of one that is gone, the state only."""
    try:
        return (thread / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["X"]


def thread_is_ending(thread):
    state, *fields = thread_fields(thread)
    if state in "ZX" or int(fields[5]) & PF_EXITING:
        return True
    pending = re.search(r"^SigPnd:\t(\w+)", (thread / "status").read_text(), re.MULTILINE)
    return bool(int(pending[1], 16) & 1 << (signal.SIGKILL - 1))


def is_ending(pid):
    """Gone, or killed for good, though a thread may still wait in the kernel."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            if not thread_is_ending(thread):
                return False
        except OSError:
            continue  # gone meanwhile
    return True


def entries_of(folder):
    """Of one that may go meanwhile."""
    try:
        return list(Path(folder).iterdir())
    except OSError:
        return []


def of_any_thread(pid, read):
    """What `read` makes of the first /proc folder of the process, or of one of its threads, that has it:
    where a thread hangs in the kernel after a kill, the process itself has nothing any more."""
    for folder in (Path(f"/proc/{pid}"), *entries_of(f"/proc/{pid}/task")):
        try:
            found = read(folder)
        except OSError:
            continue  # gone meanwhile, or somebody else's
        if found:
            return found
    return None


def environment_of(pid):
    """As it was at the start of the process, as NAME=VALUE in bytes."""
    text = of_any_thread(pid, lambda folder: (folder / "environ").read_bytes())
    return text.split(b"\0") if text else []


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def pids_with_environment(name, value):
    """Processes whose environment at their start held name=value, with the name of their program."""
    wanted = f"{name}={value}".encode()
    found = {}
    for pid in all_pids():
        if wanted in environment_of(pid):
            program = of_any_thread(pid, lambda folder: os.readlink(folder / "exe"))
            found[pid] = os.path.basename(program or "")
    return found


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
