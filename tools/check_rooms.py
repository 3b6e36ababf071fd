#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the walls between the rooms of src/ over their #include lines.

A room may include itself and the rooms that its CMakeLists.txt declares in DEPS; these must stand
above it in src/rooms.txt. Libraries that a room was built to hide are included nowhere else.
Prints one line a violation and exits with 1 if there was any.
"""

import re
import sys
from pathlib import Path

# Header pattern -> which files may include it. The wrapping room is the reason the rest of the code
# can be changed without it.
HIDDEN_HEADERS = [
    (re.compile(r"boost/beast"), re.compile(r"^http/.*\.cc$"), "Beast stays in http's .cc files"),
    (re.compile(r"^(fuse|fuse3/|fuse_)"), re.compile(r"^doors/fuse/"), "libfuse stays in doors/fuse"),
    (re.compile(r"^liburing"), re.compile(r"^runtime/"), "io_uring stays in runtime"),
    (re.compile(r"^spdlog/"), re.compile(r"^telemetry/"), "spdlog stays in telemetry"),
    (re.compile(r"^CLI/"), re.compile(r"^apps/"), "CLI11 stays in apps"),
    (re.compile(r"^toml\+\+"), re.compile(r"^config/"), "toml++ stays in config"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
ROOM_CALL = re.compile(r"leat_room\(\s*(\S+)([^)]*)\)")
KEYWORDS = {"DEPS", "LIBS", "TEST_LIBS", "PCH"}


def read_table(src):
    lines = (src / "rooms.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def declared_deps(cmake_file):
    """{room: [dep…]} of the leat_room() calls in one CMakeLists.txt."""
    text = re.sub(r"#.*", "", cmake_file.read_text())
    result = {}
    for room, rest in ROOM_CALL.findall(text):
        section, deps = "", []
        for word in rest.split():
            if word in KEYWORDS:
                section = word
            elif section == "DEPS":
                deps.append(word)
        result[room] = deps
    return result


def room_of(path, rooms):
    """The room whose folder holds `path` (relative to src/), longest name first."""
    for room in sorted(rooms, key=len, reverse=True):
        if path.startswith(room + "/"):
            return room
    return None


def check_declarations(rooms, deps):
    for room, names in deps.items():
        if room not in rooms:
            yield f"src/{room}: not in src/rooms.txt"
            continue
        for name in names:
            if name not in rooms:
                yield f"src/{room}/CMakeLists.txt: DEPS names '{name}', which is not in src/rooms.txt"
            elif rooms.index(name) >= rooms.index(room):
                yield f"src/{room}/CMakeLists.txt: may not use '{name}': src/rooms.txt puts it below"


def check_include(where, room, quoted, header, rooms, deps):
    for pattern, allowed, reason in HIDDEN_HEADERS:
        if pattern.search(header) and not quoted and not allowed.search(where):
            yield f"src/{where}: includes <{header}>, but {reason}"
    target = room_of(header, rooms) if quoted else None
    if target is None and quoted and "/" not in header:
        yield f'src/{where}: includes "{header}" without its room; write it from the src/ root'
    if target and target != room and target not in deps.get(room, []):
        yield f'src/{where}: includes "{header}", but {room}\'s CMakeLists.txt does not declare {target}'


def check_tree(src):
    rooms = read_table(src)
    deps = {}
    for cmake_file in sorted(src.rglob("CMakeLists.txt")):
        deps.update(declared_deps(cmake_file))
    yield from check_declarations(rooms, deps)
    for path in sorted(src.rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        where = path.relative_to(src).as_posix()
        room = room_of(where, rooms)
        if room is None:
            yield f"src/{where}: lies in no room of src/rooms.txt"
            continue
        for mark, header in INCLUDE.findall(path.read_text()):
            yield from check_include(where, room, mark == '"', header, rooms, deps)


def main():
    src = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "src"
    violations = list(check_tree(src))
    for line in violations:
        print(line)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
