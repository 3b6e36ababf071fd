# SPDX-License-Identifier: Apache-2.0
"""Makes the data set of programs_test.py in a folder, each part by the library that reads it.

Runs in the environment of tests/programs_requirements.txt: program_data.py FOLDER. The same each time
but for times. Files above and below 1 MiB are in it, since the cache keeps them differently.
"""

import io
import json
import os
import random
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import cv2
import duckdb
import h5py
import imageio.v3 as imageio
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import tifffile
import zarr
from docs.data_files import tfrecord
from PIL import Image
from safetensors.numpy import save_file

ROWS, SIDE = 120_000, 96
NUMBERS = np.random.default_rng(7)


def frame():
    return pd.DataFrame({"id": np.arange(ROWS), "label": NUMBERS.integers(0, 10, ROWS),
                         "value": NUMBERS.normal(size=ROWS)})


def picture(index):
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    return np.stack([(x * 2 + index) % 256, (y * 3 + index) % 256, (x * y + index) % 256],
                    axis=-1).astype(np.uint8)


def tables(folder):
    folder.mkdir()
    data = frame()
    data.iloc[:20_000].to_csv(folder / "rows.csv", index=False)
    for part in range(4):
        data.iloc[part::4].to_parquet(folder / f"part-{part}.parquet", row_group_size=5_000)
    feather.write_feather(pa.Table.from_pandas(data), folder / "rows.arrow", compression="uncompressed")
    pl.from_pandas(data.iloc[:5_000]).write_ndjson(folder / "rows.ndjson")
    with duckdb.connect(str(folder / "rows.duckdb")) as base:
        base.execute("create table rows as select * from data")


def arrays(folder):
    folder.mkdir()
    np.save(folder / "tokens.npy", NUMBERS.integers(0, 50_000, 1_500_000).astype(np.int32))
    np.savez_compressed(folder / "pair.npz", a=np.arange(1000), b=np.eye(40))
    with h5py.File(folder / "cells.h5", "w") as out:
        out.create_dataset("images", data=NUMBERS.integers(0, 255, (64, 128, 128), dtype=np.uint8),
                           chunks=(8, 128, 128), compression="gzip")
        out["images"].attrs["unit"] = "counts"
        out.create_dataset("labels", data=np.arange(64))
    grid = zarr.create_array(store=str(folder / "grid.zarr"), shape=(512, 512), chunks=(64, 64),
                             dtype="f4")
    grid[:] = NUMBERS.normal(size=(512, 512)).astype(np.float32)
    grid.attrs["unit"] = "kelvin"
    save_file({"weight": NUMBERS.normal(size=(512, 1024)).astype(np.float32),
               "bias": np.arange(512, dtype=np.float32)}, folder / "model.safetensors")


def pictures(folder):
    folder.mkdir()
    for index in range(12):
        image = Image.fromarray(picture(index))
        image.save(folder / f"{index:03}.png")
        image.save(folder / f"{index:03}.jpg", quality=90)
    tifffile.imwrite(folder / "stack.tif", np.stack([picture(i) for i in range(40)]),
                     photometric="rgb")
    imageio.imwrite(folder / "loop.gif", [picture(i * 9) for i in range(8)])
    writer = cv2.VideoWriter(str(folder / "clip.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (SIDE, SIDE))
    for index in range(20):
        writer.write(picture(index * 5))
    writer.release()


def shards(folder):
    folder.mkdir()
    for shard in range(3):
        with tarfile.open(folder / f"{shard:06}.tar", "w") as archive:
            for index in range(60):
                png = io.BytesIO()
                Image.fromarray(picture(shard * 60 + index)).save(png, "png")
                for name, body in ((f"{shard}{index:03}.png", png.getvalue()),
                                   (f"{shard}{index:03}.cls", str(index % 10).encode())):
                    entry = tarfile.TarInfo(name)
                    entry.size, entry.mtime = len(body), 1_700_000_000
                    archive.addfile(entry, io.BytesIO(body))
    source = random.Random(3)
    examples = [(source.randbytes(20_000), source.randrange(10)) for _ in range(120)]
    (folder / "records.tfrecord").write_bytes(tfrecord(examples))


def media(folder):
    folder.mkdir()
    make = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i"]
    subprocess.run([*make, "testsrc=size=320x240:rate=25:duration=8", "-c:v", "mpeg4", "-q:v", "2",
                    folder / "clip.mp4"], check=True)
    subprocess.run([*make, "sine=frequency=440:duration=8", folder / "tone.wav"], check=True)


def texts(folder):
    source = random.Random(11)
    words = ["weir", "mill", "race", "sluice", "head", "tail", "water", "stone"]
    for topic in range(6):
        (folder / f"topic {topic}").mkdir(parents=True)
        for page in range(15):
            lines = [" ".join(source.choices(words, k=12)) for _ in range(source.randrange(1, 400))]
            (folder / f"topic {topic}" / f"page-{page:02}.txt").write_text("\n".join(lines) + "\n")
    (folder / "größe +%#&.txt").write_text("a name that is not easy\n")
    (folder / "empty.txt").write_text("")
    (folder / "lines.json").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(2_000)))
    subprocess.run("gzip -nk lines.json; xz -k lines.json; bzip2 -k lines.json", shell=True, check=True,
                   cwd=folder)


def archives(folder, of):
    folder.mkdir()
    with zipfile.ZipFile(folder / "texts.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(of.rglob("*.txt")):
            archive.write(path, path.relative_to(of))
    subprocess.run(["tar", "-czf", folder / "texts.tar.gz", "-C", of, "."], check=True)
    (folder / "noise.bin").write_bytes(random.Random(5).randbytes(5_000_000))


def database(folder):
    folder.mkdir()
    script = """create table rows(id integer primary key, word text, value real);
      with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000)
      insert into rows select i, 'word' || (i * 7919 % 977), i * 0.5 from n;
      create index by_word on rows(word);"""
    subprocess.run(["sqlite3", folder / "rows.db"], input=script, text=True, check=True)


def repository(folder, of):
    """Loose objects in one commit, a pack in another. A store has no empty directories: those that git
    asks for hold something."""
    script = """git init -q -b main . && cp -r "$1"/. . && git add -A && git commit -q -m one
      git repack -q -a -d && echo more >>empty.txt && git commit -q -a -m two && git tag first HEAD~1
      rm -rf .git/hooks .git/branches"""
    folder.mkdir()
    names = {f"GIT_{who}_{what}": text for who in ("AUTHOR", "COMMITTER")
             for what, text in (("NAME", "a tester"), ("EMAIL", "tester@localhost"),
                                ("DATE", "2026-01-01T00:00:00Z"))}
    subprocess.run(["sh", "-ec", script, "sh", of], check=True, cwd=folder,
                   env={**os.environ, **names, "GIT_CONFIG_GLOBAL": "/dev/null"})


def main():
    root = Path(sys.argv[1])
    tables(root / "tables")
    arrays(root / "arrays")
    pictures(root / "pictures")
    shards(root / "shards")
    media(root / "media")
    texts(root / "texts")
    archives(root / "archives", root / "texts")
    database(root / "database")
    repository(root / "repository", root / "texts")
    for path, _, _ in os.walk(root, topdown=False):
        if not os.listdir(path):
            os.rmdir(path)


if __name__ == "__main__":
    main()
