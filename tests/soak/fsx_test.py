# SPDX-License-Identifier: Apache-2.0
"""fsx with many operations, mappings included, on a local directory and on S3: no difference.

`make soak` runs it; e2e/posix_suites_test.py has the short form. LEAT_SOAK_FSX_OPERATIONS is the number of
operations of each seed."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from e2e.posix_suites_test import FSX_SETTINGS, SEEDS, mounted, suite  # noqa: F401

OPERATIONS = int(os.environ.get("LEAT_SOAK_FSX_OPERATIONS") or 1_000_000)
# fsx keeps all its mappings, so one process comes to the kernel's limit (vm.max_map_count) after some
# 350,000 operations, and is slow long before. Each process has a seed of its own.
OF_A_PROCESS = min(OPERATIONS, 50_000)
# An operation takes 1 to 4 ms here, and much longer on a machine with other work.
SECONDS = 600 + OPERATIONS // 50


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("number", SEEDS)
def test_fsx_finds_no_difference(mounted, folder, number, capsys):  # noqa: F811
    kind, mount = mounted
    settings = Path(folder) / "fsx.toml"
    settings.write_text(FSX_SETTINGS)
    began = time.monotonic()
    for part in range(max(OPERATIONS // OF_A_PROCESS, 1)):
        seed = 1000 * number + part
        done = subprocess.run([suite("fsx"), "-N", str(OF_A_PROCESS), "-S", str(seed), "-f", settings,
                               "-P", folder, mount / f"fsx-{part % 2}"],
                              cwd=folder, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"seed {seed}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        assert "All operations completed" in done.stdout + done.stderr, done.stdout + done.stderr
        with capsys.disabled():
            print(f"\nfsx on {kind}, seed {number}: {(part + 1) * OF_A_PROCESS} operations, "
                  f"{time.monotonic() - began:.0f} s", flush=True)
