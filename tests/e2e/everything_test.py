# SPDX-License-Identifier: Apache-2.0
"""The source changes during everything: while objects are written and deleted the daemon is killed, the
cache is emptied, damaged and verified, and snapshots come and go. Who opens a file sees one version of
it, and no older one than its freshness allows, or an error that says so."""

import bisect
import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from e2e.content import content, size_of
from rig.process import is_alive, wait_until

KIB, MIB = 1024, 1024 * 1024
BASE_SIZES = [200, 5000, 64 * KIB, 300 * KIB, MIB, 2 * MIB + 4096]
FILES = {f"d{n % 4}/f{n}": BASE_SIZES[n % len(BASE_SIZES)] for n in range(24)}
MAX_AGE_S = 1.0
# Between the clock of whoever asks and that of who answers, which are the same, but read in turn.
SLACK_S = 0.1
# The daemon is not there, or dies during a call; EIO: it gave up what it was asked by one that died.
WHILE_DOWN = {"ENOTCONN", "ECONNABORTED", "EIO", "ENOENT", "EINTR"}


class Writer:
    """Changes the store all the time and knows what was there when."""

    def __init__(self, s3, bucket, seed):
        self.s3, self.bucket, self.random = s3, bucket, random.Random(seed)
        self.version = dict.fromkeys(FILES, 0)
        # Of each name: when an operation began, when it had ended, and what was there then.
        self.history = {name: [(0.0, 0.0, None)] for name in FILES}
        self.stopping = threading.Event()
        self.counts, self.failed = Counter(), None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def put(self, name):
        self.version[name] += 1
        version = self.version[name]
        begin = time.monotonic()
        self.s3.put_object(Bucket=self.bucket, Key=name,
                           Body=content(name, version, 0, size_of(FILES[name], version)))
        self.history[name].append((begin, time.monotonic(), version))

    def delete(self, name):
        begin = time.monotonic()
        self.s3.delete_object(Bucket=self.bucket, Key=name)
        self.history[name].append((begin, time.monotonic(), None))

    def _run(self):
        try:
            while not self.stopping.is_set():
                name = self.random.choice(list(FILES))
                there = self.history[name][-1][2] is not None
                kind = "delete" if there and self.random.random() < 0.2 else "put"
                (self.delete if kind == "delete" else self.put)(name)
                self.counts[kind if there or kind == "delete" else "create"] += 1
                self.stopping.wait(self.random.random() * 0.06)
        except Exception as error:  # noqa: BLE001: told by stop(), in the test's thread
            self.failed = error

    def stop(self):
        self.stopping.set()
        self.thread.join(60)
        if self.failed:
            raise self.failed

    def states(self, name, begin, end):
        """All that was there at some moment from `begin` to `end`; None: nothing."""
        history = self.history[name]
        first = bisect.bisect_right([ended for _, ended, _ in history], begin) - 1
        return {state for began, _, state in history[max(first, 0):] if began <= end}


