# SPDX-License-Identifier: Apache-2.0
"""Where the rows of the mounted folder are measured: store, data, a mount of Leat's, readers."""

import contextlib
import fcntl
import functools
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from folder_door import link
from folder_door.data_sets import BUCKET, FIRST_BYTES, DataSets
from hygiene.fixtures import Fixtures
from measure import GIB, ROOT, NotRun, RawStreams, Reader, compiled, run_json, say
from rig import leftovers
from rig.leat import Leat, leat_program
from rig.process import cpu_seconds, disk_bytes, wait_until
from rig.store import Store

SMALL_THREADS, FIRST_THREADS = 4, 8
# A reader or writer of a mount that hangs is ended.
READ_TIMEOUT_S = 900
# Of processes and mounts, in a bench's folder.
PLACES = ("leat", "listing", "peers", "store")


@dataclass(frozen=True)
class Mode:
    """How a folder is mounted: words to `leat mount` and the daemon's environment. Its name is that
    of the feature that must have been agreed with the kernel."""

    words: tuple = ()
    environment: tuple = ()


MODES = {
    "default": Mode(),
    "io_uring": Mode(environment=(("LEAT_FUSE_IO_URING", "true"),)),
    "no_open": Mode(words=("--profile", "small-files")),
}


@functools.cache
def mount_help():
    return subprocess.run([leat_program(), "mount", "--help"], capture_output=True, text=True,
                          check=True).stdout


def missing_for(mode):
    """Why a mode cannot be measured here; empty where it can."""
    if mode == "no_open" and "--profile" not in mount_help():
        return "this leat has no 'mount --profile'"
    switch = Path("/sys/module/fuse/parameters/enable_uring")
    if mode == "io_uring" and not (switch.exists() and switch.read_text().strip() == "Y"):
        return f"{switch} is not Y (leat doctor --fix sets it)"
    return ""


class LeatMount:
    """The bucket as Leat shows it, with an empty cache."""

    name = "leat"
    freshness = "immutable"

    def __init__(self, setting, mode="default", group=None, cache_bytes=24 * GIB, words=()):
        self.setting, self.mode, self.group = setting, MODES[mode], group
        self.words = (*self.mode.words, *words)
        self.cache_bytes = cache_bytes
        self.leat, self.point, self.daemon = None, None, None

    def start(self):
        folder = self.setting.folder / "leat"
        leftovers.clear(folder)
        self.leat = Leat(folder, cache_size=str(self.cache_bytes))
        self.leat.group = self.group
        self.show()
        return self

    def show(self):
        store = self.setting.store
        # What is free of the disk is for the bench to watch.
        environment = dict(store.credentials, LEAT_CACHE_MIN_FREE="256MiB",
                           **dict(self.mode.environment))
        self.point = self.leat.mount(store, BUCKET, self.leat.folder / "mnt", *self.words,
                                     freshness=self.freshness,
                                     credentials=environment)
        self.daemon = self.leat.daemon_pid()

    def anew(self):
        """The folder once more, from another daemon over the same cache."""
        self.leat.stop()
        self.show()

    def features(self):
        return self.leat.json("mounts")["mounts"][0]["features"]

    def cpu_seconds(self):
        return cpu_seconds(self.daemon)

    def wait_until_written(self, size):
        """The reader has its bytes before the disk has: wait until writing behind is done."""
        wait_until(lambda: disk_bytes(self.leat.cache_dir) >= size, "the cache to be written", 120)
        os.sync()

    def stop(self):
        if self.leat:
            self.leat.close()
            leftovers.clear(self.leat.folder)  # also a daemon that was only just being started
            self.leat = None


