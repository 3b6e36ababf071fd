# SPDX-License-Identifier: Apache-2.0
"""Rows of a store that is 0, 30 and 100 ms away, with nothing cached. A mounter is a LeatMount or a
peer (first_rows.py); a peer has the rows' figures but those of `leat load`."""

import contextlib
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

from folder_door.data_sets import BUCKET
from folder_door.far_store import far
from folder_door.setting import LeatMount
from hygiene.processor import with_processor
from measure import GIB, KIB, MIB
from rig import leftovers
from rig.cluster import Cluster
from rig.process import memory_peak

GIGABIT = 1_000_000_000
# Shares from which on the link is the limit, and below that the processor. Cores that also wait for
# a disk are never quite busy.
LINK_FULL, PROCESSOR_FULL = 0.95, 0.8
READERS, MANY_READERS = 8, 64
RTT_MS = 30
JITTER_FROM_MS, JITTER_MS = 20, 20  # 20 to 40 ms, so 30 ± 10
NEVER = ("-o", "load=never")
BESIDE = 64  # files that are read one after another beside a load
PAGE_BYTES, RANDOM_BYTES = 4 * KIB, 128 * KIB
RANDOM_THREADS, DEEP_THREADS, DEEP_READS = 4, 128, 8000
FIRST_BYTES = 128 * KIB
SEED = 7


def mounted(setting, mounter):
    """A mount with an empty cache and known names: listing is a row of its own."""
    mount = setting.mount(mounter)
    (mount.point / "first").stat()
    list((mount.point / "first").iterdir())
    return mount


def load_result(setting, delay_ms, jitter_ms=0):
    def measure():
        began = time.monotonic()
        mount.leat.run("load", mount.point / "first", timeout_s=900)
        return {"seconds": time.monotonic() - began}

    with far(setting, delay_ms, jitter_ms):
        mount = mounted(setting, LeatMount(setting))
        result = dict(with_processor(measure), memory=memory_peak(mount.daemon))
        setting.check("first")
        return result


def load_ratio(setting, near, result):
    """Speed of a load ÷ that of one from the store 0 ms away."""
    rate = setting.sizes.first_count / result["seconds"]
    return {"value": near["seconds"] / result["seconds"], "seconds": result["seconds"],
            "note": f"{rate:,.0f} files/s"}


def load(setting):
    """load: `leat load` of 10,000 files of 100 KB: files/s at 0 ms, and at 30 and 100 ms ÷ that.
    Also the daemon's memory."""
    near, at_30, at_100 = loads = [load_result(setting, delay) for delay in (0, RTT_MS, 100)]
    return {"load_0": {"value": setting.sizes.first_count / near["seconds"], "note": "files/s"},
            "load_30": load_ratio(setting, near, at_30),
            "load_100": load_ratio(setting, near, at_100),
            "load_memory": {"value": max(one["memory"] for one in loads) / MIB,
                            "note": "of a daemon with 24 GiB of RAM"}}


def sequential_result(setting, mounter, delay_ms):
    with far(setting, delay_ms):
        mount = setting.mount(mounter)
        (mount.point / setting.data.file_of("stream")).stat()
        result = setting.reader.settled(
            lambda: with_processor(lambda: setting.sequential(mount.point, "stream")))
        setting.check("stream")
        return result


def first_byte_seconds(setting, mounter):
    """Opens a file with a known name, and reads its beginning."""
    with far(setting, RTT_MS):
        mount = setting.mount(mounter)
        path = mount.point / setting.data.file_of("stream")
        path.stat()
        began = time.monotonic()
        file = os.open(path, os.O_RDONLY)
        try:
            os.pread(file, FIRST_BYTES, 0)
            return time.monotonic() - began
        finally:
            os.close(file)


def sequential(setting, mounter):
    """sequential: a file of 2 GiB: MiB/s at 0 ms, and at 30 ms ÷ that; its first 128 KiB."""
    size = setting.sizes.stream_bytes / MIB
    near, at_30 = (sequential_result(setting, mounter, delay)["seconds"] for delay in (0, RTT_MS))
    return {"sequential_0": {"value": size / near, "note": "MiB/s"},
            "sequential_30": {"value": near / at_30, "seconds": at_30,
                              "note": f"{size / at_30:,.0f} MiB/s"},
            "first_byte": {"value": first_byte_seconds(setting, mounter) * 1e3 / RTT_MS,
                           "note": "open and read"}}


