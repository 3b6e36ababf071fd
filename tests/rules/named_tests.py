# SPDX-License-Identifier: Apache-2.0
"""Tests that pages name, and the tests of the tree: `Suite.Name` of GoogleTest, `file_test.test_name` of
pytest. A page may write `Suite.*`, the name alone behind one of its suite, and `[id]` of a parameter."""

import fnmatch
import re

GOOGLE_TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(\s*(\w+)\s*,\s*(\w+)",
                         re.MULTILINE)
INSTANCE = re.compile(r"^INSTANTIATE_(?:TEST|TYPED_TEST)_SUITE_P\(\s*(\w+)\s*,\s*(\w+)", re.MULTILINE)
PYTHON_TEST = re.compile(r"^ *(?:def (?=test_)|class (?=Test))(\w+)", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


class NamedTests:
    """Of the tree below a folder."""

    def __init__(self, root):
        self.full, self.texts, instances = set(), {}, []
        for path in sorted([*(root / "src").rglob("*_test.cc"), *(root / "src").rglob("*_test.h")]):
            text = path.read_text()
            self.full |= {f"{suite}.{name}" for suite, name in GOOGLE_TEST.findall(text)}
            instances += INSTANCE.findall(text)
        for prefix, suite in instances:
            self.full |= {f"{prefix}/{one}" for one in self.full if one.startswith(f"{suite}.")}
        for path in sorted((root / "tests").rglob("*_test.py")):
            self.texts[path.stem] = path.read_text()
            self.full |= {f"{path.stem}.{name}" for name in PYTHON_TEST.findall(self.texts[path.stem])}
        self.names = {one.rpartition(".")[2] for one in self.full}

    def has(self, name):
        """`name` as a page writes it; of a parameter only that its test is there."""
        name = re.sub(r"\[[^]]*\]$", "", name)
        name = re.sub(r"(\.[\w*]+)/.*$", r"\1", name)
        if "." not in name:
            return name in self.names
        return any(fnmatch.fnmatchcase(one, name) for one in self.full)


def looks_like_a_test(name):
    return bool(re.fullmatch(r"(?:\w+/)?\w+\.[\w*]+(?:/\w+)?(?:\[.*\])?|test_\w+(?:\[.*\])?"
                             r"|[A-Z]\w*[a-z]\w*", name))


def named_tests(cell):
    """Names in a table's cell, without ids that follow the test they belong to."""
    return [name for name in CODE.findall(cell) if looks_like_a_test(name)]


def rows_of(text, heading="test"):
    """(line number, cells) of each table whose last column is called `heading`."""
    wanted = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            wanted = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not wanted:
            wanted = bool(cells) and cells[-1] == heading
        elif not set(cells[-1]) <= set("-: "):
            yield number, cells