class Witnesses:
    def __init__(self, root, folder, seed, processes):
        self.gate = Path(folder) / "gate"
        self.files = [Path(folder) / f"witness{n}" for n in range(processes)]
        self.processes = []
        for number, file in enumerate(self.files):
            with open(file, "w") as output:
                self.processes.append(subprocess.Popen(
                    [sys.executable, str(Path(__file__).with_name("witness.py")), str(root),
                     str(self.gate), str(seed + number),
                     *(f"{name}={size}" for name, size in FILES.items())], stdout=output))

    @contextlib.contextmanager
    def none_open(self):
        """What is open in a killed daemon's folder the kernel goes on reading from the cache's file."""
        self.gate.touch()
        with open(f"{self.gate}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        self.gate.unlink()

    def finish(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            assert process.wait(timeout=60) == 0
        return [json.loads(line) for file in self.files for line in file.read_text().splitlines()]


class Trouble:
    """What happens to the daemon and its cache. Knows when the folder may have been away (`down`) and
    when it may have gone by a snapshot (`frozen`)."""

    def __init__(self, leat, mount_again, mount, witnesses, random_source):
        self.leat, self.mount_again, self.mount = leat, mount_again, mount
        self.witnesses, self.random = witnesses, random_source
        self.down, self.frozen = [], []
        self.snapshots, self.frozen_since = 0, None
        self.counts = Counter()

    def kill(self, damaged=0):
        if damaged:
            # Of what a snapshot shows nothing may be left in the store that could be cached.
            if self.frozen_since is not None:
                self.release()
            wait_until(self.data_files, "the readers to have something cached")
        begin = time.monotonic()
        pids = self.leat.daemon_pids()  # nobody is left to start the next one
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if damaged:
            with self.witnesses.none_open():
                # One that hangs is ended by the next command, here as everywhere.
                self.leat.run("mounts", check=False)
                wait_until(lambda: not any(map(is_alive, pids)), "the killed daemon to be gone")
                for _ in range(damaged):
                    self.damage_one()
        self.mount_again()
        self.thaw()  # the new daemon's mount goes by no snapshot
        self.down.append((begin, time.monotonic()))

    def data_files(self):
        found = []
        for path in self.leat.cache_dir.rglob("*.data"):
            with contextlib.suppress(FileNotFoundError):  # it may just be evicted
                if path.stat().st_size > 0:
                    found.append(path)
        return sorted(found)

    def damage_one(self):
        files = self.data_files()
        if not files:
            return
        path = self.random.choice(files)
        with open(path, "r+b") as file:
            offset = self.random.randrange(path.stat().st_size)
            file.seek(offset)
            old = file.read(64)
            file.seek(offset)
            file.write(bytes(byte ^ 0x5a for byte in old))
        self.counts["damaged bytes"] += len(old)

    def freeze(self):
        self.snapshots += 1
        since = time.monotonic()
        self.frozen_since = min(self.frozen_since or since, since)
        self.leat.run("snapshot", "build", self.mount, "--name", f"s{self.snapshots}", "--use")

    def thaw(self):
        if self.frozen_since is not None:
            self.frozen.append((self.frozen_since, time.monotonic()))
            self.frozen_since = None

    def release(self):
        if self.frozen_since is None:
            self.freeze()
        self.leat.run("snapshot", "release", self.mount)
        self.thaw()

    def verify(self):
        done = self.leat.run("cache", "verify", check=False)
        assert done.returncode in (0, 1), done.stderr
        self.counts["found damage"] += "damage" in done.stderr

    def one(self, kind):
        {"kill": self.kill, "damage": lambda: self.kill(damaged=4), "freeze": self.freeze,
         "release": self.release, "verify": self.verify,
         "evict": lambda: self.leat.run("cache", "evict", "--size", "4MiB"),
         "evict all": lambda: self.leat.run("cache", "evict", "--all")}[kind]()
        self.counts[kind] += 1


KINDS = ["kill", "damage", "freeze", "release", "verify", "evict", "evict all"]


def overlapping(spans, begin, end):
    return [span for span in spans if span[0] <= end and begin <= span[1]]


def broken_promise(seen, writer, trouble):
    """What is wrong with one open, if anything."""
    if "wrong" in seen:
        return seen["wrong"]
    begin, opened = seen["begin"], seen["opened"]
    down = overlapping(trouble.down, begin, seen.get("end", opened))
    error = seen.get("error")
    if error == "ESTALE" or error in WHILE_DOWN and down:
        return None
    oldest = begin - MAX_AGE_S - SLACK_S
    # A snapshot is as old as the names of which it was made.
    for span in overlapping(trouble.frozen, oldest, opened):
        oldest = min(oldest, span[0] - MAX_AGE_S - SLACK_S)
    allowed = writer.states(seen["name"], oldest, opened)
    if error == "ENOENT" and seen["at"] == "open":
        return None if None in allowed else f"not there, but it was, as one of {allowed}"
    if error:
        return f"{error} at {seen['at']}"
    return None if seen["version"] in allowed else f"shows {seen['version']}, was one of {allowed}"


@pytest.mark.timeout(300 + 120 * int(os.environ.get("LEAT_TEST_SCALE") or 1))
@pytest.mark.parametrize("passthrough", [True, False], ids=["passthrough", "daemon"])
def test_the_source_changes_during_everything(leat, store, s3, bucket, folder, seed, scale,
                                              passthrough):
    leat.cache_size = "16MiB"
    random_source = random.Random(seed)
    writer = Writer(s3, bucket, seed)
    for name in list(FILES)[:16]:
        writer.put(name)

    def mount_again():
        return leat.mount(store, bucket, os.path.join(folder, "mnt"),
                          *([] if passthrough else ["--no-passthrough"]),
                          freshness=f"max-age={MAX_AGE_S:.0f}s")

    mount = mount_again()
    witnesses = Witnesses(mount, folder, seed, processes=3)
    trouble = Trouble(leat, mount_again, mount, witnesses, random_source)
    writer.thread.start()
    for _ in range(2 * scale):
        for kind in random_source.sample(KINDS, len(KINDS)):
            time.sleep(random_source.random() * 0.8)
            trouble.one(kind)
    if trouble.frozen_since is not None:
        trouble.release()
    time.sleep(MAX_AGE_S)
    writer.stop()
    seen = witnesses.finish()
    check_what_was_seen(seen, writer, trouble)
    time.sleep(MAX_AGE_S + SLACK_S)
    for name, history in writer.history.items():
        version = history[-1][2]
        if version is None:
            assert not (mount / name).exists(), name
        else:
            assert (mount / name).read_bytes() == \
                content(name, version, 0, size_of(FILES[name], version)), name


def check_what_was_seen(seen, writer, trouble):
    counts = Counter(one.get("error") or "whole" for one in seen)
    frozen = sum(bool(overlapping(trouble.frozen, one["begin"], one["opened"])) for one in seen)
    print("opens:", dict(counts), f"({frozen} while a snapshot was used)")
    print("store:", dict(writer.counts), "trouble:", dict(trouble.counts))
    broken = [f"{one}: {why}" for one in seen if (why := broken_promise(one, writer, trouble))]
    assert not broken, f"{len(broken)} of {len(seen)} opens:\n" + "\n".join(broken[:20])
    # That it was a test: everything happened, and of all there was much to see.
    assert all(trouble.counts[kind] >= 2 for kind in KINDS), trouble.counts
    assert trouble.counts["damaged bytes"] > 0
    assert counts["whole"] > 100 and counts["ENOENT"] > 0
    assert len({(one["name"], one["version"]) for one in seen if "version" in one}) > 2 * len(FILES)
    assert all(writer.counts[kind] > 5 for kind in ("put", "delete", "create")), writer.counts
    assert frozen > 0