def epoch_result(setting, mounter, delay_ms, order="random", readers=READERS, jitter_ms=0):
    with far(setting, delay_ms, jitter_ms) as store:
        mount = mounted(setting, mounter)
        before = store.counters()["bytes"]
        result = with_processor(lambda: setting.files(mount.point, "first", readers, order=order))
        asked = store.counters()["bytes"] - before
        setting.check("first")
        rate = setting.sizes.first_count / result["seconds"]
        return {"value": rate, "seconds": result["seconds"], "rate": rate,
                "processor": result["processor"],
                "note": f"files/s, {asked / setting.data.bytes_of('first'):.2f} of the set's bytes"}


def epoch(setting, mounter):
    """epoch: the files of 100 KB once by 8 readers, at random and in name order, 30 ms away. Also by
    64 at random ÷ 0 ms away."""
    near, at_30 = (epoch_result(setting, mounter, delay, readers=MANY_READERS)
                   for delay in (0, RTT_MS))
    many = dict(at_30, value=at_30["rate"] / near["rate"],
                note=f"{at_30['rate']:,.0f} {at_30['note']}; {near['rate']:,.0f} 0 ms away")
    return {"epoch_random": epoch_result(setting, mounter, RTT_MS),
            "epoch_ordered": epoch_result(setting, mounter, RTT_MS, "ordered"), "epoch_many": many}


def jitter(setting, mounter):
    """jitter: each piece of an answer comes 20 to 40 ms later: `leat load` of the small files ÷ 0 ms,
    and the files once at random by 8 readers."""
    results = {"jitter_epoch": epoch_result(setting, mounter, JITTER_FROM_MS, jitter_ms=JITTER_MS)}
    if isinstance(mounter, LeatMount):
        near = load_result(setting, 0)
        at_30 = load_result(setting, JITTER_FROM_MS, JITTER_MS)
        results["jitter_load"] = load_ratio(setting, near, at_30)
    return results


def of_link(size, bits, result):
    """Share of the link's rate. The note names the processor where it is the limit instead."""
    seconds, busy = result["seconds"], result["processor"]
    value = size * 8 / bits / seconds
    limit = ": the limit" if value < LINK_FULL and busy >= PROCESSOR_FULL else ""
    return {"value": value, "seconds": seconds, "processor": busy,
            "note": f"{seconds:.1f} s, processor {busy:.0%} busy{limit}"}


def behind(setting, mounter, gigabits, prefix):
    bits = gigabits * GIGABIT
    first, stream = (setting.data.bytes_of(name) for name in ("first", "stream"))
    with setting.behind_link(bits):
        results = {
            f"{prefix}_epoch": of_link(first, bits, epoch_result(setting, mounter, RTT_MS)),
            f"{prefix}_sequential": of_link(stream, bits, sequential_result(setting, mounter, RTT_MS))}
        if isinstance(mounter, LeatMount):
            results[f"{prefix}_load"] = of_link(first, bits, load_result(setting, RTT_MS))
    return results


def link(setting, mounter):
    """link: behind 1 Gbit/s and 30 ms: `leat load` of the small files, and the file of 2 GiB. Also
    the small files read at random by 8 readers."""
    return behind(setting, mounter, 1, "link")


def link_2(setting, mounter):
    """link-2: the same behind 2 Gbit/s."""
    return behind(setting, mounter, 2, "link2")


def link_5(setting, mounter):
    """link-5: the same behind 5 Gbit/s."""
    return behind(setting, mounter, 5, "link5")


def each_p99(setting, mount):
    """Files that a load reaches last, one after another; ms."""
    first = setting.sizes.first_count - BESIDE
    return setting.pattern("each", mount.point, setting.data.list_of("first", "ordered"), first,
                           BESIDE)["p99_ms"]


