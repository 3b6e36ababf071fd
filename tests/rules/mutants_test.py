# SPDX-License-Identifier: Apache-2.0
"""The mutation tool finds the places that it is meant to find, and changes nothing but these."""

import importlib
import re
import subprocess
from typing import NamedTuple

import pytest

from rules.rules_test import ROOT

SITES = ROOT / "tools" / "mutation" / "sites.py"


def sites_in(tmp_path, body, before=""):
    source = tmp_path / "a.cc"
    source.write_text(f"{before}int work();\nbool f(int a, int b, bool c) {{\n{body}\n}}\n")
    done = subprocess.run([SITES, source, "-std=c++23"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [re.sub(r"^.*?:\d+: ", "", line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("body, expected", [
    ("return a < b;", ["operator: `<` → `<=`"]),
    ("return a == b && c;", ["operator: `==` → `!=`", "operator: `&&` → `||`"]),
    ("if (a >= b) work();\nreturn c;",
     ["condition: `a >= b` → `!(a >= b)`", "operator: `>=` → `>`"]),
    ("if (!c) return c;\nreturn !c;",
     ["condition: `!` → `nothing`", "condition: `!` → `nothing`"]),
    ("work();\nreturn c;", ["statement: `work()` → `nothing`"]),
    ("a += 7;\nreturn c;",
     ["statement: `a += 7` → `nothing`", "operator: `+=` → `-=`", "literal: `7` → `8`"]),
    ("return true;", ["literal: `true` → `false`"]),
    ("for (;;) break;\nreturn c;", ["jump: `break` → `continue`"]),
    ("while (c) ++a;\nreturn c;", ["condition: `c` → `!(c)`", "operator: `++` → `--`"]),
    ("return c;", []),
])
def test_places_are_found(tmp_path, body, expected):
    assert sorted(sites_in(tmp_path, body)) == sorted(expected)


def test_checks_logs_and_constants_are_left_alone(tmp_path):
    body = "LEAT_CHECK(a < b);\nlog::info(a + b);\nreturn c;"
    before = ("#define LEAT_CHECK(x) ((x) ? (void)0 : __builtin_trap())\n"
              "namespace log { void info(int); }\nconstexpr int kMany = 1 + 2;\n")
    assert sites_in(tmp_path, body, before) == []


def test_a_source_that_does_not_parse_is_an_error(tmp_path):
    source = tmp_path / "a.cc"
    source.write_text("int f( {\n")
    done = subprocess.run([SITES, source], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "cannot parse" in done.stderr


def test_a_report_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(SITES.parent))
    report = importlib.import_module("report").Report(tmp_path, "a")

    class Site(NamedTuple):
        file: str
        start: int

    report.write(60, 700, 1, [Site("src/a/a.cc", 90), Site("src/a/a.cc", 30)])
    assert (tmp_path / "a.md").read_text().splitlines()[0] == "| a | 60 of 700 | 1 | 58 | 97 % |"
    assert report.read() == (60, 700, "1", {str(Site("src/a/a.cc", start)) for start in (30, 90)})
