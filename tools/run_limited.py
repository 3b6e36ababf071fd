#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command for so long and no longer, whatever it hangs in; then says what hung and goes on.

Usage: run_limited.py [--mounts SECONDS] [--patience SECONDS] SECONDS COMMAND…
Ends with the command's exit status, or with 124 when it was over its time. --mounts: FUSE mounts of tests
of this command that are older are aborted, as their tests have ended by then, or hang. --patience (20):
from the first signal, after which the command may write down what has passed, to the next.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))
from rig import leftovers, mounts  # noqa: E402
from rig.process import parent_of  # noqa: E402
from rig.watchdog import description  # noqa: E402

OVER_TIME = 124
LOOK_S = 2


def say(text):
    print(text, flush=True)


def owner_in(session, point):
    """Whether a mount is that of a test which `session` runs, or which nobody runs any more."""
    name = next(filter(leftovers.NAMES.match, point.split("/")), None)
    if name is None:
        return False
    pid = leftovers.owner(name)
    try:
        if leftovers.owner_is_gone(name) or os.getsid(pid) == session:
            return True
        while pid > 1 and pid != session:  # it may have made itself a session of its own
            pid = parent_of(pid)
        return pid == session
    except OSError:
        return True  # gone meanwhile


class Mounts:
    """FUSE mounts of the tests of a session, and since when they have been seen."""

    def __init__(self, session):
        self.session, self.since = session, {}

    def look(self):
        now = time.monotonic()
        found = {mount for mount in mounts.mounts()
                 if mount.connection is not None and owner_in(self.session, mount.point)}
        self.since = {mount: self.since.get(mount, now) for mount in found}

    def abort_older(self, age_s):
        for mount, since in self.since.items():
            if time.monotonic() - since > age_s and mounts.abort(mount.connection):
                say(f"the mount at {mount.point} is over {age_s:.0f} s old; it was aborted")


def wait(process, deadline, each=lambda: None):
    """Whether it ended before the deadline."""
    while process.poll() is None:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        each()
        try:
            process.wait(min(LOOK_S, left))
        except subprocess.TimeoutExpired:
            continue
    return True


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def end(process, seen, patience_s):
    """By ever harder means. What no signal ends is left behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        signal_group(process, number)
        if wait(process, time.monotonic() + patience_s):
            break
        seen.look()
        seen.abort_older(0)
    signal_group(process, signal.SIGKILL)  # children that its end did not end


def run(command, limit_s, mounts_s, patience_s):
    process = subprocess.Popen(command, start_new_session=True)
    seen = Mounts(process.pid)

    def watch():
        seen.look()
        seen.abort_older(mounts_s)

    try:
        if wait(process, time.monotonic() + limit_s, watch):
            return process.returncode if process.returncode >= 0 else 128 - process.returncode
        say(f"\n{' '.join(command[:6])} … is over its {limit_s:g} s and will be ended\n"
            f"{description(process.pid)}")
        end(process, seen, patience_s)
        return OVER_TIME
    except KeyboardInterrupt:
        end(process, seen, patience_s)
        return 128 + signal.SIGINT


def interrupted(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description="Runs a command for so long and no longer.")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--mounts", type=float, default=float("inf"))
    parser.add_argument("--patience", type=float, default=20.0)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupted)
    return run(options.command, options.seconds, options.mounts, options.patience)


if __name__ == "__main__":
    sys.stdout.flush()
    # Not sys.exit: a thread that reads what hangs would be waited for.
    code = main()
    sys.stdout.flush()
    os._exit(code)