def beside(setting):
    """beside: p99 of 64 files of 100 KB read one by one, 30 ms away, while the other 10,000 are
    loaded ÷ without a load."""
    with far(setting, RTT_MS):
        alone = each_p99(setting, mounted(setting, LeatMount(setting, words=NEVER)))
    with far(setting, RTT_MS):
        mount = mounted(setting, LeatMount(setting))
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(mount.leat.run, "load", mount.point / "first", timeout_s=900)
            time.sleep(0.2)  # until it is under way
            loaded = each_p99(setting, mount)
            early = loading.done()
            loading.result()
        if early and not setting.sizes.smoke:
            raise RuntimeError("the load ended first")
    return {"beside": {"value": loaded / alone, "note": f"{loaded:.0f} and {alone:.0f} ms"}}


def random_result(setting, delay_ms, size, threads, reads, grain):
    """(measurement, bytes of the store ÷ bytes read)."""
    with far(setting, delay_ms) as store:
        mount = setting.mount(LeatMount(setting))
        path = mount.point / setting.data.file_of("large")
        path.stat()
        before = store.counters()["bytes"]
        result = setting.pattern("random", path, size, threads, reads, SEED, grain)
        time.sleep(1)  # until what was asked ahead has come
        asked = store.counters()["bytes"] - before
        setting.check("large")
        return result, asked / result["bytes"]


def random_reads(setting):
    """random: preads at random in the 4 GiB file, of 128 KiB at multiples of 4 KiB, and of 4 KiB:
    bytes of the store ÷ bytes read. Also 128 threads, 30 ms away ÷ 128 reads in a round trip."""
    reads = setting.sizes.random_reads
    large, times = random_result(setting, 0, RANDOM_BYTES, RANDOM_THREADS, reads, PAGE_BYTES)
    small, small_times = random_result(setting, 0, PAGE_BYTES, RANDOM_THREADS, reads, PAGE_BYTES)
    count = reads if setting.sizes.smoke else DEEP_READS
    deep, _ = random_result(setting, RTT_MS, PAGE_BYTES, DEEP_THREADS, count, PAGE_BYTES)
    rate = count / deep["seconds"]
    return {"random_large": {"value": times, "note": f"{reads / large['seconds']:,.0f} reads/s"},
            "random_small": {"value": small_times, "note": f"{reads / small['seconds']:,.0f} reads/s"},
            "random_deep": {"value": rate * RTT_MS / 1e3 / DEEP_THREADS, "note": f"{rate:,.0f} reads/s"}}


def ranks_rate(setting, delay_ms):
    """(files/s of two clients of two workers, 8 readers and half of the files each; bytes ÷ set)."""
    with far(setting, delay_ms) as store, contextlib.ExitStack() as stack:
        place = setting.folder / "leat"
        leftovers.clear(place)
        cluster = Cluster(place, store, 2, cache_size=str(8 * GIB),
                          settings={"LEAT_CACHE_MIN_FREE": "256MiB"})
        stack.callback(cluster.close)
        cluster.start().mount(f"{BUCKET}/first", "/first")
        folders = [cluster.client().mount_cluster("/first", memory="256MiB") for _ in range(2)]
        names = [name.removeprefix("first/") for name in setting.data.names["first"]]
        random.Random(SEED).shuffle(names)
        lists = []
        for rank, folder in enumerate(folders):
            list(folder.iterdir())
            lists.append(setting.folder / f"rank{rank}.list")
            lists[-1].write_text("".join(f"{name}\n" for name in names[rank::2]))
        before = store.counters()["bytes"]
        began = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda rank: setting.reader.read("files", folders[rank], lists[rank], READERS, 1,
                                                           timeout_s=900), range(2)))
        rate = len(names) / (time.monotonic() - began)
        return rate, (store.counters()["bytes"] - before) / setting.data.bytes_of("first")


def ranks(setting):
    """ranks: two clients of two workers read half of the files each, at random, with 8 readers,
    30 ms away ÷ 0 ms. Also bytes of the store ÷ the set."""
    (near, _), (at_30, asked) = ranks_rate(setting, 0), ranks_rate(setting, RTT_MS)
    return {"ranks": {"value": at_30 / near, "note": f"{at_30:,.0f} and {near:,.0f} files/s"},
            "ranks_bytes": {"value": asked, "note": ""}}
