# SPDX-License-Identifier: Apache-2.0
"""Rows of programs that write: how long it takes until they may go on, ÷ the disk or the store's own
limit. Each pass has a mount of its own with an empty cache, and is checked in the store."""

import json
import os
import subprocess
from functools import partial
from statistics import fmean

from folder_door.far_store import far
from folder_door.setting import FIRST_THREADS, READ_TIMEOUT_S, SMALL_THREADS
from folder_door.writing import (SEED, Uploads, Work, WritableMount, check, mounted, natively, on_disk,
                                 require, stored, through_mount, wait_until_stored)
from layers.layer_bench import against
from measure import GIB, MIB, NotRun, say
from rig.process import wait_until

MODES = ("through", "back")
CREATED_BYTES = 16_000
RTT_MS = 30
THROTTLED_BYTES_S = 50 * MIB
PACED_BYTES_S = 200 * MIB
PACED_SHARE = 0.95  # from here on the writer keeps its rate


def in_modes(setting, row, measure):
    """figure -> run, of the modes that this leat has. `measure` takes a mode and answers such."""
    results = {}
    for mode in MODES:
        try:
            require(setting, mode)
            results |= measure(mode)
        except NotRun as reason:
            say(f"NOT RUN: {row} {mode}: {reason}")
            results |= {key: {"not_run": str(reason)} for key in figures_of(row, mode)}
    return results


def figures_of(row, mode):
    """The figures of a row in one mode."""
    ends = ("", "_synced") if row == "small" else ("",)
    return [f"{row}_{mode}{end}" for end in ends]


def with_ratio(setting, mounter, work, reference):
    """The speed of a pass through a mount ÷ that of a reference before and after it."""
    passes = []

    def subject():
        passes.append(through_mount(setting, mounter, work))
        return passes[0]

    result = setting.reader.between(reference, subject)
    return dict(result, value=result["ratio"], cpu_s=passes[0]["cpu"])


def mib_per_s(work, seconds):
    return f"{work.bytes / MIB / seconds:,.0f} MiB/s"


def files_per_s(work, seconds):
    return f"{work.count / seconds:,.0f} files/s"


def both(spoken, result):
    """In words, of the seconds of a mount and of its reference."""
    return f"{spoken(result['seconds'])}, the reference {spoken(fmean(result['reference']))}"


def sequential(setting):
    """sequential: a file of 4 GiB written and closed, `through`, ÷ a multipart upload by the SDK; also
    CPU of the daemon."""
    work = Work(setting.sizes.written_bytes)
    result = with_ratio(setting, WritableMount(setting), work, Uploads(setting, work.bytes).fastest)
    return {"sequential": dict(result, note=both(partial(mib_per_s, work), result)),
            "cpu_sequential": {"value": result["cpu_s"] * GIB / work.bytes, "note": ""}}


def back_sequential(setting):
    """back_sequential: the same file written and synchronised, `back`, ÷ ext4."""
    require(setting, "back")
    work = Work(setting.sizes.written_bytes, end="sync")
    result = with_ratio(setting, WritableMount(setting, "back"), work,
                        lambda: natively(setting, work))
    return {"back_sequential": dict(result, note=both(partial(mib_per_s, work), result))}


def small_in(setting, mounter):
    """The figures of the mode in which a mounter writes."""
    results = {}
    for end, key in zip(("close", "sync"), figures_of("small", mounter.writes)):
        work = Work(CREATED_BYTES, setting.sizes.created_count, SMALL_THREADS, end)
        result = with_ratio(setting, mounter, work, lambda: natively(setting, work))
        results[key] = dict(result, note=both(partial(files_per_s, work), result))
    return results


def small(setting, mounter):
    """small: 10,000 files of 16 KB created by 4 threads ÷ ext4: closed, and synchronised before."""
    if not isinstance(mounter, WritableMount):
        return small_in(setting, mounter)
    return in_modes(setting, "small", lambda mode: small_in(setting, WritableMount(setting, mode)))


def random_in(setting, mode):
    """The file on the disk, once written, is what the store has to have."""
    size, writes = setting.sizes.staged_bytes, setting.sizes.random_writes

    def written(folder):
        return setting.write("random", folder, size, writes, SEED)

    with on_disk(setting) as native:
        def subject():
            with mounted(setting, WritableMount(setting, mode)) as folder:
                result = written(folder)
                wait_until_stored(setting, Work(size))
                compare(setting, native / "0", size)
                return result

        result = setting.reader.between(lambda: written(native), subject)
    note = both(lambda seconds: f"{writes / seconds:,.0f} writes/s", result)
    return {f"random_{mode}": dict(result, value=result["ratio"], note=note)}


