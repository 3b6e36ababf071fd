# SPDX-License-Identifier: Apache-2.0
"""A mount that takes writes, beside an ordinary directory: the same operations on both."""

import os
import random
from pathlib import Path

NAMES = ["a", "b", "c", "dir", "dir/a", "dir/b", "dir/in", "dir/in/a", "other", "other/a"]
DIRECTORIES = ["dir", "dir/in", "other"]
SIZE_MAX = 200_000
ATTEMPTS = {
    "create": 3, "write": 6, "append": 3, "truncate": 3, "unlink": 2, "mkdir": 2, "rmdir": 1,
    "rename": 3, "read": 4, "open": 2, "close": 2, "fsync": 1, "list": 1, "stat": 2,
}


class Folder:
    """Operations by name, each of which answers a value or the errno."""

    def __init__(self, root):
        self.root = Path(root)
        self.opened = {}

    def do(self, operation, *words):
        try:
            return getattr(self, operation)(*words)
        except OSError as error:
            return f"errno {error.errno}"

    def create(self, name, exclusive):
        flags = os.O_CREAT | os.O_RDWR | (os.O_EXCL if exclusive else os.O_TRUNC)
        os.close(os.open(self.root / name, flags, 0o644))

    def write(self, name, offset, data):
        with open(self.root / name, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def append(self, name, data):
        descriptor = os.open(self.root / name, os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(descriptor, data)
        finally:
            os.close(descriptor)

    def truncate(self, name, size):
        os.truncate(self.root / name, size)

    def unlink(self, name):
        os.unlink(self.root / name)

    def mkdir(self, name):
        os.mkdir(self.root / name)

    def rmdir(self, name):
        os.rmdir(self.root / name)

    def rename(self, name, to):
        os.rename(self.root / name, self.root / to)

    def read(self, name):
        return (self.root / name).read_bytes()

    def list(self, name):
        return sorted(os.listdir(self.root / name))

    def stat(self, name):
        found = os.stat(self.root / name)
        is_directory = os.path.isdir(self.root / name)
        return is_directory, 0 if is_directory else found.st_size

    def open(self, slot, name):
        if slot in self.opened:
            self.close(slot)
        self.opened[slot] = os.open(self.root / name, os.O_RDWR)

    def close(self, slot):
        if slot in self.opened:
            os.close(self.opened.pop(slot))

    def fsync(self, slot):
        if slot in self.opened:
            os.fsync(self.opened[slot])

    def write_open(self, slot, offset, data):
        if slot in self.opened:
            return os.pwrite(self.opened[slot], data, offset)
        return None

    def read_open(self, slot):
        if slot in self.opened:
            return os.pread(self.opened[slot], SIZE_MAX * 2, 0)
        return None

    def truncate_open(self, slot, size):
        if slot in self.opened:
            os.ftruncate(self.opened[slot], size)

    def close_all(self):
        for slot in list(self.opened):
            self.close(slot)

    def tree(self):
        """Path -> content of files, None of directories."""
        found = {}
        for at, directories, files in os.walk(self.root):
            base = Path(at).relative_to(self.root)
            found.update({str(base / name): None for name in directories})
            found.update({str(base / name): Path(at, name).read_bytes() for name in files})
        return found


def some_operation(chance, names=NAMES, directories=DIRECTORIES):
    """An operation with its words, drawn by `chance`."""
    name, slot = chance.choice(names), chance.randrange(3)
    data = chance.randbytes(chance.choice([0, 1, 100, 4096, chance.randrange(SIZE_MAX // 2)]))
    offset = chance.choice([0, 4096, chance.randrange(SIZE_MAX)])
    return chance.choice([
        ("create", name, chance.random() < 0.3), ("create", name, False),
        ("write", name, offset, data), ("write", name, 0, data),
        ("append", name, data), ("truncate", name, chance.randrange(SIZE_MAX)), ("unlink", name),
        ("mkdir", name), ("mkdir", chance.choice(directories)), ("rmdir", name),
        ("rename", name, chance.choice(names)), ("read", name), ("list", chance.choice(["", name])),
        ("stat", name), ("open", slot, name), ("write_open", slot, offset, data),
        ("read_open", slot), ("truncate_open", slot, chance.randrange(SIZE_MAX)),
        ("fsync", slot), ("close", slot),
    ])


def compare(mount, plain, seed, rounds, may_differ=lambda *_: False, between=None):
    """Does the same `rounds` operations on both folders and compares each answer. `may_differ` is
    given the operation and both answers; where it is true the operation is undone on neither."""
    chance = random.Random(seed)
    ours, theirs = Folder(mount), Folder(plain)
    for number in range(rounds):
        operation = some_operation(chance)
        if may_differ(plain, operation):
            continue
        expected = theirs.do(*operation)
        got = ours.do(*operation)
        shown = [word if not isinstance(word, bytes) else len(word) for word in operation]
        assert short(got) == short(expected), f"seed {seed}, operation {number}: {shown}"
        if between and number % 50 == 49:
            between(number)
    assert ours.tree() == theirs.tree(), f"seed {seed}"
    ours.close_all()
    theirs.close_all()
    assert ours.tree() == theirs.tree(), f"seed {seed}, closed"
    return theirs.tree()


def short(answer):
    """The answer itself, but of many bytes what is enough to tell them apart."""
    if isinstance(answer, bytes) and len(answer) > 64:
        return len(answer), hash(answer), answer[:16]
    return answer
