# SPDX-License-Identifier: Apache-2.0
"""The house rules hold for this tree, and the checkers do catch what they are there to catch."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rig.process import is_alive

ROOT = Path(__file__).resolve().parent.parent.parent


sys.path.append(str(ROOT / "tools"))  # a tool may use another one


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_modules = load_tool("check_modules")
check_style = load_tool("check_style")
sum_results = load_tool("sum_results")


def write_tree(base, files):
    for name, text in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return base


def small_tree(tmp_path, **changed):
    files = {
        "modules.txt": "# lowest first\nlow\nmid\nfrontends/top\n",
        "low/CMakeLists.txt": "leat_module(low LIBS fmt::fmt)\n",
        "low/a.h": "#pragma once\n",
        "mid/CMakeLists.txt": "leat_module(mid DEPS low PCH)\n",
        "mid/b.cc": '#include "low/a.h"\n#include <vector>\n',
        "frontends/top/CMakeLists.txt": "leat_module(frontends/top DEPS low mid LIBS x)\n",
        "frontends/top/c.cc": '#include "mid/b.h"\n',
    }
    files.update(changed.get("files", {}))
    return write_tree(tmp_path, files)


def test_modules_of_this_tree():
    assert list(check_modules.check_tree(ROOT / "src")) == []


def test_modules_accepts_a_sound_tree(tmp_path):
    assert list(check_modules.check_tree(small_tree(tmp_path))) == []


@pytest.mark.parametrize("file, text, expected", [
    ("low/a.h", '#include "mid/b.h"\n', "does not declare mid"),
    ("frontends/top/CMakeLists.txt", "leat_module(frontends/top DEPS mid)\n", None),
    ("frontends/top/c.cc", '#include "low/a.h"\n#include <boost/beast.hpp>\n', "Beast stays"),
    ("mid/CMakeLists.txt", "leat_module(mid DEPS frontends/top)\n", "puts it below"),
    ("mid/CMakeLists.txt", "leat_module(mid DEPS gone)\n", "not in src/modules.txt"),
    ("mid/b.cc", '#include "b.h"\n', "without its module"),
    ("stray/z.cc", "\n", "lies in no module"),
    ("low/a.h", "#include <spdlog/spdlog.h>\n", "spdlog stays"),
])
def test_modules_catches(tmp_path, file, text, expected):
    violations = list(check_modules.check_tree(small_tree(tmp_path, files={file: text})))
    if expected is None:
        assert violations == []
    else:
        assert any(expected in line for line in violations), violations


def test_modules_catches_folders_in_a_circle(tmp_path):
    files = {"mid/one/a.h": '#include "mid/two/b.h"\n', "mid/two/b.h": "#pragma once\n",
             "mid/two/c.cc": '#include "mid/one/a.h"\n'}
    violations = list(check_modules.check_tree(small_tree(tmp_path, files=files)))
    assert len(violations) == 1
    assert "folders use each other in a circle: " in violations[0]
    assert "mid/one/a.h includes mid/two/b.h" in violations[0]
    # Tests may use any folder of their module.
    files["mid/two/c_test.cc"] = files.pop("mid/two/c.cc")
    (tmp_path / "tests").mkdir()
    assert list(check_modules.check_tree(small_tree(tmp_path / "tests", files=files))) == []


def test_style_of_this_tree():
    assert list(check_style.check_tree(ROOT)) == []


@pytest.mark.parametrize("name, text, expected", [
    ("src/r/a.cc", "int x;\n", "no 'SPDX"),
    ("src/r/a.cc", "// SPDX-License-Identifier: Apache-2.0\n" + "\n" * 501, "at most 500"),
    ("src/r/a.h", "// SPDX-License-Identifier: Apache-2.0\n", "#pragma once"),
    ("src/r/str_utils.cc", "// SPDX-License-Identifier: Apache-2.0\n", "names nothing"),
    ("src/r/a.cc", "// SPDX-License-Identifier: Apache-2.0\n// TO" "DO later\n", "leftover"),
    ("src/r/a.cc", "// SPDX-License-Identifier: Apache-2.0\n//" + "x" * 100 + "\n", "columns"),
    ("src/r/a.cc", "// SPDX-License-Identifier: Apache-2.0\nstd::istreambuf_" "iterator<char> x;\n",
     "throws where a read fails"),
])
def test_style_catches(tmp_path, name, text, expected):
    write_tree(tmp_path, {name: text})
    violations = list(check_style.check_tree(tmp_path))
    assert any(expected in line for line in violations), violations


KINDS = "// SPDX-License-Identifier: Apache-2.0\n#pragma once\nnamespace leat {\n%s\n}  // namespace leat\n"


@pytest.mark.parametrize("one, other, twice", [
    ("class A {\n};", "struct A {\n};", True),
    ("struct A : B {\n};", "enum class A : int { kB };", True),
    ("class A;", "class A {\n};", False),
    ("struct A {\n};", "struct B {\n  struct A {\n  };\n};", False),
    ("struct A {\n};", "struct A::C {\n};", False),
    ("struct A {\n};", "namespace {\nstruct A {\n};\n}  // namespace", False),
    ("struct A {\n};", "namespace deep {\nstruct A {\n};\n}  // namespace deep", False),
])
def test_a_type_is_defined_once(tmp_path, one, other, twice):
    write_tree(tmp_path, {"src/r/a.h": KINDS % one, "src/s/b.h": KINDS % other,
                          "src/s/c_test.h": KINDS % one})
    found = [line for line in check_style.check_tree(tmp_path) if "linker" in line]
    assert bool(found) == twice, found


@pytest.mark.parametrize("check", ["layout", "python", "rust"])
def test_lint_of_this_tree(check):
    done = subprocess.run([ROOT / "tools" / "lint", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sum_counts_a_suite_that_died(tmp_path, capsys, monkeypatch):
    good = tmp_path / "good.xml"
    good.write_text('<testsuite><testcase name="a"/><testcase name="b"><skipped/></testcase>'
                    '<testcase name="c"><failure/><system-out>early\n' + "line\n" * 60 +
                    'and why</system-out></testcase></testsuite>')
    monkeypatch.setattr("sys.argv", ["sum_results.py", f"a={good}", f"b={tmp_path}/missing.xml"])
    assert sum_results.main() == 1
    said = capsys.readouterr().out
    assert said.endswith("1 passed, 2 failed, 1 skipped\n")
    assert "FAILED: c" in said and "and why" in said and "early" not in said
    assert said.splitlines()[-3:-1] == ["  failed: c", f"  failed: {tmp_path}/missing.xml"]


def test_sum_counts_a_suite_that_was_ended(tmp_path, capsys, monkeypatch):
    good = tmp_path / "good.xml"
    good.write_text('<testsuite><testcase name="a"/></testsuite>')
    (tmp_path / "good.xml.over_time").touch()
    monkeypatch.setattr("sys.argv", ["sum_results.py", f"a={good}"])
    assert sum_results.main() == 1
    assert capsys.readouterr().out.endswith("1 passed, 1 failed\n")


def test_sum_names_a_suite_over_its_budget(tmp_path, capsys, monkeypatch):
    for name, seconds in (("quick", 10), ("slow", 100)):
        (tmp_path / f"{name}.xml").write_text('<testsuite><testcase name="a"/></testsuite>')
        (tmp_path / f"{name}.xml.seconds").write_text(f"{seconds}\n")
    monkeypatch.setattr("sys.argv", ["sum_results.py", f"quick={tmp_path}/quick.xml",
                                     f"slow={tmp_path}/slow.xml", "--budget", "quick=20",
                                     "--budget", "slow=20"])
    assert sum_results.main() == 0
    quick, slow = capsys.readouterr().out.splitlines()[:2]
    assert quick.endswith("10 s of 20 s") and slow.endswith("100 s of 20 s  OVER ITS BUDGET")


LIMITED = ROOT / "tools" / "run_limited.py"


def test_a_command_within_its_time_is_as_it_is():
    assert subprocess.run([LIMITED, "60", "sh", "-c", "exit 3"], check=False).returncode == 3


def test_a_timed_out_command_ends_its_children():
    done = subprocess.run([LIMITED, "0.5", "sh", "-c", "sleep 3333; true"],
                          stdout=subprocess.PIPE, text=True, check=False, timeout=100)
    assert done.returncode == 124
    assert "is over its 0.5 s" in done.stdout
    assert re.search(r"sleep 3333$", done.stdout, re.MULTILINE), done.stdout
    assert not is_alive(re.search(r"^ +(\d+) sleep 3333$", done.stdout, re.MULTILINE)[1])
