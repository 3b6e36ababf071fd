# SPDX-License-Identifier: Apache-2.0
"""Rows of what the cache has not got yet. A mounter is a LeatMount or a peer: start() with nothing
cached, point, cpu_seconds() of its processes, wait_until_written(bytes), stop()."""

import time
from concurrent.futures import ThreadPoolExecutor

from folder_door.cached_rows import SEED
from folder_door.setting import FIRST_THREADS
from measure import GIB, KIB, MIB
from rig.process import wait_until

LINK_BITS = 2_000_000_000
SPREAD_BYTES, SPREAD_THREADS = 2 * MIB, 16
RANDOM_BYTES, RANDOM_THREADS = 128 * KIB, 4
PAGE_BYTES = 4096


def with_cpu(setting, mounter, read, expected):
    """(measurement, CPU seconds of the mounter until what was read is written behind)."""
    before = mounter.cpu_seconds()
    result = read()
    mounter.wait_until_written(expected)
    return result, mounter.cpu_seconds() - before


def sequential_ratio(setting, mounter, reference):
    """The set `stream` once through a fresh mount ÷ the raw streams, and CPU seconds."""
    setting.mount(mounter)
    size, cpu = setting.sizes.stream_bytes, []

    def subject():
        result, used = with_cpu(setting, mounter,
                                lambda: setting.sequential(mounter.point, "stream"), size)
        cpu.append(used)
        return result

    result = setting.reader.between(reference, subject)
    setting.check("stream")
    return dict(result, value=result["ratio"], cpu_s=cpu[0],
                note=f"{size / MIB / result['seconds']:,.0f} MiB/s")


def first(setting, mounter):
    """first: a file of 2 GiB read for the first time ÷ 8 signed raw streams; also CPU."""
    raw = setting.raw_streams("stream")
    raw.by_loop()  # the server's file is in memory from here on
    result = sequential_ratio(setting, mounter, raw.fastest)
    cpu = result["cpu_s"] * GIB / setting.sizes.stream_bytes
    return {"first": result, "cpu_first": {"value": cpu, "note": "s/GiB"}}


def on_link(result, size):
    share = size * 8 / LINK_BITS / result["seconds"]
    return dict(result, nominal=share, note=f"{result['note']}, {share:.2f} of the nominal rate")


def first_shaped(setting, mounter):
    """first_shaped: the same behind a link of 2 Gbit/s; raw streams are the link."""
    with setting.behind_link(LINK_BITS):
        result = sequential_ratio(setting, mounter, setting.raw_streams("stream").by_loop)
        return {"first_shaped": on_link(result, setting.sizes.stream_bytes)}


def first_small(setting, mounter):
    """first_small: 10,000 files of 100 KB for the first time, shuffled, 8 readers ÷ raw GETs over 8
    connections; also CPU."""
    setting.raw_gets()
    setting.mount(mounter)
    count, cpu = setting.sizes.first_count, []

    def subject():
        result, used = with_cpu(setting, mounter, lambda: setting.files(
            mounter.point, "first", FIRST_THREADS), setting.data.bytes_of("first"))
        cpu.append(used)
        return result

    result = setting.reader.between(setting.raw_gets, subject)
    setting.check("first")
    return {"first_small": dict(result, value=result["ratio"], cpu_s=cpu[0],
                                note=f"{count / result['seconds']:,.0f} files/s"),
            "cpu_first_small": {"value": cpu[0] * 1e3 / count, "note": "ms each"}}


def settled_bytes(link):
    """What the server has sent, once it sends no more."""
    seen = [link.bytes_sent()]

    def still():
        seen.append(link.bytes_sent())
        return len(seen) > 5 and seen[-1] - seen[-5] < 10_000
    wait_until(still, "the server to be silent", 120, 0.2)
    return seen[-1]


def pulled(setting, mounter, *pattern):
    """Bytes on the link ÷ bytes asked, of one pattern in the set `large`, nothing cached."""
    with setting.behind_link() as link:
        setting.mount(mounter)
        path = mounter.point / setting.data.file_of("large")
        path.stat()
        before = settled_bytes(link)
        mode, *words = pattern
        result = setting.pattern(mode, path, *words)
        value = (settled_bytes(link) - before) / result["bytes"]
        rate = setting.sizes.random_reads / result["seconds"]
        setting.check("large")
        return dict(result, value=value, note=f"{rate:,.0f} reads/s")


def amplification(setting, mounter):
    """amplification: bytes from the store ÷ bytes asked: 400 preads of 128 KiB at random in the
    4 GiB file by 4 threads; 400 pages of 4 KiB at random by mmap."""
    reads = setting.sizes.random_reads
    return {"amplification_pread": pulled(setting, mounter, "random", RANDOM_BYTES, RANDOM_THREADS,
                                          reads, SEED),
            "amplification_mmap": pulled(setting, mounter, "mapped", reads, SEED)}


def beside_streams(setting, streams, work):
    """What `work` answers while `streams` runs in another thread, and what that answers."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(streams)
        time.sleep(1)  # until they are under way
        result = work()
        if running.done() and not setting.sizes.smoke:
            raise RuntimeError("the streams ended first")
        return result, running.result()


def interactive(setting, mounter):
    """interactive: one reader that opens and reads 150 files of 100 KB, shuffled, for the first time,
    beside 8 threads that read 2 GiB for the first time, behind 2 Gbit/s ÷ raw GETs over one
    connection beside 8 raw streams."""
    with setting.behind_link(LINK_BITS):
        count, size = setting.sizes.interactive_count, setting.sizes.stream_bytes
        raw = setting.raw_streams("stream")
        raw.by_loop()
        setting.raw_gets()  # the server's files are in memory from here on
        reference = setting.raw_gets_over(1, count)
        crowded, _ = beside_streams(setting, raw.by_loop, lambda: setting.raw_gets_over(1, count))
        setting.mount(mounter)

        def each(first):
            return setting.pattern("each", mounter.point, setting.data.list_of("first"), first, count)

        alone = each(0)
        path = mounter.point / setting.data.file_of("stream")
        beside, streams = beside_streams(
            setting, lambda: setting.pattern("streams", path, 8, MIB, 8), lambda: each(count))
        setting.check("stream", "first")
        note = (f"one file p50 {beside['p50_ms']:.1f}, p99 {beside['p99_ms']:.1f} ms, alone "
                f"{alone['p50_ms']:.1f} and {alone['p99_ms']:.1f}; raw on average "
                f"{crowded['seconds'] / count * 1e3:.1f}, alone {reference['seconds'] / count * 1e3:.1f}; "
                f"streams at {size * 8 / LINK_BITS / streams['seconds']:.2f} of the link")
        return {"interactive": dict(beside, value=crowded["seconds"] / beside["seconds"], alone=alone,
                                    raw_s=crowded["seconds"], raw_alone_s=reference["seconds"],
                                    streams_s=streams["seconds"], note=note)}


def safetensors(setting, mounter):
    """safetensors: the 4 GiB file in order by 16 threads in preads of 2 MiB, behind 2 Gbit/s; raw
    streams are the link."""
    with setting.behind_link(LINK_BITS):
        setting.mount(mounter)
        path = mounter.point / setting.data.file_of("large")
        size = setting.sizes.large_bytes
        result = setting.reader.between(
            setting.raw_streams("large").by_loop,
            lambda: setting.pattern("spread", path, SPREAD_BYTES, SPREAD_THREADS))
        setting.check("large")
        result = dict(result, value=result["ratio"],
                      note=f"{size / MIB / result['seconds']:,.0f} MiB/s")
        return {"safetensors": on_link(result, size)}
