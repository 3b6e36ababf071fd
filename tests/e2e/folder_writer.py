# SPDX-License-Identifier: Apache-2.0
"""One of several processes that do the same random operations in a mount and in an ordinary directory,
and compare each answer. Usage: python -m e2e.folder_writer MOUNT PLAIN NUMBER

A line "SEED OPERATIONS" on standard input is a round; its answer is "same" or the first difference. No
process sees what the others do: each has a directory of its own, and names of its own in `shared`.
`shared/blocks` has blocks of each process, and all append records to `shared/log`."""

import mmap
import os
import random
import stat
import sys

from e2e.written_folder import DIRECTORIES, NAMES, Folder, short, some_operation

WRITERS = 4
BLOCK, BLOCKS = 4096, 16  # blocks of each process in the shared file
RECORD = 32
# Times that are set are older, and so are not mistaken for those of a write.
SET_BEFORE_NS = 1_200_000_000 * 10**9


def prepare(root):
    """Makes the shared files."""
    os.makedirs(root / "shared" / "in")
    (root / "shared" / "blocks").write_bytes(bytes(WRITERS * BLOCKS * BLOCK))
    (root / "shared" / "log").write_bytes(b"")
    for number in range(WRITERS):
        (root / f"p{number}").mkdir()


def described(path):
    """Returns the attributes to compare. Directories and links have modes of their own on S3."""
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        return kind, os.readlink(path) if kind == stat.S_IFLNK else None
    set_time = found.st_mtime_ns if found.st_mtime_ns < SET_BEFORE_NS else None
    return kind, found.st_mode, found.st_size, found.st_nlink, found.st_uid, found.st_gid, set_time


def tree(root):
    """Path -> attributes and content. The content of the shared log is its records, sorted."""
    found = {}
    for at, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(at, name)
            what = described(path)
            body = None
            if what[0] == stat.S_IFREG:
                with open(path, "rb") as file:
                    body = file.read()
            found[os.path.relpath(path, root)] = what, body
    what, log = found[os.path.join("shared", "log")]
    records = sorted(log[at:at + RECORD] for at in range(0, len(log), RECORD))
    found[os.path.join("shared", "log")] = what, records
    return found


class SharedFolder(Folder):
    """The directory of one process below `root`, and the shared one."""

    def __init__(self, root, number):
        super().__init__(os.path.join(root, f"p{number}"))
        self.number = number
        self.shared = self.root.parent / "shared"

    def stat(self, name):
        return described(self.root / name)

    def list_shared(self, name):
        return sorted(one for one in os.listdir(self.shared / name)
                      if one.startswith(f"p{self.number}-"))

    def remove_shared(self):
        os.rmdir(self.shared)

    def make_shared(self):
        os.mkdir(self.shared)

    def write_block(self, block, within, data):
        descriptor = os.open(self.shared / "blocks", os.O_RDWR)
        try:
            return os.pwrite(descriptor, data, self._block(block) + within)
        finally:
            os.close(descriptor)

    def map_block(self, block, within, data):
        with open(self.shared / "blocks", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            at = self._block(block) + within
            mapping[at:at + len(data)] = data

    def read_block(self, block):
        with open(self.shared / "blocks", "rb") as file:
            file.seek(self._block(block))
            return file.read(BLOCK)

    def _block(self, block):
        return (block * WRITERS + self.number) * BLOCK

    def log(self, record):
        descriptor = os.open(self.shared / "log", os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(descriptor, record)
        finally:
            os.close(descriptor)

    def map_write(self, name, data):
        """Over the begin of a file, as far as it goes."""
        with open(self.root / name, "r+b") as file:
            size = min(len(data), os.fstat(file.fileno()).st_size)
            if size == 0:
                return 0
            with mmap.mmap(file.fileno(), 0) as mapping:
                mapping[:size] = data[:size]
            return size

    def symlink(self, target, name):
        os.symlink(target, self.root / name)

    def chmod(self, name, mode):
        path = self._file(name)
        os.chmod(path, mode)
        return described(path)

    def chown(self, name, uid, gid):
        path = self._file(name)
        os.chown(path, uid, gid)
        return described(path)

    def set_time(self, name, time_ns):
        path = self._file(name)
        os.utime(path, ns=(time_ns, time_ns))
        return described(path)

    def _file(self, name):
        """Attributes of directories are kept by local directories alone."""
        path = os.path.realpath(self.root / name)
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(0, "no file")
        return path

    def link_unnamed(self, name, data):
        descriptor = os.open(self.root, os.O_TMPFILE | os.O_RDWR, 0o640)
        directory = os.open(self.root, os.O_PATH)
        try:
            os.write(descriptor, data)
            # With a directory's descriptor Python follows the link in /proc.
            os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=directory)
        finally:
            os.close(directory)
            os.close(descriptor)


def another_operation(chance, number, names):
    name = chance.choice(names)
    block, within = chance.randrange(BLOCKS), chance.randrange(BLOCK // 2)
    data = chance.randbytes(chance.randrange(1, BLOCK // 2))
    record = f"{number} {chance.getrandbits(60)}".ljust(RECORD - 1).encode() + b"\n"
    return chance.choice([
        ("list_shared", ""), ("list_shared", "in"), ("remove_shared",), ("make_shared",),
        ("write_block", block, within, data), ("write_block", block, within, data),
        ("map_block", block, within, data), ("read_block", block), ("log", record), ("log", record),
        ("map_write", name, data), ("symlink", f"p{number}-{chance.choice(['a', 'dir'])}", name),
        ("chmod", name, chance.choice([0o600, 0o644, 0o755, 0o444])),
        ("chown", name, chance.randrange(3), chance.randrange(3)),
        ("set_time", name, chance.randrange(10**9, SET_BEFORE_NS)),
        ("link_unnamed", name, data),
    ])


def compare_round(folders, number, seed, operations):
    """Returns the first difference, or nothing."""
    chance = random.Random(seed)
    own = [f"p{number}-a", f"p{number}-dir", f"p{number}-dir/a"]
    shared = [f"../shared/{name}" for name in [*own, f"in/p{number}-a", f"in/p{number}-dir",
                                               f"in/p{number}-dir/a"]]
    directories = [*DIRECTORIES, *(name for name in own + shared if name.endswith("dir"))]
    names = [*NAMES, *own, *shared]
    done = []
    for at in range(operations):
        present = [name for name in names if os.path.lexists(folders[0].root / name)]
        some = present if present and chance.random() < 0.6 else names
        if chance.random() < 0.3:
            operation = another_operation(chance, number, some)
        else:
            operation = some_operation(chance, some, directories)
        wanted, got = (short(folder.do(*operation)) for folder in folders)
        shown = " ".join(str(len(word) if isinstance(word, bytes) else word) for word in operation)
        done.append(f"{shown} = {wanted}"[:160])
        if got != wanted:
            return (f"seed {seed}, operation {at} of process {number}: {shown}: {got}, "
                    f"not {wanted}; before: {'; '.join(done[-12:])}")
    for folder in folders:
        folder.close_all()
    return None


def main():
    mount, plain, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for line in sys.stdin:
        seed, operations = map(int, line.split())
        folders = [SharedFolder(plain, number), SharedFolder(mount, number)]
        print(compare_round(folders, number, seed, operations) or "same", flush=True)


if __name__ == "__main__":
    main()
