# SPDX-License-Identifier: Apache-2.0
"""leat top: one look for pipes, and the full screen on a pseudo-terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest

from rig.leat import leat_program
from rig.process import wait_until

SIZE = 1 << 20
ALTERNATE_SCREEN, ORDINARY_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture
def mounted(leat, store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a" * SIZE)
    return leat.mount(store, bucket, os.path.join(folder, "mnt"))


@pytest.fixture
def reading(mounted):
    """Programs read while the test runs, bytes that the kernel does not have."""
    ended = threading.Event()

    def read():
        with open(mounted / "a", "rb", buffering=0) as file:
            while not ended.is_set():
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                file.seek(0)
                file.read(SIZE)
    thread = threading.Thread(target=read)
    thread.start()
    yield mounted
    ended.set()
    thread.join()


class Screen:
    """A program on a terminal of its own."""

    def __init__(self, leat, *arguments, term="xterm", rows=40, columns=120):
        self.ours, self.terminal = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.terminal)
        environment = {**leat.environment(), "TERM": term, "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [leat_program(), "top", *arguments], env=environment, stdin=self.terminal,
            stdout=self.terminal, stderr=self.terminal, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = self.ever = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def key(self, text):
        os.write(self.ours, text.encode())

    def read(self, timeout_s):
        if select.select([self.ours], [], [], timeout_s)[0]:
            new = os.read(self.ours, 1 << 16)
            self.seen += new
            self.ever += new
            return True
        return False

    def wait_for(self, *texts, timeout_s=30):
        """Until all of them were drawn since the last call. Only what has changed is sent, so it is
        made to draw everything now and then."""
        deadline = time.monotonic() + timeout_s
        redraw = time.monotonic() + 0.5
        while not all(text.encode() in self.seen for text in texts):
            assert time.monotonic() < deadline, f"waited in vain for {texts}: {self.seen!r}"
            if time.monotonic() > redraw and ALTERNATE_SCREEN in self.ever:
                self.process.send_signal(signal.SIGWINCH)
                redraw = time.monotonic() + 0.5
            self.read(0.1)
        self.seen = b""

    def wait_for_end(self, timeout_s=20):
        """The exit code; the terminal has to be as it was."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end: {self.seen!r}"
            self.read(0.05)
        while self.read(0):
            pass
        assert ORDINARY_SCREEN in self.seen
        assert termios.tcgetattr(self.terminal) == self.before
        return self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.terminal)


@pytest.fixture
def screen(leat):
    opened = []

    def open_one(*arguments, **options):
        opened.append(Screen(leat, *arguments, **options))
        return opened[-1]
    yield open_one
    for one in opened:
        one.close()


def test_one_look_as_text_and_as_numbers(leat, reading):
    def text_of_some():
        text = leat.run("top", "--once", "--interval", "500ms").stdout
        return text if re.search(r"^to programs +[0-9.]+ [KMG]iB/s$", text, re.MULTILINE) else None

    def numbers_of_some():
        sample = leat.json("top", "--interval", "500ms")
        return sample if sample["bytes_per_second"] > 0 else None
    # The programs may have had no turn during a look.
    text = wait_until(text_of_some, "a look at bytes, as text")
    assert f"pid {leat.daemon_pid()}" in text
    assert re.search(rf"^{reading} +[0-9.]+ [KMG]iB/s .* s3://data/$", text, re.MULTILINE), text
    assert "\x1b" not in text
    sample = wait_until(numbers_of_some, "a look at bytes, as numbers")
    assert 0.4 < sample["seconds"]
    assert sum(one["bytes_per_second"] for one in sample["origins"]) == pytest.approx(
        sample["bytes_per_second"])
    assert [one["path"] for one in sample["folders"]] == [str(reading)]
    assert sample["folders"][0]["bytes_per_second"] > 0
    assert sample["folders"][0]["source"] == "s3://data/"
    assert sample["cache_capacity_bytes"] == 1 << 30
    assert "slow" in sample and sample["jobs"] == []


def test_a_load_has_a_rate_of_its_own(leat, store, s3, bucket, folder):
    for i in range(4):
        s3.put_object(Bucket=bucket, Key=f"{i}", Body=os.urandom(8 * SIZE))
    mounted = leat.mount(store, bucket, os.path.join(folder, "mnt"), "--option", "bandwidth=8MiB")
    job = leat.json("load", mounted, "--background")["id"]

    def loading():
        sample = leat.json("top", "--interval", "1s")
        return sample if sample["loaded"]["bytes_per_second"] > 0 else None
    sample = wait_until(loading, "a look at a load")
    assert sample["bytes_per_second"] == 0 and [one["id"] for one in sample["jobs"]] == [job]
    leat.run("jobs", "cancel", job)


