# SPDX-License-Identifier: Apache-2.0
"""Watchdog: a test that is over its time and does not end, since it waits in the kernel for a folder or a
process that hangs, is freed: the FUSE connections and the processes of its folder are ended."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from rig import leftovers

TESTS = Path(__file__).resolve().parent.parent
# After the test's own time-out, which suffices wherever a signal is obeyed.
GRACE_S = 15.0
AGAIN_S = 20.0


class Watchdog:
    """Watches one test at a time; its folders are those that this process makes."""

    def __init__(self, grace_s=GRACE_S, again_s=AGAIN_S, say=None):
        self.grace_s, self.again_s = grace_s, again_s
        self.say = say or (lambda text: print(text, file=sys.__stderr__, flush=True))
        self.changed = threading.Condition()
        self.deadline, self.watched, self.fired = None, "", 0
        threading.Thread(target=self._run, daemon=True, name="watchdog").start()

    def arm(self, what, limit_s):
        with self.changed:
            self.deadline, self.watched = time.monotonic() + limit_s + self.grace_s, what
            self.changed.notify()

    def disarm(self):
        with self.changed:
            self.deadline = None
            self.changed.notify()

    def _run(self):
        while True:
            with self.changed:
                now = time.monotonic()
                if self.deadline is None or self.deadline > now:
                    self.changed.wait(None if self.deadline is None else self.deadline - now)
                    continue
                what, self.deadline = self.watched, now + self.again_s
            self._free(what)

    def _free(self, what):
        self.fired += 1
        self.say(f"\n{what} is over its time and does not end; its folders and processes are ended\n"
                 f"{description()}")
        for folder in leftovers.own_folders():
            left = leftovers.end(folder)
            if left:
                self.say(f"these will not end: {left}")


def description(session=None, patience_s=30):
    """What rig.hang says, as far as it gets."""
    words = [sys.executable, "-m", "rig.hang", *([str(session)] if session else [])]
    asked = subprocess.Popen(words, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, text=True, errors="replace")
    said = []
    reader = threading.Thread(target=lambda: said.extend(iter(asked.stdout.readline, "")), daemon=True)
    reader.start()
    reader.join(patience_s)
    asked.kill()  # not waited for: it may hang itself
    return "".join(said)
