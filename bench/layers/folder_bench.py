# SPDX-License-Identifier: Apache-2.0
"""What the layers `fuse`, `whole`, `far` and `writing` share: a Setting with its data, Leat's mount or a
peer's. Their data lies beside the layers' folders, made once for all and kept."""

import shutil

from folder_door.data_sets import SMOKE, Sizes
from folder_door.peers import PEERS
from folder_door.setting import LeatMount, Setting
from layers.layer_bench import LayerBench
from measure import GIB, say


class FolderBench(LayerBench):
    """`rows`: row -> (function, the sets that it needs, whether it takes a mounter)."""

    rows = {}
    others = PEERS

    def __init__(self, place, smoke):
        super().__init__(place, smoke)
        self.setting = Setting(self.place.parent / "folder", SMOKE if smoke else Sizes())
        self.setting.fixtures = self.fixtures

    def run(self, row, subject, last):
        function, sets, takes_mounter = self.rows[row]
        self.check_disk(sets)
        self.setting.checking = last and subject == "leat"
        self.setting.prepare(*sets)
        if not takes_mounter:
            return function(self.setting)
        return function(self.setting, self.mounter(subject))

    def mounter(self, subject):
        if subject == "leat":
            return LeatMount(self.setting)
        return next(peer for peer in self.others if peer.name == subject)(self.setting)

    def peers(self, row):
        return [(peer.name, peer(self.setting).missing(), peer.runs_max) for peer in self.others
                if peer.is_wanted()]

    def check_disk(self, sets):
        """Ends a row that has not the space for its data: on the disk, in the store, in a cache."""
        data = self.setting.data
        missing = 2 * sum(data.bytes_of(name) for name in sets if not data.is_there(name))
        needed = missing + 2 * max((data.bytes_of(name) for name in sets), default=0) + GIB
        free = shutil.disk_usage(self.setting.folder).free
        if needed > free:
            raise RuntimeError(f"needs {needed / GIB:.1f} GiB of disk below {self.setting.folder}, "
                               f"{free / GIB:.1f} are free; --dir names another folder")

    def settle(self, row):
        if self.rows[row][2]:
            self.setting.unmount()

    def close(self):
        if self.setting.compared_bytes:
            say(f"{self.setting.compared_bytes / (1 << 20):,.0f} MiB compared with what was "
                "uploaded, all equal")
        self.setting.close()
        if self.smoke:
            shutil.rmtree(self.setting.folder, ignore_errors=True)
