# SPDX-License-Identifier: Apache-2.0
"""A daemon that tells the kernel something and has to wait for itself.

A thread of it tells the kernel to forget a name, for which the kernel wants the lock of a folder in which
a program looks another name up; that lookup only the daemon can answer, or its successor.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from e2e.content import content
from rig.process import wait_until

MIB = 1024 * 1024

# Opens a file and its folder, and says so; then reads, or looks names of the folder up, as it is told,
# with the outcome of each.
READER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
folder = os.open(os.path.dirname(sys.argv[1]), os.O_PATH)
print("open", flush=True)
for line in sys.stdin:
    try:
        done = os.pread(fd, 4096, 0) if line == "read\\n" else os.stat(line[:-1], dir_fd=folder)
        print("got", len(done), flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


class Reader:
    def __init__(self, path):
        self.process = subprocess.Popen([sys.executable, "-c", READER, str(path)], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "open\n"

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")

    def answer(self):
        return self.process.stdout.readline().strip()


def thread_in(pid, function):
    """Whether a thread of the process waits in a function of the kernel, by name."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            if function in (thread / "stack").read_text():
                return True
        except OSError:
            continue
    return False


def tell_a_held_kernel(leat, front, s3, bucket, folder):
    """Mounts the bucket, whose d/f0 is there. (mount, daemon, a reader whose read meets a changed object,
    a reader that looks up a name that is not there); the store answers when front.hold(None) is called."""
    s3.put_object(Bucket=bucket, Key="d/old", Body=content("d/old", 1, 0, 9 * MIB + 512))
    mount = leat.mount(front, bucket, os.path.join(folder, "mnt"), freshness="max-age=2s")
    changed, waiting = Reader(mount / "d/old"), Reader(mount / "d/f0")
    s3.put_object(Bucket=bucket, Key="d/old", Body=content("d/old", 2, 0, 9 * MIB + 1024))
    time.sleep(2.2)  # what is believed of the names in d ends, and the next lookup lists them
    front.hold("prefix=d")
    waiting.ask("held")
    wait_until(lambda: front.held, "the lookup to wait for the store")
    daemon = leat.daemon_pid()
    changed.ask("read")  # finds that the object has changed
    wait_until(lambda: thread_in(daemon, "fuse_reverse_inval_entry"), "the kernel to be told")
    return mount, daemon, changed, waiting
