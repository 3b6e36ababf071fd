# SPDX-License-Identifier: Apache-2.0
"""A program that shows a bucket as a folder, with the interface of a mounter (first_rows.py)."""

import contextlib
import os
import shutil
import subprocess

from rig import leftovers
from rig.mounts import abort_below
from rig.process import cpu_seconds, wait_until

START_TIMEOUT_S = 60


def clean_environment():
    """Without this machine's credentials, bundles of certificates and proxies."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("AWS_", "RCLONE_")) and not k.lower().endswith("_proxy")}


class Peer:
    """A program that stays in the foreground; a subclass gives its command line."""

    name, program, variable = "", "", ""
    runs_max = 100

    def __init__(self, setting):
        self.setting = setting
        self.folder = setting.folder / "peers" / self.name
        self.point = self.folder / "mnt"
        self.processes = []
        self.binary = os.environ.get(self.variable) if self.variable else shutil.which(self.program)

    @classmethod
    def is_wanted(cls):
        """False for one that only the environment could name, and does not."""
        return not cls.variable or cls.variable in os.environ

    def missing(self):
        """Why it cannot run; empty where it can."""
        if self.binary and os.access(self.binary, os.X_OK):
            return ""
        if self.variable:
            return f"{self.variable} names no program"
        return f"there is no {self.program}: tools/setup bench"

    def words(self):
        raise NotImplementedError

    def environment(self):
        return dict(clean_environment(), **self.setting.store.credentials)

    def start(self):
        leftovers.clear(self.folder)
        self.point.mkdir(parents=True)
        self.run()
        return self

    def run(self):
        self.spawn(self.name, self.words(), lambda: os.path.ismount(self.point))

    def spawn(self, name, words, is_ready):
        """One more process of it, in front of those before; returns when that is ready."""
        log = self.folder / f"{name}.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                list(map(str, [self.binary, *words])), env=self.environment(), cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self.processes.insert(0, process)

        def ready():
            if process.poll() is not None:
                end = log.read_text(errors="replace")[-500:].strip()
                raise RuntimeError(f"{name} ended with {process.returncode}: {end}")
            return is_ready()
        wait_until(ready, f"{name} to be ready", START_TIMEOUT_S)

    def cpu_seconds(self):
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def wait_until_written(self, _size):
        """They tell nobody; what they do after the read is not counted."""

    def stop(self):
        """Unmounted politely, else ended; its data goes."""
        if self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(["umount", self.point], capture_output=True, timeout=20, check=False)
        while self.processes:
            process = self.processes.pop(0)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.terminate()
                process.wait(10)
            if process.poll() is None:
                abort_below(self.folder)
                process.kill()
                process.wait()
        leftovers.clear(self.folder)
