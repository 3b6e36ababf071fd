# SPDX-License-Identifier: Apache-2.0
"""What a test leaves behind: processes and mounts that belong to its folder, ended whatever they wait for.

A test's folder bears the process that made it in its name, so that what a killed run left can be told
from what another one works with. `python -m rig.leftovers` ends what earlier runs left.
"""

import os
import re
import shutil
import signal
import sys
import tempfile
import time

from rig import mounts
from rig.process import (all_pids, environment_of, is_alive, is_ending, of_any_thread,
                         start_time)

# leat-e2e-PID-START-…, made by make_folder, and leat_fuse_PID_…, made by the tests of src/frontends/fuse.
NAMES = re.compile(r"leat-e2e-(\d+)-(\d+)-|leat_fuse_(\d+)_")


def places():
    return sorted({tempfile.gettempdir(), os.environ.get("LEAT_TEST_DIR") or "/tmp", "/tmp"})


def prefix():
    pid = os.getpid()
    return f"leat-e2e-{pid}-{start_time(pid)}-"


def make_folder():
    """A short path (sockets lie below it) on the disk that the cache would be on."""
    return tempfile.mkdtemp(prefix=prefix(), dir=os.environ.get("LEAT_TEST_DIR"))


def folders(wanted):
    """Those whose name is wanted. By listings, without a stat: what hangs is not asked."""
    return sorted(os.path.join(place, name) for place in places() for name in os.listdir(place)
                  if wanted(name))


def own_folders():
    """Those that this process has made."""
    mine = prefix()
    return folders(lambda name: name.startswith(mine))


def owner(name):
    """The process that made a test's folder of that name; 0 where it is none."""
    match = NAMES.match(name)
    return int(match[1] or match[3]) if match else 0


def owner_is_gone(name):
    """Also where it was killed and cannot end, as it waits for what it has mounted itself."""
    pid = owner(name)
    if pid == 0:
        return False
    start = NAMES.match(name)[2]
    return is_ending(pid) or start is not None and start_time(pid) != int(start)


def abandoned():
    """Folders of tests that nobody runs any more."""
    return folders(owner_is_gone)


def pids_of(folder):
    """Processes that were given a path below `folder`, as an argument or in their environment."""
    inside = re.compile(rb"(^|[=:])" + re.escape(os.fsencode(mounts.place_of(folder))) + rb"(/|$)")

    def words_of(pid):
        line = of_any_thread(pid, lambda process: (process / "cmdline").read_bytes()) or b""
        return [*line.split(b"\0"), *environment_of(pid)]

    return [pid for pid in all_pids()
            if pid != os.getpid() and any(map(inside.search, words_of(pid)))]


def kill(pid):
    """Ends a process, also one that waits for a connection which it holds itself."""
    held = mounts.connections_of(pid)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    for connection in held | mounts.connections_of(pid):
        mounts.abort(connection)


def end(folder, patience_s=10.0):
    """Ends all that belongs to `folder`. The processes that would not go even then."""
    mounts.abort_below(folder)  # first: what waits in a folder answers no question, nor does it end
    pids = pids_of(folder)
    for pid in pids:
        kill(pid)
    deadline = time.monotonic() + patience_s
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        mounts.abort_below(folder)
        time.sleep(0.02)
    mounts.detach_below(folder)
    return [pid for pid in pids if is_alive(pid)]


def clear(folder):
    """The same, and the folder goes, too, unless something is still mounted in it."""
    left = end(folder)
    if not mounts.mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)
    return left


def clear_abandoned():
    cleared = abandoned()
    for folder in cleared:
        left = clear(folder)
        print(f"{folder} was left by an earlier run; it was cleared"
              + (f", but these will not end: {left}" if left else ""), flush=True)
    return cleared


if __name__ == "__main__":
    clear_abandoned()
    sys.exit(0)
