# SPDX-License-Identifier: Apache-2.0
"""The directories that are written: one of a mount, and one of the disk beside it. Both are empty at the
beginning and removed at the end. Checks that the store has what was written."""

import contextlib
import os
import re
import shutil
import sys
from dataclasses import dataclass

from folder_door.data_sets import BUCKET
from folder_door.setting import LeatMount
from measure import MIB, ROOT, NotRun, run_json
from rig.process import wait_until

WRITTEN = "written"  # a directory of the mount, the bucket and the disk
SEED = 20261128
STORED_TIMEOUT_S = 900
UPLOAD_STREAMS, UPLOAD_PART_BYTES = 8, 16 * MIB
# In leat's answer to `-o write=back`, where it has no such option, or no such value of it.
NO_SUCH_OPTION = re.compile(r"unknown option 'write'|option write: ")


class WritableMount(LeatMount):
    """Leat's mount for programs that write. `writes` names the mode: through, or back."""

    freshness = "max-age=60s"

    def __init__(self, setting, writes="through"):
        words = () if writes == "through" else ("-o", f"write={writes}")
        super().__init__(setting, words=("--writable", *words))
        self.writes = writes

    def show(self):
        try:
            super().show()
        except AssertionError as error:
            if NO_SUCH_OPTION.search(str(error)):
                raise NotRun(f"this leat has no 'mount -o write={self.writes}'") from error
            raise


def require(setting, writes):
    """Mounts once, before a reference is measured in vain: NotRun where this leat lacks the mode."""
    setting.mount(WritableMount(setting, writes))
    setting.unmount()


@dataclass(frozen=True)
class Work:
    """Files that one pass writes. `end` of each: close, sync or publish (fuse_writer.cc)."""

    size: int
    count: int = 1
    threads: int = 1
    end: str = "close"

    @property
    def bytes(self):
        return self.size * self.count

    @property
    def names(self):
        return {str(number) for number in range(self.count)}

    def write(self, setting, folder):
        return setting.write("files", folder, self.count, self.size, self.threads, SEED, self.end)


def stored(setting):
    """The directory as the store has it."""
    return setting.store.data / BUCKET / WRITTEN


def clear(setting):
    """Removes what the store has of it, and parts of uploads that were never completed."""
    for folder in (stored(setting), setting.store.data / BUCKET / ".sgwtmp" / "multipart"):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def on_disk(setting):
    """An empty directory of the disk that is measured."""
    folder = setting.folder / WRITTEN
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def mounted(setting, mounter):
    """An empty directory of a mount with an empty cache."""
    clear(setting)
    mount = setting.mount(mounter)
    try:
        folder = mount.point / WRITTEN
        folder.mkdir()
        yield folder
    finally:
        setting.unmount()
        clear(setting)


def sizes_in(folder):
    """name -> bytes of its files; of one that is not there yet, none."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    return {}


def wait_until_stored(setting, work):
    """Returns when the store has files of these names and sizes, and no others."""
    wanted = {name: work.size for name in work.names}
    try:
        wait_until(lambda: sizes_in(stored(setting)) == wanted, "the store to have what was written",
                   STORED_TIMEOUT_S, 0.2)
    except AssertionError as error:
        found = sizes_in(stored(setting))
        wrong = sorted(name for name in found.keys() | wanted.keys()
                       if found.get(name) != wanted.get(name))
        raise RuntimeError(f"the store has {len(found)} of {len(wanted)} files; wrong are "
                           f"{', '.join(wrong[:5])}") from error


def check(setting, work):
    """Every byte that the store has against what was written."""
    done = setting.write("check", stored(setting), work.count, work.size, SEED)
    if done["bytes"] != work.bytes:
        raise RuntimeError(f"{done['bytes']} of {work.bytes} bytes were compared")
    setting.compared_bytes += done["bytes"]


def through_mount(setting, mounter, work):
    """One pass through an empty mount, checked. `cpu` is that of the mounter until the store has all;
    the seconds are those of the writer alone."""
    with mounted(setting, mounter) as folder:
        os.sync()
        before = mounter.cpu_seconds()
        result = work.write(setting, folder)
        wait_until_stored(setting, work)
        cpu = mounter.cpu_seconds() - before
        check(setting, work)
    return dict(result, cpu=cpu)


def natively(setting, work):
    """The same pass on the disk itself."""
    with on_disk(setting) as folder:
        os.sync()
        return work.write(setting, folder)


class Uploads:
    """An object of so many bytes by the SDK's parallel multipart upload, from memory."""

    key = f"{WRITTEN}/upload"

    def __init__(self, setting, size):
        self.setting, self.size = setting, size

    def fastest(self):
        """The faster of the SDK alone and of our own loop with the SDK's signatures."""
        return min(map(self.by, ("sdk", "loop")), key=lambda result: result["seconds"])

    def by(self, way):
        store = self.setting.store
        os.sync()
        try:
            return run_json(sys.executable, ROOT / "bench" / "uploads.py", way, store.endpoint, BUCKET,
                            self.key, self.size, UPLOAD_STREAMS, UPLOAD_PART_BYTES,
                            environment=dict(os.environ, **store.credentials))
        finally:
            clear(self.setting)
