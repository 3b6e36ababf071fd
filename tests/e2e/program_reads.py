# SPDX-License-Identifier: Apache-2.0
"""Reads the data of program_data.py as training programs do: program_reads.py NAME FOLDER, which prints
what it found in FOLDER as a line of JSON. Runs in the environment of tests/programs_requirements.txt.

Each function imports what it is about, so that one process holds one library.
"""

import hashlib
import json
import mmap
import sys
from pathlib import Path


def digest(*parts):
    """Of bytes and of whatever has a buffer or a text."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.tobytes() if hasattr(part, "tobytes") else
                     part if isinstance(part, bytes) else str(part).encode())
    return found.hexdigest()


def in_order(folder, pattern):
    found = sorted(folder.glob(pattern))
    assert found, f"nothing at {folder}/{pattern}"
    return found


def read_pandas(root):
    import pandas as pd
    rows = pd.read_csv(root / "tables/rows.csv")
    whole = pd.concat([pd.read_parquet(one) for one in in_order(root, "tables/part-*.parquet")])
    some = pd.read_parquet(in_order(root, "tables/part-*.parquet")[0], columns=["value"],
                           filters=[("label", "==", 3)])
    return [len(rows), digest(rows["value"].to_numpy()), len(whole), digest(whole["value"].to_numpy()),
            len(some), digest(some["value"].to_numpy())]


def read_polars(root):
    import polars as pl
    lazy = pl.scan_parquet(root / "tables/part-*.parquet")
    # No sum of fractions: its last digits depend on the order of threads.
    groups = lazy.group_by("label").agg(pl.col("id").sum(), pl.col("value").max()).sort("label").collect()
    lines = pl.scan_csv(root / "tables/rows.csv").filter(pl.col("label") == 3).collect()
    return [groups.write_csv(), digest(lines.write_csv()),
            digest(pl.read_ndjson(root / "tables/rows.ndjson").write_csv())]


def read_pyarrow(root):
    import pyarrow.dataset as dataset
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet
    files = [str(one) for one in in_order(root, "tables/part-*.parquet")]
    some = dataset.dataset(files).to_table(columns=["value"], filter=dataset.field("label") == 7)
    second = parquet.ParquetFile(files[1]).read_row_group(2)
    mapped = feather.read_table(root / "tables/rows.arrow", memory_map=True)
    return [some.num_rows, digest(some["value"].to_numpy()), digest(second["id"].to_numpy()),
            digest(mapped["value"].to_numpy())]


def read_duckdb(root):
    import duckdb
    ask = "select label, count(*), sum(id) from {} group by label order by label"
    with duckdb.connect(str(root / "tables/rows.duckdb"), read_only=True) as base:
        return [base.execute(ask.format(one)).fetchall() for one in
                ("rows", f"read_parquet('{root}/tables/part-*.parquet')",
                 f"read_csv('{root}/tables/rows.csv')")]


def read_numpy(root):
    import numpy as np
    tokens = np.load(root / "arrays/tokens.npy", mmap_mode="r")
    places = np.random.default_rng(1).integers(0, len(tokens) - 256, 400)
    windows = np.stack([tokens[one:one + 256] for one in places])
    raw = np.memmap(root / "arrays/tokens.npy", dtype=np.int32, mode="r", offset=128)
    with np.load(root / "arrays/pair.npz") as pair:
        return [digest(windows), digest(raw), digest(pair["a"], pair["b"])]


def read_h5py(root):
    import h5py
    with h5py.File(root / "arrays/cells.h5", "r") as cells:
        images = cells["images"]
        return [images.attrs["unit"], digest(images[5:9, 10:50]), digest(images[::7]), digest(images[:]),
                cells["labels"][:].tolist()]


def read_zarr(root):
    import zarr
    grid = zarr.open_array(store=str(root / "arrays/grid.zarr"), mode="r")
    return [grid.attrs["unit"], digest(grid[100:200, 30:400]), digest(grid[::63, 5]), digest(grid[:])]


def read_safetensors(root):
    from safetensors import safe_open
    with safe_open(root / "arrays/model.safetensors", framework="np") as tensors:
        part = tensors.get_slice("weight")[100:140, 7:900]
        return [digest(part), *(digest(tensors.get_tensor(name)) for name in sorted(tensors.keys()))]


def read_webdataset(root):
    import webdataset as wds
    shards = [str(one) for one in in_order(root, "shards/*.tar")]
    samples = wds.WebDataset(shards, shardshuffle=False).decode("pil").to_tuple("__key__", "png", "cls")
    found = [(key, digest(image.tobytes()), label) for key, image, label in samples]
    return [len(found), digest(found)]


def read_opencv(root):
    import cv2
    images = [cv2.imread(str(one)) for one in in_order(root, "pictures/0*.jpg")]
    film, frames = cv2.VideoCapture(str(root / "pictures/clip.avi")), []
    while True:
        more, frame = film.read()
        if not more:
            break
        frames.append(frame)
    return [len(images), digest(*images), len(frames), digest(*frames)]


def read_pillow(root):
    from PIL import Image
    found = []
    for path in in_order(root, "pictures/0*.*"):
        with Image.open(path) as image:
            found += [image.size, digest(image.convert("RGB").tobytes())]
    return found


def read_imageio(root):
    import imageio.v3 as imageio
    return [digest(imageio.imread(root / "pictures/loop.gif", index=None)),
            digest(*imageio.imiter(root / "pictures/003.png"))]


def read_tifffile(root):
    import tifffile
    with tifffile.TiffFile(root / "pictures/stack.tif") as stack:
        return [len(stack.pages), digest(stack.pages[17].asarray()), digest(stack.asarray())]


def read_python(root):
    """What comes with Python: tarfile, zipfile, sqlite3, mmap, json."""
    import sqlite3
    import tarfile
    import zipfile
    with tarfile.open(root / "archives/texts.tar.gz") as archive:
        names = sorted(member.name for member in archive if member.isfile())
    with zipfile.ZipFile(root / "archives/texts.zip") as archive:
        assert archive.testzip() is None
        texts = digest(*(archive.read(name) for name in sorted(archive.namelist())))
    with sqlite3.connect(f"file:{root}/database/rows.db?mode=ro", uri=True) as base:
        rows = base.execute("select count(*), sum(value) from rows where word < 'word4'").fetchall()
    with open(root / "archives/noise.bin", "rb") as noise, \
            mmap.mmap(noise.fileno(), 0, access=mmap.ACCESS_READ) as view:
        pieces = digest(*(view[at:at + 100] for at in range(0, len(view), 65_521)))
        found = view.find(bytes(view[4_000_000:4_000_016]))
    lines = (root / "texts/lines.json").read_text().splitlines()
    return [digest(names), texts, rows, pieces, found, sum(json.loads(one)["n"] for one in lines)]


READS = {name.removeprefix("read_"): one for name, one in list(globals().items())
         if name.startswith("read_")}

if __name__ == "__main__":
    print(json.dumps(READS[sys.argv[1]](Path(sys.argv[2]))))
