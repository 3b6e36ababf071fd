# SPDX-License-Identifier: Apache-2.0
"""A bucket as programs see it, through Leat and through others beside it: first reads, which the store
answers, and what is read again."""

from folder_door import again_rows, first_rows
from layers.folder_bench import FolderBench


class Whole(FolderBench):
    rows = {
        "first": (first_rows.first, ["stream"], True),
        "first_shaped": (first_rows.first_shaped, ["stream"], True),
        "first_small": (first_rows.first_small, ["first"], True),
        "again": (again_rows.again, ["stream"], True),
        "small_again": (again_rows.small_again, ["first"], True),
        "amplification": (first_rows.amplification, ["large"], True),
        "interactive": (first_rows.interactive, ["stream", "first"], True),
        "safetensors": (first_rows.safetensors, ["large"], True),
        "capacity": (again_rows.capacity, ["stream", "first"], False),
    }


def open_layer(place, smoke):
    return Whole(place, smoke)
