# SPDX-License-Identifier: Apache-2.0
"""The programs that write beside Leat. `writes` says what a close means: `through` where the store has
the file when it returns, `back` where it is uploaded later."""

from folder_door.peers import Geesefs, Goofys, MountpointS3, Rclone, S3fs


class WritingS3fs(S3fs):
    """Its temporary files lie on the disk that is measured."""

    access, writes = (), "through"

    def words(self):
        return [*super().words(), "-o", f"tmpdir={self.folder}"]


class WritingRclone(Rclone):
    access, writes = (), "back"
    cache = "writes"


class WritingGeesefs(Geesefs):
    access, writes = (), "back"


class WritingMountpointS3(MountpointS3):
    access, writes = (), "through"


class WritingGoofys(Goofys):
    access, writes = (), "through"


WRITING_PEERS = [WritingS3fs, WritingRclone, WritingGeesefs, WritingMountpointS3, WritingGoofys]
