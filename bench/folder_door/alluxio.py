# SPDX-License-Identifier: Apache-2.0
"""Alluxio: a master, a worker with a cache on the disk, and its FUSE program, as they come but for
addresses, places and the size of the cache."""

import os
import subprocess
from pathlib import Path

from folder_door.data_sets import BUCKET
from folder_door.peer import START_TIMEOUT_S, Peer
from measure import GIB
from rig.process import wait_until
from rig.store import ACCESS_KEY, REGION, SECRET_KEY, free_port

# What JDK 17 closes and Alluxio 2.9 opens by reflection.
OPENED = ["java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent",
          "jdk.internal.misc", "jdk.internal.ref", "sun.nio.ch"]
CACHE_BYTES = 8 * GIB
ROLES = ("master", "worker")
PROPERTIES = """
alluxio.home={folder}
alluxio.logs.dir={folder}/logs
alluxio.master.journal.type=UFS
alluxio.master.journal.folder={folder}/journal
alluxio.master.mount.table.root.ufs=s3://{bucket}/
alluxio.master.mount.table.root.option.alluxio.underfs.s3.endpoint={endpoint}
alluxio.master.mount.table.root.option.alluxio.underfs.s3.endpoint.region={region}
alluxio.master.mount.table.root.option.alluxio.underfs.s3.disable.dns.buckets=true
alluxio.master.mount.table.root.option.s3a.accessKeyId={access}
alluxio.master.mount.table.root.option.s3a.secretKey={secret}
alluxio.security.authentication.type=NOSASL
alluxio.security.authorization.permission.enabled=false
alluxio.user.hostname=127.0.0.1
alluxio.worker.ramdisk.size=1GB
alluxio.worker.tieredstore.levels=1
alluxio.worker.tieredstore.level0.alias=SSD
alluxio.worker.tieredstore.level0.dirs.path={folder}/data
alluxio.worker.tieredstore.level0.dirs.quota={quota}
"""


def program_folder():
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    return Path(deps) / "alluxio"


class Alluxio(Peer):
    name = "alluxio"
    runs_max = 1  # each takes minutes

    def __init__(self, setting):
        super().__init__(setting)
        self.binary = program_folder() / "java"
        self.ports = {}

    def missing(self):
        return "" if self.binary.exists() else "it is not installed: tools/setup bench"

    def run(self):
        for name in ("conf", "logs", "journal", "data"):
            (self.folder / name).mkdir()
        self.configure()
        for role in ROLES:
            formatted = subprocess.run(
                list(map(str, [self.binary, *self.java("alluxio.cli.Format"), role])),
                env=self.environment(), capture_output=True, text=True, timeout=START_TIMEOUT_S,
                stdin=subprocess.DEVNULL)
            if formatted.returncode != 0:
                raise RuntimeError(f"alluxio.cli.Format {role}: {formatted.stderr[-500:]}")
        self.spawn("master", self.java("alluxio.master.AlluxioMaster"),
                   lambda: self.listens("master.rpc"))
        self.spawn("worker", self.java("alluxio.worker.AlluxioWorker"),
                   lambda: self.listens("worker.rpc"))
        self.spawn("fuse", [*self.java("alluxio.fuse.AlluxioFuse"), "--mount-point", self.point,
                            "--alluxio-path", "/"], lambda: os.path.ismount(self.point))
        # The worker has to make itself known to the master.
        wait_until(self.can_be_listed, "alluxio to list the bucket", START_TIMEOUT_S, 0.5)

    def configure(self):
        lines = [PROPERTIES.format(folder=self.folder, bucket=BUCKET, region=REGION,
                                   endpoint=self.setting.store.endpoint, access=ACCESS_KEY,
                                   secret=SECRET_KEY, quota=CACHE_BYTES)]
        for role in ROLES:
            lines.append(f"alluxio.{role}.hostname=127.0.0.1")
            for kind in ("", "web."):
                port = self.ports[f"{role}.{kind or 'rpc'}"] = free_port()
                lines.append(f"alluxio.{role}.{kind}bind.host=127.0.0.1")
                lines.append(f"alluxio.{role}.{kind or 'rpc.'}port={port}")
        site = self.folder / "conf" / "alluxio-site.properties"
        site.touch(mode=0o600)
        site.write_text("\n".join(lines) + "\n")

    def java(self, main):
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
        return ["-Xmx2g", "-XX:MaxDirectMemorySize=4g", *opened,
                f"-Dalluxio.site.conf.dir={self.folder}/conf", f"-Dalluxio.home={self.folder}",
                f"-Dalluxio.logs.dir={self.folder}/logs", f"-Djava.io.tmpdir={self.folder}",
                "-cp", f"{self.folder}/conf:{program_folder()}/lib/*", main]

    def listens(self, name):
        """By the kernel's table: who connects to a half-started server may get it to give up."""
        wanted = f":{self.ports[name]:04X}"
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[1].endswith(wanted) and words[3] == "0A":
                    return True
        return False

    def can_be_listed(self):
        try:
            return bool(os.listdir(self.point))
        except OSError:
            return False
