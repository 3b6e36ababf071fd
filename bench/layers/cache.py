# SPDX-License-Identifier: Apache-2.0
"""What the page store costs by itself: module `cache` alone. A store of packed objects is opened; objects
are written until they are durable, against the same bytes as one file that is synced; the share of a
trace that is served, where the cache holds a quarter, a half and three quarters of a data set, beside
that share for epochs, and beside a simulation of the policy for skewed work."""

import os
import shutil

from layers.layer_bench import LayerBench, against, run_client

OBJECT_BYTES, IN_FLIGHT = 4096, 64
WRITES = {"write_4k": (100_000, 4096), "write_110k": (20_000, 110_000)}
SHARES = (0.25, 0.5, 0.75)
EPOCHS, SKEWED = ("permuted", "in_order", "resharded"), ("zipf0.8", "zipf1.1", "scan+zipf")
HIT_OBJECTS = 4000


class Cache(LayerBench):
    def __init__(self, place, smoke):
        super().__init__(place, smoke)
        self.scale = 50 if smoke else 1
        self.filled = False
        self.fresh("")

    def fresh(self, name):
        folder = self.place / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        os.sync()
        return folder

    def run(self, row, subject, last):
        return getattr(self, f"run_{row}")()

    def run_restart(self):
        objects = 1_000_000 // self.scale
        folder = self.place / "restart"
        if not self.filled:
            run_client("leat_bench_cache", "fill", self.fresh("restart"), objects, OBJECT_BYTES,
                       IN_FLIGHT)
            self.filled = True
        one = run_client("leat_bench_cache", "open", folder, objects, OBJECT_BYTES)
        return {"restart": {"value": one["first_hit_s"], "note": f"{objects:,} objects"},
                "heap": {"value": one["heap_per_object"], "note": ""}}

    def run_write(self):
        return {key: self.write(objects // self.scale, size) for key, (objects, size) in WRITES.items()}

    def write(self, objects, size):
        def raw():
            return run_client("leat_bench_cache", "raw", self.fresh("write"), objects, size)["seconds"]

        first = raw()
        store = run_client("leat_bench_cache", "fill", self.fresh("write"), objects, size,
                           IN_FLIGHT)["seconds"]
        ends = [first, raw()]
        return {"value": against(ends, store), "reference": ends,
                "note": f"{objects * size / store / 1e6:,.0f} MB/s"}

    def run_hits(self):
        objects = HIT_OBJECTS // (10 if self.smoke else 1)
        figures = {}
        for kind in ("files", "packed"):
            for work in EPOCHS + SKEWED:
                cells = []
                for share in SHARES:
                    one = run_client("leat_bench_hits", self.fresh("hits"), kind, work, share, objects)
                    best = share if work in EPOCHS else one["reference"]
                    cells.append((one["hit_rate"], best))
                words = ", ".join(f"{hit:.3f} ({best:.3f})" for hit, best in cells)
                figures[f"hits_{kind}_{work}"] = {
                    "value": max(abs(hit - best) for hit, best in cells), "note": words}
        return figures

    def close(self):
        shutil.rmtree(self.place, ignore_errors=True)


def open_layer(place, smoke):
    return Cache(place, smoke)
