# SPDX-License-Identifier: Apache-2.0
"""Writes folders as programs do, and reads them again: program_writes.py write|read NAME FOLDER…

Prints a line of JSON for each folder, with what it read there. Runs in the environment of
tests/programs_requirements.txt.

Each function imports its own library, so that one process holds one library.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from e2e.program_reads import digest


# ---- HDF5

READER = """
import sys
import h5py
with h5py.File(sys.argv[1], "r", libver="latest", swmr=True) as file:
    rows = file["rows"]
    for _ in sys.stdin:
        rows.refresh()
        print(len(rows), int(rows[-1]), flush=True)
"""


def write_h5py(root):
    import h5py
    import numpy as np
    images = np.arange(64 * 64 * 64, dtype=np.uint8).reshape(64, 64, 64)
    with h5py.File(root / "cells.h5", "w") as file:
        file.create_dataset("images", data=images, chunks=(8, 64, 64), compression="gzip",
                            maxshape=(None, 64, 64))
        file.create_dataset("plain", data=np.arange(500_000))
        file.create_dataset("dropped", data=images)
        file["images"].attrs["unit"] = "counts"
    with h5py.File(root / "cells.h5", "a") as file:
        file["images"].resize(96, axis=0)
        file["images"][64:96] = images[:32][::-1]
        file["plain"][1000:2000] = -1
        del file["dropped"]
        file["groups/deep/late"] = np.linspace(0, 1, 1000)
    follow_h5py(root / "rows.h5")


def follow_h5py(path):
    """One process appends, and another one, which has the file open, sees each flush."""
    import h5py
    import numpy as np
    with h5py.File(path, "w", libver="latest") as file:
        rows = file.create_dataset("rows", shape=(0,), maxshape=(None,), chunks=(100,), dtype="i8")
        file.swmr_mode = True
        with subprocess.Popen([sys.executable, "-c", READER, path], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as reader:
            for count in range(150, 1000, 150):
                rows.resize(count, axis=0)
                rows[count - 150:] = np.arange(count - 150, count)
                rows.flush()
                reader.stdin.write("\n")
                reader.stdin.flush()
                assert reader.stdout.readline() == f"{count} {count - 1}\n", f"of {count} rows"
            reader.stdin.close()
        assert reader.returncode == 0


def read_h5py(root):
    import h5py
    with h5py.File(root / "cells.h5") as cells, h5py.File(root / "rows.h5") as rows:
        return [sorted(cells), digest(cells["images"][:], cells["plain"][:],
                                      cells["groups/deep/late"][:], rows["rows"][:]),
                cells["images"].attrs["unit"]]


# ---- Zarr

def write_zarr(root):
    import numpy as np
    import zarr
    numbers = np.arange(256 * 256, dtype="f4").reshape(256, 256)
    for version in (2, 3):
        group = zarr.open_group(root / f"v{version}.zarr", mode="w", zarr_format=version)
        grid = group.create_array("grid", shape=(256, 256), chunks=(64, 64), dtype="f4")
        grid[:] = numbers
        grid[100:120, 3:200] = 7
        grid.append(numbers[:64])
        grid.attrs["unit"] = "kelvin"
        group.create_group("later").create_array("small", data=np.arange(10))
        zarr.create_array(root / f"v{version}.zarr", name="grid", data=numbers[::-1].copy(),
                          chunks=(128, 64), zarr_format=version, overwrite=True)
        zarr.consolidate_metadata(root / f"v{version}.zarr")
    sharded = zarr.create_array(root / "sharded.zarr", shape=(256, 256), chunks=(32, 32),
                                shards=(128, 128), dtype="f4")
    sharded[:] = numbers
    sharded[10:20, 10:20] = -1  # reads a shard and writes it again
    with zarr.storage.ZipStore(root / "packed.zip", mode="w") as packed:
        zarr.create_array(packed, data=numbers, chunks=(64, 64))


def read_zarr(root):
    import zarr
    found = []
    for version in (2, 3):
        group = zarr.open_group(root / f"v{version}.zarr", mode="r")
        found += [sorted(name for name, _ in group.members()), group["grid"].shape,
                  digest(group["grid"][:], group["later/small"][:])]
    with zarr.storage.ZipStore(root / "packed.zip", mode="r") as packed:
        found.append(digest(zarr.open_array(packed, mode="r")[:]))
    return [*found, digest(zarr.open_array(root / "sharded.zarr", mode="r")[:])]


def write_zarr_parents(root):
    """Makes an array below groups that are not there yet."""
    import numpy as np
    import zarr
    zarr.create_array(root / "deep.zarr", name="a/b/c", data=np.arange(10))


def read_zarr_parents(root):
    import zarr
    return [digest(zarr.open_group(root / "deep.zarr", mode="r")["a/b/c"][:])]


# ---- Parquet

def write_pyarrow(root):
    import numpy as np
    import pyarrow as pa
    import pyarrow.dataset as dataset
    import pyarrow.parquet as parquet
    table = pa.table({"id": np.arange(60_000), "label": np.arange(60_000) % 5,
                      "value": np.sin(np.arange(60_000))})
    parquet.write_table(table, root / "one.parquet", compression="snappy")
    with parquet.ParquetWriter(root / "groups.parquet", table.schema) as out:
        for start in range(0, 60_000, 20_000):
            out.write_table(table.slice(start, 20_000))
    with pa.OSFile(str(root / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table)
    parts = {"base_dir": root / "parts", "format": "parquet", "partitioning": ["label"],
             "partitioning_flavor": "hive"}
    dataset.write_dataset(table, **parts, max_rows_per_file=3000, max_rows_per_group=3000)
    some = table.filter(pa.compute.less(table["label"], 2)).slice(0, 5000)
    dataset.write_dataset(some, **parts, existing_data_behavior="delete_matching")
    dataset.write_dataset(some, **parts, basename_template="late-{i}.parquet",
                          existing_data_behavior="overwrite_or_ignore")


def read_pyarrow(root):
    import pyarrow as pa
    import pyarrow.dataset as dataset
    import pyarrow.parquet as parquet
    parts = dataset.dataset(root / "parts", partitioning="hive").to_table()
    parts = parts.sort_by([("label", "ascending"), ("id", "ascending")])
    with pa.memory_map(str(root / "rows.arrow")) as mapped:
        rows = pa.ipc.open_file(mapped).read_all()
        mapped_value = digest(rows["value"].to_numpy())
    return [parts.num_rows, digest(parts["id"].to_numpy(), parts["value"].to_numpy()), mapped_value,
            digest(parquet.read_table(root / "one.parquet")["value"].to_numpy()),
            digest(parquet.ParquetFile(root / "groups.parquet").read_row_group(2)["id"].to_numpy()),
            sorted(one.relative_to(root).as_posix() for one in root.rglob("*.parquet"))]


# ---- TensorBoard

def own_writer(folder):
    """TensorBoard's own one, which PyTorch uses. It opens the file for each flush."""
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    writer = EventFileWriter(str(folder))
    return event_pb2, summary_pb2, writer.add_event, writer


