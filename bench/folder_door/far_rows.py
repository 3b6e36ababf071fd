# SPDX-License-Identifier: Apache-2.0
"""Rows of a store that is 0, 30 and 100 ms away. All are through Leat, with nothing cached."""

import time

from folder_door.far_store import far
from folder_door.setting import LeatMount
from measure import MIB

LINK_BITS = 1_000_000_000
READERS = 8


def mounted(setting):
    """A mount with an empty cache and known names: listing is a row of its own."""
    mount = setting.mount(LeatMount(setting))
    (mount.point / "first").stat()
    list((mount.point / "first").iterdir())
    return mount


def load_seconds(setting, delay_ms):
    with far(setting, delay_ms):
        mount = mounted(setting)
        began = time.monotonic()
        mount.leat.run("load", mount.point / "first", timeout_s=900)
        seconds = time.monotonic() - began
        setting.check("first")
        return seconds


def load(setting):
    """load: `leat load` of 10,000 files of 100 KB: files/s at 0 ms, and at 30 and 100 ms ÷ that."""
    count = setting.sizes.first_count
    near, at_30, at_100 = (load_seconds(setting, delay) for delay in (0, 30, 100))

    def ratio(seconds):
        return {"value": near / seconds, "seconds": seconds, "note": f"{count / seconds:,.0f} files/s"}

    return {"load_0": {"value": count / near, "note": "files/s"},
            "load_30": ratio(at_30), "load_100": ratio(at_100)}


def sequential_seconds(setting, delay_ms):
    with far(setting, delay_ms):
        mount = setting.mount(LeatMount(setting))
        (mount.point / setting.data.file_of("stream")).stat()
        seconds = setting.reader.settled(lambda: setting.sequential(mount.point, "stream"))["seconds"]
        setting.check("stream")
        return seconds


def sequential(setting):
    """sequential: a file of 2 GiB: MiB/s at 0 ms, and at 30 ms ÷ that."""
    size = setting.sizes.stream_bytes / MIB
    near, at_30 = (sequential_seconds(setting, delay) for delay in (0, 30))
    return {"sequential_0": {"value": size / near, "note": "MiB/s"},
            "sequential_30": {"value": near / at_30, "seconds": at_30,
                              "note": f"{size / at_30:,.0f} MiB/s"}}


def epoch_rate(setting, delay_ms, order="random", readers=READERS):
    with far(setting, delay_ms) as store:
        mount = mounted(setting)
        before = store.counters()["bytes"]
        seconds = setting.files(mount.point, "first", readers, order=order)["seconds"]
        asked = store.counters()["bytes"] - before
        setting.check("first")
        return {"value": setting.sizes.first_count / seconds, "seconds": seconds,
                "note": f"files/s, {asked / setting.data.bytes_of('first'):.2f} of the set's bytes"}


def epoch(setting):
    """epoch: the files of 100 KB once by 8 readers, at random and in name order, 30 ms away."""
    return {"epoch_random": epoch_rate(setting, 30), "epoch_ordered": epoch_rate(setting, 30, "ordered")}


def link(setting):
    """link: behind 1 Gbit/s and 30 ms: `leat load` of the small files, and the file of 2 GiB."""
    with setting.behind_link(LINK_BITS):
        small, large = load_seconds(setting, 30), sequential_seconds(setting, 30)

    def share(name, seconds):
        value = setting.data.bytes_of(name) * 8 / LINK_BITS / seconds
        return {"value": value, "seconds": seconds, "note": f"{seconds:.1f} s"}

    return {"link_load": share("first", small), "link_sequential": share("stream", large)}
