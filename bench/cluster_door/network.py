# SPDX-License-Identifier: Apache-2.0
"""Hosts on one switch: a network namespace for each, with an address of its own, and one more for the
bridge that they hang on, so that nothing of it is seen, or filtered, by the rest of the machine. The
bench itself is a host, too. What a host sends can be limited, and hosts can be cut off from each other
without anything being refused or reset. Nothing of it leaves the machine. Needs root.
"""

import json
import os

from folder_door import link
from folder_door.link import run
from rig.cluster import Place
from rig.process import wait_until

HUB, BRIDGE, DEVICE = "hub", "switch", "eth0"
# Nobody has it: frames for it go to all hosts, and are dropped by each.
NOBODY = "02:00:00:00:00:01"


class Host:
    """`namespace` empty: the bench's own."""

    def __init__(self, name, address, namespace, device=DEVICE):
        self.name, self.address, self.namespace, self.device = name, address, namespace, device
        # Not `ip netns exec`, which has mounts of its own: folders must be seen by all.
        self.before = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []

    @property
    def place(self):
        return Place(self.address, self.before)

    def ip(self, *words, check=True):
        return run(*self.before, "ip", *words, check=check)

    def received_bytes(self):
        """Since it is there, with the headers of frames."""
        done = self.ip("-s", "-j", "link", "show", "dev", self.device)
        return json.loads(done.stdout)[0]["stats64"]["rx"]["bytes"]

    def limit(self, rate_bits):
        """What it sends, bits a second of whole frames."""
        run(*self.before, "tc", "qdisc", "replace", "dev", self.device, "root", "tbf", "rate",
            f"{rate_bits}bit", "burst", link.BURST, "latency", link.LATENCY)

    def lose(self, other):
        """Sends nothing to another one any more."""
        self.ip("neigh", "replace", other.address, "lladdr", NOBODY, "nud", "permanent", "dev",
                self.device)

    def find(self, other):
        self.ip("neigh", "del", other.address, "dev", self.device, check=False)


class Network:
    def __init__(self):
        self.prefix = f"{link.NAME}{os.getpid()}"
        # Of 198.18.0.0/15 (RFC 2544); benches of two copies on one machine have their own.
        self.subnet = f"198.19.{os.getpid() % 256}"
        self.hosts = {}
        self.cuts = []

    def start(self):
        try:
            run("ip", "netns", "add", f"{self.prefix}-{HUB}")
            self.in_hub("ip", "link", "add", BRIDGE, "mtu", link.MTU, "type", "bridge")
            self.in_hub("ip", "link", "set", BRIDGE, "up")
            self.add(Host("bench", f"{self.subnet}.1", "", f"{self.prefix}h"))
        except BaseException:
            self.remove()
            raise
        return self

    def in_hub(self, *words):
        return run("nsenter", f"--net=/run/netns/{self.prefix}-{HUB}", *words)

    def host(self, name):
        """Made when it is first asked for."""
        if name not in self.hosts:
            namespace = f"{self.prefix}-{name}"
            run("ip", "netns", "add", namespace)
            self.add(Host(name, f"{self.subnet}.{len(self.hosts) + 1}", namespace))
        return self.hosts[name]

    def addresses(self):
        """All that its hosts can have."""
        return [f"{self.subnet}.{number}" for number in range(1, 255)]

    def place(self, name):
        return self.host(name).place

    def add(self, host):
        port = f"p-{host.name}"
        where = ["netns", host.namespace] if host.namespace else []
        run("ip", "link", "add", host.device, *where, "mtu", link.MTU, "type", "veth", "peer",
            "name", port, "netns", f"{self.prefix}-{HUB}", "mtu", link.MTU)
        self.in_hub("ip", "link", "set", port, "master", BRIDGE, "up")
        host.ip("addr", "add", f"{host.address}/24", "dev", host.device)
        if host.namespace:
            host.ip("link", "set", "lo", "up")
        host.ip("link", "set", host.device, "up")
        wait_until(lambda: json.loads(host.ip("-j", "link", "show", "dev", host.device).stdout)[0][
            "operstate"] == "UP", f"the link of {host.name} to be up")
        self.hosts[host.name] = host

    def cut(self, some, others):
        """No frame goes between those, in either direction, and nobody is told."""
        for one in some:
            for other in others:
                self.cuts += [(one, other), (other, one)]
                one.lose(other)
                other.lose(one)

    def cut_off(self, name):
        one = self.hosts[name]
        self.cut([one], [host for host in self.hosts.values() if host is not one])

    def heal(self):
        while self.cuts:
            one, other = self.cuts.pop()
            one.find(other)

    def remove(self):
        # Namespaces end by and by, the device at once, and another network wants its name.
        run("ip", "link", "del", f"{self.prefix}h", check=False)
        for name in link.namespaces():
            if name.startswith(f"{self.prefix}-"):
                link.remove(name)
        self.hosts = {}
