# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation and their blocks of code; docs/ci.md says what the kinds mean."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"( *)```(.*)")
EXAMPLES = "Examples:"

# Run as they stand, top to bottom, in one shell.
RUN = {"sh", "python", "console"}
# Commands that need what a test has not got; they are read and not run.
READ = {f"{kind} {needs}" for kind in ("sh", "console")
        for needs in ("cloud-only", "other-program", "checkout", "administrator")}
SHOWN = {"text", "toml", "ini", "json", "yaml"}


class Block(NamedTuple):
    page: str  # below the root of the repository
    line: int  # of its first line of content, from 1
    info: str
    text: str
    after: str  # the line of prose above it

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    @property
    def is_example_of_help(self):
        """What `leat COMMAND --help` shows, too; tools/reference wrote it."""
        return self.info == "text" and self.after == EXAMPLES


def pages():
    """The README and all pages of docs/ that are about using Leat."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def blocks(page, text=None):
    """The blocks of a page, in its order. A fence may be indented, as in a list."""
    lines = ((ROOT / page).read_text() if text is None else text).splitlines()
    found, opened, above = [], None, ""
    for number, line in enumerate(lines, 1):
        fence = FENCE.fullmatch(line)
        if opened is None:
            if fence:
                opened = (number + 1, fence[1], fence[2].strip(), [])
            elif line.strip():
                above = line.strip()
        elif fence and fence[1] == opened[1] and not fence[2]:
            first, _, info, content = opened
            found.append(Block(page, first, info, "".join(f"{one}\n" for one in content), above))
            opened = None
        else:
            opened[3].append(line.removeprefix(opened[1]))
    if opened is not None:
        raise ValueError(f"{page}:{opened[0] - 1}: this block of code does not end")
    return found


def mentions(page):
    """What stands as code within the prose of a page, with its line."""
    lines, inside = (ROOT / page).read_text().splitlines(), False
    for number, line in enumerate(lines, 1):
        if FENCE.fullmatch(line):
            inside = not inside
        elif not inside:
            yield from ((number, code) for code in re.findall(r"`([^`]+)`", line))


class Command(NamedTuple):
    """Of a session: a command as it was typed, and what it said."""
    line: int
    text: str
    output: list


def session(block):
    """`$ command`, further lines of it after `> `, and what follows up to the next one."""
    commands = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            commands.append(Command(number, line[2:], []))
        elif not commands:
            raise ValueError(f"{block.page}:{number}: a session begins with '$ command'")
        elif line.startswith("> ") and not commands[-1].output:
            last = commands.pop()
            commands.append(last._replace(text=f"{last.text}\n{line[2:]}"))
        else:
            commands[-1].output.append(line)
    return commands


def shell_text(block):
    """The block as a shell would be given it, its lines where they are; empty where it is no shell's."""
    if block.info.split()[:1] == ["console"]:
        at = {command.line: command.text for command in session(block)}
        last, lines = block.line, []
        for number in sorted(at):
            lines += [""] * (number - last) + at[number].split("\n")
            last = block.line + len(lines)
        return "\n".join(lines) + "\n"
    if block.info == "sh" or block.info in READ or block.is_example_of_help:
        return block.text
    if block.info == "ini":  # a unit of systemd
        return re.sub(r"^(?:Exec\w+=(.*)|.*)$", lambda line: line[1] or "", block.text, flags=re.M)
    return ""
