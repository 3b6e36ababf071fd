# SPDX-License-Identifier: Apache-2.0
"""One row after the other: its runs, the same through other programs, and its records. What fails ends
its row and nothing else."""

import os
import time
from dataclasses import dataclass, field

from catalog import LAYERS
from hygiene.fixtures import WrongFixture
from measure import NotRun
from results import book
from results.records import record

PEER_SLOWER = 3  # than Leat, until one was measured
SMOKE_SHARE = 0.15  # of the time of a run


@dataclass
class Options:
    runs: int = 5
    peer_runs: int = 3
    peers: bool = True
    smoke: bool = False


class Estimate:
    """Seconds that are left, from what runs took now, else earlier, else by the catalog."""

    def __init__(self, plan, options, earlier):
        self.options, self.took, self.left = options, {}, {}
        for layer, rows in plan.items():
            for row in rows:
                one = LAYERS[layer].rows[row]
                guess = one.seconds * (SMOKE_SHARE if options.smoke else 1)
                for record_id, found in earlier.items():
                    if record_id.startswith(f"{layer}:") and found["row"] == row:
                        guess = found.get("run_s", guess)
                self.took[layer, row] = guess
                peers = PEER_SLOWER * options.peer_runs if one.peers and options.peers else 0
                self.left[layer, row] = min(options.runs, one.runs_max) + peers

    def ran(self, layer, row, seconds):
        self.took[layer, row] = seconds
        self.left[layer, row] -= 1

    def row_ended(self, layer, row):
        self.left[layer, row] = 0

    def words(self):
        seconds = sum(max(0, self.left[key]) * self.took[key] for key in self.left)
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


@dataclass
class Course:
    """`open_layer`: name -> a LayerBench (layers/layer_bench.py). `quiet`: waits until the machine is
    and answers who was busy. `about` goes into each record."""

    options: Options
    path: os.PathLike
    open_layer: callable
    quiet: callable
    about: dict
    say: callable
    broken: list = field(default_factory=list)
    missed: list = field(default_factory=list)
    written: list = field(default_factory=list)

    def run(self, plan):
        self.estimate = Estimate(plan, self.options, book.read(self.path))
        for layer, rows in plan.items():
            self.run_layer(layer, rows)

    def run_layer(self, layer, rows):
        ids = []
        try:
            bench = self.open_layer(layer)
        except Exception as error:  # whatever it is, the other layers go on
            self.fail(layer, error)
            return
        try:
            for row in rows:
                ids += self.run_row(layer, bench, row)
            self.say(f"{layer}: checking what was read")
            bench.fixtures.check_after()
        except WrongFixture as error:
            self.fail(layer, error)
            self.spoil(ids, str(error))
        finally:
            bench.close()

    def run_row(self, layer, bench, row):
        """The ids of its records."""
        one = LAYERS[layer].rows[row]
        self.began, self.busy = time.monotonic(), []
        count = min(self.options.runs, one.runs_max)
        runs = self.runs_of(layer, bench, row, "leat", count)
        mean = (time.monotonic() - self.began) / count
        peers = {}
        if one.peers and self.options.peers:
            for name, missing, runs_max in bench.peers(row):
                if missing:
                    self.say(f"NOT RUN: {layer}:{row} through {name}: {missing}")
                    peers[name] = {key: [{"not_run": missing}] for key in one.figures}
                else:
                    peers[name] = self.runs_of(layer, bench, row, name,
                                               min(self.options.peer_runs, runs_max))
        bench.settle(row)
        self.estimate.row_ended(layer, row)
        ids = []
        for key, figure in one.figures.items():
            made = record(layer, row, key, figure, runs[key],
                          {name: those[key] for name, those in peers.items() if those[key]},
                          **self.about, digests=bench.fixtures.digests(),
                          busy="; ".join(dict.fromkeys(self.busy)), run_s=round(mean, 1),
                          smoke=self.options.smoke)
            book.put(self.path, made)
            ids.append(f"{layer}:{key}")
            if made["met"] is False and not self.options.smoke:
                self.missed.append(f"{layer}:{key} {made['leat']['median']:.3g}, promised "
                                   f"{made['promise']}")
        self.written += ids
        return ids

    def runs_of(self, layer, bench, row, subject, count):
        """figure -> runs, through Leat or a peer. After a failure there is no further run."""
        keys = list(LAYERS[layer].rows[row].figures)
        collected = {key: [] for key in keys}
        what = f"{layer}:{row}" + ("" if subject == "leat" else f" through {subject}")
        for number in range(count):
            busy = self.quiet()
            if busy:
                self.say(f"WARNING: {what}: {busy}")
                self.busy.append(busy)
            self.say(f"{what}, run {number + 1} of {count}, {self.estimate.words()}")
            began = time.monotonic()
            results = self.attempt(what, keys, subject,
                                   lambda: bench.run(row, subject, number == count - 1))
            self.estimate.ran(layer, row, time.monotonic() - began)
            for key in keys:
                result = results.get(key, {"not_run": "this program has no such figure"})
                collected[key].append(result)
                if "value" in result:
                    self.say(f"  {key}: {result['value']:.3f} ({result.get('note', '')})")
            if not any("value" in result for result in results.values()):
                break
        return collected

    def attempt(self, what, keys, subject, measure):
        """What `measure` answers; where it fails, that it has for each of the figures."""
        try:
            return measure()
        except NotRun as why:
            self.say(f"NOT RUN: {what}: {why}")
            return {key: {"not_run": str(why)} for key in keys}
        except Exception as error:  # of any kind: the other rows go on
            if subject == "leat":
                self.fail(what, error)
            else:
                self.say(f"FAILED: {what}: {error}")
            return {key: {"failed": f"{type(error).__name__}: {error}"} for key in keys}

    def fail(self, what, error):
        self.say(f"FAILED: {what}: {type(error).__name__}: {error}")
        self.broken.append(f"{what}: {type(error).__name__}: {error}")

    def spoil(self, ids, why):
        """Figures of data that changed under them."""
        records = book.read(self.path)
        for record_id in ids:
            records[record_id]["wrong_fixture"] = why
        book.write(self.path, records)

    def close(self):
        """What is to be known at the end; the exit status."""
        for line in self.missed:
            self.say(f"below what is promised: {line}")
        for line in self.broken:
            self.say(f"BROKEN: {line}")
        self.say(f"{len(self.written)} figures in {self.path}, {len(self.broken)} rows broken")
        return int(bool(self.broken))
