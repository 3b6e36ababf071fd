# SPDX-License-Identifier: Apache-2.0
"""What names cost: a snapshot of a million, by itself and through a catalog; a daemon that has one; and
ten million in one folder of a server that has nothing but a listing (list_server.py)."""

import os
import re
import shutil
import threading
import time
from pathlib import Path

from layers.layer_bench import LayerBench, run_client
from listing import mounted_listing
from measure import MIB
from rig import leftovers

# Figure -> what leat_bench_names calls it.
SPEEDS = {"lookups": "lookups_per_s", "listed": "listed_per_s",
          "catalog_lookups": "catalog_lookups_per_s", "catalog_listed": "catalog_listed_per_s"}


class MemoryWatch(threading.Thread):
    """The most anonymous memory that a process had while this ran."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status, self.ended, self.most = Path(f"/proc/{pid}/status"), threading.Event(), 0

    def run(self):
        while not self.ended.wait(0.2):
            self.look()

    def look(self):
        anonymous = re.search(r"RssAnon:\s+(\d+) kB", self.status.read_text())
        self.most = max(self.most, int(anonymous.group(1)) * 1024)

    def stop(self):
        self.ended.set()
        self.join()
        self.look()
        return self.most


def check_found(found, names):
    if found != names:
        raise RuntimeError(f"{found} names were found in the folder instead of {names}")


class Names(LayerBench):
    def __init__(self, place, smoke):
        super().__init__(place, smoke)
        self.count = 20_000 if smoke else 1_000_000
        leftovers.clear(self.place)
        self.place.mkdir(parents=True)

    def folder(self, name):
        folder = self.place / name
        leftovers.clear(folder)
        folder.mkdir()
        return folder

    def run(self, row, subject, last):
        return getattr(self, f"run_{row}")()

    def run_snapshot(self):
        one = run_client("leat_bench_names", self.folder("snapshot") / "file", self.count)
        figures = {key: {"value": one[name] / 1e6, "note": ""} for key, name in SPEEDS.items()}
        size = f"{one['file_bytes'] / self.count:.0f} bytes a name in the file"
        figures["heap"] = {"value": one["heap_bytes"] / self.count, "note": size}
        figures["catalog_heap"] = {"value": one["catalog_heap_bytes"] / self.count, "note": ""}
        heap = f"with a heap of {one['build_heap_bytes'] / MIB:.0f} MiB"
        figures["build"] = {"value": one["build_s"], "note": heap}
        return figures

    def run_daemon(self):
        with mounted_listing(self.folder("daemon"), self.count) as (leat, mount):
            leat.run("snapshot", "build", mount, "--name", "all", "--use", timeout_s=600)
            settled = leat.json("status")["rss_bytes"]
            check_found(sum(len(files) for _, _, files in os.walk(mount)), self.count)
            walked = leat.json("status")["rss_bytes"]
        return {"daemon": {"value": settled / 1e6, "note": ""},
                "daemon_walked": {"value": walked / 1e6, "note": ""}}

    def run_folder(self):
        names, seconds = 10 * self.count, []
        with mounted_listing(self.folder("folder"), names, "flat",
                             source="s3://bucket/train") as (leat, mount):
            memory = MemoryWatch(leat.daemon_pid())
            memory.start()
            for _ in range(2):
                began = time.monotonic()
                with os.scandir(mount) as listing:
                    check_found(sum(1 for _ in listing), names)
                seconds.append(time.monotonic() - began)
            most = memory.stop()
        return {"folder_first": {"value": seconds[0], "note": f"{names:,} names"},
                "folder_again": {"value": seconds[1], "note": ""},
                "folder_memory": {"value": most / 1e6, "note": ""}}

    def close(self):
        leftovers.end(self.place)
        shutil.rmtree(self.place, ignore_errors=True)


def open_layer(place, smoke):
    return Names(place, smoke)
