#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the layers of the Rust shim, src/source/shim/src, over its `crate::` and `super::` paths.

A layer is a folder. Its files may use their own layer and those before it in LAYERS; lib.rs alone lies in
no layer. The files of one layer must not use each other in a circle; a mod.rs uses the modules that it
declares. Tests at a file's end are skipped. Prints one line a violation and exits with 1 if there was any.
"""

import re
import sys
from pathlib import Path

LAYERS = ("core", "net", "attempt", "auth", "backends", "store", "abi")  # lowest first

# Quotes of a character go first, since one may hold a quote; a lifetime has no second quote.
NO_CODE = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
TESTS = re.compile(r"^#\[cfg\(test\)\]\s*mod\b.*", re.DOTALL | re.MULTILINE)
USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
MOD = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.MULTILINE)
PATH = re.compile(r"\b(?:crate|self|super)(?:::\w+)+")


def split_tree(text):
    """The parts of a use tree that commas of its outermost level separate."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def expand(tree):
    """The paths of a use tree: `a::{b, c::{d, self}}` gives a::b, a::c::d and a::c."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        yield re.sub(r"\s+as\s+\w+$", "", tree).removesuffix("::self").removesuffix("::*")
        return
    for part in split_tree(rest.rpartition("}")[0]):
        yield from expand(head.strip() + part)


def module_of(path):
    """The module of a file, as a tuple of names; () is lib.rs."""
    names = path.with_suffix("").parts
    return names[:-1] if names[-1] in ("mod", "lib") else names


def absolute(path, module, modules):
    """The names of a path from the crate's root, or None if it leads to another crate."""
    first, *rest = path.split("::")
    if first == "crate":
        return tuple(rest)
    if first in ("self", "super"):
        up = int(first == "super")
        while rest[:1] == ["super"]:
            rest.pop(0)
            up += 1
        return module[:len(module) - up] + tuple(rest)
    return module + tuple([first, *rest]) if module + (first,) in modules else None


def used_modules(text, module, modules):
    """The modules of the shim that a file uses, and first names of paths that are in no module."""
    text = NO_CODE.sub("", TESTS.sub("", text))
    paths = [path for tree in USE.findall(text) for path in expand(tree)]
    paths += PATH.findall(USE.sub("", text)) + ["self::" + name for name in MOD.findall(text)]
    used = set()
    for path in paths:
        names = absolute(path, module, modules)
        if names is None:
            continue
        length = max(size for size in range(len(names) + 1) if names[:size] in modules)
        used.add(names[:length] or names[:1])
    return used - {module, ()}


def check_uses(file, module, used):
    if not module:
        return
    if module[0] not in LAYERS:
        yield f"{file}: lies in no layer; its folder must be one of {', '.join(LAYERS)}"
        return
    for names in sorted(used):
        path = "crate::" + "::".join(names)
        if names[0] not in LAYERS:
            yield f"{file}: uses {path}, which is in no layer"
        elif LAYERS.index(names[0]) > LAYERS.index(module[0]):
            yield f"{file}: uses {path}, but layer {names[0]} is above {module[0]}"


def find_circles(graph):
    """One circle for each set of nodes that reach each other, as a list that ends where it starts."""
    done = set()

    def visit(node, trail):
        if node in trail:
            yield [*trail[trail.index(node):], node]
        elif node not in done:
            for below in sorted(graph.get(node, ())):
                yield from visit(below, [*trail, node])
            done.add(node)

    for node in sorted(graph):
        yield from visit(node, [])


def check_tree(src):
    files = {module_of(path.relative_to(src)): path.relative_to(src) for path in sorted(src.rglob("*.rs"))}
    graph = {}
    for module, file in files.items():
        used = used_modules((src / file).read_text(), module, files)
        yield from check_uses(file, module, used)
        graph[module] = {names for names in used if names[:1] == module[:1]}
    for circle in find_circles(graph):
        yield "a circle: " + " uses ".join(str(files[module]) for module in circle)


def main():
    root = Path(__file__).resolve().parent.parent
    src = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "src/source/shim/src"
    violations = list(check_tree(src))
    for line in violations:
        print(line)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
