# SPDX-License-Identifier: Apache-2.0
"""What it changes that a read that takes long is asked of a second worker: a set of which two workers have
each part, read by parts of all sizes, with hedges and without."""

import random
import time
from contextlib import nullcontext

from cluster_door.data_sets import BUCKET
from cluster_door.readers import Load, read_once
from cluster_door.scene import CLIENT_MEMORY, NOT_ASKED_AGAIN
from measure import MIB
from rig.threads import UntilTold

PARTS_A_SECOND, READERS, BUSY_READERS = 400, 32, 16
STOPS_A_SECOND, STOP_S = 5, 0.03


class Hiccups(UntilTold):
    """Now and then one of the workers stands still, as one whose machine does something else."""

    def __init__(self, workers):
        super().__init__([(workers,)])

    def run(self, workers):
        chosen = random.Random(1)
        while not self.stopping.wait(chosen.expovariate(STOPS_A_SECOND)):
            worker = chosen.choice(workers)
            worker.pause()
            time.sleep(STOP_S)
            worker.resume()


class Readers:
    """A client with hedges and one without, whose workers have all that is read."""

    def __init__(self, scene):
        self.seconds = scene.setting.sizes.rate_s / 2
        scene.cluster.mount(f"{BUCKET}/load", "/twice", "-o", f"freshness={NOT_ASKED_AGAIN}", "-o",
                            "replicas=2")
        data = scene.setting.data
        self.names = data.list_of("load", [file for file in data.files["load"]
                                           if file.startswith("large/")], "parts")
        self.folders = {}
        for hedge in ("auto", "never"):
            self.folders[hedge] = scene.cluster.client().mount_cluster(
                "/twice", "-o", "cache=never", "-o", f"hedge={hedge}", freshness=NOT_ASKED_AGAIN,
                memory=CLIENT_MEMORY)
        for _ in range(3):  # which of the two is asked is drawn
            for folder in self.folders.values():
                read_once(folder, self.names, 4)

    def look(self, hedge, rate, threads, trouble):
        with trouble:
            load = Load(f"the reader with hedge={hedge}", "parts", self.folders[hedge], self.names,
                        threads, 1, rate)
            try:
                time.sleep(2)
                load.tell()
                time.sleep(self.seconds)
                told = load.tell()
            finally:
                end = load.close()
        if told["failures"] or end["failures"]:
            raise RuntimeError(f"reads failed: {told['messages']} {end['messages']}")
        return told

    def beside(self, of, rate, threads=READERS, trouble=nullcontext):
        """`of` what was told: with hedges ÷ without, at both ends."""
        first, ours, last = (of(self.look(hedge, rate, threads, trouble()))
                             for hedge in ("never", "auto", "never"))
        return {"value": ours / ((first + last) / 2), "reference": [first, last]}, ours, first


def p99_ms(told):
    return told["p99_s"] * 1e3


def bytes_a_second(told):
    return told["bytes"] / told["seconds"]


def hedges(setting):
    """hedges: parts of 4 KiB to 1 MiB of what two workers have each, with hedges ÷ without."""
    with setting.scene("load", workers=3, memory="256MiB") as scene:
        readers = Readers(scene)
        figures = {}
        for name, trouble in (("even", nullcontext), ("hiccups", lambda: Hiccups(scene.workers))):
            figure, ours, theirs = readers.beside(p99_ms, PARTS_A_SECOND, trouble=trouble)
            figures[f"hedges_{name}"] = figure | {
                "note": f"p99 {ours:.1f} ms with, {theirs:.1f} without"}
        figure, ours, theirs = readers.beside(bytes_a_second, 0, BUSY_READERS)
        figures["hedges_busy"] = figure | {
            "note": f"{ours / MIB:,.0f} MiB/s with, {theirs / MIB:,.0f} without"}
    return figures
