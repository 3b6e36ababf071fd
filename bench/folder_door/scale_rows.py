# SPDX-License-Identifier: Apache-2.0
"""Rows of many: a million names, two hundred streams in little memory."""

import os

from folder_door.setting import LeatMount
from listing import mounted_listing
from measure import KIB, MIB, NotRun, say
from rig import leftovers
from rig.memory_group import MemoryGroup, NoGroups

CLASS_FILES = 10_000  # of list_server.py's layout
MEMORY_MAX = 512 * MIB
STREAM_STEP, STREAM_THREADS = 128 * KIB, 16


def native_names(setting):
    """As many empty files as list_server.py lists, under the same names; kept between runs."""
    count = setting.sizes.names
    folder = setting.folder / f"names-{count}"
    stamp = setting.folder / f"names-{count}.complete"
    if not stamp.exists():
        say(f"making {count:,} empty files, some minutes the first time")
        for number in range(count):
            place = folder / "train" / f"class-{number // CLASS_FILES:04}"
            if number % CLASS_FILES == 0:
                place.mkdir(parents=True, exist_ok=True)
            path = place / f"image-{number:08}.jpg"
            if not path.exists():
                os.mknod(path)
        stamp.touch()
    return folder


def nodes_of(status):
    """Counters that tell of the door's nodes, as far as this leat has such."""
    return {name: value for name, value in status["counters"].items() if "node" in name}


def names(setting):
    """names: readdir and stat of 1,000,000 names that a snapshot holds ÷ ext4, warm; also the
    daemon's memory."""
    setting.unmount()
    native = native_names(setting)
    count = setting.sizes.names
    folders = 1 + -(-count // CLASS_FILES)
    listing = setting.folder / "listing"
    leftovers.clear(listing)
    listing.mkdir()
    with mounted_listing(listing, count) as (leat, mount):
        leat.run("snapshot", "build", mount, "--name", "all", "--use", timeout_s=600)
        before = leat.json("status")["rss_bytes"]
        for folder in (native, mount):
            found = setting.pattern("names", folder)["bytes"]
            if found != count + folders:
                raise RuntimeError(f"{found} names below {folder} instead of {count + folders}")
        result = setting.reader.between(lambda: setting.pattern("names", native),
                                        lambda: setting.pattern("names", mount))
        status = leat.json("status")
    nodes = nodes_of(status) or {"names walked": count + folders}
    note = (f"{result['bytes'] / result['seconds'] / 1e6:.2f} M names/s; resident "
            f"{before / 1e6:.0f} MB, walked {status['rss_bytes'] / 1e6:.0f} MB with "
            + ", ".join(f"{name} {value:,.0f}" for name, value in nodes.items()))
    return {"names": dict(result, value=result["ratio"], rss_bytes=before,
                          walked_rss_bytes=status["rss_bytes"], nodes=nodes, note=note)}


def streams200(setting):
    """streams200: 200 descriptors of the 4 GiB file, each reading its own part in steps of 128 KiB,
    in turn over 16 threads, first read, daemon in a control group of 512 MiB: how often it was
    ended for want of memory."""
    setting.prepare("large")
    setting.unmount()
    try:
        group = MemoryGroup(MEMORY_MAX)
    except NoGroups as why:
        raise NotRun(str(why)) from why
    try:
        mounter = LeatMount(setting, group=group)
        setting.mount(mounter)
        path = mounter.point / setting.data.file_of("large")
        result = setting.pattern("streams", path, setting.sizes.streams, STREAM_STEP,
                                 STREAM_THREADS)
        restarts = mounter.leat.json("status")["restarts"]
        kills, peak = group.oom_kills(), group.peak_bytes()
        setting.check("large")
    finally:
        setting.unmount()
        group.close()
    if result["bytes"] != setting.sizes.large_bytes:
        raise RuntimeError(f"only {result['bytes']} bytes were read")
    note = (f"{result['bytes'] / MIB / result['seconds']:,.0f} MiB/s, at most {peak / MIB:.0f} MiB "
            f"charged, {kills} killed, {restarts} restarts")
    return {"streams200": dict(result, value=max(kills, restarts), kills=kills, restarts=restarts,
                               peak_bytes=peak, note=note)}
