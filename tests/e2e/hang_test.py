# SPDX-License-Identifier: Apache-2.0
"""The tests' own means against what hangs: a run of them never stands still, whatever it meets."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rig import leftovers, mounts
from rig.hang import FUSE_WAITS
from rig.leat import Leat
from rig.process import is_alive, is_ending, start_time, wait_until
from rig.watchdog import TESTS, Watchdog

LIMITED = TESTS.parent / "tools" / "run_limited.py"
# A process with a folder of its own, like a test, which it mounts; then it waits to be killed.
TEST_RUN = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from rig import leftovers
from rig.hang import FUSE_WAITS
from rig.leat import Leat
folder = leftovers.make_folder()
os.mkdir(folder + "/source")
leat = Leat(folder + "/leat")
os.mkdir(folder + "/mnt")
leat.run("mount", folder + "/source", folder + "/mnt", "--cache-dir", leat.cache_dir)
print(folder, flush=True)
time.sleep(1000)
"""
# The same, and a thread of it is in a folder that does not answer, where no signal reaches it.
UNKILLABLE = """
import os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from rig import leftovers
from rig.faulty import FaultyFront
from rig.hang import FUSE_WAITS
from rig.leat import Leat
from rig.process import wait_until
from rig.store import Store
folder = leftovers.make_folder()
store = Store(folder + "/store").start()
front = FaultyFront(store, folder, 0, 0)
leat = Leat(folder + "/leat")
mount = leat.mount(front, store.bucket("data"), folder + "/mnt", freshness="max-age=0s")
front.hold("/")
thread = threading.Thread(target=lambda: os.stat(mount / "held"), daemon=True)
thread.start()
wait_until(lambda: front.held, "the request")
os.kill(leat.daemon_pid(), signal.SIGSTOP)
print(os.getpid(), folder, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def mounted(leat, folder):
    source, at = Path(folder) / "source", Path(folder) / "mnt"
    for path in (source, at):
        path.mkdir()
    (source / "file").write_bytes(b"text")
    leat.run("mount", source, at, "--cache-dir", leat.cache_dir)
    return at


@pytest.fixture
def apart(folder, monkeypatch):
    """Folders of tests are made in this one's, where no run that begins elsewhere clears them."""
    place = Path(folder) / "apart"
    place.mkdir()
    monkeypatch.setenv("LEAT_TEST_DIR", str(place))


def waits_in_fuse(thread):
    return Path(f"/proc/self/task/{thread.native_id}/wchan").read_text().startswith(FUSE_WAITS)


def hanging_thread(path):
    """Of this process, in a folder that does not answer."""
    found = []

    def look():
        try:
            found.append(os.listdir(path))
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    return thread, found


def test_a_test_on_a_hanging_folder_is_freed(leat, mounted):
    """Whether it waits itself, or for a process that waits and that no signal ends."""
    daemon = leat.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    child = subprocess.Popen(["ls", mounted / "file"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    thread, found = hanging_thread(mounted)
    wait_until(lambda: waits_in_fuse(thread), "the thread to wait")
    assert is_alive(child.pid)
    said = []
    watchdog = Watchdog(grace_s=0.1, again_s=5, say=said.append)
    watchdog.arm("this one", 0.1)
    thread.join(60)
    assert not thread.is_alive() and isinstance(found[0], OSError)
    assert child.wait(timeout=60) != 0
    watchdog.disarm()
    assert "this one is over its time" in said[0]
    wait_until(lambda: not is_alive(daemon), "the daemon to be ended")
    wait_until(lambda: mounts.mounts_below(mounted) == [], "the mount to go")


def test_a_test_in_its_time_is_left_alone(leat, mounted):
    watchdog = Watchdog(grace_s=0, again_s=5, say=pytest.fail)
    watchdog.arm("this one", 2)
    watchdog.disarm()
    watchdog.arm("and this", 1000)
    time.sleep(2.2)
    assert watchdog.fired == 0
    assert (mounted / "file").read_bytes() == b"text"
    watchdog.disarm()


def test_leftovers_of_a_killed_run_are_removed(leat, mounted, apart):
    run = subprocess.Popen([sys.executable, "-c", TEST_RUN, str(TESTS)], stdout=subprocess.PIPE,
                           text=True)
    folder = run.stdout.readline().strip()
    assert leftovers.owner_is_gone(os.path.basename(folder)) is False
    assert folder not in leftovers.abandoned()
    daemon = Leat(f"{folder}/leat").daemon_pid()
    run.kill()
    run.wait()
    os.kill(daemon, signal.SIGSTOP)  # nor does a hanging one stand in the way
    thread, found = hanging_thread(f"{folder}/mnt")
    wait_until(lambda: waits_in_fuse(thread), "the thread to wait")
    assert folder in leftovers.clear_abandoned()
    thread.join(30)
    assert isinstance(found[0], OSError)
    assert not is_alive(daemon) and not os.path.exists(folder)
    assert (mounted / "file").read_bytes() == b"text", "a run that goes on lost its daemon"


def test_only_folders_of_tests_are_anybodys():
    assert leftovers.owner("leat-e2e-abcdefgh") == 0, "without a process in its name"
    assert not leftovers.owner_is_gone("leat-e2e-somebody")
    assert not leftovers.owner_is_gone("leat")
    mine = f"leat-e2e-{os.getpid()}-{start_time(os.getpid())}-x"
    assert leftovers.owner(mine) == os.getpid() and not leftovers.owner_is_gone(mine)
    assert leftovers.owner_is_gone(f"leat-e2e-{os.getpid()}-{start_time(os.getpid()) + 1}-x")
    assert not is_ending(os.getpid())


def test_a_hanging_suite_ends_and_says_where():
    """It waits in the kernel for a daemon that has taken its request and never answers."""
    run = subprocess.Popen([LIMITED, "--patience", "3", "20", sys.executable, "-c", UNKILLABLE, str(TESTS)],
                           stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    text = run.communicate(timeout=200)[0]
    assert run.returncode == 124, text
    pid, folder = text.split("\n", 1)[0].split()
    assert "request_wait_answer" in text.split("threads of any process")[1], text
    assert folder in text and "it was aborted" in text, text
    wait_until(lambda: not is_alive(int(pid)), "the process that no signal ended")
    assert folder in leftovers.clear_abandoned()
    assert not os.path.exists(folder)


def test_mounts_that_are_too_old_are_aborted():
    """As those of a test that hangs while the program that runs the tests waits for it."""
    run = subprocess.Popen([LIMITED, "--mounts", "6", "90", sys.executable, "-c",
                            TEST_RUN.replace("time.sleep(1000)", "os.kill(leat.daemon_pid(), 19)\n"
                                             "try: os.listdir(folder + '/mnt')\n"
                                             "except OSError as error: print('freed:', error)\n"
                                             "leftovers.clear(folder)"), str(TESTS)],
                           stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    text = run.communicate(timeout=150)[0]
    assert run.returncode == 0 and "freed:" in text and "it was aborted" in text, text
