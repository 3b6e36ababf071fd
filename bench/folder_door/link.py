# SPDX-License-Identifier: Apache-2.0
"""A network of its own for the store's server, reached over one link whose bytes are counted and
whose speed can be limited: a network namespace, a veth pair, and tc's token bucket. Nothing of it
leaves the machine. Needs root.
"""

import os
import subprocess
from pathlib import Path

from rig.process import is_ending, wait_until

# Of 198.18.0.0/15, which is set aside for benchmarks (RFC 2544).
NEAR, FAR, PREFIX = "198.18.77.1", "198.18.77.2", 30
# Frames of this size let 99.3 % of the link's bits be the stream's (1500 would: 95.6 %).
MTU = 9000
BURST = "512kb"  # holds several of the 64 KiB that TCP hands down at once
LATENCY = "50ms"
NAME = "leatb"


def run(*words, check=True):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


def missing():
    """Why there can be no link; empty where there can."""
    if os.geteuid() != 0:
        return "a network namespace needs root"
    for program in ("ip", "tc"):
        if run("sh", "-c", f"command -v {program}", check=False).returncode != 0:
            return f"there is no {program} (Debian: iproute2)"
    return ""


def remove_abandoned():
    """What benches left that were killed: namespaces `leatbPID`, and `leatbPID-HOST` of a network of
    several (cluster_door/network.py), of a process that there is no more."""
    for name in namespaces():
        owner = name.removeprefix(NAME).split("-")[0]
        if name.startswith(NAME) and owner.isdigit() and is_ending(int(owner)):
            remove(name)


def namespaces():
    lines = run("ip", "netns", "list", check=False).stdout.splitlines()
    return [line.split()[0] for line in lines if line]


def remove(name):
    for pid in run("ip", "netns", "pids", name, check=False).stdout.split():
        run("kill", "-9", pid, check=False)
    run("ip", "link", "del", f"{name}h", check=False)
    run("ip", "netns", "del", name, check=False)


def limit(before, device, bits):
    """Limits what is sent through a device; `before` are words in front of the command."""
    if bits:
        run(*before, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{bits}bit",
            "burst", BURST, "latency", LATENCY)


class Link:
    """`rate_bits`: of what the server sends, `upload_bits`: of what it receives, bits a second of
    whole frames; 0: no limit."""

    def __init__(self, rate_bits=0, upload_bits=0):
        self.rate_bits, self.upload_bits = rate_bits, upload_bits
        self.name = f"{NAME}{os.getpid()}"
        self.near, self.far = f"{self.name}h", f"{self.name}s"
        self.host = FAR
        self.before = ["ip", "netns", "exec", self.name]

    def start(self):
        try:
            run("ip", "netns", "add", self.name)
            run("ip", "link", "add", self.near, "mtu", MTU, "type", "veth",
                "peer", "name", self.far, "mtu", MTU)
            run("ip", "link", "set", self.far, "netns", self.name)
            run("ip", "addr", "add", f"{NEAR}/{PREFIX}", "dev", self.near)
            run("ip", "link", "set", self.near, "up")
            run(*self.before, "ip", "addr", "add", f"{FAR}/{PREFIX}", "dev", self.far)
            run(*self.before, "ip", "link", "set", "lo", "up")
            run(*self.before, "ip", "link", "set", self.far, "up")
            limit(self.before, self.far, self.rate_bits)
            limit([], self.near, self.upload_bits)
            state = Path(f"/sys/class/net/{self.near}/operstate")
            wait_until(lambda: state.read_text().strip() == "up", "the link to be up")
        except BaseException:
            self.remove()
            raise
        return self

    def bytes_sent(self):
        """By the server since the start, with the headers of frames, IP, TCP and HTTP."""
        return int(Path(f"/sys/class/net/{self.near}/statistics/rx_bytes").read_text())

    def remove(self):
        remove(self.name)