class Setting:
    def __init__(self, folder, sizes):
        self.folder, self.sizes = Path(folder).resolve(), sizes
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.folder / "lock", "w", encoding="ascii")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"bench: another bench works in {self.folder}") from None
        for name in PLACES:  # what a bench left that was killed
            leftovers.end(self.folder / name)
        link.remove_abandoned()
        self.data = DataSets(self.folder / "data", sizes)
        self.fixtures = Fixtures(say)
        self.reader = Reader(self.folder, sizes.held_bytes_max)
        self.patterns = compiled("fuse_reader.cc", self.folder / "fuse_reader")
        self.store = Store(self.folder / "store")
        self.mounted = None  # a LeatMount or a peer's
        self.cached_mode, self.filled = None, set()
        self.open_link = None
        self.checking, self.compared_bytes = False, 0

    # -- store and mounts -------------------------------------------------------------------------
    def serve(self):
        if self.store.process is None:
            self.store.start()

    def prepare(self, *names):
        self.serve()
        self.store.bucket(BUCKET)
        for name in names:
            if not self.data.is_there(name):
                self.unmount()  # an immutable folder shows nothing of what comes later
            self.data.prepare(name, self.store)
            folders = [self.data.native, self.store.data / BUCKET]
            self.fixtures.use(name, folders, self.data.names[name], self.data.digest_of(name))

    @contextlib.contextmanager
    def behind_link(self, rate_bits=0, upload_bits=0):
        """The store's server is in a network of its own meanwhile."""
        reason = link.missing()
        if reason:
            raise NotRun(reason)
        self.unmount()
        loopback = self.store
        loopback.stop()
        self.open_link = link.Link(rate_bits, upload_bits).start()
        try:
            self.store = Store(loopback.folder, loopback.port, self.open_link.host,
                               self.open_link.before).start()
            yield self.open_link
        finally:
            self.unmount()
            self.store.stop()
            self.store = loopback
            self.open_link.remove()
            self.open_link = None

    def mount(self, mounter):
        """Whatever was mounted goes first."""
        self.unmount()
        self.mounted = mounter
        return mounter.start()

    def unmount(self):
        mounted, self.mounted, self.cached_mode = self.mounted, None, None
        if mounted:
            mounted.stop()

    def cached(self, name, mode="default"):
        """The folder of a mount that has all of a set in its cache, and no store to ask."""
        self.prepare(name)
        if self.cached_mode != mode:
            reason = missing_for(mode)
            if reason:
                raise NotRun(reason)
            self.mount(LeatMount(self, mode))
            self.cached_mode, self.filled = mode, set()
            if mode != "default" and not self.mounted.features().get(mode):
                self.unmount()
                raise NotRun(f"the mount does not have {mode}, see features of leat mounts")
        if name not in self.filled:
            say(f"filling the cache with '{name}', mount mode {mode}")
            self.read_set(self.mounted.point, name)
            self.mounted.wait_until_written(sum(map(self.data.bytes_of, self.filled | {name})))
            self.filled.add(name)
        self.store.stop()
        return self.mounted.point

    def cached_anew(self, name):
        """The same, mounted anew since the last run, and read once since then: a daemon asks the store
        for names, and compares each file with its checksum when that is read first."""
        if self.cached_mode == "default" and name in self.filled:
            self.serve()
            self.mounted.anew()
            self.read_set(self.mounted.point, name)
            self.filled = {name}
        return self.cached(name)

    def restart(self, name):
        """Another daemon over the same cache, which knows the names of a set and has read nothing."""
        self.serve()
        self.mounted.anew()
        for one in self.data.names[name]:
            os.stat(self.mounted.point / one)
        self.filled = {name}
        self.store.stop()

    def close(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self.reader.close)
            stack.callback(lambda: self.open_link and self.open_link.remove())
            stack.callback(self.store.stop)
            stack.callback(self.unmount)

    # -- reading ----------------------------------------------------------------------------------
    def sequential(self, folder, name):
        return self.reader.read("sequential", folder / self.data.file_of(name),
                                timeout_s=READ_TIMEOUT_S)

    def files(self, folder, name, threads, passes=1, order="random"):
        return self.reader.read("files", folder, self.data.list_of(name, order), threads, passes,
                                timeout_s=READ_TIMEOUT_S)

    def read_set(self, folder, name):
        if name in ("large", "stream"):
            return self.sequential(folder, name)
        # As `leat load` does, and as the native files were written: what is read shuffled afterwards
        # must not be read in the order in which it lies on the disk.
        return self.files(folder, name, SMALL_THREADS, order="ordered")

    def pattern(self, mode, *words):
        return run_json(self.patterns, mode, *words, timeout_s=READ_TIMEOUT_S)

    def compare(self, name):
        """Every byte of a set in the mount against what was uploaded; how many."""
        native, mount = self.data.native, self.mounted.point
        if name in ("large", "stream"):
            file = self.data.file_of(name)
            words = (native / file, mount / file)
        else:
            words = (native, mount, self.data.list_of(name))
        done = self.reader.read("compare", *words, timeout_s=READ_TIMEOUT_S)
        if done["bytes"] != self.data.bytes_of(name):
            raise RuntimeError(f"{done['bytes']} bytes of '{name}' were compared")
        return done["bytes"]

    def check(self, *names):
        """Compares in the last run of a row, and only what Leat shows."""
        if self.checking and isinstance(self.mounted, LeatMount):
            for name in names:
                self.compared_bytes += self.compare(name)

    # -- writing ----------------------------------------------------------------------------------
    @functools.cached_property
    def writer(self):
        return compiled("fuse_writer.cc", self.folder / "fuse_writer")

    def write(self, mode, *words):
        return run_json(self.writer, mode, *words, timeout_s=READ_TIMEOUT_S)

    # -- references -------------------------------------------------------------------------------
    def raw_streams(self, name):
        return RawStreams(self.store, BUCKET, self.data.file_of(name), self.data.bytes_of(name))

    def raw_gets(self):
        """The set `first` by libcurl over as many connections as the reader has threads."""
        return self.raw_gets_over(FIRST_THREADS, self.sizes.first_count)

    def raw_gets_over(self, connections, count):
        """So many of the set `first`, each once."""
        client = ROOT / "build" / "release" / "bench" / "leat_bench_curl"
        if not client.exists():
            raise NotRun(f"no {client}: ninja -C build/release leat_bench_curl")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        return run_json(client, self.store.endpoint, BUCKET, "first/f", count, FIRST_BYTES,
                        FIRST_BYTES, connections, count,
                        environment=dict(kept, **self.store.credentials))

    def repeats_for(self, once):
        """How often `once`, a measurement, is to be done to last as long as a timing should."""
        return max(1, round(self.sizes.pass_seconds / once["seconds"] + 0.5))
