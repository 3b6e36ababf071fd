# SPDX-License-Identifier: Apache-2.0
"""The leat program with a runtime folder and cache of its own, cleaned up whatever happened."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

from rig import leftovers
from rig.mounts import detach_below, mounts_below
from rig.process import (is_alive, name_of, parent_of, pids_with_environment, start_time,
                         wait_until)

ROOT = Path(__file__).resolve().parent.parent.parent


def leat_program():
    program = os.environ.get("LEAT_BIN") or str(ROOT / "build" / "release" / "leat")
    if not os.access(program, os.X_OK):
        raise RuntimeError(f"no leat at {program}: run make release, or set LEAT_BIN")
    return program


class Leat:
    # Of all: is given each command line with what it printed. The tests compare documents with their
    # schemas by it; the demo and the benchmarks do without.
    listener = None

    def __init__(self, folder, cache_dir=None, cache_size="1GiB"):
        self.folder = Path(folder)
        self.runtime_dir = self.folder / "run"
        self.cache_dir = Path(cache_dir or self.folder / "cache")
        self.cache_size = cache_size
        self.supervised = True
        self.group = None  # a MemoryGroup that what is started is in
        self.before = []  # words in front of each command line, as of nsenter
        self.settings = {}  # LEAT_NAME -> value, of a daemon that is started
        self.runtime_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.cache_dir.mkdir(parents=True, exist_ok=True)

    def environment(self, credentials=None):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("AWS_", "LEAT_")) and not k.lower().endswith("_proxy")}
        # Any port for the metrics: that of the configuration may be another daemon's.
        kept.update(LEAT_RUNTIME_DIR=str(self.runtime_dir), LEAT_TELEMETRY_LISTEN="127.0.0.1:0",
                    LEAT_SNAPSHOT_DIRECTORY=str(self.folder / "snapshots"),
                    LEAT_DAEMON_SUPERVISED=str(self.supervised).lower())
        kept.update({**self.settings, **(credentials or {})})
        return kept

    def run(self, *arguments, credentials=None, check=True, timeout_s=120, text=True):
        done = subprocess.run([*self.before, leat_program(), *map(str, arguments)],
                              capture_output=True, text=text, timeout=timeout_s,
                              env=self.environment(credentials), stdin=subprocess.DEVNULL,
                              preexec_fn=self.group.enter if self.group else None)
        if Leat.listener:
            Leat.listener([str(one) for one in arguments], done.stdout)
        if check and done.returncode != 0:
            raise AssertionError(f"leat {' '.join(map(str, arguments))} ended with "
                                 f"{done.returncode}: {done.stderr}{done.stdout if text else ''}")
        return done

    def json(self, *arguments, **options):
        return json.loads(self.run(*arguments, "--json", **options).stdout)

    def mount(self, store, source, directory, *options, freshness="max-age=1s", check=True,
              credentials=None):
        """Mounts `source` of `store` ("bucket" or "bucket/prefix") and answers the folder."""
        directory = Path(directory)
        with contextlib.suppress(OSError):  # it may be the folder of a dead daemon, or in a mount
            os.makedirs(directory)
        done = self.run("mount", f"s3://{source}", directory,
                        "--option", f"endpoint={store.endpoint}", "--option", "region=us-east-1",
                        "--cache-dir", self.cache_dir, "--cache-size", self.cache_size,
                        "--freshness", freshness, *options,
                        credentials=credentials or store.credentials, check=check)
        return directory if check else done

    def umount(self, directory):
        self.run("umount", directory)

    def daemon_pids(self):
        """Processes of ours that outlive a command: the supervisor, then the daemon."""
        name = os.path.basename(leat_program())
        found = pids_with_environment("LEAT_RUNTIME_DIR", str(self.runtime_dir))
        alive = [pid for pid, program in found.items() if program == name and is_alive(pid)]
        # The later one need not have the greater number: those begin anew some day.
        order = {}
        for pid in alive:
            with contextlib.suppress(OSError):  # gone since
                order[pid] = (parent_of(pid) in alive, start_time(pid), pid)
        return sorted(order, key=order.get)

    def daemon_pid(self):
        """Between one that died and the next one, the next one's."""
        pids = []

        def there():
            # The next one has the supervisor's name until it has become a daemon.
            pids[:] = [pid for pid in self.daemon_pids() if name_of(pid) != "leat-supervisor"]
            return pids or not self.daemon_pids()

        wait_until(there, "a daemon")
        assert pids, "no daemon is running"
        return pids[-1]

    def kill9(self):
        """Ends the daemon and who would start the next one without a chance to say anything, and
        waits until they are gone."""
        pids = self.daemon_pids()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)), "the killed daemon to be gone")
        return pids

    def kill_daemon(self):
        """The same for the daemon alone: the next one goes on. Returns when it answers."""
        before = self.daemon_pid()
        os.kill(before, signal.SIGKILL)
        self.wait_for_next(before)
        return before

    def wait_for_next(self, before):
        def answers():
            done = self.run("status", "--json", check=False)
            return done.returncode == 0 and json.loads(done.stdout)["pid"] != before
        wait_until(answers, "the next daemon to answer")

    def stop(self):
        """Unmounts everything and waits for the daemon to end by itself."""
        for point in mounts_below(self.folder):
            self.run("umount", point, check=False)
        pids = self.daemon_pids()
        if pids:
            # Of no mounts it ends by itself.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[0], signal.SIGTERM)  # a supervisor tells its daemon
        wait_until(lambda: not any(map(is_alive, pids)), "the daemon to end", timeout_s=30)

    def close(self):
        try:
            self.stop()
        except (AssertionError, RuntimeError, subprocess.SubprocessError, OSError):
            leftovers.end(self.folder)
        detach_below(self.folder)
