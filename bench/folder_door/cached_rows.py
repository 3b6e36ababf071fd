# SPDX-License-Identifier: Apache-2.0
"""Rows for which everything is cached and the store's server is stopped: the mount ÷ ext4."""

from folder_door.setting import MODES, SMALL_THREADS
from measure import MIB, NotRun, say

PAGE_BYTES = 4096
SEED = 12345


def ratio(setting, reference, subject, note, cold=False):
    """One run; `note` says the subject's speed in words."""
    result = setting.reader.between(reference, subject, cold)
    return dict(result, value=result["ratio"], note=note(result))


def per_second(unit):
    return lambda result: f"{result['bytes'] / unit / result['seconds']:,.0f}"


def sequential(setting, cold):
    mount = setting.cached_anew("large") if cold else setting.cached("large")
    native = setting.data.native

    def read(folder, passes):
        return setting.files(folder, "large", 1, passes)

    passes = 1
    if not cold:
        for folder in (mount, native):
            read(folder, 1)
        passes = setting.repeats_for(read(native, 1))
    speed = per_second(MIB)
    return ratio(setting, lambda: read(native, passes), lambda: read(mount, passes),
                 lambda result: f"{speed(result)} MiB/s, {passes} passes", cold)


def hot(setting):
    """hot: sequential 4 GiB, page cache hot."""
    result = {"hot": sequential(setting, cold=False)}
    setting.check("large")
    return result


def disk(setting):
    """disk: the same with the page cache dropped."""
    result = {"disk": sequential(setting, cold=True)}
    setting.check("large")
    return result


def random_reads(setting, cold, threads):
    mount = setting.cached_anew("large") if cold else setting.cached("large")
    native = setting.data.native
    name = setting.data.file_of("large")

    def read(folder, reads):
        return setting.pattern("random", folder / name, PAGE_BYTES, threads, reads, SEED)

    if not cold:
        for folder in (native, mount):
            setting.sequential(folder, "large")
    trial = setting.data.sizes.large_bytes // PAGE_BYTES // 64
    reads = trial * setting.repeats_for(setting.reader.settled(lambda: read(native, trial), cold))
    speed = per_second(PAGE_BYTES)
    return ratio(setting, lambda: read(native, reads), lambda: read(mount, reads),
                 lambda result: f"{speed(result)} reads/s, {reads:,} reads", cold)


def random(setting):
    """random: preads of 4 KiB at random in the 4 GiB file, 1 and 4 threads, hot and cold."""
    results = {f"random_{'cold' if cold else 'hot'}_{threads}": random_reads(setting, cold, threads)
               for cold in (False, True) for threads in (1, 4)}
    setting.check("large")
    return results


def small_hot(setting, mode):
    mount, native = setting.cached("small", mode), setting.data.native

    def read(folder, passes):
        return setting.files(folder, "small", SMALL_THREADS, passes)

    for folder in (native, mount):
        read(folder, 1)
    passes = setting.repeats_for(read(native, 1))
    files = passes * setting.sizes.small_count
    return ratio(setting, lambda: read(native, passes), lambda: read(mount, passes),
                 lambda result: f"{files / result['seconds']:,.0f} files/s, {passes} passes")


def small(setting):
    """small: 12,000 files of 110 KB opened, read, closed, hot, 4 threads, by mount mode."""
    results = {}
    for mode in MODES:
        try:
            results[f"small_{mode}"] = small_hot(setting, mode)
            setting.check("small")
        except NotRun as reason:
            say(f"NOT RUN: small_{mode}: {reason}")
            results[f"small_{mode}"] = {"not_run": str(reason)}
    return results


def small_cold_in(setting, order):
    mount, native = setting.cached_anew("small"), setting.data.native

    def read(folder):
        return setting.files(folder, "small", SMALL_THREADS, order=order)

    return ratio(setting, lambda: read(native), lambda: read(mount),
                 lambda result: f"{setting.sizes.small_count / result['seconds']:,.0f} files/s",
                 cold=True)


def small_cold(setting):
    """small_cold: the same files, page cache dropped, shuffled and by name."""
    results = {"small_cold_random": small_cold_in(setting, "random"),
               "small_cold_name": small_cold_in(setting, "ordered")}
    setting.check("small")
    return results


def first_after_restart(setting, name, read):
    """A daemon verifies what the one before it has left. The reference reads by the same daemon's
    kernel what was verified, before the restart and after it."""
    mount = setting.cached_anew(name)
    before = setting.reader.settled(lambda: read(mount), cold=True)
    setting.restart(name)
    first = setting.reader.settled(lambda: read(mount), cold=True)
    after = setting.reader.settled(lambda: read(mount), cold=True)
    if not before["bytes"] == first["bytes"] == after["bytes"]:
        raise RuntimeError(f"not the same bytes were read: {before} {first} {after}")
    verified = (before["seconds"] + after["seconds"]) / 2
    speed = per_second(MIB)
    return {"value": verified / first["seconds"],
            "reference": [before["seconds"], after["seconds"]], "seconds": first["seconds"],
            "bytes": first["bytes"], "reader_cpu_s": first["cpu_s"],
            "note": f"{speed(first)} MiB/s, {speed(after)} MiB/s once verified"}


def restart(setting):
    """restart: large and small files, page cache dropped, right after a restart ÷ verified."""
    results = {
        "restart_large": first_after_restart(
            setting, "large", lambda mount: setting.files(mount, "large", 1)),
        "restart_small": first_after_restart(
            setting, "small", lambda mount: setting.files(mount, "small", SMALL_THREADS,
                                                          order="ordered"))}
    setting.check("small")
    return results
