#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/soak.md: what the last `make soak` ran on and how it ended.

Usage: record_soak.py SCALE SECONDS RESULT_FILE
"""

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path


def main():
    scale, seconds, result_file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    root = Path(__file__).resolve().parent.parent
    commit = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    dirty = subprocess.run(["git", "-C", root, "status", "--porcelain", "-uno"],
                           capture_output=True, text=True).stdout.strip()
    page = f"""# Last soak run
Written by `make soak`: the end-to-end tests with {scale} times as many operations, then what the
page store has to stand, and the fuzzers. The ordinary tests do a little of each.

| LEAT_… | what, by default |
|---|---|
| TEST_SCALE | end-to-end tests, 20 times as long |
| SOAK_FSX_OPERATIONS | of fsx, each of five seeds on two stores, 1,000,000 |
| TORTURE_KILLS | rounds of kill -9, 1,000 |
| TORTURE_POWER_CUTS | rounds of power cuts, 200 |
| TORTURE_DAMAGES | damaged directories, 500 |
| TORTURE_FAULT_STEP | a failing disk call every so many calls, 1 |
| TORTURE_CAPACITY_MS | capacity sampled every 10 ms for so long, 60,000 |
| FUZZ_SECONDS | of each fuzzer, 120 |
| TORTURE_SEED | repeats a run of the torture tests |

One of them alone: `LEAT_TORTURE_KILLS=1000 build/dev/src/cache/leat_cache_test
--gtest_filter='Kill.At*'`; the others are `PowerCut.*`, `Damage.*`, `*FaultSweep*`,
`CapacitySampled.*`, and `ctest --test-dir build/dev -R '^fuzz'`.

| | |
|---|---|
| date | {datetime.date.today().isoformat()} |
| commit | {commit}{" with uncommitted changes" if dirty else ""} |
| machine | {os.cpu_count()} cores, Linux {platform.release().split("-")[0]} |
| took | {seconds // 60} min {seconds % 60} s |

```text
{result_file.read_text().rstrip()}
```
"""
    (root / "docs" / "soak.md").write_text(page)


if __name__ == "__main__":
    main()
