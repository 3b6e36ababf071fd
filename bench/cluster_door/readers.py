# SPDX-License-Identifier: Apache-2.0
"""Jobs that read a cluster's folder: clients/cluster_reader.cc, in a host's network and, where the
kernel's page cache is to be of no use to them, in a control group with little memory."""

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from layers.layer_bench import client

READ_TIMEOUT_S = 900  # a reader of a folder that hangs is ended


def program_words(*words):
    return list(map(str, [client("leat_bench_cluster_reader"), *words]))


def check(told, who):
    """What a reader saw must be right; that a read failed is not for every row a fault. `stale` are
    reads of a version that was gone, as it is promised."""
    if told["wrong"]:
        raise RuntimeError(f"{who} read {told['wrong']} times wrongly: {told['messages']}")
    return told


def check_all(told, who):
    check(told, who)
    if told["failures"] or told["stale"]:
        raise RuntimeError(f"{who} failed {told['failures'] + told['stale']} times: "
                           f"{told['messages']}")
    return told


def read_once(folder, names, threads, group=None):
    """Each of the listed files, in that order."""
    done = subprocess.run(program_words("once", folder, names, threads), capture_output=True,
                          text=True, timeout=READ_TIMEOUT_S, stdin=subprocess.DEVNULL,
                          preexec_fn=group.enter if group else None)
    if done.returncode != 0:
        raise RuntimeError(f"a reader ended with {done.returncode}: {done.stderr.strip()}")
    return check_all(json.loads(done.stdout), f"the reader of {folder}")


def at_once(calls):
    """What they answer, each in a thread of its own."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [one.result() for one in [pool.submit(call) for call in calls]]


class Load:
    """One that reads until it is closed; `tell` is what it saw since it was asked last. `words`: to
    the program, what to read."""

    def __init__(self, name, *words):
        self.name = name
        self.process = subprocess.Popen(program_words(*words), text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended with {self.process.wait()}")
        return check(json.loads(line), self.name)

    def close(self):
        """What it saw at the end. A read that hangs is given the time that a daemon gives it."""
        killer = threading.Timer(READ_TIMEOUT_S, self.process.kill)
        killer.start()
        try:
            text, _ = self.process.communicate()
        finally:
            killer.cancel()
        if self.process.returncode != 0:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}")
        return check(json.loads(text.splitlines()[-1]), self.name)


class Loads:
    """Several, as one: sums, and the longest of all."""

    def __init__(self, loads):
        self.loads = loads

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.end = merged([one.close() for one in self.loads])
        else:
            for one in self.loads:
                one.process.kill()
                one.process.wait()

    def tell(self):
        return merged([one.tell() for one in self.loads])


def merged(told):
    seconds = max(one["seconds"] for one in told)
    return {"reads": sum(one["reads"] for one in told),
            "bytes": sum(one["bytes"] for one in told), "seconds": seconds,
            "rate": sum(one["bytes"] / one["seconds"] for one in told),
            "failures": sum(one["failures"] for one in told),
            "stale": sum(one["stale"] for one in told),
            "longest_s": max(one["longest_s"] for one in told),
            "messages": [message for one in told for message in one["messages"]],
            "by": [one["longest_s"] for one in told]}
