# SPDX-License-Identifier: Apache-2.0
"""Rows of what was read before through the same mount, with the store at hand, as programs have it;
and whether a cache stays within its size meanwhile."""

import threading

from folder_door.cached_rows import per_second, ratio
from folder_door.setting import FIRST_THREADS, SMALL_THREADS, LeatMount
from measure import MIB
from rig.process import disk_bytes


def again(setting, mounter):
    """again: the file of 2 GiB a second time, from then on, and with the page cache dropped ÷ ext4.

    The first read leaves the bytes on disk and in the folder's own pages; a second open passes the
    cached file through, which has none yet. So the second read is that of the disk, the third hot.
    """
    setting.mount(mounter)
    native = setting.data.native
    for folder in (mounter.point, native):
        setting.sequential(folder, "stream")
    mounter.wait_until_written(setting.sizes.stream_bytes)
    speed = per_second(MIB)
    results = {
        key: ratio(setting, lambda: setting.sequential(native, "stream"),
                   lambda: setting.sequential(mounter.point, "stream"),
                   lambda result: f"{speed(result)} MiB/s", cold)
        for key, cold in (("second", False), ("again", False), ("again_cold", True))}
    setting.check("stream")
    return results


def small_again(setting, mounter):
    """small_again: the 10,000 files of 100 KB a second time, hot, 4 readers ÷ ext4."""
    setting.mount(mounter)
    native = setting.data.native
    setting.files(mounter.point, "first", FIRST_THREADS)
    mounter.wait_until_written(setting.data.bytes_of("first"))
    for folder in (native, mounter.point):
        setting.files(folder, "first", SMALL_THREADS)
    result = ratio(setting, lambda: setting.files(native, "first", SMALL_THREADS),
                   lambda: setting.files(mounter.point, "first", SMALL_THREADS),
                   lambda one: f"{setting.sizes.first_count / one['seconds']:,.0f} files/s")
    setting.check("first")
    return {"small_again": result}


def capacity(setting):
    """capacity: 3 GiB go through a cache of 512 MiB, twice: the most above its size."""
    size = setting.sizes.capacity_bytes
    mounter = LeatMount(setting, cache_bytes=size)
    setting.mount(mounter)
    stopping, samples = threading.Event(), []

    def sample():
        while not stopping.is_set():
            samples.append(disk_bytes(mounter.leat.cache_dir))
            stopping.wait(0.002)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        for _ in range(2):
            setting.sequential(mounter.point, "stream")
            setting.files(mounter.point, "first", SMALL_THREADS)
    finally:
        stopping.set()
        sampler.join()
        setting.unmount()
    return {"capacity": {"value": (max(samples) - size) / MIB, "note": f"{len(samples):,} samples"}}
