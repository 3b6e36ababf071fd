# SPDX-License-Identifier: Apache-2.0
"""What reading local files costs: module `source` alone (a FileSource, a file of it that is opened once,
and the same source made to read as on NFS: a pool, memory of its own) against pread; and a mounted
folder, with cache=always, by default, and immutable (passed through), against the folder itself."""

import os
import random
import shutil

from layers.layer_bench import LayerBench, against, run_client
from measure import GIB, MIB, compiled, drop_page_cache, run_json
from rig import leftovers
from rig.leat import Leat
from rig.process import cpu_seconds

SEED = 20240607
SMALL_BYTES, SMALL_THREADS = 110_000, 4
# Order, bytes of a read, in flight, cold.
SOURCE_ROWS = {"cold": ("sequential", MIB, 4, True), "hot": ("sequential", MIB, 4, False),
               "random": ("random", 4096, 32, True)}
# Way -> its name in the figures.
SOURCE_WAYS = {"network": "pool", "source": "source", "file": "file"}
MOUNT_WAYS = {"cached": ("--option", "cache=always"), "default": (), "immutable": ()}


class Files(LayerBench):
    def __init__(self, place, smoke):
        super().__init__(place, smoke)
        self.large_bytes = (32 if smoke else 1024) * MIB
        self.small_count = 200 if smoke else 5000
        self.random_reads = 1000 if smoke else 40_000
        leftovers.clear(self.place)
        self.data, self.list = self.place / "data", self.place / "list"
        self.place.mkdir(parents=True)
        self.reader = compiled("reader.cc", self.place / "reader")
        self.write()

    def write(self):
        (self.data / "small").mkdir(parents=True)
        block = random.Random(SEED).randbytes(MIB)
        with open(self.data / "large.bin", "wb") as file:
            for _ in range(self.large_bytes // MIB):
                file.write(block)
        names = [f"small/{number:05}" for number in range(self.small_count)]
        for name in names:
            (self.data / name).write_bytes(block[:SMALL_BYTES])
        self.list.write_text("".join(name + "\n" for name in names))
        os.sync()
        self.fixtures.use("local", [self.data], ["large.bin", *names])

    def run(self, row, subject, last):
        once = self.run_source if row in SOURCE_ROWS else self.run_mount
        ways = SOURCE_WAYS if row in SOURCE_ROWS else {way: way for way in MOUNT_WAYS}
        native = "pread" if row in SOURCE_ROWS else "native"
        first = once(row, native)
        results = {name: once(row, way) for way, name in ways.items()}
        ends = [first, once(row, native)]
        seconds = [end["seconds"] for end in ends]
        figures = {f"cpu_{row}_{native}": cpu_of(ends[1])}
        for name, result in results.items():
            rate = result["bytes"] / result["seconds"] / MIB
            figures[f"{row}_{name}"] = {"value": against(seconds, result["seconds"]),
                                        "reference": seconds, "note": f"{rate:,.0f} MiB/s"}
            figures[f"cpu_{row}_{name}"] = cpu_of(result)
        return figures

    def run_source(self, row, way):
        order, size, in_flight, cold = SOURCE_ROWS[row]
        if cold:
            drop_page_cache()
        reads = self.random_reads if order == "random" else self.large_bytes // size
        return run_client("leat_bench_file", way, self.data / "large.bin", order, size, in_flight,
                          reads)

    def read(self, row, folder):
        if row == "mount_small":
            return run_json(self.reader, "files", folder, self.list, SMALL_THREADS)
        return run_json(self.reader, "sequential", folder / "large.bin")

    def run_mount(self, row, way):
        """Seconds and CPU of one pass, of the daemon and the reader together; mounted anew."""
        if way == "native":
            return self.passes(row, self.data, None)
        leat, folder = Leat(self.place / "leat", cache_size="4GiB"), self.place / "mnt"
        folder.mkdir(exist_ok=True)
        freshness = "immutable" if way == "immutable" else "max-age=60s"
        try:
            leat.run("mount", self.data, folder, "--cache-dir", leat.cache_dir, "--cache-size",
                     "4GiB", "--freshness", freshness, *MOUNT_WAYS[way])
            return self.passes(row, folder, leat)
        finally:
            leat.close()
            leftovers.clear(self.place / "leat")

    def passes(self, row, folder, leat):
        # The first read of cache=always copies, past the page cache, which the second fills.
        self.read(row, folder)
        self.read(row, folder)
        if row == "mount_cold":
            drop_page_cache()
        before = cpu_seconds(leat.daemon_pid()) if leat else 0
        result = self.read(row, folder)
        if leat:
            result["cpu_s"] += cpu_seconds(leat.daemon_pid()) - before
        return result

    def close(self):
        leftovers.end(self.place)
        shutil.rmtree(self.place, ignore_errors=True)


def cpu_of(result):
    return {"value": result["cpu_s"] * GIB / result["bytes"], "note": ""}


def open_layer(place, smoke):
    return Files(place, smoke)
