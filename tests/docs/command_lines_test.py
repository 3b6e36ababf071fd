# SPDX-License-Identifier: Apache-2.0
"""What stands in the pages could be run: kinds of blocks are known, shells can read them, and each
`leat …` is a command with flags that there are. Nothing is run here but the reference."""

import json
import subprocess

import pytest

from docs.command_lines import command_lines, unknown, wrong
from docs.pages import READ, RUN, SHOWN, blocks, mentions, pages, shell_text
from rig.leat import leat_program


@pytest.fixture(scope="session")
def reference():
    done = subprocess.run([leat_program(), "reference"], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.mark.parametrize("page", pages())
def test_blocks_say_what_they_are(page):
    known = RUN | READ | SHOWN
    assert [block.place for block in blocks(page) if block.info not in known] == []


@pytest.mark.parametrize("page", pages())
def test_a_shell_can_read_them(page):
    for block in blocks(page):
        text = shell_text(block)
        if text and block.info != "ini":
            done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=10)
            assert done.returncode == 0, f"{block.place}: {done.stderr}"


@pytest.mark.parametrize("page", pages())
def test_commands_and_flags_exist(page, reference):
    found = [f"{block.place}: leat {' '.join(words)}: {what}"
             for block in blocks(page)
             for words in command_lines(shell_text(block))
             for what in wrong(reference, words)]
    assert found == []


# Pages of designs speak of what is to be, too.
@pytest.mark.parametrize("page", [page for page in pages() if not page.startswith("docs/design/")])
def test_commands_and_flags_in_prose_exist(page, reference):
    found = [f"{page}:{line}: {code}: {what}"
             for line, code in mentions(page)
             for words in command_lines(code)
             for what in unknown(reference, words)]
    assert found == []


LS = {"name": "ls", "parts": [], "arguments": [
    {"name": "PATH", "flags": [], "value": "PATH", "choices": [], "required": False, "repeated": False},
    {"name": "", "flags": ["-l", "--long"], "value": "", "choices": [], "required": False,
     "repeated": False}]}
RUN_IT = {"name": "jobs", "arguments": [], "parts": [{"name": "jobs show", "parts": [], "arguments": [
    {"name": "JOB", "flags": [], "value": "JOB", "choices": [], "required": True, "repeated": False},
    {"name": "", "flags": ["-n", "--as"], "value": "KIND", "choices": ["text", "table"],
     "required": False, "repeated": False}]}]}
SMALL = {"commands": [LS, RUN_IT]}


@pytest.mark.parametrize("mention, expected", [
    ("leat ls", []),
    ("leat COMMAND --help", []),
    ("leat 0.1.0", []),
    ("leat jobs show", []),
    ("leat jobs …", []),
    ("leat jobs shows", []),
    ("leat load", ["there is no command 'load'"]),
    ("leat ls --longer", ["ls: there is no flag --longer"]),
])
def test_a_mention(mention, expected):
    assert [what for words in command_lines(mention) for what in unknown(SMALL, words)] == expected


@pytest.mark.parametrize("line, expected", [
    ("leat ls -l /mnt/train", []),
    ("leat ls --help", []),
    ("X=1 sudo /usr/local/bin/leat ls | grep -q leat", []),
    ("diff <(leat ls a) <(leat lss b)", ["there is no command 'lss'"]),
    ("cat x && leat ls --all", ["ls: there is no flag --all"]),
    ("leat ls a b", ["ls: takes no 'b'"]),
    ("leat ls a > b 2>&1", []),
    ("leat ls \\\n  --longer", ["ls: there is no flag --longer"]),
    ("leat jobs", []),
    ("leat jobs shows 3", ["there is no command 'jobs shows'"]),
    ("leat jobs show", ["jobs show: needs JOB"]),
    ("leat jobs show …", []),
    ("leat jobs show --as=table 3", []),
    ("leat jobs show --as tree 3", ["jobs show: --as takes text, table, not 'tree'"]),
    ("leat jobs show 3 --as", ["jobs show: --as needs a value"]),
    ("leat jobs show -n text --as text 3", ["jobs show: --as is given twice"]),
    ("leat --version", []),
    ("leat --json ls", ["there is no command"]),
    ("echo leat nothing; ls leat nothing", []),
])
def test_a_command_line(line, expected):
    assert [what for words in command_lines(line) for what in wrong(SMALL, words)] == expected
