# SPDX-License-Identifier: Apache-2.0
"""A bucket that is far away, as real ones are: what the first epoch takes."""

from folder_door import far_rows
from layers.folder_bench import FolderBench


class Far(FolderBench):
    rows = {
        "load": (far_rows.load, ["first"], False),
        "epoch": (far_rows.epoch, ["first"], False),
        "sequential": (far_rows.sequential, ["stream"], False),
        "link": (far_rows.link, ["first", "stream"], False),
    }


def open_layer(place, smoke):
    return Far(place, smoke)
