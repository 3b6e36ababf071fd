# SPDX-License-Identifier: Apache-2.0
"""A bucket as programs write to it, beside the disk, the store's own limit, and other programs."""

import shutil

from folder_door import write_rows
from folder_door.write_peers import WRITING_PEERS
from folder_door.writing import WRITTEN, WritableMount, clear
from layers.folder_bench import FolderBench
from measure import GIB

COPIES = 5  # of what is written at most: staged, in the cache, parts, the object, on the disk beside


class Writing(FolderBench):
    rows = {
        "sequential": (write_rows.sequential, [], False),
        "back_sequential": (write_rows.back_sequential, [], False),
        "small": (write_rows.small, [], True),
        "random": (write_rows.random, [], False),
        "checkpoint": (write_rows.checkpoint, [], False),
        "beside": (write_rows.beside, ["first"], False),
        "far": (write_rows.far_away, [], False),
    }
    others = WRITING_PEERS

    def mounter(self, subject):
        return WritableMount(self.setting) if subject == "leat" else super().mounter(subject)

    def check_disk(self, sets):
        super().check_disk(sets)
        needed = COPIES * self.setting.sizes.written_bytes
        free = shutil.disk_usage(self.setting.folder).free
        if needed > free:
            raise RuntimeError(f"needs {needed / GIB:.1f} GiB of disk below {self.setting.folder} "
                               f"for what is written, {free / GIB:.1f} are free")

    def close(self):
        super().close()
        clear(self.setting)
        shutil.rmtree(self.setting.folder / WRITTEN, ignore_errors=True)


def open_layer(place, smoke):
    return Writing(place, smoke)
