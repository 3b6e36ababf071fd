# SPDX-License-Identifier: Apache-2.0
"""Rows of what breaks while all clients read all the time: a worker that dies, hangs or is cut off; the
leader; etcd; a cluster in two halves. Every byte is compared, also of reads that took long."""

import time
from dataclasses import dataclass
from typing import Callable

from cluster_door import load_work
from cluster_door.read_rows import fill
from measure import MIB

CLIENTS = 2
WARM_S = 3


def victim_of(scene):
    """A worker that does not lead."""
    lead = leader_of(scene)
    return next(worker for worker in scene.workers if worker is not lead)


def leader_of(scene):
    status = scene.workers[0].status()
    address = next(one["address"] for one in status["workers"] if one["id"] == status["leader"])
    return scene.worker_at(address)


def nothing():
    pass


def kill(scene):
    victim_of(scene).kill()
    return nothing


def pause(worker):
    worker.pause()
    return worker.resume


def stop(scene):
    return pause(victim_of(scene))


def cut(scene):
    scene.network.cut_off(victim_of(scene).folder.name)
    return scene.network.heal


def kill_leader(scene):
    leader_of(scene).kill()
    return nothing


def stop_leader(scene):
    return pause(leader_of(scene))


def cut_leader(scene):
    scene.network.cut_off(leader_of(scene).folder.name)
    return scene.network.heal


def kill_etcd(scene):
    scene.cluster.etcd.stop()
    return scene.cluster.etcd.start


def stop_etcd(scene):
    return pause(scene.cluster.etcd.members[0])


def cut_etcd(scene):
    scene.network.cut_off("etcd")
    return scene.network.heal


def halves(scene):
    """Two workers, etcd and a client; two workers and a client. The store is neither's."""
    hosts = scene.network.hosts
    scene.network.cut([hosts[name] for name in ("w0", "w1", "etcd", "c0")],
                      [hosts[name] for name in ("w2", "w3", "c1")])
    return scene.network.heal


@dataclass(frozen=True)
class Fault:
    """`begin` makes it and answers what ends it. `lasts_s`: of sizes, else until there is a rate after
    it. `load`: a load over the whole cluster is under way meanwhile."""

    begin: Callable
    lasts_s: Callable | None = None
    load: bool = False


FAULTS = {
    "kill": Fault(kill),
    "stop": Fault(stop),
    "cut": Fault(cut),
    "leader": Fault(kill_leader, load=True),
    "leader-stop": Fault(stop_leader, load=True),
    "leader-cut": Fault(cut_leader, load=True),
    "etcd": Fault(kill_etcd, lambda sizes: sizes.etcd_away_s, load=True),
    "etcd-stop": Fault(stop_etcd, lambda sizes: sizes.etcd_away_s, load=True),
    "etcd-cut": Fault(cut_etcd, lambda sizes: sizes.etcd_away_s, load=True),
    "halves": Fault(halves, lambda sizes: sizes.halves_s, load=True),
}


def seen_of(loads, scene, fault, job):
    """(before, while it was, when it had been for a while, after its end)."""
    sizes = scene.setting.sizes
    time.sleep(WARM_S)
    loads.tell()
    time.sleep(sizes.rate_s)
    before = loads.tell()
    if job:
        job.begin()
    end = fault.begin(scene)
    began = time.monotonic()
    time.sleep(sizes.settle_s)
    during = loads.tell()
    time.sleep(sizes.rate_s)
    later = loads.tell()
    if fault.lasts_s:
        time.sleep(max(0, fault.lasts_s(sizes) - (time.monotonic() - began)))
    end()
    time.sleep(sizes.settle_s)
    return before, during, later, loads.tell()


def under_fault(name):
    """The row of that name: what readers of a cluster of four see of it."""
    fault, name = FAULTS[name], name.replace("-", "_")

    def row(setting):
        figures = {}
        with setting.scene("load", *([load_work.SET] if fault.load else [])) as scene:
            clients = scene.clients("/load", CLIENTS)
            fill(scene, "load", clients)
            job = load_work.ClusterLoad(scene) if fault.load else None
            with scene.loads("load", clients) as loads:
                before, *since = seen_of(loads, scene, fault, job)
            if job:
                missing = job.end()
                figures[f"{name}_load"] = {"value": missing, "note": job.words()}
        since.append(loads.end)
        failures = sum(one["failures"] + one["stale"] for one in (before, *since))
        messages = [message for one in (before, *since) for message in one["messages"]]
        longest = max(one["longest_s"] for one in since)
        reads = sum(one["reads"] for one in (before, *since))
        by_client = " and ".join(f"{max(one['by'][n] for one in since):.2f}"
                                 for n in range(CLIENTS))
        told = "; ".join((f"of {reads:,} reads", *messages[:1]))
        return figures | {
            f"{name}_failed": {"value": failures, "note": told},
            f"{name}_stall": {"value": longest,
                              "note": f"before {before['longest_s']:.2f} s; by client {by_client}"},
            f"{name}_rate": {"value": since[1]["rate"] / before["rate"],
                             "note": f"{since[1]['rate'] / MIB:,.0f} MiB/s after "
                                     f"{setting.sizes.settle_s:g} s, before "
                                     f"{before['rate'] / MIB:,.0f}, in between "
                                     f"{since[0]['rate'] / MIB:,.0f}"}}
    return row
