# SPDX-License-Identifier: Apache-2.0
"""A program that saves checkpoints until it is stopped, and that loads them: PROGRAM KIND
save FOLDER EVENTS FIRST | load FOLDER RESULT | serve. checkpoints.py is the other side.

It runs in the environment of the framework. `serve` imports the framework and then forks for each
command of its input, which saves the imports. A file EVENTS.stop ends saving. EVENTS gets a line, with
its time, before and after each save and before each removal. After a kill at any moment it says what
may be there and what has to be there.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

KEPT = 3  # complete checkpoints


def digest(named):
    """Digest of arrays of NumPy by name."""
    found = hashlib.sha256()
    for name in sorted(named):
        found.update(f"{name} {named[name].shape} {named[name].dtype}".encode())
        found.update(named[name].tobytes())
    return found.hexdigest()


class Account:
    """The file EVENTS. A process that is killed leaves no part of a line."""

    def __init__(self, path):
        self.path = Path(path)
        self.log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(self, *words):
        os.write(self.log, (" ".join(map(str, (time.monotonic(), *words))) + "\n").encode())

    def stopped(self):
        return Path(f"{self.path}.stop").exists()

    def fail(self, folder, number, error):
        """Waits for the folder, too: the daemon may be away for a moment."""
        self.say("failed", number, one_line(error))
        while not self.stopped():
            with contextlib.suppress(OSError):
                os.listdir(folder)
                return
            time.sleep(0.02)

    def numbers(self, kind):
        words = [line.split(" ", 3) for line in self.path.read_text().splitlines()]
        return {int(number) for _, what, number, *_ in words if what == kind}


class Kind:
    """Saves checkpoints one at a time. A framework has a subclass.

    `names` is the framework's own idea of the checkpoints that are complete. After an error a new
    process goes on where this one cannot.
    """

    goes_on = True

    def state(self, number):
        """Returns the state to save, and what digest() takes of it."""
        raise NotImplementedError

    def save(self, folder, number, state):
        raise NotImplementedError

    def remove(self, folder, number):
        """Removes a checkpoint, or what a failed save left of it."""
        raise NotImplementedError

    def names(self, folder):
        raise NotImplementedError

    def load(self, folder, number):
        """Returns what digest() takes."""
        raise NotImplementedError

    def run(self, folder, first, account):
        """Saves from the number `first` on until it is stopped."""
        number, kept = first, sorted(account.numbers("begin") - account.numbers("remove"))
        while not account.stopped():
            state, arrays = self.state(number)
            try:
                while len(kept) >= KEPT:
                    account.say("remove", kept[0])
                    self.remove(folder, kept.pop(0))
                account.say("begin", number, digest(arrays))
                kept.append(number)
                self.save(folder, number, state)
                account.say("done", number)
            except Exception as error:
                account.fail(folder, number, error)
                if not self.goes_on:
                    return
            number += 1


def one_line(error):
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:300]


def save(kind, folder, events, first):
    kind.run(Path(folder), int(first), Account(events))
    os._exit(0)  # threads of a failed save may wait for ever


def load(kind, folder, result):
    found = {}
    for number in kind.names(Path(folder)):
        try:
            found[number] = digest(kind.load(Path(folder), number))
        except Exception as error:
            found[number] = one_line(error)
    Path(f"{result}.new").write_text(json.dumps(found))
    os.rename(f"{result}.new", result)


def serve(kind):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                COMMANDS[command](kind, *words)
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        print(pid, flush=True)


COMMANDS = {"save": save, "load": load, "serve": serve}


def main(kinds):
    name, command, *words = sys.argv[1:]
    COMMANDS[command](kinds[name](), *words)
