# SPDX-License-Identifier: Apache-2.0
"""The language rule counts what it is meant to count, and lets no file get worse."""

import json

import pytest

from rules.rules_test import ROOT, load_tool, write_tree

check_language = load_tool("check_language")
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


def test_language_of_this_tree():
    assert list(check_language.check_tree(ROOT)) == []


@pytest.mark.parametrize("name, text, rule, expected", [
    ("src/r/a.h", SPDX + "// Of each reader.\nint x;\n", "opening", 1),
    ("src/r/a.h", SPDX + "// The bytes.\n// What follows is one block.\nint x;\n", "opening", 0),
    ("src/r/a.h", SPDX + "// Offset of the page.\nint x;\n", "opening", 0),
    ("src/r/a.h", SPDX + "int x;  // What it holds\nint y;  // of two lines\n", "opening", 1),
    ("src/r/a.h", SPDX + 'auto x = "http:// Who";\n', "opening", 0),
    ("src/r/a.h", SPDX + "// The reader who waits, whose bytes are told.\n", "who", 2),
    ("src/r/a.h", SPDX + "// The reader who waits, whose bytes are told.\n", "word", 1),
    ("src/r/a.h", SPDX + "// The page " + "is read " * 15 + ".\n", "long", 1),
    ("src/r/a.h", SPDX + "//" + " The page is read." * 8 + "\n", "long", 0),
    ("src/r/a_test.cc", SPDX + "TEST_F(ATest, " + "N" * 41 + ") {}\nTEST(A, B) {}\n", "test_name", 1),
    ("tests/a_test.py", "def test_" + "n" * 36 + "():\n    pass\n", "test_name", 1),
    ("tools/a.py", '"""Who calls."""\n# Nobody waits.\n', "opening", 2),
    ("tools/a.sh", "#!/bin/sh\n# What it does\necho '# Who'\n", "opening", 1),
    ("docs/a.md", "# What a page is\n\nIt has bytes. Of these some are read.\n", "opening", 2),
    ("docs/a.md", "| Who | the reader |\n|---|---|\n| `who` | x |\n", "opening", 1),
    ("docs/a.md", "```sh\n# Who\n```\n<!-- Whose -->\n", "opening", 0),
    ("src/r/README.md", "word " * 510, "readme", 10),
    ("docs/a.md", "word " * 510, "readme", 0),
])
def test_language_counts(name, text, rule, expected):
    assert check_language.count(name, text)[rule] == expected


def test_language_gets_no_worse(tmp_path):
    write_tree(tmp_path, {"docs/a.md": "Who reads? The page.\n", "docs/b.md": "Fine.\n"})
    allow(tmp_path, {"docs/a.md": {"opening": 1, "who": 1}})
    assert list(check_language.check_tree(tmp_path)) == []
    write_tree(tmp_path, {"docs/b.md": "Who reads?\n"})
    assert "docs/b.md: 1 (allowed 0)" in next(iter(check_language.check_tree(tmp_path)))
    check_language.update(tmp_path)
    assert list(check_language.check_tree(tmp_path)), "an update raises no count"


def test_language_that_is_better_is_kept(tmp_path):
    write_tree(tmp_path, {"docs/a.md": "The page.\n"})
    allow(tmp_path, {"docs/a.md": {"opening": 1}, "docs/gone.md": {"who": 2}})
    assert len(list(check_language.check_tree(tmp_path))) == 2
    check_language.update(tmp_path)
    assert allowed(tmp_path) == {}


def test_language_moves_with_its_file(tmp_path):
    write_tree(tmp_path, {"docs/new.md": "Who reads? Whose page?\n", "docs/other.md": "Who asks?\n"})
    allow(tmp_path, {"docs/old.md": {"opening": 2, "who": 2}})
    check_language.update(tmp_path)
    assert allowed(tmp_path) == {"docs/new.md": {"opening": 2, "who": 2}}


def allow(tree, counts):
    write_tree(tree, {check_language.COUNTS: json.dumps(counts)})


def allowed(tree):
    return json.loads((tree / check_language.COUNTS).read_text())
