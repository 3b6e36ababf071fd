#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up JUnit files of several test runners and closes with one plain line.

Usage: sum_results.py NAME=FILE… [--budget NAME=SECONDS]…
A file that is missing or unreadable counts as one failure. So does one beside which FILE.over_time
lies: a suite that died or was ended must not look like one that passed. A failed test is printed
with the end of its output. All are named once more at the end, which is all that a log may keep.
FILE.seconds holds how long the suite took; a suite over its budget is named, and does not fail:
machines differ, and the budget is for two idle cores.
"""

import argparse
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


LINES = 40  # of what a failed test said
COLUMNS = 300  # of each of them


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def name(case):
    return f"{case.get('classname', '')} {case.get('name')}".strip()


def tell(case):
    said = "\n".join(part.text or "" for part in case if part.tag in (
        "failure", "error", "system-out", "system-err"))
    print(f"  FAILED: {name(case)}")
    for line in said.strip().splitlines()[-LINES:]:
        print(f"    {line[:COLUMNS]}")


def count(path, failed):
    """Counts of one file; the names of what failed are added to `failed`."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    try:
        cases = list(xml.parse(path).getroot().iter("testcase"))
    except (OSError, xml.ParseError) as error:
        print(f"  no results in {path}: {error}")
        cases = []
    for case in cases:
        counts[outcome(case)] += 1
        if outcome(case) == "failed":
            tell(case)
            failed.append(name(case))
    ended = Path(f"{path}.over_time").exists()
    if ended:
        print(f"  {path}: the suite hung and was ended")
    if ended or not cases:
        counts["failed"] += 1
        failed.append(str(path))
    return counts


def duration(path, budget):
    """How long a suite took, beside its budget; empty if that is not known."""
    try:
        seconds = int(Path(f"{path}.seconds").read_text())
    except OSError:
        return ""
    if budget is None:
        return f"  {seconds:5} s"
    over = "  OVER ITS BUDGET" if seconds > budget else ""
    return f"  {seconds:5} s of {budget} s{over}"


def main():
    parser = argparse.ArgumentParser(description="Adds up JUnit files of several test runners.")
    parser.add_argument("suites", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--budget", action="append", default=[], metavar="NAME=SECONDS")
    options = parser.parse_args()
    budgets = {name: int(seconds) for name, seconds in (b.split("=") for b in options.budget)}
    total, failed = {"passed": 0, "failed": 0, "skipped": 0}, []
    for argument in options.suites:
        suite, path = argument.split("=", 1)
        counts = count(path, failed)
        print(f"  {suite:<12} {counts['passed']:5} passed {counts['failed']:4} failed"
              f" {counts['skipped']:4} skipped{duration(path, budgets.get(suite))}")
        for key in total:
            total[key] += counts[key]
    for one in failed:
        print(f"  failed: {one}")
    line = f"{total['passed']} passed, {total['failed']} failed"
    if total["skipped"]:
        line += f", {total['skipped']} skipped"
    print(line)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
