# SPDX-License-Identifier: Apache-2.0
"""The line that long commands write over and over on a terminal: how far, how fast, how long yet."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from rig.faulty import FaultyFront
from rig.leat import leat_program
from rig.process import wait_until

FILES, SIZE = 200, 100 * 1024
LINE = re.compile(r"\r\x1b\[K(\d+) of 200 files, ([\d.]+ \wi?B|\d+ B) of 19\.5 MiB, \d+%, "
                  r"[1-9][\d.]* [KM]iB/s, "
                  r"\d+(?:ms|s|m\d*s?) left")


class SlowFront(FaultyFront):
    """Each connection gets 160 KiB/s."""

    def pass_body(self, wire, upstream, rest, size):
        wire.sendall(rest)
        left = size - len(rest)
        while left > 0:
            piece = upstream.recv(min(left, 1 << 14))
            if not piece:
                return False
            self.ended.wait(len(piece) / (160 * 1024))
            wire.sendall(piece)
            left -= len(piece)
        return True


@pytest.fixture
def front(store, s3, bucket, folder):
    for number in range(FILES):
        s3.put_object(Bucket=bucket, Key=f"part/{number:03}", Body=os.urandom(SIZE))
    slow = SlowFront(store, folder, seed=0, share=0)
    yield slow
    slow.stop()


class Terminal:
    """A command with all its streams on a terminal of its own."""

    def __init__(self, leat, *words, credentials=None):
        self.ours, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [leat_program(), *map(str, words)], env=leat.environment(credentials), stdin=terminal,
            stdout=terminal, stderr=terminal, start_new_session=True,
            # A shell has what it runs in the background ignore it, and so do children of that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(terminal)
        self.seen = ""

    def read(self):
        if select.select([self.ours], [], [], 0.2)[0]:
            try:
                self.seen += os.read(self.ours, 1 << 16).decode()
            except OSError:  # the program has ended
                return False
        return True

    def wait_for_growth(self, pattern, timeout_s=60):
        """Until two lines of all that was written have another number, the later one the greater."""
        deadline = time.monotonic() + timeout_s
        while len(numbers := [int(line[1]) for line in pattern.finditer(self.seen)]) < 2 \
                or numbers[0] >= numbers[-1]:
            assert time.monotonic() < deadline and self.read(), f"{numbers} in {self.seen!r}"

    def end(self):
        """What it has written, after it was interrupted as by Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 60
        while self.read():  # until nobody has the terminal any more
            assert time.monotonic() < deadline, self.seen
        self.process.wait(timeout=60)
        os.close(self.ours)
        return self.seen


def test_a_load_says_how_fast_and_how_long_yet(leat, front, bucket, folder):
    mounted = leat.mount(front, bucket, os.path.join(folder, "mnt"), "-o", "requests_per_second=20")
    shown = Terminal(leat, "load", mounted)
    shown.wait_for_growth(LINE)
    # The job is the daemon's: what goes on, and how to end it.
    said = re.search(r"\r\x1b\[Kleat: interrupted; job (\d+) continues: 'leat jobs wait \1' waits "
                     r"for it, 'leat jobs cancel \1' ends it", shown.end())
    assert said, shown.seen
    assert shown.process.returncode == 130
    job = leat.json("jobs", "show", said[1])
    assert job["state"] == "running"
    waiting = Terminal(leat, "jobs", "wait", said[1])
    waiting.wait_for_growth(LINE)
    assert f"job {said[1]} continues" in waiting.end() and waiting.process.returncode == 130
    leat.run("jobs", "cancel", said[1])
    wait_until(lambda: leat.json("jobs", "show", said[1])["state"] == "cancelled", "its end")


def test_totals_of_a_deep_tree_are_final_early(leat, store, s3, front, bucket, folder):
    """Also where the first directory alone takes a while."""
    for number in range(20):
        s3.put_object(Bucket=bucket, Key=f"z/{number}/{number}/x", Body=os.urandom(SIZE))
    mounted = leat.mount(front, bucket, os.path.join(folder, "mnt"))
    number = leat.json("load", mounted, "--background")["id"]

    def planned():
        job = leat.json("jobs", "show", number)
        return job if job["planned"] else None
    job = wait_until(planned, "the totals")
    assert (job["files_total"], job["bytes_total"]) == (220, 220 * SIZE)
    assert job["files_done"] < 200 and job["state"] == "running"
    leat.run("jobs", "cancel", number)


def test_a_copy_says_how_fast_and_how_long_yet(leat, front, bucket, folder):
    source = f"s3://{bucket}/part?endpoint={front.endpoint}&region=us-east-1"
    shown = Terminal(leat, "cp", "-r", source, os.path.join(folder, "copy"),
                     credentials=front.credentials)
    shown.wait_for_growth(LINE)
    # The line goes before anything else is said.
    assert re.search(r"\r\x1b\[Kleat: interrupted after \d+ files?; --update goes on", shown.end())
    assert shown.process.returncode == 130


def test_a_stalled_copy_reports_progress(leat, front, bucket, folder):
    """No byte comes for the first seconds, and the line is there all the same."""
    source = f"s3://{bucket}/part/000?endpoint={front.endpoint}&region=us-east-1"
    shown = Terminal(leat, "cp", "--bandwidth", "1KiB", source, os.path.join(folder, "copy"),
                     credentials=front.credentials)
    deadline = time.monotonic() + 60
    while not re.search(r"0 of 1 file, .* of 100\.0 KiB, \d+%", shown.seen):
        assert time.monotonic() < deadline and shown.read(), shown.seen
    shown.end()
    assert shown.process.returncode == 130


def test_in_a_pipe_there_is_no_such_line(leat, front, bucket, folder):
    mounted = leat.mount(front, bucket, os.path.join(folder, "mnt"))
    assert "\x1b" not in leat.run("load", mounted).stderr
