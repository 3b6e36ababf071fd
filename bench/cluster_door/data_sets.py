# SPDX-License-Identifier: Apache-2.0
"""The data of the cluster's rows, in the store alone: every word of a file encodes its file, version and
offset (clients/verifiable_content.h), so nobody needs a copy to compare with. Each set is made when
a row first needs it and kept from then on."""

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config

from folder_door.link import run
from hygiene.fixtures import digest
from layers.layer_bench import client
from measure import MIB, say
from rig.store import ACCESS_KEY, REGION, SECRET_KEY

BUCKET = "cluster"
SMALL_BYTES, LARGE_BYTES, SHARE_BYTES = 100_000, 8 * MIB, MIB


@dataclass(frozen=True)
class Sizes:
    small_count: int = 3000
    large_count: int = 90
    share_count: int = 4096  # files of 1 MiB, of which a cache holds a half
    range_bytes: int = 1024 * MIB
    changing_count: int = 600
    rate_s: float = 10  # rates are taken over so long
    settle_s: float = 10  # from a fault to the rate after it
    etcd_away_s: float = 60
    halves_s: float = 30
    pages: int = 4000  # of remote-latency
    pings: int = 20_000
    epochs: int = 3  # beyond the one that fills
    joins: int = 20
    soak_s: float = 3600
    smoke: bool = False


SMOKE = Sizes(small_count=200, large_count=8, share_count=400, range_bytes=64 * MIB,
              changing_count=60, rate_s=2, settle_s=4, etcd_away_s=5, halves_s=8, pages=400,
              pings=2000, epochs=1, joins=3, soak_s=60, smoke=True)


def s3_client(store):
    return boto3.client(
        "s3", endpoint_url=store.endpoint, region_name=REGION, aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(s3={"addressing_style": "path"}, max_pool_connections=16))


def make_files(folder, entries):
    """Files of (name, bytes, version) below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = folder / "names"
    names.write_text("".join(f"{name} {size} {version}\n" for name, size, version in entries))
    run(client("leat_bench_cluster_reader"), "make", folder, names)
    names.unlink()


class DataSets:
    """load: files of 100 KB and of 8 MiB. share: files of 1 MiB. range: one file. loaded: small files
    that only a job reads. changing: such
    that a row changes, made anew by it."""

    def __init__(self, folder, sizes):
        self.folder, self.sizes = Path(folder), sizes
        self.folder.mkdir(parents=True, exist_ok=True)
        small = {f"small/{n:05}": SMALL_BYTES for n in range(sizes.small_count)}
        large = {f"large/{n:03}": LARGE_BYTES for n in range(sizes.large_count)}
        self.files = {
            "load": {**small, **large},
            "share": {f"files/{n:05}": SHARE_BYTES for n in range(sizes.share_count)},
            "range": {"file": sizes.range_bytes},
            "loaded": {f"d{n % 10}/{n:05}": SMALL_BYTES for n in range(sizes.changing_count)},
            "changing": {f"d{n % 10}/{n:05}": SMALL_BYTES for n in range(sizes.changing_count)},
        }

    def bytes_of(self, name):
        return sum(self.files[name].values())

    def stamp_of(self, name):
        return self.folder / f"{name}.sha256"

    def digest_of(self, name):
        return self.stamp_of(name).read_text().strip()

    def keys_of(self, name):
        return [f"{name}/{file}" for file in self.files[name]]

    def list_of(self, name, files=None, label="all", seed=None):
        """A file that lists these of the set, shuffled where there is a seed."""
        chosen = list(self.files[name] if files is None else files)
        if seed is not None:
            random.Random(seed).shuffle(chosen)
        path = self.folder / f"{name}.{label}.list"
        path.write_text("".join(f"{file} {self.files[name][file]} 1\n" for file in chosen))
        return path

    def prepare(self, name, store):
        if not self.stamp_of(name).exists():
            say(f"making and uploading the set '{name}', {self.bytes_of(name) / MIB:,.0f} MiB")
            self.upload(name, store)
            self.stamp_of(name).write_text(digest(store.data / BUCKET, self.keys_of(name)) + "\n")

    def upload(self, name, store, files=None, version=1):
        """These of the set, all without `files`, as they are at that version."""
        chosen = list(self.files[name] if files is None else files)
        fresh = self.folder / "fresh"
        make_files(fresh, [(file, self.files[name][file], version) for file in chosen])
        s3 = s3_client(store)
        store.bucket(BUCKET)
        try:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda file: s3.upload_file(str(fresh / file), BUCKET,
                                                          f"{name}/{file}"), chosen))
        finally:
            shutil.rmtree(fresh)
        os.sync()
