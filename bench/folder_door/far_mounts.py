# SPDX-License-Identifier: Apache-2.0
"""Rows of two mounts of one daemon that share a store 30 ms away."""

import contextlib
import os
import random
from concurrent.futures import ThreadPoolExecutor

from folder_door.data_sets import BUCKET
from folder_door.far_rows import READERS, RTT_MS, SEED
from folder_door.far_servers import place_of
from folder_door.far_store import far
from folder_door.setting import READ_TIMEOUT_S
from measure import GIB
from rig import leftovers
from rig.leat import Leat
from rig.store import REQUEST

FOLDERS = ("first", "second")


def second_folder(setting):
    """The set `first` once more in the bucket, by hard links: they take no space on the disk."""
    first, second = (setting.store.data / BUCKET / name for name in FOLDERS)
    if second.exists():
        return
    part = setting.folder / "second.part"
    leftovers.clear(part)
    part.mkdir()
    for name in os.listdir(first):
        os.link(first / name, part / name)
    part.rename(second)


@contextlib.contextmanager
def two_mounts(setting):
    """The folders of both prefixes, mounted by one daemon, and the store. The names are known, the
    cache is empty."""
    with far(setting, RTT_MS) as store:
        place = place_of(setting, "mounts")
        leat = Leat(place, cache_size=str(8 * GIB))
        try:
            credentials = dict(store.credentials, LEAT_CACHE_MIN_FREE="256MiB")
            points = [leat.mount(store, f"{BUCKET}/{name}", place / name, freshness="immutable",
                                 credentials=credentials) for name in FOLDERS]
            for point in points:
                list(point.iterdir())
            yield points, store
        finally:
            leat.close()
            leftovers.clear(place)


def names_list(setting, seed):
    """A file with the names of a mount, shuffled."""
    names = [name.removeprefix("first/") for name in setting.data.names["first"]]
    random.Random(seed).shuffle(names)
    path = setting.folder / f"mount{seed}.list"
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def read_at_once(setting, points):
    """Seconds of each mount until its 8 readers have read all of its files at random."""
    lists = [names_list(setting, SEED + number) for number in range(len(points))]
    with ThreadPoolExecutor(len(points)) as pool:
        results = pool.map(lambda point, names: setting.reader.read(
            "files", point, names, READERS, timeout_s=READ_TIMEOUT_S), points, lists)
        return [result["seconds"] for result in results]


def answered(store, log_begin, count):
    """Files that the store sent to each mount until it had sent one of them all `count`."""
    with open(store.log, errors="replace") as log:
        log.seek(log_begin)
        lines = log.readlines()
    files = {name: set() for name in FOLDERS}
    for operation, key, _, _ in REQUEST.findall("".join(lines)):
        folder, _, name = key.partition("/")
        if operation == "GetObject" and folder in files:
            files[folder].add(name)
            if len(files[folder]) == count:
                break
    return [len(names) for names in files.values()]


def compare(setting, points):
    """Every byte of both mounts, in the last run."""
    for point in points if setting.checking else ():
        done = setting.reader.read("compare", setting.data.native / "first", point,
                                   names_list(setting, SEED), timeout_s=READ_TIMEOUT_S)
        if done["bytes"] != setting.data.bytes_of("first"):
            raise RuntimeError(f"{done['bytes']} bytes of {point} were compared")
        setting.compared_bytes += done["bytes"]


def mounts(setting):
    """mounts: two mounts of one daemon, 30 ms away. Each has a prefix with 10,000 files of 100 KB and 8
    readers at random: files that the store sent to the one ÷ to the other. Also both ÷ one alone."""
    second_folder(setting)
    count = setting.sizes.first_count
    with two_mounts(setting) as (points, _):
        alone = count / read_at_once(setting, points[:1])[0]
    with two_mounts(setting) as (points, store):
        log_begin = store.log.stat().st_size
        seconds = read_at_once(setting, points)
        fewer, more = sorted(answered(store, log_begin, count))
        compare(setting, points)
    both = 2 * count / max(seconds)
    rates = " and ".join(f"{count / each:,.0f}" for each in seconds)
    return {"mounts_fair": {"value": fewer / more, "seconds": seconds,
                            "note": f"{fewer:,} files when the other had {more:,}; {rates} files/s"},
            "mounts_sum": {"value": both / alone,
                           "note": f"{both:,.0f} and {alone:,.0f} files/s"}}