def compare(setting, native, size):
    done = setting.reader.read("compare", native, stored(setting) / native.name)
    if done["bytes"] != size:
        raise RuntimeError(f"{done['bytes']} of {size} bytes were compared")
    setting.compared_bytes += done["bytes"]


def random(setting):
    """random: 4 KiB at random into an open file of 1 GiB that was just written ÷ ext4."""
    return in_modes(setting, "random", lambda mode: random_in(setting, mode))


def checkpoint_in(setting, mode):
    work = Work(setting.sizes.checkpoint_bytes, end="publish")
    result = with_ratio(setting, WritableMount(setting, mode), work, lambda: natively(setting, work))
    value = against(result["reference"], result["seconds"], higher_is_slower=False)
    return {f"checkpoint_{mode}": dict(result, value=value, note=both("{:.2f} s".format, result))}


def checkpoint(setting):
    """checkpoint: 1 GiB written, synchronised and renamed, ÷ ext4, to a store that takes 50 MiB/s."""
    with setting.behind_link(upload_bits=THROTTLED_BYTES_S * 8):
        return in_modes(setting, "checkpoint", lambda mode: checkpoint_in(setting, mode))


class PacedWriter:
    """Another process that writes files of 64 MiB into a directory at 200 MiB/s meanwhile."""

    def __init__(self, setting, folder):
        self.setting, self.folder, self.size = setting, folder, setting.sizes.paced_bytes
        self.process = subprocess.Popen(
            list(map(str, [setting.writer, "paced", folder, self.size, PACED_BYTES_S, SEED])),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        """Returns when the first file is closed and the next one begun."""
        wait_until(lambda: (self.folder / "1").exists() or self.process.poll() is not None,
                   "the writer to be under way")
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
        self.output, self.error = self.process.communicate(timeout=READ_TIMEOUT_S)

    def result(self):
        """With the rate; the store has all of it, and it was compared."""
        if self.process.returncode != 0:
            raise RuntimeError(f"the writer beside the readers: {self.error.strip()}")
        result = json.loads(self.output)
        work = Work(self.size, result["files"])
        wait_until_stored(self.setting, work)
        check(self.setting, work)
        return result


def epoch(setting, mode, with_writer):
    """(seconds of the readers, MiB/s of the writer)."""
    with mounted(setting, WritableMount(setting, mode)) as folder:
        def read():
            return setting.reader.settled(
                lambda: setting.files(folder.parent, "first", FIRST_THREADS))["seconds"]

        os.sync()
        if with_writer:
            with PacedWriter(setting, folder) as writer:
                seconds = read()
            result = writer.result()
            rate = result["bytes"] / result["seconds"]
        else:
            seconds, rate = read(), 0
        setting.check("first")
        return seconds, rate


def beside_in(setting, mode):
    (first, _), (seconds, rate), (last, _) = (epoch(setting, mode, with_writer)
                                              for with_writer in (False, True, False))
    wanted = "" if rate >= PACED_SHARE * PACED_BYTES_S else f" of {PACED_BYTES_S / MIB:.0f}"
    return {f"beside_{mode}": {
        "value": against([first, last], seconds, higher_is_slower=False), "reference": [first, last],
        "seconds": seconds, "note": f"{seconds:.1f} s; the writer at {rate / MIB:.0f}{wanted} MiB/s"}}


def beside(setting):
    """beside: 10,000 files of 100 KB for the first time by 8 readers while another process writes
    200 MiB/s into the mount ÷ without."""
    setting.raw_gets()  # the server's files are in memory from here on
    return in_modes(setting, "beside", lambda mode: beside_in(setting, mode))


def far_away(setting):
    """far: a file of 4 GiB and 2,000 files of 16 KB written `through`, 30 ms away ÷ 0 ms."""
    works = {"far_sequential": (Work(setting.sizes.written_bytes), mib_per_s),
             "far_small": (Work(CREATED_BYTES, setting.sizes.far_created_count, SMALL_THREADS),
                           files_per_s)}

    def passes(delay_ms):
        with far(setting, delay_ms):
            return {key: through_mount(setting, WritableMount(setting), work)
                    for key, (work, _) in works.items()}

    near, distant = passes(0), passes(RTT_MS)
    return {key: {"value": near[key]["seconds"] / distant[key]["seconds"],
                  "seconds": distant[key]["seconds"], "note": speed(work, distant[key]["seconds"])}
            for key, (work, speed) in works.items()}
