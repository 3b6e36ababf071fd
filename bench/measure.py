# SPDX-License-Identifier: Apache-2.0
"""What the layers measure with: the readers, ratios, and the store's raw streams.

A measurement is a dictionary with at least `bytes`, `seconds` and `cpu_s` (of the reader, seconds).
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
STREAMS, RANGE_BYTES = 8, 8 * MIB


class NotRun(Exception):
    """A row, or a part of it, that this machine or binary has not got what it takes for."""


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def drop_page_cache():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def compiled(source, program):
    """`program`, made of one C++ file of this folder."""
    subprocess.run(["clang++-19", "-std=c++23", "-O2", "-pthread", ROOT / "bench" / source,
                    "-o", program], check=True)
    return program


def run_json(*words, environment=None, timeout_s=None):
    """What a program prints as one JSON document."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment,
                          timeout=timeout_s, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Ballast:
    """Free memory, kept from the host: bench/ballast.cc. It is there while this process is."""

    def __init__(self, folder, bytes_max):
        self.process = subprocess.Popen(
            [compiled("ballast.cc", Path(folder) / "ballast"), str(bytes_max)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def take(self):
        """What is free now, so that whoever needs memory next has it at once."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        if not self.process.stdout.readline():
            raise RuntimeError("the program that holds free memory has ended")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Reader:
    """bench/reader.cc, and ratios of what is measured with it, with memory at hand."""

    def __init__(self, folder, held_bytes_max=64 * GIB):
        self.program = compiled("reader.cc", Path(folder) / "reader")
        self.ballast = Ballast(folder, held_bytes_max)

    def read(self, *words, timeout_s=None):
        return run_json(self.program, *words, timeout_s=timeout_s)

    def settled(self, measure, cold=False):
        """`measure` with memory at hand; cold: with the page cache empty."""
        if cold:
            drop_page_cache()
        self.ballast.take()
        return measure()

    def between(self, reference, subject, cold=False):
        """subject's speed ÷ the mean speed of a reference before and one after it."""
        first, result, last = (self.settled(one, cold) for one in (reference, subject, reference))
        if not first["bytes"] == result["bytes"] == last["bytes"]:
            raise RuntimeError(f"not the same bytes were read: {first} {result} {last}")
        return {"ratio": (first["seconds"] + last["seconds"]) / 2 / result["seconds"],
                "reference": [first["seconds"], last["seconds"]], "seconds": result["seconds"],
                "bytes": result["bytes"], "reader_cpu_s": result["cpu_s"]}

    def close(self):
        self.ballast.close()


class RawStreams:
    """An object read by eight signed parallel streams that drop the bytes."""

    def __init__(self, store, bucket, key, size):
        self.store, self.bucket, self.key, self.size = store, bucket, key, size

    def fastest(self):
        """The faster of our own loop and eight curl processes."""
        return min(self.by_loop(), self.by_curl(), key=lambda result: result["seconds"])

    def by_loop(self):
        words = [sys.executable, ROOT / "bench" / "streams.py", self.store.endpoint, self.bucket,
                 self.key, self.size, STREAMS, RANGE_BYTES]
        result = run_json(*words, environment=dict(os.environ, **self.store.credentials))
        return dict(result, client="recv loop")

    def by_curl(self):
        share = self.size // STREAMS
        user = ":".join(self.store.credentials.values())
        started, before = time.monotonic(), os.times()
        curls = [subprocess.Popen(
            ["curl", "-sf", "-K", "-", "--aws-sigv4", "aws:amz:us-east-1:s3", "-o", "/dev/null",
             "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "--noproxy", "*",
             "-r", f"{n * share}-{(n + 1) * share - 1}",
             f"{self.store.endpoint}/{self.bucket}/{self.key}"], stdin=subprocess.PIPE)
            for n in range(STREAMS)]
        for curl in curls:  # the key pair by standard input, so that no process list shows it
            curl.stdin.write(f'user = "{user}"\n'.encode())
            curl.stdin.close()
        if any([curl.wait() for curl in curls]):
            raise RuntimeError("a curl stream failed")
        after = os.times()
        cpu = (after.children_user + after.children_system
               - before.children_user - before.children_system)
        return {"bytes": self.size, "seconds": time.monotonic() - started, "cpu_s": cpu,
                "client": "curl"}
