# SPDX-License-Identifier: Apache-2.0
"""A cluster as those see it who read from it: what it asks of the store, what its doors serve, and what
readers notice when a part of it breaks. Real processes on hosts of their own (cluster_door/network.py)."""

import os
from dataclasses import replace

from cluster_door import change_rows, door_rows, hedge_rows, read_rows
from cluster_door.data_sets import SMOKE, Sizes
from cluster_door.fault_rows import FAULTS, under_fault
from cluster_door.scene import Setting
from layers.layer_bench import LayerBench

SOAK_MINUTES = "LEAT_BENCH_SOAK_MINUTES"  # as `bench/run --soak-minutes` sets it

ROWS = {
    "cold": read_rows.cold,
    "door": door_rows.door,
    "ranges": door_rows.ranges,
    "ranges-tls": door_rows.ranges_tls,
    "remote-latency": door_rows.remote_latency,
    "small-reads": door_rows.small_reads,
    "hedges": hedge_rows.hedges,
    "aggregate": read_rows.aggregate,
    **{name: under_fault(name) for name in FAULTS},
    "hit-rate": read_rows.hit_rate,
    "joins": change_rows.joins,
    "soak": change_rows.soak,
}


class ClusterBench(LayerBench):
    def __init__(self, place, smoke):
        super().__init__(place, smoke)
        self.place.mkdir(parents=True, exist_ok=True)
        sizes = SMOKE if smoke else Sizes()
        if os.environ.get(SOAK_MINUTES):
            sizes = replace(sizes, soak_s=60 * float(os.environ[SOAK_MINUTES]))
        self.setting = Setting(self.place, sizes, self.fixtures)

    def run(self, row, subject, last):
        return ROWS[row](self.setting)


def open_layer(place, smoke):
    return ClusterBench(place, smoke)
