# SPDX-License-Identifier: Apache-2.0
"""A real S3 server (versitygw over a folder) on loopback, and what it was asked.

Requests are counted in the server's own access log, bytes in what the kernel saw the server write:
both know nothing of Leat.
"""

import collections
import contextlib
import os
import random
import re
import socket
import subprocess
from pathlib import Path

from rig.process import bytes_written, cpu_seconds, wait_until

ACCESS_KEY = "leat-rig"
SECRET_KEY = "leat-rig-secret"
REGION = "us-east-1"
PORTS = (12000, 32000)
# The sockets of free_port(), oldest first: of more ports than a test uses.
MARKS_MAX = 200
taken_ports = collections.deque()
OPERATION = re.compile(r" s3_(\w+) ")
# "bucket [time] client requester id operation key": the key, percent-encoded as the request had it.
REQUEST = re.compile(r" s3_(\w+) (\S+) (\S+) (\d{3}) ")


def server_program():
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    program = os.path.join(deps, "bin", "versitygw")
    if not os.access(program, os.X_OK):
        raise RuntimeError(f"no S3 server at {program}: run tools/setup test")
    return program


def free_port():
    """Below those that the kernel gives to connections (ip_local_port_range), one of which may take it
    before its server starts, or while that is stopped. A UDP socket, which is in no server's way,
    keeps it from the other processes that run tests."""
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as probe, contextlib.ExitStack() as undo, contextlib.suppress(OSError):
            mark = undo.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            mark.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
            undo.pop_all()
            taken_ports.append(mark)
            if len(taken_ports) > MARKS_MAX:
                taken_ports.popleft().close()
            return port


class Store:
    """versitygw over `folder`/data. Start, stop and start again keep port and objects. `before` are
    words in front of its command line, as of `ip netns exec`; `host` is its address there."""

    def __init__(self, folder, port=None, host="127.0.0.1", before=()):
        self.folder = Path(folder)
        self.data = self.folder / "data"
        self.log = self.folder / "access.log"
        self.port = port or free_port()
        self.host, self.before = host, list(before)
        self.process = None
        self.data.mkdir(parents=True, exist_ok=True)

    @property
    def endpoint(self):
        return f"http://{self.host}:{self.port}"

    @property
    def credentials(self):
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        assert self.process is None
        environment = dict(os.environ, ROOT_ACCESS_KEY=ACCESS_KEY, ROOT_SECRET_KEY=SECRET_KEY)
        with open(self.folder / "server.log", "ab") as output:
            self.process = subprocess.Popen(
                [*self.before, server_program(), "--port", f"{self.host}:{self.port}",
                 "--keep-alive", "--quiet", "--region", REGION, "--access-log", str(self.log),
                 "posix", str(self.data)],
                env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        wait_until(self._answers, f"the S3 server on port {self.port}")
        return self

    def _answers(self):
        if self.process.poll() is not None:
            output = (self.folder / "server.log").read_text()[-2000:]
            raise RuntimeError(f"the S3 server ended with {self.process.returncode}: {output}")
        try:
            socket.create_connection((self.host, self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def stop(self):
        """At once, as a machine that fails does; a polite end waits for idle connections."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def bucket(self, name):
        """Makes a bucket by its folder; the server takes folders as buckets."""
        (self.data / name).mkdir(exist_ok=True)
        return name

    def requests(self):
        """Requests answered so far, as (operation, key, uri, HTTP status)."""
        if not self.log.exists():
            return []
        return REQUEST.findall(self.log.read_text(errors="replace"))

    def counters(self):
        """Requests and bytes since the server started; bytes without those of its own log."""
        return {"requests": len(self.requests()),
                "bytes": bytes_written(self.pid) - self.log.stat().st_size,
                "cpu_s": cpu_seconds(self.pid)}
