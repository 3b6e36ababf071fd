# SPDX-License-Identifier: Apache-2.0
"""Has a framework save checkpoints into a mount while the daemon and the program itself are killed, and
checks all that is named complete. The program is one of checkpoint_saver.py."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from statistics import median

from botocore.exceptions import ClientError

from e2e.programs import TESTS, python_of
from e2e.writing_test import errno_of, written_mount
from rig.process import is_alive, wait_until

PATIENCE_S = 100.0
PLACES = [("s3", "back"), ("file", "back"), ("s3", "through")]
KILLS = ["daemon", "program", "daemon and program", "supervisor and daemon"]


class Trainer:
    """The program, and what it has saved by its own account.

    `names_are_complete`: the framework gives a name to what is complete only. `renames_folders`: it does
    so by the rename of a directory, which an object store has not at once.
    """

    def __init__(self, folder, program, kind, environment, forks=True, names_are_complete=True,
                 renames_folders=False):
        self.folder, self.names_are_complete = Path(folder), names_are_complete
        self.is_whole_in_store = names_are_complete and not renames_folders
        self.words = [python_of(environment), TESTS / program, kind]
        self.account = self.folder / "events"
        self.account.touch()
        self.numbers, self.pid, self.started = itertools.count(), None, []
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(folder),
                            "PYTHONPATH": str(TESTS), "PYTHONDONTWRITEBYTECODE": "1",
                            "OMP_NUM_THREADS": "1"}
        self.log = open(self.folder / "trainer.log", "ab")
        self.server = self.spawn("serve", stdin=subprocess.PIPE, stdout=subprocess.PIPE) if forks else None
        if self.server:
            assert self.server.stdout.readline() == b"ready\n", self.last_words()

    def close(self):
        if self.pid and is_alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.communicate()
        self.log.close()

    def spawn(self, *words, stdin=subprocess.DEVNULL, stdout=None):
        self.started.append(subprocess.Popen(
            list(map(str, [*self.words, *words])), stdin=stdin, stdout=stdout or self.log,
            stderr=self.log, env=self.environment, cwd=self.folder))
        return self.started[-1]

    def run(self, *words):
        """Starts a command and returns its process."""
        if not self.server:
            return self.spawn(*words).pid
        self.server.stdin.write((json.dumps(list(map(str, words))) + "\n").encode())
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def last_words(self):
        events = self.account.read_text().splitlines()[-20:]
        return "\n".join([*events, (self.folder / "trainer.log").read_text(errors="replace")[-3000:]])

    # ---- saving

    def start(self, folder):
        """Numbers go on above those that were used."""
        assert not self.pid or not is_alive(self.pid)
        self.pid = self.run("save", folder, self.account, max([0, *self.begun()]) + 1)

    def stop(self):
        """Lets it finish the save that it is at."""
        stop = self.folder / "events.stop"
        if self.pid and is_alive(self.pid):
            stop.touch()
            wait_until(lambda: not is_alive(self.pid), f"an end of saving: {self.last_words()}", PATIENCE_S)
            stop.unlink()
        self.pid = None

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(self.pid), "the killed program to be gone")
        self.pid = None

    def events(self, kind):
        """Number -> (time, rest of the line), of the last event of this kind."""
        found = {}
        for line in self.account.read_text().splitlines():
            when, what, number, *rest = line.split(" ", 3)
            if what == kind:
                found[int(number)] = (float(when), *rest)
        return found

    def begun(self):
        return self.events("begin")

    def wait_until(self, condition, what, folder):
        def reached():
            if not is_alive(self.pid):
                self.start(folder)  # it may end after an error
            return condition()
        try:
            wait_until(reached, what, PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.last_words()}") from None

    def wait_for_saves(self, count, folder):
        before = len(self.events("done"))
        self.wait_until(lambda: len(self.events("done")) >= before + count, f"{count} saves", folder)

    def wait_for_a_moment(self, chance, folder):
        """Returns at a random moment of a save, or shortly after it."""
        done, begun = self.events("done"), self.begun()
        takes = median(done[number][0] - begun[number][0] for number in done)
        self.wait_until(lambda: self.begun().keys() - begun.keys(), "the next save", folder)
        time.sleep(chance.uniform(0, 1.2 * takes))

    # ---- what it saved

    def load(self, folder):
        """Returns the digest, or the error, of each checkpoint that is named complete."""
        result = self.folder / f"result{next(self.numbers)}"
        pid = self.run("load", folder, result)
        wait_until(lambda: not is_alive(pid), "the checkpoints to be loaded", PATIENCE_S)
        assert result.exists(), self.last_words()
        return {int(number): one for number, one in json.loads(result.read_text()).items()}

    def check(self, found, where, at_rest=True):
        """Nothing that is named complete is wrong. `at_rest`: all that was saved is there."""
        removed, done, begun = self.events("remove"), self.events("done"), self.begun()
        wrong = {number: (one, begun.get(number)) for number, one in found.items()
                 if number not in removed and (self.names_are_complete or number in done)
                 and (number not in begun or begun[number][1] != one)}
        assert not wrong, f"{where}: {wrong}\n{self.last_words()}"
        missing = done.keys() - removed.keys() - found.keys()
        assert not at_rest or not missing, f"{where} lacks {sorted(missing)}\n{self.last_words()}"


def mount_for_kills(request, leat, folder, mode):
    """While the daemon is away, the directory below the mount takes nothing."""
    point = Path(folder) / "mnt"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=64k", "leat-test", point], check=True)
    words = ["--writable", "-o", f"write={mode}"]
    written = written_mount(request, leat, folder, *words)
    if written.side.has_posix_files:  # the folder of a dead daemon answers nothing
        written.mount_again = lambda: leat.run(
            "mount", written.side.root, point, *words, "--cache-dir", leat.cache_dir,
            "--cache-size", leat.cache_size, "--freshness", "max-age=1s")
    return written


def fetched(side, into):
    """The store's files in a new local folder, but for those that are removed meanwhile."""
    for name in side.names():
        try:
            body = side.read(name)
        except (ClientError, FileNotFoundError):
            continue
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_bytes(body)
    return into / "checkpoints"


def kill(written, trainer, which):
    if "program" in which:
        trainer.kill()
    if which == "supervisor and daemon":
        # A killed daemon may wait in the kernel for its own answer. The next command frees it.
        for pid in written.leat.daemon_pids():
            os.kill(pid, signal.SIGKILL)
        written.mount_again()
    elif "daemon" in which:
        written.leat.kill_daemon()
    folder = written.mount / "checkpoints"
    wait_until(lambda: errno_of(os.listdir, folder) == 0, "the mount to be back")


def endure(written, trainer, chance, rounds):
    """Saves with a kill in each round. All that is named complete is right in the folder after each
    kill, and in the store at any moment. After a flush the store has all that was saved."""
    folder = written.mount / "checkpoints"
    folder.mkdir()
    for number in range(rounds):
        trainer.start(folder)
        trainer.wait_for_saves(2, folder)
        trainer.wait_for_a_moment(chance, folder)
        which = chance.choice(KILLS) if number >= len(KILLS) else KILLS[number]
        kill(written, trainer, which)
        if trainer.is_whole_in_store:
            stored = fetched(written.side, trainer.folder / f"moment{number}")
            trainer.check(trainer.load(stored), f"the store after a kill of {which}", at_rest=False)
        trainer.stop()
        trainer.check(trainer.load(folder), f"the folder after a kill of {which}")
    written.leat.run("flush", written.mount)
    trainer.check(trainer.load(folder), "the folder")
    trainer.check(trainer.load(fetched(written.side, trainer.folder / "stored")), "the store")
