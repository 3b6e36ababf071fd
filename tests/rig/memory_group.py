# SPDX-License-Identifier: Apache-2.0
"""A control group that bounds the memory of the processes in it, of whichever version is mounted."""

import contextlib
import os
from pathlib import Path

from rig.process import is_alive, wait_until

ROOT = Path("/sys/fs/cgroup")
PREFIX = "leat-test-"


class NoGroups(Exception):
    """Why there are none for us here."""


class MemoryGroup:
    def __init__(self, limit_bytes):
        unified = "memory" in self.text_of(ROOT / "cgroup.controllers").split()
        base = ROOT if unified else ROOT / "memory"
        limit_file = "memory.max" if unified else "memory.limit_in_bytes"
        self.unified = unified
        self.folder = base / f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
        self.clear_abandoned(base)
        try:
            if unified and "memory" not in self.text_of(ROOT / "cgroup.subtree_control").split():
                (ROOT / "cgroup.subtree_control").write_text("+memory")
            self.folder.mkdir()
        except OSError as error:
            raise NoGroups(f"no memory group can be made in {base}: {error}") from error
        try:
            (self.folder / limit_file).write_text(str(limit_bytes))
            if unified:
                with contextlib.suppress(OSError):  # without swap there is no such file
                    (self.folder / "memory.swap.max").write_text("0")
        except OSError as error:
            self.close()
            raise NoGroups(f"memory cannot be limited in {base}: {error}") from error

    @staticmethod
    def text_of(path):
        try:
            return path.read_text()
        except OSError:
            return ""

    @staticmethod
    def clear_abandoned(base):
        for left in base.glob(f"{PREFIX}*"):
            if not is_alive(int(left.name.split("-")[2])):
                with contextlib.suppress(OSError):
                    left.rmdir()

    def enter(self):
        """For the calling process, and all that it starts from now on."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def pids(self):
        return [int(pid) for pid in self.text_of(self.folder / "cgroup.procs").split()]

    def oom_kills(self):
        events = self.folder / ("memory.events" if self.unified else "memory.oom_control")
        words = dict(line.split() for line in events.read_text().splitlines())
        return int(words["oom_kill"])

    def peak_bytes(self):
        """Page cache included; nothing where the kernel does not keep it."""
        name = "memory.peak" if self.unified else "memory.max_usage_in_bytes"
        return int(self.text_of(self.folder / name) or 0)

    def close(self):
        """When the processes in it have ended."""
        wait_until(lambda: not self.pids(), "the processes of a memory group to end")
        wait_until(self.removed, "a memory group to go")

    def removed(self):
        with contextlib.suppress(OSError):
            self.folder.rmdir()
        return not self.folder.exists()
