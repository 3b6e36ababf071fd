# SPDX-License-Identifier: Apache-2.0
"""What a figure is of: the machine by its size, and the versions of what ran. No names of hosts."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def machine():
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return {"cores": os.cpu_count(), "memory_gib": round(int(memory[1]) / (1 << 20)),
            "kernel": re.match(r"[\d.]*\d", platform.release())[0]}


def deps_folder():
    return Path(os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build"))


def first_number(*words):
    """The first version in what a program says of itself; empty where it cannot be asked."""
    if not shutil.which(str(words[0])):
        return ""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    found = re.search(r"\d+(\.\d+)+[\w.-]*", done.stdout + done.stderr)
    return found[0] if found else ""


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], check=False,
                          capture_output=True, text=True)
    return done.stdout.strip()


def linked_version(name):
    """Of $deps/NAME -> NAME-VERSION[-HASH]."""
    link = deps_folder() / name
    found = re.search(r"-(\d+(\.\d+)+)", os.readlink(link)) if link.is_symlink() else None
    return found[1] if found else ""


def server_version():
    stamps = sorted((deps_folder() / "bin").glob(".versitygw-v*"))
    return stamps[-1].name.removeprefix(".versitygw-v") if stamps else ""


def versions():
    leat = os.environ.get("LEAT_BIN") or ROOT / "build" / "release" / "leat"
    found = {"leat": " ".join(filter(None, (first_number(leat, "version"), commit()))),
             "s3fs": first_number("s3fs", "--version"), "rclone": first_number("rclone", "version"),
             "alluxio": linked_version("alluxio"), "libcurl": linked_version("curl"),
             "nginx": first_number("nginx", "-v"), "versitygw": server_version()}
    return {name: version for name, version in found.items() if version}
