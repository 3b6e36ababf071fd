# SPDX-License-Identifier: Apache-2.0
"""A wrong clock."""

from pathlib import Path

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


def clock_off_by(offset):
    """The environment of a program whose clock is "-2h" beside the machine's."""
    assert FAKETIME.exists(), "libfaketime is missing: run tools/setup test"
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
