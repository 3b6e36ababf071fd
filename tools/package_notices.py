#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The licences of all that is linked into the binary, as the packages carry them: of Debian's libraries
what Debian says, of crates what their own sources say. Usage: tools/package_notices.py CARGO"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEBIAN = {"fmt": "libfmt-dev", "spdlog": "libspdlog-dev", "CLI11": "libcli11-dev",
          "nlohmann-json": "nlohmann-json3-dev", "toml++": "libtomlplusplus-dev",
          "ISA-L": "libisal-dev", "liburing": "liburing-dev", "libnuma": "libnuma-dev",
          "ncurses": "libncurses-dev", "OpenSSL": "libssl-dev", "RE2": "libre2-dev",
          "SQLite": "libsqlite3-dev"}
FILES = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def debian_copyright(package):
    return Path(f"/usr/share/doc/{package}/copyright").read_text()


def boost_licence():
    """Of Boost's two megabytes the licence of what is used of it."""
    text = debian_copyright("libboost1.81-dev")
    start = text.index("\n Boost Software License - Version 1.0")
    end = text.index("IN THE SOFTWARE", start)
    return text[start:text.find("\n", end)] if text.find("\n", end) > 0 else text[start:]


def crates(cargo):
    ask = [cargo, "metadata", "--format-version", "1", "--locked", "--filter-platform",
           "x86_64-unknown-linux-gnu", "--manifest-path", ROOT / "src/source/shim/Cargo.toml"]
    asked = subprocess.run([*ask, "--offline"], check=False, capture_output=True, text=True)
    if asked.returncode != 0:  # the library was built elsewhere
        asked = subprocess.run(ask, check=True, stdout=subprocess.PIPE, text=True)
    metadata = json.loads(asked.stdout)
    used = {node["id"] for node in metadata["resolve"]["nodes"]}
    found = [package for package in metadata["packages"] if package["id"] in used and package["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def web_packages():
    """Folders of what is bundled into the console's page."""
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    wanted = json.loads((ROOT / "web/package.json").read_text())["dependencies"]
    return [Path(deps) / "console/node_modules" / name for name in sorted(wanted)]


def licence_files(folder):
    return sorted(path for path in folder.iterdir() if path.is_file() and FILES.match(path.name))


def heading(text):
    return f"\n{'=' * 78}\n{text}\n{'=' * 78}\n"


def main():
    out = ["The program leat is licensed under Apache-2.0. It contains what follows.\n"]
    for name, package in DEBIAN.items():
        out += [heading(f"{name}, as Debian's {package} says"), debian_copyright(package)]
    out += [heading("Boost (Asio, Beast)"), boost_licence(), "\n"]
    out += [heading("libfuse (lib/): LGPL-2.1. Leat's sources are open: anyone can link it again"),
            Path("/usr/share/common-licenses/LGPL-2.1").read_text()]
    for folder in web_packages():
        version = json.loads((folder / "package.json").read_text())["version"]
        out.append(heading(f"{folder.name} {version}, in the console's page"))
        out += [path.read_text() for path in licence_files(folder)]
    packages = crates(sys.argv[1] if len(sys.argv) > 1 else "cargo")
    texts = {}  # of equal texts one, with all whose it is
    out.append(heading("Rust crates"))
    for package in packages:
        label = f"{package['name']} {package['version']}"
        out.append(f"{label}: {package['license'] or 'see its text'}\n")
        for path in licence_files(Path(package["manifest_path"]).parent):
            text = path.read_text(errors="replace").strip()
            texts.setdefault(hashlib.sha256(text.encode()).hexdigest(), (text, []))[1].append(label)
    for text, labels in texts.values():
        out += [heading(", ".join(dict.fromkeys(labels))), text, "\n"]
    sys.stdout.write("".join(out))


if __name__ == "__main__":
    main()
