# SPDX-License-Identifier: Apache-2.0
"""Reads the data of e2e/program_data.py by libraries that are large: large_program_reads.py NAME FOLDER,
which prints what it found in FOLDER as a line of JSON. Each runs in the environment that has it."""

import hashlib
import json
import os
import sys
from pathlib import Path


def digest(*parts):
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else str(part).encode())
    return found.hexdigest()


def read_tensorflow(root):
    import tensorflow as tf
    features = {"image": tf.io.FixedLenFeature([], tf.string),
                "label": tf.io.FixedLenFeature([], tf.int64)}
    records = tf.data.TFRecordDataset(str(root / "shards/records.tfrecord"), buffer_size=1 << 20)
    found = [tf.io.parse_single_example(one, features) for one in records]
    pictures = tf.data.Dataset.list_files(f"{root}/pictures/0*.png", shuffle=False)
    decoded = pictures.map(lambda path: tf.io.decode_png(tf.io.read_file(path)), num_parallel_calls=4)
    return [len(found), digest(*(one["image"].numpy() for one in found)),
            [int(one["label"]) for one in found], digest(*(one.numpy().tobytes() for one in decoded))]


def read_torch(root):
    import numpy
    import torch
    from safetensors.torch import load_file
    from torch.utils.data import DataLoader, Dataset

    class Windows(Dataset):
        def __len__(self):
            return 1_500_000 // 256

        def __getitem__(self, index):
            tokens = numpy.load(root / "arrays/tokens.npy", mmap_mode="r")
            return torch.from_numpy(tokens[index * 256:(index + 1) * 256].astype(numpy.int64))

    loader = DataLoader(Windows(), batch_size=64, num_workers=2)
    weights = load_file(root / "arrays/model.safetensors")
    return [digest(*(batch.numpy().tobytes() for batch in loader)),
            digest(*(weights[name].numpy().tobytes() for name in sorted(weights)))]


def read_datasets(root):
    """Hugging Face's: what it makes of the files goes to $OUT, not into the folder."""
    os.environ |= {"HF_HOME": os.environ["OUT"], "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
                   "HF_HUB_DISABLE_TELEMETRY": "1"}
    from datasets import load_dataset
    found = []
    for kind, pattern in (("parquet", "tables/part-*.parquet"), ("csv", "tables/rows.csv"),
                          ("json", "tables/rows.ndjson"), ("text", "texts/topic 1/*.txt")):
        rows = load_dataset(kind, data_files=f"{root}/{pattern}", split="train")
        found += [kind, len(rows), digest(*(rows[index] for index in range(0, len(rows), 97)))]
    stream = load_dataset("parquet", data_files=f"{root}/tables/part-1.parquet", split="train",
                          streaming=True)
    found += [digest(*(row for row in stream.take(500)))]
    pictures = load_dataset("imagefolder", data_dir=f"{root}/pictures", split="train")
    return [*found, len(pictures), digest(*(one["image"].convert("RGB").tobytes() for one in pictures))]


READS = {name.removeprefix("read_"): one for name, one in list(globals().items())
         if name.startswith("read_")}

if __name__ == "__main__":
    print(json.dumps(READS[sys.argv[1]](Path(sys.argv[2]))))
