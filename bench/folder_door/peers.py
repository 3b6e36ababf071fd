# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured beside Leat. s3fs, rclone and Alluxio must be there; the others
are run where the environment names their binary. JuiceFS is none of them: it reads only what was
written through it, in a format of its own."""

from folder_door.alluxio import Alluxio
from folder_door.data_sets import BUCKET
from folder_door.peer import Peer, clean_environment
from rig.store import ACCESS_KEY, REGION, SECRET_KEY


class S3fs(Peer):
    name = program = "s3fs"
    access = ("-o", "ro")

    def words(self):
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(f"{ACCESS_KEY}:{SECRET_KEY}")
        return [BUCKET, self.point, "-f", "-o", f"url={self.setting.store.endpoint}",
                "-o", "use_path_request_style", "-o", f"passwd_file={password}",
                "-o", f"endpoint={REGION}", *self.access, "-o", "kernel_cache",
                "-o", "parallel_count=16", "-o", "max_stat_cache_size=1000000"]

    def environment(self):
        return clean_environment()


class Rclone(Peer):
    """Without a cache on the disk, which is its default."""

    name = program = "rclone"
    access = ("--read-only",)
    cache = "off"

    def words(self):
        remote = (f":s3,provider=Other,env_auth=true,region={REGION},force_path_style=true,"
                  f"endpoint='{self.setting.store.endpoint}':{BUCKET}")
        return ["mount", remote, self.point, "--config", "/dev/null", *self.access,
                "--cache-dir", self.folder / "cache", "--vfs-cache-mode", self.cache,
                "--no-checksum", "--no-modtime", "--dir-cache-time", "1h", "--attr-timeout", "1h"]


class RcloneCached(Rclone):
    name = "rclone-cached"
    cache = "full"


class Geesefs(Peer):
    name, variable = "geesefs", "LEAT_BENCH_GEESEFS"
    access = ("-o", "ro")

    def words(self):
        return ["-f", "--endpoint", self.setting.store.endpoint, "--region", REGION,
                *self.access, BUCKET, self.point]


class Goofys(Geesefs):
    name, variable = "goofys", "LEAT_BENCH_GOOFYS"


class MountpointS3(Peer):
    name, variable = "mountpoint-s3", "LEAT_BENCH_MOUNTPOINT_S3"
    access = ("--read-only",)

    def words(self):
        return ["--foreground", *self.access, "--force-path-style", "--region", REGION,
                "--endpoint-url", self.setting.store.endpoint, BUCKET, self.point]


# `access` mounts them read-only; write_peers.py has those that write.
PEERS = [S3fs, Rclone, RcloneCached, Alluxio, Geesefs, MountpointS3, Goofys]