def open_writer(folder):
    """tensorboardX keeps the file open, and synchronises it at each flush."""
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto import event_pb2, summary_pb2
    folder.mkdir()
    writer = EventsWriter(str(folder / "events"))
    return event_pb2, summary_pb2, writer.write_event, writer


def scalars(reader):
    reader.Reload()
    return [(one.step, round(one.value, 4)) for one in reader.Scalars("loss")]


def write_tensorboard(root):
    """A reader that runs meanwhile sees each flush."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    for name, make in (("own", own_writer), ("open", open_writer)):
        events, summaries, add, writer = make(root / name)
        reader = EventAccumulator(str(root / name))
        for step in range(5):
            loss = summaries.Summary.Value(tag="loss", simple_value=1 / (step + 1))
            add(events.Event(step=step, wall_time=step, summary=summaries.Summary(value=[loss])))
            writer.flush()
            seen = scalars(reader)
            assert len(seen) == step + 1 and seen[-1][0] == step, f"{name}: {seen} after step {step}"
        writer.close()


def read_tensorboard(root):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    return [scalars(EventAccumulator(str(root / name))) for name in ("own", "open")]


# ---- DVC

def write_dvc(root):
    """Fills a work tree from a cache in the same folder, by the cheapest kind of link that works."""
    from dvc_objects.fs import generic
    from dvc_objects.fs.local import LocalFileSystem
    files = LocalFileSystem()
    names = [f"object{number}" for number in range(4)]
    for part in ("cache", "work"):
        (root / part).mkdir()
    for name in names:
        (root / "cache" / name).write_bytes(name.encode() * 30_000)
    kinds = generic.test_links(["reflink", "hardlink", "symlink", "copy"], files,
                               str(root / "cache"), files, str(root / "work"))
    generic.transfer(files, [str(root / "cache" / name) for name in names],
                     files, [str(root / "work" / name) for name in names], hardlink=True)
    same = [os.path.samefile(root / "cache" / name, root / "work" / name) for name in names]
    (root / "kinds.json").write_text(json.dumps([kinds, same]))


def read_dvc(root):
    return [sorted(os.listdir(root / "work")), json.loads((root / "kinds.json").read_text()),
            [digest((root / part / f"object{number}").read_bytes())
             for part in ("cache", "work") for number in range(4)]]


WRITES = [name.removeprefix("write_") for name in list(globals()) if name.startswith("write_")]


def main():
    what, name, *folders = sys.argv[1:]
    for folder in map(Path, folders):
        if what == "write":
            globals()[f"write_{name}"](folder)
        print(json.dumps(globals()[f"read_{name}"](folder)))


if __name__ == "__main__":
    main()
