# SPDX-License-Identifier: Apache-2.0
"""fsx with many operations, mappings included, on a local directory and on S3: no difference.

`make soak` runs it; e2e/posix_suites_test.py has the short form. LEAT_SOAK_FSX_OPERATIONS is the number of
operations of each seed."""

import collections
import os
import subprocess
import time
from pathlib import Path

import pytest

from e2e.posix_suites_test import FSX_SETTINGS, SEEDS, mounted, suite  # noqa: F401

OPERATIONS = int(os.environ.get("LEAT_SOAK_FSX_OPERATIONS") or 1_000_000)
SHOWN_EVERY = max(OPERATIONS // 20, 1)
LAST_LINES = 200
# An operation takes 2 to 4 ms here, and much longer on a machine with other work.
SECONDS = 600 + OPERATIONS // 50


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("number", SEEDS)
def test_fsx_finds_no_difference(mounted, folder, number, capsys):  # noqa: F811
    kind, mount = mounted
    settings = Path(folder) / "fsx.toml"
    settings.write_text(FSX_SETTINGS)
    began, done, last = time.monotonic(), 0, collections.deque(maxlen=LAST_LINES)
    with subprocess.Popen([suite("fsx"), "-v", "-N", str(OPERATIONS), "-S", str(number), "-f", settings,
                           "-P", folder, mount / "fsx"], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
        for line in program.stdout:  # a line for each operation, and some more
            last.append(line)
            done += 1
            if done % SHOWN_EVERY == 0:
                with capsys.disabled():
                    print(f"\nfsx on {kind}, seed {number}: {done} operations, "
                          f"{time.monotonic() - began:.0f} s", flush=True)
    text = "".join(last)
    assert program.returncode == 0, f"seed {number}, {done} operations: {text}"
    assert "All operations completed" in text, text
