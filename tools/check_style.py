#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the house rules that a machine can check: sizes, licence lines, names, leftovers.

Reads the files that git tracks (or, outside a checkout, all files below the root). Prints one line
a violation and exits with 1 if there was any.
"""

import re
import subprocess
import sys
from pathlib import Path

LINES_MAX = 500
TEST_LINES_MAX = 800
COLUMNS_MAX = 100
SOURCES_PER_FOLDER_MAX = 25

CODE = {".cc", ".h", ".py", ".sh", ".rs", ".cmake", ".ts", ".tsx", ".mjs", ".css"}
# Shell and Python programs without an ending are known by their first line.
SHEBANG = re.compile(r"^#!.*\b(python3|bash|sh)\b")
SPDX = "SPDX-License-Identifier: Apache-2.0"
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
VAGUE_NAME = re.compile(r"(^|_)(utils?|helpers?|common|misc|manager)(_|$)")
# Out of it a stream throws when a read fails.
THROWING_READ = re.compile(r"istreambuf_" r"iterator")
# As clang-format lays them out: nothing of a namespace is indented, all within a type is.
NAMESPACE = re.compile(r"^namespace ?([\w:]*) ?\{")
TYPE = re.compile(r"^(?:class|struct|union|enum class|enum) (\w+)(?: final)?(?: ?: ?[^:;].*)?(?: \{.*)$")
MACHINE_PATH = re.compile(r"(/home/\w+|/root)/")


def tracked_files(root):
    try:
        out = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True)
        names = out.stdout.decode().split("\0")
        return sorted(name for name in names if name and (root / name).is_file())
    except (subprocess.CalledProcessError, FileNotFoundError):
        return sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())


def is_test(name):
    stem = Path(name).stem
    return name.startswith("tests/") or stem.endswith(("_test", "_bench", "_fuzz"))


def is_code(name, text):
    # A module's CMakeLists.txt is one declaration, not a work that needs a licence line.
    return (Path(name).suffix in CODE or name in ("CMakeLists.txt", "Makefile")
            or bool(SHEBANG.match(text)))


def check_file(name, text):
    lines = text.splitlines()
    limit = TEST_LINES_MAX if is_test(name) else LINES_MAX
    if len(lines) > limit:
        yield f"{name}: {len(lines)} lines, at most {limit}"
    if not any(SPDX in line for line in lines[:3]):
        yield f"{name}: no '{SPDX}' in its first lines"
    if Path(name).suffix == ".h" and "#pragma once" not in text:
        yield f"{name}: a header without #pragma once"
    if VAGUE_NAME.search(Path(name).stem):
        yield f"{name}: names nothing; call it after the noun that it holds"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX + 10 or (len(line) > COLUMNS_MAX and name.startswith("src/")
                                            and Path(name).suffix in (".h", ".cc")):
            yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"
        if LEFTOVER.search(line):
            yield f"{name}:{number}: leftover '{LEFTOVER.search(line).group(0)}'"
        if THROWING_READ.search(line) and name.startswith("src/") and not is_test(name):
            yield f"{name}:{number}: throws where a read fails; base/read_file.h does not"
        if MACHINE_PATH.search(line):
            yield f"{name}:{number}: a path of one machine"


def check_folders(root, names):
    folders = {}
    for name in names:
        if Path(name).suffix in (".cc", ".h") and not is_test(name):
            folders.setdefault(str(Path(name).parent), set()).add(Path(name).stem)
    for folder, stems in sorted(folders.items()):
        if len(stems) > SOURCES_PER_FOLDER_MAX:
            yield f"{folder}: {len(stems)} sources, at most {SOURCES_PER_FOLDER_MAX}"
        if folder.startswith("src/") and not (root / folder / "README.md").is_file():
            if (root / folder / "CMakeLists.txt").is_file():
                yield f"{folder}: a module without README.md"


def defined_types(text):
    """(namespace, name) of each class, struct, union and enum that others can link with: of a
    program's sources, two of one name are one to the linker, which takes the functions of either."""
    spaces = []
    for line in text.splitlines():
        if opened := NAMESPACE.match(line):
            spaces.append(opened[1])
        elif line.startswith("}  // namespace") and spaces:
            spaces.pop()
        elif (found := TYPE.match(line)) and "" not in spaces:
            yield "::".join(spaces), found[1]


def check_types(texts):
    homes = {}
    for name, text in texts:
        for kind in set(defined_types(text)):
            other = homes.setdefault(kind, name)
            if other != name:
                yield (f"{name}: {'::'.join(kind)} is defined in {other}, too; the linker takes them "
                       "for one")


def check_tree(root):
    names = tracked_files(root)
    for name in names:
        try:
            text = (root / name).read_text()
        except UnicodeDecodeError:
            continue
        if is_code(name, text):
            yield from check_file(name, text)
    yield from check_folders(root, names)
    yield from check_types(
        (name, (root / name).read_text()) for name in names
        if name.startswith("src/") and name.endswith((".h", ".cc")) and not is_test(name))


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    violations = list(check_tree(root))
    for line in violations:
        print(line)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