def test_passthrough_reads_are_not_shown_as_zero(leat, store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="a", Body=os.urandom(4 * SIZE))
    mounted = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    if not leat.json("mounts")["mounts"][0]["features"]["passthrough"]:
        pytest.skip("this kernel has no passthrough")
    leat.run("load", mounted)
    wait_until(lambda: leat.json("stat", mounted / "a")["served_by"] == "kernel", "passthrough")
    with open(mounted / "a", "rb", buffering=0) as file:
        assert leat.json("mounts")["mounts"][0]["passthrough_files"] == 1
        file.read(SIZE)
        sample = leat.json("top", "--interval", "100ms")
        assert (sample["bytes_per_second"], sample["passthrough_files"]) == (0, 1)
        text = leat.run("top", "--once", "--interval", "100ms").stdout
        assert re.search(r"^to programs +not counted$", text, re.MULTILINE), text
        assert "1 open file is passed through" in text
    text = leat.run("top", "--once", "--interval", "100ms").stdout
    assert re.search(r"^to programs +0 B/s$", text, re.MULTILINE), text


def test_slow_operations_are_told(leat, store, s3, bucket, folder):
    leat.settings["LEAT_LOG_SLOW_THRESHOLD"] = "1ms"
    s3.put_object(Bucket=bucket, Key="a", Body=b"a" * SIZE)
    mounted = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    os.listdir(mounted)
    (mounted / "a").read_bytes()
    slow = leat.json("top", "--interval", "100ms")["slow"]
    assert slow and all(one["seconds"] >= 0.001 for one in slow)
    assert str(mounted) in slow[0]["path"]
    assert f"{slow[0]['operation']}  " in leat.run("top", "--once", "--interval", "100ms").stdout


def test_no_daemon_and_a_wrong_interval(leat):
    assert leat.run("top", "--once", check=False).returncode == 4
    for interval in ("5", "0s", "1ms", "2h"):
        done = leat.run("top", "--interval", interval, check=False)
        assert done.returncode == 2 and interval in done.stderr, interval


def test_the_screen_is_drawn_and_given_back(leat, mounted, screen):
    shown = screen("--interval", "200ms")
    shown.wait_for("to programs", "local disk", "every 200ms")
    shown.key("?")
    shown.wait_for("pause, and go on")
    shown.key("s")
    shown.wait_for("mounts, every 200ms", str(mounted), "s3://data/")
    shown.key("+")
    shown.wait_for("every 500ms")
    shown.key("-p")
    shown.wait_for("every 200ms, paused")
    shown.resize(5, 30)
    shown.wait_for("mounts, every 200ms, paused")
    shown.key("q")
    assert shown.wait_for_end() == 0


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_the_terminal_is_restored_at_the_end(mounted, screen, ended_by):
    shown = screen("--interval", "200ms")
    shown.wait_for("local disk")
    shown.process.send_signal(ended_by)
    assert shown.wait_for_end() == -ended_by


def test_it_is_stopped_and_goes_on(mounted, screen):
    shown = screen("--interval", "200ms")
    shown.wait_for("local disk")
    shown.key("\x1a")
    _, status = os.waitpid(shown.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    shown.wait_for(ORDINARY_SCREEN.decode())
    assert termios.tcgetattr(shown.terminal) == shown.before
    shown.process.send_signal(signal.SIGCONT)
    shown.wait_for("local disk")
    shown.key("q")
    assert shown.wait_for_end() == 0


def test_it_waits_for_the_next_daemon(leat, mounted, screen):
    shown = screen("--interval", "200ms")
    shown.wait_for("local disk")
    # The supervisor is held back, so that there is a time without a daemon.
    status = leat.json("status")
    supervisor, daemon = status["supervisor_pid"], status["pid"]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        os.kill(daemon, signal.SIGKILL)
        shown.wait_for("waiting for the next one")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    leat.wait_for_next(daemon)
    shown.wait_for(f"pid {leat.json('status')['pid']}", "local disk")
    shown.key("q")
    assert shown.wait_for_end() == 0


def test_an_unknown_terminal_is_named(leat, mounted, screen):
    shown = screen(term="no-such-terminal")
    shown.wait_for("type 'no-such-terminal' (TERM): TERM=xterm")
    assert shown.process.wait(timeout=20) == 1
