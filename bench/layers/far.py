# SPDX-License-Identifier: Apache-2.0
"""A bucket that is far away, as real ones are: what the first epoch takes."""

from folder_door import far_mounts, far_rows, far_servers
from layers.folder_bench import FolderBench


class Far(FolderBench):
    rows = {
        "load": (far_rows.load, ["first"], False),
        "epoch": (far_rows.epoch, ["first"], True),
        "jitter": (far_rows.jitter, ["first"], True),
        "sequential": (far_rows.sequential, ["stream"], True),
        "link": (far_rows.link, ["first", "stream"], True),
        "link-2": (far_rows.link_2, ["first", "stream"], True),
        "link-5": (far_rows.link_5, ["first", "stream"], True),
        "mounts": (far_mounts.mounts, ["first"], False),
        "beside": (far_rows.beside, ["first"], False),
        "random": (far_rows.random_reads, ["large"], False),
        "ranks": (far_rows.ranks, ["first"], False),
        "name": (far_servers.one_name, [], False),
        "snapshot": (far_servers.snapshot, [], False),
        "no_etag": (far_servers.no_etag, ["first"], False),
        "throttle": (far_servers.throttle, [], False),
    }


def open_layer(place, smoke):
    return Far(place, smoke)
