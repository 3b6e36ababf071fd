# SPDX-License-Identifier: Apache-2.0
"""What `bench/run` wants of a layer. Each layers/NAME.py has `open_layer(place, smoke)`, which answers
one of these; `place` is a folder of its own on the disk that is measured."""

from pathlib import Path

from hygiene.fixtures import Fixtures
from measure import ROOT, run_json, say


def client(name):
    """A program of bench/CMakeLists.txt."""
    program = ROOT / "build" / "release" / "bench" / name
    if not program.exists():
        raise RuntimeError(f"there is no {program.relative_to(ROOT)}: ninja -C build/release {name}")
    return program


def run_client(name, *words, environment=None):
    return run_json(client(name), *words, environment=environment)


class LayerBench:
    def __init__(self, place, smoke):
        self.place, self.smoke, self.fixtures = Path(place), smoke, Fixtures(say)

    def run(self, row, subject, last):
        """figure -> run, of one run through `subject`; all bytes are compared in the last one."""
        raise NotImplementedError

    def peers(self, _row):
        """(name, why it cannot run or empty, most runs) of what is measured beside Leat."""
        return []

    def settle(self, row):
        """After the last run of a row."""

    def close(self):
        pass


def against(reference, subject, higher_is_slower=True):
    """subject ÷ the mean of the reference at both ends, as a speed; else as a cost."""
    mean = sum(reference) / len(reference)
    return mean / subject if higher_is_slower else subject / mean
