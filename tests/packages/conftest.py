# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the packages of the release binary, and machines to install them on."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from packages.machine import Machine
from rig import leftovers
from rig.leat import ROOT, leat_program


class Packages(NamedTuple):
    folder: Path
    version: str

    @property
    def deb(self):
        return next(self.folder.glob("leat_*.deb"))

    @property
    def tarball(self):
        return next(self.folder.glob("leat-*.tar.gz"))

    @property
    def symbols(self):
        return next(self.folder.glob("leat-*.debug"))


def pack(folder, *options, **environment):
    subprocess.run([ROOT / "tools" / "package", "--fast", "--program", leat_program(),
                    "--output", folder, *options], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, **environment), timeout=240)
    deb = next(Path(folder).glob("leat_*.deb"))
    version = subprocess.run(["dpkg-deb", "-f", deb, "Version"], check=True, capture_output=True,
                             text=True).stdout.strip()
    return Packages(Path(folder), version)


@pytest.fixture(scope="session", autouse=True)
def cleared():
    leftovers.clear_abandoned()


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    return pack(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="session")
def tree(packages):
    """What the Debian package holds, unpacked."""
    folder = packages.folder / "tree"
    subprocess.run(["dpkg-deb", "-x", packages.deb, folder], check=True)
    return folder


@pytest.fixture(scope="session")
def next_packages(tmp_path_factory, packages):
    return pack(tmp_path_factory.mktemp("next"), "--version", packages.version + "+next")


@pytest.fixture
def folder():
    path = leftovers.make_folder()
    yield path
    left = leftovers.clear(path)
    assert not left, f"processes of the test will not end: {left}"


@pytest.fixture
def machine(folder):
    made = Machine(folder)
    yield made
    made.close()


def install(machine, deb):
    """Without what others do whenever anything is installed, such as an index of manual pages."""
    there = machine.shared / deb.name
    if not there.exists():
        os.link(deb, there) if deb.stat().st_dev == machine.shared.stat().st_dev else \
            there.write_bytes(deb.read_bytes())
    return machine.run("dpkg", "--no-triggers", "-i", there)


@pytest.fixture
def installed(machine, packages):
    install(machine, packages.deb)
    return machine
