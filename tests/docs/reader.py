# SPDX-License-Identifier: Apache-2.0
"""Reads a page as a person would: at a machine of their own, with a store, its commands one after the
other in one shell. Run by pages_test.py: python -m docs.reader JOB, a file of JSON.

Answers, in RESULT beside JOB, each step that was run: the place in the page, exit status, output.
"""

import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

from docs import machine, servers
from docs.pages import ROOT, blocks, session

MARK = "\x1e"
SCRIPTS = Path("/run/page")
SCHEME = re.compile(r"\b(gs|az|hdfs)://|\b(etcd)1:2379")
LARGE = re.compile(r"^(?:import|from) (?:tensorflow|pyspark)", re.MULTILINE)

# An exit status that is not 0 ends the shell, and is told with the line of the page.
WATCH = f"""set -eE -o pipefail
trap 'code=$?; printf "{MARK}failed %s %s\\n" "$LINENO" "$code"' ERR
"""
LET_GO = "set +eE +o pipefail\ntrap - ERR\n"


class Step:
    """What is run at once: a block, or a command of a session."""

    def __init__(self, block, line, text, watched):
        self.block, self.line, self.text, self.watched = block, line, text, watched

    def script(self, number):
        """Written so that the shell's line numbers are those of the page."""
        path = SCRIPTS / f"{number}.sh"
        path.write_text("\n" * (self.line - 1) + self.text + "\n")
        before, after = (WATCH, LET_GO) if self.watched else ("", "")
        return f"printf '{MARK}begin {number}\\n'\n{before}. {path}\n{after}" \
               f"printf '{MARK}ended %s\\n' $?\n"


def steps_of(page, part):
    found = []
    for block in blocks(page):
        if part == "examples":
            if block.is_example_of_help:
                found += [Step(block, block.line + index, line, True)
                          for index, line in enumerate(block.text.splitlines())]
        elif block.info == "sh":
            found.append(Step(block, block.line, block.text, True))
        elif block.info == "console":
            found += [Step(block, one.line, one.text, False) for one in session(block)]
        elif block.info == "python":
            name = re.match(r"# file: (\S+)\n", block.text)
            if name is None:
                raise ValueError(f"{block.place}: a program begins with '# file: NAME'")
            write = f"cat > {name[1]} <<'{MARK}'\n{block.text}{MARK}"
            found.append(Step(block, block.line, write, True))
    return found


def wanted(steps):
    """Schemes of the stores that the steps name, and etcd."""
    return {word for step in steps for words in SCHEME.findall(step.text) for word in words if word}


def search_path(steps, job):
    """With the Python that has what the page's programs import in front."""
    programs = "".join(step.block.text for step in steps if step.block.info == "python")
    if not programs:
        return machine.environment()["PATH"]
    which = "docs-large" if LARGE.search(programs) else "docs"
    return f"{job['deps']}/{which}/bin:{machine.environment()['PATH']}"


def shell(steps, job, environment):
    SCRIPTS.mkdir()
    text = "exec </dev/null\n"
    for before in job["before"]:
        text += f"printf '{MARK}before {before}\\n'\n{WATCH}. {ROOT / before} {job['part']}\n{LET_GO}" \
                f"printf '{MARK}ended 0\\n'\n"
    text += "".join(step.script(number) for number, step in enumerate(steps))
    (SCRIPTS / "all.sh").write_text(text)
    said = Path(job["folder"], "output")  # where it can be read when this machine is gone
    with open(said, "wb") as output:
        subprocess.run(["bash", SCRIPTS / "all.sh"], stdout=output, stderr=output, check=False,
                       cwd=machine.HOME, env=environment)
    return said.read_text(errors="replace")


def log_of_the_daemon():
    try:
        lines = Path("/run/leat/daemon.log").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return lines[-15:]


def told(output, steps):
    """What was run, in its order: the last one may have failed."""
    found = []
    for part in output.split(MARK)[1:]:
        head, _, said = part.partition("\n")
        what, *words = head.split(" ")
        if what == "begin":
            step = steps[int(words[0])]
            found.append({"page": step.block.page, "line": step.line, "code": None, "at": step.line,
                          "output": said})
        elif what == "before":
            found.append({"page": words[0], "line": 1, "code": None, "at": 1, "output": said})
        elif what == "ended":
            found[-1]["code"] = int(words[0])
        else:
            found[-1].update(code=int(words[1]), at=int(words[0]))
            found[-1]["output"] += said
    return found


def read(job):
    steps = steps_of(job["page"], job["part"])
    environment = {**machine.environment(), **servers.start_for(wanted(steps), job["sets"]),
                   "PATH": search_path(steps, job), "TEST_FOLDER": job["folder"], **job["java"]}
    output = shell(steps, job, environment)
    return {"steps": told(output, steps), "log": log_of_the_daemon()}


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    job["sets"] = {name: Path(files) for name, files in job["sets"].items()}
    result = Path(job["folder"], "result.json")

    def work():
        try:
            answer = read(job)
        except Exception:  # of whatever kind: it is told outside
            answer = {"error": traceback.format_exc()}
        # All at once, since who waits for it may end this machine any time.
        part = result.with_suffix(".part")
        part.write_text(json.dumps(answer))
        os.replace(part, result)
        return 0

    machine.become(job["folder"], job["leat"])
    machine.serve_as_first(work)


if __name__ == "__main__":
    main()
