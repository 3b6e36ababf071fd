# SPDX-License-Identifier: Apache-2.0
"""The data of the mounted folder: on the disk (`native`) and, under the same names, in a bucket. Each set
is made when a row first needs it and kept from then on."""

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config

from hygiene.fixtures import digest
from measure import GIB, MIB, say
from rig.store import ACCESS_KEY, REGION, SECRET_KEY

BUCKET = "bench"
SEED = 20240607
SMALL_BYTES, FIRST_BYTES = 110_000, 100_000


@dataclass(frozen=True)
class Sizes:
    large_bytes: int = 4 * GIB
    stream_bytes: int = 2 * GIB
    small_count: int = 12_000
    first_count: int = 10_000
    names: int = 1_000_000
    streams: int = 200
    random_reads: int = 400  # of the amplification rows
    interactive_count: int = 150
    capacity_bytes: int = 512 * MIB
    written_bytes: int = 4 * GIB  # of the writing rows, as the next ones
    created_count: int = 10_000
    far_created_count: int = 2000
    staged_bytes: int = GIB
    random_writes: int = 500_000
    checkpoint_bytes: int = GIB
    paced_bytes: int = 64 * MIB
    smoke: bool = False  # then what is too short to mean anything is no failure
    pass_seconds: float = 2.5  # the least that a timing of hot reads should last
    held_bytes_max: int = 64 * GIB  # of free memory, see Ballast


SMOKE = Sizes(large_bytes=64 * MIB, stream_bytes=64 * MIB, small_count=500, first_count=500,
              names=20_000, streams=50, random_reads=40, interactive_count=5, smoke=True,
              capacity_bytes=64 * MIB, written_bytes=64 * MIB, created_count=200,
              far_created_count=50, staged_bytes=32 * MIB, random_writes=5000,
              checkpoint_bytes=32 * MIB, paced_bytes=8 * MIB, pass_seconds=0.2, held_bytes_max=0)


class DataSets:
    """large: a file in the safetensors format. stream: a file. small: SMALL_BYTES each, a hundred
    folders. first: FIRST_BYTES each, one folder, as clients/plan.h has them."""

    def __init__(self, folder, sizes):
        self.folder, self.sizes = Path(folder), sizes
        self.native = self.folder / "native"
        self.random = None
        self.names = {
            "large": ["large.safetensors"],
            "stream": ["stream.bin"],
            "small": [f"small/{n % 100:02}/{n:05}.bin" for n in range(sizes.small_count)],
            "first": [f"first/f{n}" for n in range(sizes.first_count)],
        }

    def bytes_of(self, name):
        return {"large": self.sizes.large_bytes, "stream": self.sizes.stream_bytes,
                "small": self.sizes.small_count * SMALL_BYTES,
                "first": self.sizes.first_count * FIRST_BYTES}[name]

    def stamp_of(self, name):
        """Holds the set's digest once the set is complete."""
        return self.folder / f"{name}.sha256"

    def is_there(self, name):
        return self.stamp_of(name).exists()

    def digest_of(self, name):
        return self.stamp_of(name).read_text().strip()

    def file_of(self, name):
        """The name of the one file of `large` or `stream`."""
        return self.names[name][0]

    def list_of(self, name, order="random"):
        """A file with the set's names, one a line; by name, or shuffled."""
        return self.folder / f"{name}.{order}.list"

    def prepare(self, name, store):
        if self.is_there(name):
            return
        say(f"writing and uploading the set '{name}', {self.bytes_of(name) / MIB:,.0f} MiB")
        # Of the set alone, whichever sets were made before it.
        self.random = random.Random(f"{SEED} {name}")
        for path in map(self.native.joinpath, self.names[name]):
            path.parent.mkdir(parents=True, exist_ok=True)
        {"large": self._write_large, "stream": self._write_stream, "small": self._write_small,
         "first": self._write_first}[name]()
        self._write_lists(name)
        self._upload(name, store)
        os.sync()
        self.stamp_of(name).write_text(digest(self.native, self.names[name]) + "\n")

    def _write_blocks(self, name, head, size):
        with open(self.native / self.file_of(name), "wb") as file:
            file.write(head)
            for left in range(size - len(head), 0, -MIB):
                file.write(self.random.randbytes(min(left, MIB)))

    def _write_large(self):
        """A header of 4096 bytes, its length first, then one tensor of bytes."""
        size = self.sizes.large_bytes
        data = size - 4096
        header = {"weights": {"dtype": "U8", "shape": [data], "data_offsets": [0, data]}}
        text = json.dumps(header).encode().ljust(4096 - 8)
        self._write_blocks("large", len(text).to_bytes(8, "little") + text, size)

    def _write_stream(self):
        self._write_blocks("stream", b"", self.sizes.stream_bytes)

    def _write_small(self):
        for name in self.names["small"]:
            (self.native / name).write_bytes(self.random.randbytes(SMALL_BYTES))

    def _write_first(self):
        for number, name in enumerate(self.names["first"]):
            content = bytearray(self.random.randbytes(FIRST_BYTES))
            for at in (0, FIRST_BYTES - 8):
                content[at:at + 8] = (number * FIRST_BYTES + at).to_bytes(8, "little")
            (self.native / name).write_bytes(content)

    def _write_lists(self, name):
        names = sorted(self.names[name])
        self.list_of(name, "ordered").write_text("".join(f"{one}\n" for one in names))
        self.random.shuffle(names)
        self.list_of(name).write_text("".join(f"{one}\n" for one in names))

    def _upload(self, name, store):
        client = boto3.client(
            "s3", endpoint_url=store.endpoint, region_name=REGION,
            aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY,
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=16))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: client.upload_file(str(self.native / one), BUCKET, one),
                          self.names[name]))
