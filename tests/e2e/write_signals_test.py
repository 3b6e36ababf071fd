# SPDX-License-Identifier: Apache-2.0
"""A signal that a program handles ends no change of a mount, as on a local disk. One that ends the
program leaves a folder that is as its store."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.writing_test import errno_of, written_mount
from rig.process import wait_until

# As a training program that saves when it is to end. Python retries none of these calls after EINTR.
HANDLES = """
import os, random, signal, sys, threading, time
os.chdir(sys.argv[1])
chance = random.Random(int(sys.argv[2]))
signal.signal(signal.SIGTERM, lambda *_: None)
ended = threading.Event()
def send(to):
    while not ended.wait(chance.uniform(0.001, 0.01)):
        signal.pthread_kill(to, signal.SIGTERM)
sender = threading.Thread(target=send, args=(threading.get_ident(),), daemon=True)
sender.start()
failed = {}
def write(name):
    with open(name, "wb") as file:
        file.write(b"x" * 200_000)
for number in range(30):
    for call, *words in [(os.mkdir, f"d{number}"), (write, f"t{number}"),
                         (os.rename, f"t{number}", f"f{number}"),
                         (os.symlink, "x", f"l{number}"), (os.chmod, f"f{number}", 0o600),
                         (os.truncate, f"f{number}", 100), (os.unlink, f"l{number}"),
                         (os.rmdir, f"d{number}")]:
        try:
            call(*words)
        except OSError as error:
            failed.setdefault(f"{call.__name__}: {error.strerror}", []).append(number)
ended.set()
sender.join()
print(failed)
"""
RENAMES = """
import os, sys
os.chdir(sys.argv[1])
for number in range(10_000):
    with open("temporary", "wb") as file:
        file.write(b"x" * 200_000)
    print(number, flush=True)
    os.rename("temporary", f"f{number}")
"""


@pytest.fixture(params=["through", "back"])
def mode(request):
    return request.param


@pytest.fixture(params=["s3", "file"])
def written(request, leat, folder, mode):
    return written_mount(request, leat, folder, "--writable", "-o", f"write={mode}")


def test_handled_signals_interrupt_no_change(written, folder, seed):
    plain = Path(folder) / "plain"
    plain.mkdir()
    for place in (plain, written.mount):
        done = subprocess.run([sys.executable, "-c", HANDLES, place, str(seed)], capture_output=True,
                              text=True, timeout=120, check=False)
        assert (done.stdout, done.stderr) == ("{}\n", ""), place
    written.leat.run("flush", written.mount)
    assert written.side.names() == sorted(f"f{number}" for number in range(30))
    assert sorted(one.name for one in written.mount.iterdir()) == written.side.names()
    assert {one.stat().st_size for one in written.mount.iterdir()} == {100}


def names_in(side, number):
    before = f"d{number}/"
    return sorted(name.removeprefix(before) for name in side.names() if name.startswith(before))


def test_a_killed_rename_leaves_no_ghost(written, seed, scale):
    """Each name that is listed opens, and the store has the same names after the freshness."""
    chance = random.Random(seed)
    for number in range(12 * scale):
        folder = written.mount / f"d{number}"
        folder.mkdir()
        with subprocess.Popen([sys.executable, "-c", RENAMES, folder], stdout=subprocess.PIPE) as program:
            for _ in range(chance.randrange(1, 4)):
                program.stdout.readline()
            time.sleep(chance.uniform(0, 0.02))
            program.kill()
        listed = sorted(os.listdir(folder))
        ghosts = [name for name in listed if errno_of((folder / name).read_bytes)]
        assert not ghosts, f"round {number}: {ghosts} of {listed}"
        written.leat.run("flush", written.mount)
        # A request of the killed program may reach the store after its end.
        wait_until(lambda: names_in(written.side, number) == sorted(os.listdir(folder)),  # noqa: B023
                   "the folder to show what the store has", timeout_s=10)
