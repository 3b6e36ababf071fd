# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' data: one large file and many small ones, on the disk and in an S3 bucket."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
from botocore.config import Config

from rig.store import ACCESS_KEY, REGION, SECRET_KEY

MIB = 1024 * 1024
LARGE_BYTES = 2048 * MIB
SMALL_COUNT, SMALL_BYTES = 10_000, 110_000
BUCKET, LARGE, SMALL = "bench", "large.bin", "small"
SEED = 20240607


class Data:
    """`native`: the folder on the local file system; the same names are in the bucket."""

    def __init__(self, folder, store):
        self.folder, self.store = Path(folder), store
        self.native = self.folder / "native"
        self.list = self.folder / "small.list"

    def prepare(self, say):
        stamp = self.folder / "complete"
        if stamp.exists():
            return
        say(f"writing {LARGE_BYTES // MIB} MiB and {SMALL_COUNT} x {SMALL_BYTES} B, seed {SEED}")
        self._write()
        say("uploading them to the S3 server")
        self._upload()
        stamp.touch()

    def _write(self):
        random_source = random.Random(SEED)
        (self.native / SMALL).mkdir(parents=True, exist_ok=True)
        with open(self.native / LARGE, "wb") as file:
            for _ in range(LARGE_BYTES // MIB):
                file.write(random_source.randbytes(MIB))
        names = [f"{SMALL}/{number % 100:02}/{number:05}.bin" for number in range(SMALL_COUNT)]
        for name in names:
            path = self.native / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(random_source.randbytes(SMALL_BYTES))
        random_source.shuffle(names)
        self.list.write_text("".join(name + "\n" for name in names))
        os.sync()

    def _upload(self):
        client = boto3.client("s3", endpoint_url=self.store.endpoint, region_name=REGION,
                              aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
                              config=Config(s3={"addressing_style": "path"}, max_pool_connections=16))
        self.store.bucket(BUCKET)
        client.upload_file(str(self.native / LARGE), BUCKET, LARGE)
        with ThreadPoolExecutor(8) as pool:
            names = self.list.read_text().splitlines()
            list(pool.map(lambda name: client.upload_file(str(self.native / name), BUCKET, name), names))
