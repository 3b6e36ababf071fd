# SPDX-License-Identifier: Apache-2.0
"""What lies in the store of a page's reader: two sets below `my-bucket`, the same in each run.

`train` is what the pages of how-to and migration take, a set for each kind of training; `small` is
the handful of files that the pages of single commands show.
"""

import array
import hashlib
import os
import random
import struct
import sys

from docs.data_files import npy, parquet, png, safetensors, tar, tfrecord

MTIME = 1_795_272_356  # 2026-11-21T14:45:56Z
CLASSES, PICTURES, TOKENS = 4, 16, 1_500_000


def picture(source):
    return png(28, 28, source.randbytes(28 * 28))


def numbers(source, count):
    values = array.array("f", [source.uniform(-1, 1) for _ in range(count)])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def train():
    """path below the prefix -> content"""
    source, files = random.Random("train"), {}
    for folder, pictures in (("images", PICTURES), ("val", 4)):
        for label in range(CLASSES):
            for index in range(1, pictures + 1):
                files[f"{folder}/{label}/{index:04}.png"] = picture(source)
    for shard in range(4):
        members = {}
        for index in range(12):
            key = f"{shard * 12 + index:06}"
            members[f"{key}.png"] = picture(source)
            members[f"{key}.cls"] = str(source.randrange(CLASSES)).encode()
        files[f"shards/{shard:06}.tar"] = tar(members)
    for part in range(2):
        examples = [(picture(source), source.randrange(CLASSES)) for _ in range(40)]
        files[f"records/part-{part:05}.tfrecord"] = tfrecord(examples)
        labels = [source.randrange(CLASSES) for _ in range(500)]
        values = [source.random() for _ in range(500)]
        files[f"table/part-{part:05}.parquet"] = parquet(
            500, {"label": ("q", labels), "value": ("d", values)})
    files["model.safetensors"] = safetensors({
        "weight": ([256, 300], numbers(source, 256 * 300)), "bias": ([256], numbers(source, 256))})
    files["tokens.npy"] = npy("<i4", TOKENS, struct.pack(
        f"<{TOKENS}i", *source.choices(range(50_000), k=TOKENS)))
    return files


def small():
    source = random.Random("small")
    return {
        "0001.png": source.randbytes(5000),
        "0002.png": source.randbytes(7000),
        "data.bin": source.randbytes(3_000_000),
        "labels/train.txt": b"0 1\n1 0\n",
    }


SETS = {"train": train, "small": small}


def write(folder, files):
    """As the S3 server of the tests keeps objects: files, the ETag an attribute of each."""
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(content)
        etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
        os.setxattr(path, "user.etag", f'"{etag}"'.encode())
        os.utime(path, (MTIME, MTIME))
