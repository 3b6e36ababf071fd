# SPDX-License-Identifier: Apache-2.0
"""What the mounted folder costs: everything is in the cache, and the store's server is stopped."""

from folder_door import cached_rows, scale_rows
from layers.folder_bench import FolderBench


class Fuse(FolderBench):
    rows = {
        "hot": (cached_rows.hot, ["large"], False),
        "disk": (cached_rows.disk, ["large"], False),
        "random": (cached_rows.random, ["large"], False),
        "small": (cached_rows.small, ["small"], False),
        "small_cold": (cached_rows.small_cold, ["small"], False),
        "restart": (cached_rows.restart, ["large", "small"], False),
        "names": (scale_rows.names, [], False),
        "streams200": (scale_rows.streams200, ["large"], False),
    }


def open_layer(place, smoke):
    return Fuse(place, smoke)
