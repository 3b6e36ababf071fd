# SPDX-License-Identifier: Apache-2.0
"""Digests of what is read: the same data in every run, before and after it. A file that was changed
or cut between two runs gives figures of something else."""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class WrongFixture(RuntimeError):
    """With the folder that has to go, so that it is made anew."""


def file_line(folder, name):
    path = Path(folder) / name
    with open(path, "rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{name} {path.stat().st_size} {content}\n"


def digest(folder, names):
    """Of all files by name, size and content; an OSError where one is missing."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = pool.map(lambda name: file_line(folder, name), sorted(names))
        return hashlib.sha256("".join(lines).encode()).hexdigest()


class Fixtures:
    """What one invocation reads. `folders` hold the same names with the same content."""

    def __init__(self, say=lambda text: None):
        self.say, self.known = say, {}

    def use(self, name, folders, names, expected=None):
        """Checked when it is used first; without a digest to expect, it was made just now."""
        if name in self.known:
            return
        if expected is None:
            expected = digest(folders[0], names)
            folders_left = folders[1:]
        else:
            folders_left = folders
        for folder in folders_left:
            self.compare(name, folder, names, expected, "before")
        self.known[name] = (folders, list(names), expected)

    def compare(self, name, folder, names, expected, when):
        self.say(f"checking the data '{name}' in {Path(folder).name}/ {when} the runs")
        try:
            found = digest(folder, names)
        except OSError as error:
            raise WrongFixture(f"the data '{name}' {when} the runs: {error}; remove {folder} and run "
                               "again, it is made anew") from error
        if found != expected:
            raise WrongFixture(f"the data '{name}' in {folder} is not what was made ({when} the runs: "
                               f"{found[:12]} instead of {expected[:12]}); remove the folder and run "
                               "again")

    def check_after(self):
        """All that was used, once more."""
        for name, (folders, names, expected) in self.known.items():
            for folder in folders:
                self.compare(name, folder, names, expected, "after")

    def digests(self):
        return {name: expected[:16] for name, (_, _, expected) in self.known.items()}
