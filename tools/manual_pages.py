#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages out of the pages of docs/ that say the same: leat(1), leat-COMMAND(1), leat.toml(5).
go-md2man makes roff of them. Usage: tools/manual_pages.py DIR"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\([^)\s]+\)")
MARK = re.compile(r"<!--.*?-->\n?", re.DOTALL)
TITLE = re.compile(r"\A# (.+)\n")
HEADING = re.compile(r"^#(#+ )", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def outside_of_code(text, change):
    """`change` of all that stands in no fenced block, where # is no heading."""
    out, at = [], 0
    for block in FENCE.finditer(text):
        out += [change(text[at:block.start()]), block[0]]
        at = block.end()
    return "".join([*out, change(text[at:])])


def manual(text, name, section, summary, see):
    """In the form that go-md2man reads: the headings of a manual page are of the first level."""
    text = TITLE.sub("", MARK.sub("", text))
    text = outside_of_code(text, lambda part: HEADING.sub(r"\1", LINK.sub(r"\1", part)))
    return (f"% {name.upper()} {section} \"\" \"Leat\" \"Leat\"\n\n# NAME\n\n{name} - {summary}\n\n"
            f"# DESCRIPTION\n\n{text.strip()}\n\n# SEE ALSO\n\n{see}\n")


def first_sentence(text):
    """Of a command's page: what the program says of it."""
    text = TITLE.sub("", MARK.sub("", text)).strip()
    line = text.splitlines()[0].rstrip(".")
    return line[0].lower() + line[1:]


def write(folder, name, section, text):
    done = subprocess.run(["go-md2man"], input=text, check=True, capture_output=True, text=True)
    (folder / f"{name}.{section}").write_text(done.stdout)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    commands = sorted((ROOT / "docs/commands").glob("*.md"))
    names = ", ".join(f"leat-{page.stem}(1)" for page in commands)
    write(folder, "leat", 1, manual((ROOT / "docs/cli.md").read_text(), "leat", 1,
                                    "show stores as folders, with a cache on local disks",
                                    f"{names}, leat.toml(5), mount.leat(8)"))
    write(folder, "leat.toml", 5, manual((ROOT / "docs/configuration.md").read_text(), "leat.toml",
                                         5, "options of the daemon of leat", "leat(1)"))
    for page in commands:
        text = page.read_text()
        write(folder, f"leat-{page.stem}", 1,
              manual(text, f"leat-{page.stem}", 1, first_sentence(text), "leat(1)"))


if __name__ == "__main__":
    main()
