# SPDX-License-Identifier: Apache-2.0
"""What is promised of each figure, and the tables. A run is a dictionary with `value` and `note`,
or with `not_run` or `failed` and the reason."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """`target` is the least value, or the most where `at_most`; None: nothing is promised. `tie`: so
    little below a peer counts as above it, where something else than the programs sets the bound."""

    title: str
    target: float | None
    at_most: bool = False
    tie: float = 0

    def promise(self):
        if self.target is None:
            return "–"
        return f"{'≤' if self.at_most else '≥'} {self.target:g}"

    def met(self, value):
        if self.target is None:
            return None
        return value <= self.target if self.at_most else value >= self.target

    def is_above(self, ours, theirs):
        return ours < theirs if self.at_most else ours > theirs - self.tie


FIGURES = {
    "hot": Figure("4 GiB sequential, page cache hot ÷ ext4", 0.95),
    "disk": Figure("4 GiB sequential, page cache dropped ÷ ext4", 0.95),
    "random_hot_1": Figure("4 KiB random, hot, 1 thread ÷ ext4", 0.9),
    "random_hot_4": Figure("4 KiB random, hot, 4 threads ÷ ext4", 0.9),
    "random_cold_1": Figure("4 KiB random, page cache cold, 1 thread ÷ ext4", 0.8),
    "random_cold_4": Figure("4 KiB random, page cache cold, 4 threads ÷ ext4", 0.8),
    "small_default": Figure("12,000 × 110 KB hot, 4 threads, default ÷ ext4", 0.55),
    "small_io_uring": Figure("12,000 × 110 KB hot, 4 threads, io_uring ÷ ext4", 0.58),
    "small_no_open": Figure("12,000 × 110 KB hot, 4 threads, no_open ÷ ext4", 0.88),
    "small_cold_random": Figure("the same, page cache dropped, shuffled ÷ ext4", 0.7),
    "small_cold_name": Figure("the same, page cache dropped, by name ÷ ext4", 0.9),
    "first": Figure("first read of 2 GiB ÷ 8 signed streams", 0.5),
    "cpu_first": Figure("CPU of it, s/GiB", 1.1, at_most=True),
    "first_shaped": Figure("first read of 2 GiB behind 2 Gbit/s ÷ the link", 0.95, tie=0.03),
    "first_small": Figure("first read of 10,000 × 100 KB, 8 readers ÷ signed GETs", 0.5),
    "cpu_first_small": Figure("CPU of it, ms each", 0.35, at_most=True),
    "amplification_pread": Figure("bytes from the store ÷ asked, random 128 KiB preads", 1.1,
                                  at_most=True),
    "amplification_mmap": Figure("bytes from the store ÷ asked, random 4 KiB by mmap", 20,
                                 at_most=True),
    "interactive": Figure("files of 100 KB for the first time beside 8 streams, behind 2 Gbit/s ÷ raw "
                          "GETs beside raw streams", None),
    "safetensors": Figure("4 GiB in 16 × 2 MiB preads behind 2 Gbit/s ÷ the link", 0.95),
    "names": Figure("readdir and stat of 1 M names ÷ ext4, warm", 0.5),
    "streams200": Figure("200 streams in 512 MiB: ended for want of memory", 0, at_most=True),
}


def number(value):
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def shortened(text):
    return " ".join(text.split())[:160].replace("|", "/")


def measured(runs):
    return [run for run in runs if "value" in run]


def reason(runs):
    """Why there is no figure."""
    for run in runs:
        for kind in ("failed", "not_run"):
            if kind in run:
                return f"{kind.replace('_', ' ')}: {shortened(run[kind])}"
    return "not run"


def summary(key, runs):
    """The median with all runs, and whether what was promised was met: True, False, or None where
    it was not run, or nothing was promised. A run that failed spoils the figure."""
    values = [run["value"] for run in measured(runs)]
    failed = any("failed" in run for run in runs)
    result = {"runs": runs, "target": FIGURES[key].promise(), "median": None, "met": None}
    if values:
        result["median"] = statistics.median(values)
    if failed or values:
        result["met"] = not failed and FIGURES[key].met(result["median"])
    return result


def verdict(met):
    return {True: "yes", False: "NO", None: "–"}[met]


def leat_lines(results):
    yield "| work | measured (median) | promised | runs | speed of the median run | met |"
    yield "|---|---|---|---|---|---|"
    for key, one in results.items():
        runs = measured(one["runs"])
        failed = len(runs) < len(one["runs"])
        if not runs:
            cells = [reason(one["runs"]), one["target"], "", ""]
        else:
            middle = sorted(runs, key=lambda run: run["value"])[len(runs) // 2]
            note = f"{reason(one['runs'])}; {middle['note']}" if failed else middle["note"]
            cells = [number(one["median"]), one["target"],
                     f"({' '.join(number(run['value']) for run in runs)})", note]
        yield f"| {FIGURES[key].title} | {' | '.join(cells)} | {verdict(one['met'])} |"


def peer_cell(runs):
    values = [run["value"] for run in measured(runs)]
    if not values:
        return reason(runs)
    return f"{number(statistics.median(values))} ({' '.join(map(number, values))})"


def above_all(key, ours, peers):
    """True, False, or None where there is nothing to compare."""
    medians = [statistics.median(run["value"] for run in measured(runs[key]))
               for runs in peers.values() if measured(runs.get(key, []))]
    if ours[key]["median"] is None or not medians:
        return None
    return all(FIGURES[key].is_above(ours[key]["median"], theirs) for theirs in medians)


def was_tried(figures):
    return any("not_run" not in run for runs in figures.values() for run in runs)


def peer_lines(results, peers):
    """One line a figure, a column a peer that was run, and who was not; `peers`: name -> figure ->
    runs."""
    tried = {name: figures for name, figures in peers.items() if was_tried(figures)}
    keys = [key for key in results if any(key in figures for figures in tried.values())]
    if keys:
        yield f"| work | leat | {' | '.join(tried)} | leat above every peer |"
        yield "|---" * (len(tried) + 3) + "|"
    for key in keys:
        cells = [peer_cell(figures.get(key, [])) for figures in tried.values()]
        ours = results[key]["median"]
        yield (f"| {FIGURES[key].title} | {'–' if ours is None else number(ours)} | "
               f"{' | '.join(cells)} | {verdict(above_all(key, results, peers))} |")
    for name in peers.keys() - tried.keys():
        yield f"{name}: {reason([run for runs in peers[name].values() for run in runs])}"
