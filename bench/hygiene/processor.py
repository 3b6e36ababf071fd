# SPDX-License-Identifier: Apache-2.0
"""How busy the processor is during a measurement, from the kernel's accounts."""

import statistics
import threading
from pathlib import Path

SLICE_S = 0.1


def ticks():
    """(idle, all) of all cores since boot. A core that waits for a disk is idle."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    numbers = list(map(int, words))
    return numbers[3] + numbers[4], sum(numbers)


def busy_share(moments):
    """Median over the slices between moments, so that a slow start does not count; 0: no slice."""
    slices = [1 - (idle - idle_before) / (whole - whole_before)
              for (idle_before, whole_before), (idle, whole) in zip(moments, moments[1:])
              if whole > whole_before]
    return statistics.median(slices) if slices else 0


def with_processor(measure):
    """The measurement, with `processor`: the share of all cores that was busy, as a median."""
    moments, ended = [ticks()], threading.Event()

    def watch():
        while not ended.wait(SLICE_S):
            moments.append(ticks())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = measure()
    finally:
        ended.set()
        watcher.join()
    return dict(result, processor=busy_share([*moments, ticks()]))
