# SPDX-License-Identifier: Apache-2.0
"""shellcheck has nothing to say about any shell script of the tree, nor hadolint about the recipe of the
container image."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from rules.rules_test import ROOT, check_style

SHELL = re.compile(r"^#!.*\b(ba|da)?sh\b")


def first_line(name):
    with open(ROOT / name, "rb") as file:
        return file.readline(200).decode(errors="replace")


def deps_folder():
    return Path(os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build"))


def check(*words):
    return subprocess.run(["shellcheck", "--external-sources", *words], cwd=ROOT, check=False,
                          capture_output=True, text=True)


def names():
    return check_style.tracked_files(ROOT)


def test_programs():
    programs = [name for name in names() if SHELL.match(first_line(name))]
    assert "tools/setup" in programs and "tools/package" in programs
    done = check(*programs)
    assert done.returncode == 0, done.stdout


def test_parts():
    """They share variables with what sources them, which shellcheck does not see."""
    parts = [name for name in names()
             if name.endswith(".sh") and not SHELL.match(first_line(name))]
    assert "tools/setup.d/packages.sh" in parts
    done = check("--shell=bash", "--exclude=SC2154,SC2034", *parts)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("text", ["#!/bin/sh\nrm -rf $1/*\n", "#!/bin/bash\n[[ $x == y ]\n"])
def test_it_catches(tmp_path, text):
    path = Path(tmp_path) / "script"
    path.write_text(text)
    assert check(path).returncode == 1


def test_container_recipe():
    hadolint = deps_folder() / "lint/bin/hadolint"
    done = subprocess.run([hadolint, "deploy/container/Containerfile"], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
