#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the walls between the modules of src/ over their #include lines.

A module may include itself and the modules that its CMakeLists.txt declares in DEPS; these must stand
above it in src/modules.txt. Libraries that a module was built to hide are included nowhere else. Folders
inside a module must not use each other in a circle.
Prints one line a violation and exits with 1 if there was any.
"""

import graphlib
import re
import sys
from pathlib import Path

# Header pattern -> which files may include it. The wrapping module is the reason the rest of the code
# can be changed without it.
HIDDEN_HEADERS = [
    (re.compile(r"boost/beast"), re.compile(r"^http/.*\.cc$"), "Beast stays in http's .cc files"),
    (re.compile(r"^(fuse|fuse3/|fuse_)"), re.compile(r"^frontends/fuse/"), "libfuse stays in frontends/fuse"),
    (re.compile(r"^liburing"), re.compile(r"^runtime/"), "io_uring stays in runtime"),
    (re.compile(r"^spdlog/"), re.compile(r"^telemetry/"), "spdlog stays in telemetry"),
    (re.compile(r"^CLI/"), re.compile(r"^apps/"), "CLI11 stays in apps"),
    (re.compile(r"^toml\+\+"), re.compile(r"^config/"), "toml++ stays in config"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
MODULE_CALL = re.compile(r"leat_module\(\s*(\S+)([^)]*)\)")
KEYWORDS = {"FOLDERS", "PROGRAM", "TOGETHER", "FUZZED", "DEPS", "LIBS", "TEST_LIBS", "PCH"}


def read_table(src):
    lines = (src / "modules.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def declared_deps(cmake_file):
    """{module: [dep…]} of the leat_module() calls in one CMakeLists.txt."""
    text = re.sub(r"#.*", "", cmake_file.read_text())
    result = {}
    for module, rest in MODULE_CALL.findall(text):
        section, deps = "", []
        for word in rest.split():
            if word in KEYWORDS:
                section = word
            elif section == "DEPS":
                deps.append(word)
        result[module] = deps
    return result


def module_of(path, modules):
    """The module whose folder holds `path` (relative to src/), longest name first."""
    for module in sorted(modules, key=len, reverse=True):
        if path.startswith(module + "/"):
            return module
    return None


def check_declarations(modules, deps):
    for module, names in deps.items():
        if module not in modules:
            yield f"src/{module}: not in src/modules.txt"
            continue
        for name in names:
            if name not in modules:
                yield f"src/{module}/CMakeLists.txt: DEPS names '{name}', which is not in src/modules.txt"
            elif modules.index(name) >= modules.index(module):
                yield f"src/{module}/CMakeLists.txt: may not use '{name}': src/modules.txt puts it below"


def check_include(where, module, quoted, header, modules, deps):
    for pattern, allowed, reason in HIDDEN_HEADERS:
        if pattern.search(header) and not quoted and not allowed.search(where):
            yield f"src/{where}: includes <{header}>, but {reason}"
    target = module_of(header, modules) if quoted else None
    if target is None and quoted and "/" not in header:
        yield f'src/{where}: includes "{header}" without its module; write it from the src/ root'
    if target and target != module and target not in deps.get(module, []):
        yield f'src/{where}: includes "{header}", but {module}\'s CMakeLists.txt does not declare {target}'


def folders_used(sources, modules):
    """{folder: {other folder of the same module: an example}}, tests left out."""
    used = {}
    for where, includes in sources.items():
        if re.search(r"_(test|fuzz)\.(h|cc)$", where):
            continue
        folder = where.rpartition("/")[0]
        for quoted, header in includes:
            other = header.rpartition("/")[0]
            inside = module_of(header, modules) == module_of(where, modules)
            if quoted and inside and other not in ("", folder):
                used.setdefault(folder, {}).setdefault(other, f"{where} includes {header}")
    return used


def check_folders(sources, modules):
    used = folders_used(sources, modules)
    try:
        graphlib.TopologicalSorter({folder: set(others) for folder, others in used.items()}).prepare()
    except graphlib.CycleError as error:
        circle = error.args[1][::-1]  # each folder uses the next one
        steps = "; ".join(used[one][other] for one, other in zip(circle, circle[1:]))
        yield f"src/{circle[0]}: folders use each other in a circle: {steps}"


def check_tree(src):
    modules = read_table(src)
    deps = {}
    for cmake_file in sorted(src.rglob("CMakeLists.txt")):
        deps.update(declared_deps(cmake_file))
    yield from check_declarations(modules, deps)
    sources = {}
    for path in sorted(src.rglob("*")):
        if path.suffix in (".h", ".cc"):
            sources[path.relative_to(src).as_posix()] = [
                (mark == '"', header) for mark, header in INCLUDE.findall(path.read_text())]
    for where, includes in sources.items():
        module = module_of(where, modules)
        if module is None:
            yield f"src/{where}: lies in no module of src/modules.txt"
            continue
        for quoted, header in includes:
            yield from check_include(where, module, quoted, header, modules, deps)
    yield from check_folders(sources, modules)


def main():
    src = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "src"
    violations = list(check_tree(src))
    for line in violations:
        print(line)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
