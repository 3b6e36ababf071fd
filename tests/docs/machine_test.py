# SPDX-License-Identifier: Apache-2.0
"""The reader's machine leaves nothing, and what a page says is compared as it should be."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from docs import machine
from docs.pages import blocks, session, shell_text
from docs.pages_test import dependencies, needs_root
from docs.session import fits, is_within
from rig.leat import leat_program
from rig.process import is_alive, wait_until

# Does as a page does, a mount of another name space among it, then says so and waits for its end.
INSIDE = """
import os, subprocess, sys, time
from pathlib import Path
from docs import machine
machine.become(sys.argv[1], sys.argv[2])
Path("/mnt/train").mkdir()
Path("/etc/left").touch()
Path("/fast/left").touch()
environment = {**machine.environment(), "TEST_FOLDER": sys.argv[1]}
subprocess.check_output(["leat", "mount", "/usr", "/mnt/train"], env=environment)
sleeper = subprocess.Popen(["sleep", "1000"], env=environment)
print(len(os.listdir("/mnt/train")), flush=True)
time.sleep(1000)
"""


def pids_at(folder):
    """Processes whose environment names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and folder.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@needs_root
def test_a_machine_that_is_killed_leaves_nothing(folder):
    (Path(folder) / "inside.py").write_text(INSIDE)
    before = sorted(os.listdir("/mnt"))
    words = machine.words("inside", folder, os.path.realpath(leat_program()))
    environment = machine.outside(dependencies(), folder)
    environment["PYTHONPATH"] += f":{folder}"
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert int(process.stdout.readline() or 0) > 3, "the folder of that machine"
    pids = pids_at(folder)
    assert len(pids) >= 4  # unshare, the first process, the daemon, a program
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    wait_until(lambda: not any(map(is_alive, pids)), "the end of all that was started there")
    assert sorted(os.listdir("/mnt")) == before
    assert folder not in Path("/proc/self/mounts").read_text()
    assert not os.path.exists("/etc/left")
    assert os.path.exists(os.path.join(folder, "fast", "left"))


@pytest.mark.parametrize("said, printed, expected", [
    ("a  b", "a      b", True),
    ("a b", "a c", False),
    ("at 2026-11-21T14:45:56Z", "at 2027-01-01T00:00:00.123Z", True),
    ("loaded 4 files, 2.9 MiB (2.9 MiB fetched) in 0.0s, 191.0 MiB/s",
     "loaded 4 files, 2.9 MiB (2.9 MiB fetched) in 12.3s, 2.5 GiB/s", True),
    ("loaded 4 files in 0.0s", "loaded 5 files in 0.0s", False),
    ("0.2.0 (pid 2713)", "0.1.0 (pid 3)", True),
    ("2.9 MiB of 8.0 GiB used, 1 file", "2.9 MiB of 6.9 GiB used, 1 file", True),
    ("2.9 MiB of 8.0 GiB used, 1 file", "2.8 MiB of 8.0 GiB used, 1 file", False),
    ("cannot read x: …", "cannot read x: the reason", True),
    ("cannot read x: …", "cannot read y: the reason", False),
    ("a\n…\nd", "a\nb\nc\nd", True),
    ("a\n…", "a", True),
    ("a\n…", "a\nb", True),
    ("…\nb", "a\nb\nc", False),
    ("a\n…\nd", "a\nb", False),
    ("a", "a\nb", False),
    ("a\nb", "a", False),
    ("version  etag:\"0x21C8\"", "version  etag:\"0x21D9\"", True),
    ("version  etag:\"21c8\"", "version  etag:\"21d9\"", False),
    ("  passthrough,readdirplus,survives", "  readdirplus", True),
])
def test_a_session_is_what_was_printed(said, printed, expected):
    assert fits(said.splitlines(), printed.splitlines()) is expected


def test_output_is_found_within_more():
    assert is_within(["b", "c"], ["a", "b", "c", "d"])
    assert not is_within(["b", "d"], ["a", "b", "c", "d"])


PAGE = """Text
   ```sh
   leat ls
     two
   ```
Examples:
```text
leat stat
```
```console
$ cat <<END
> x
> END
x

$ leat ls
```
"""


def test_blocks_of_a_page():
    shell, example, console = blocks("page.md", PAGE)
    assert (shell.line, shell.info, shell.text) == (3, "sh", "leat ls\n  two\n")
    assert example.is_example_of_help and not console.is_example_of_help
    first, second = session(console)
    assert (first.line, first.text, first.output) == (11, "cat <<END\nx\nEND", ["x", ""])
    assert (second.line, second.text, second.output) == (16, "leat ls", [])
    assert shell_text(console).splitlines() == ["cat <<END", "x", "END", "", "", "leat ls"]
    with pytest.raises(ValueError, match="page.md:2.* does not end"):
        blocks("page.md", "\n```sh\n")
