# SPDX-License-Identifier: Apache-2.0
"""Every command of the documentation is run, page by page, and what sessions show is compared."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from docs import data, machine
from docs.command_lines import command_lines
from docs.pages import ROOT, RUN, blocks, pages, session
from docs.reader import MARK
from docs.session import fits, is_within
from rig import leftovers, schemas
from rig.leat import leat_program

LIMIT_S = 240
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a machine out of namespaces needs root")

# Pages of single commands show a handful of files, the others the sets of a training.
SMALL = ("docs/commands/", "docs/cli.md", "docs/inspection.md", "docs/control-socket.md",
         "docs/configuration.md")


def runnable():
    return [page for page in pages() if any(block.info in RUN for block in blocks(page))]


# Runs until it is ended, beside an etcd of several machines; tests/e2e/cluster_test.py starts workers.
ENDLESS = {"docs/commands/worker.md"}


def with_examples():
    return [page for page in pages() if page not in ENDLESS
            and any(block.is_example_of_help for block in blocks(page))]


def before(page):
    """Scripts of tests/docs/before that prepare the machine: of the page's folder, then of the page."""
    folder = Path("tests/docs/before")
    scripts = [folder / Path(page).parent / "each.sh", folder / f"{page}.sh"]
    return [str(one) for one in scripts if (ROOT / one).exists()]


def dependencies():
    return Path(os.environ.get("LEAT_DEPS_DIR") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "leat-build"))


@pytest.fixture(scope="session")
def sets():
    folder = leftovers.make_folder()
    made = {}
    for name, files in data.SETS.items():
        made[name] = os.path.join(folder, name)
        data.write(made[name], files())
    yield made
    leftovers.clear(folder)


def read(page, part, folder, sets):
    """Has a reader go through it; answers the steps, and what the daemon logged last."""
    deps = dependencies()
    files = sets["small" if page.startswith(SMALL) else "train"]
    java = os.path.realpath(deps / "hdfs" / "java")
    job = {"page": page, "part": part, "folder": folder, "sets": {"train": files}, "deps": str(deps),
           "leat": os.path.realpath(leat_program()), "before": before(page),
           "java": {"JAVA_HOME": java.removesuffix("/bin/java")}}
    path = Path(folder, "job.json")
    path.write_text(json.dumps(job))
    try:
        done = subprocess.run(machine.words("docs.reader", path), timeout=LIMIT_S, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=machine.outside(deps, folder), check=False)
    except subprocess.TimeoutExpired:
        pytest.fail(f"{page}: not at its end after {LIMIT_S} s. {printed_last(folder)}", pytrace=False)
    result = Path(folder, "result.json")
    if not result.exists():
        pytest.fail(f"{page}: the reader's machine ended with {done.returncode}: {done.stdout}\n"
                    + printed_last(folder), pytrace=False)
    answer = json.loads(result.read_text())
    assert "error" not in answer, f"{page}: {answer['error']}"
    return answer["steps"], answer["log"]


def printed_last(folder, lines=30):
    """Of a page that did not come to its end; `begin N` is its N-th block or command of a session."""
    try:
        said = Path(folder, "output").read_text(errors="replace")
    except FileNotFoundError:
        return "Nothing of it was run."
    return "\n".join(["It printed last:", *said.replace(MARK, "== ").splitlines()[-lines:]])


def fail(step, what, log):
    place = Path(ROOT, step["page"]).read_text().splitlines()[step["at"] - 1].strip()
    said = step["output"].rstrip() or "(nothing)"
    lines = [f"{step['page']}:{step['at']}: {place}", what, "It printed:", said]
    if log:
        lines += ["The daemon's log ends with:", *log]
    pytest.fail("\n".join(lines), pytrace=False)


def shown_output(page):
    """Line of a block or command -> what the page says that it prints, and whether that is all of it."""
    found, all_blocks = {}, blocks(page)
    for block, after in zip(all_blocks, [*all_blocks[1:], None]):
        if block.info == "console":
            found.update({one.line: (one.output, True) for one in session(block)})
        elif block.info == "sh" and after is not None and after.info == "text":
            if after.line == block.line + block.text.count("\n") + 2:  # right behind it
                found[block.line] = (after.text.splitlines(), False)
    return found


def fails_as_shown(said):
    return any(line.startswith("leat: ") for line in said)


def check(page, part, steps, log):
    shown = shown_output(page) if part == "page" else {}
    for step in steps:
        said, is_all = shown.get(step["line"], ([], False)) if step["page"] == page else ([], False)
        if step["code"] is None:
            fail(step, "The shell ended here.", log)
        if step["code"] != 0 and not (is_all and fails_as_shown(said)):
            fail(step, f"It ended with {step['code']}.", log)
        printed = step["output"].splitlines()
        if not (fits(said, printed) if is_all else is_within(said, printed)):
            fail(step, "The page says that it prints:\n" + "\n".join(said), log)


def check_json(page, steps):
    """What was printed is of its schema, also where the page leaves some of it out."""
    commands = {one.line: command_lines(one.text) for block in blocks(page) if block.info == "console"
                for one in session(block) if "|" not in one.text}
    for step in steps:
        called = commands.get(step["line"], []) if step["page"] == page else []
        if len(called) == 1 and "--json" in called[0]:
            schemas.check(called[0], step["output"][step["output"].index("{\n"):])


@needs_root
@pytest.mark.parametrize("page", runnable())
def test_page(page, folder, sets):
    steps, log = read(page, "page", folder, sets)
    check(page, "page", steps, log)
    check_json(page, steps)
    ran = {step["line"] for step in steps if step["page"] == page}
    assert ran >= {block.line for block in blocks(page) if block.info in RUN}


@needs_root
@pytest.mark.parametrize("page", with_examples())
def test_examples_of_help(page, folder, sets):
    steps, log = read(page, "examples", folder, sets)
    check(page, "examples", steps, log)
    examples = [block for block in blocks(page) if block.is_example_of_help]
    assert len([step for step in steps if step["page"] == page]) == \
        sum(block.text.count("\n") for block in examples)
