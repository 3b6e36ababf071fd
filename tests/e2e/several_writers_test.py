# SPDX-License-Identifier: Apache-2.0
"""Four processes change a mount at the same time, beside an ordinary directory: no difference, also
after remounts and kills of the daemon."""

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.folder_writer import WRITERS, prepare, tree
from e2e.writing_test import errno_of, written_mount
from rig.process import wait_until

SCALE = int(os.environ.get("LEAT_TEST_SCALE") or 1)
MODES = {"through": (), "back": ("-o", "write=back")}
# `make soak` runs more seeds, and each for longer.
SEEDS = 2 if SCALE == 1 else 10
ROUNDS, OPERATIONS = 4, 30 * SCALE


class Writer:
    """A process that does a round when it is asked to."""

    def __init__(self, mount, plain, number):
        self.program = subprocess.Popen(
            [sys.executable, "-m", "e2e.folder_writer", mount, plain, str(number)], text=True,
            cwd=Path(__file__).parent.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def begin(self, seed, operations):
        self.program.stdin.write(f"{seed} {operations}\n")
        self.program.stdin.flush()

    def answer(self):
        return self.program.stdout.readline().strip() or "the process ended"

    def close(self):
        self.program.stdin.close()
        self.program.stdout.close()
        self.program.wait(timeout=60)


@pytest.fixture
def mode(request):
    return request.param


@pytest.fixture
def written(request, leat, folder, mode):
    return written_mount(request, leat, folder, "--writable", *MODES[mode])


def kill_one(written):
    """The supervisor starts the next daemon."""
    written.leat.kill_daemon()


def kill_both(written):
    written.leat.kill9()
    written.mount_again()


def unmount_unsent(written):
    written.leat.run("umount", "--no-flush", written.mount)
    written.mount_again()


def difference_of(written, top, wanted):
    """The first path that differs, or nothing."""
    try:
        got = tree(top)
    except OSError as error:
        return f"{error}; {(written.mount / '.leat' / 'errors').read_text()}"
    for path in sorted(got.keys() | wanted.keys()):
        if got.get(path) != wanted.get(path):
            sides = [(one[0], one[1] and len(one[1])) if one else None
                     for one in (got.get(path), wanted.get(path))]
            return f"{path}: {sides[0]}, not {sides[1]}"
    return None


def run_seed(written, plain, seed):
    top = written.mount / plain.name
    for root in (top, plain):
        root.mkdir()
        prepare(root)
    chance = random.Random(seed)
    disrupt = [type(written).remount, kill_one, kill_both, unmount_unsent]
    chance.shuffle(disrupt)
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(contextlib.closing(Writer(top, plain, number)))
                   for number in range(WRITERS)]
        for number in range(ROUNDS):
            for writer in writers:
                writer.begin(chance.randrange(1 << 32), OPERATIONS)
            differences = [answer for answer in [writer.answer() for writer in writers]
                           if answer != "same"]
            assert not differences, f"seed {seed}, round {number}: " + "\n".join(differences)
            wanted = tree(plain)
            for when in ("", f", after {disrupt[number].__name__}"):
                if when:
                    disrupt[number](written)
                    wait_until(lambda: errno_of(os.listdir, top) == 0, "the mount to be back")
                where = f"seed {seed}, round {number}{when}"
                assert not difference_of(written, top, wanted), where
    return wanted


@pytest.mark.timeout(300 if SCALE == 1 else 600 + 120 * SCALE)
@pytest.mark.parametrize("written, mode", [(store, mode) for store in ("s3", "file") for mode in MODES],
                         indirect=True)
def test_four_processes_find_no_difference(written, folder, seed):
    for number in range(SEEDS):
        plain = Path(folder) / f"plain{number}"
        wanted = run_seed(written, plain, seed + number)
        written.leat.run("flush", written.mount)
        stored = {name.removeprefix(f"{plain.name}/") for name in written.side.names()
                  if name.startswith(f"{plain.name}/")}
        files = {name for name, (_, body) in wanted.items() if body is not None}
        assert files <= stored, f"seed {seed + number}, in the store"
        for name in files - {"shared/log"}:
            assert written.side.read(f"{plain.name}/{name}") == wanted[name][1], name
