# SPDX-License-Identifier: Apache-2.0
"""Rows of a cluster that changes while it is read: workers come and go; and all of it, for long."""

import re
import shutil
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster_door.read_rows import fill
from cluster_door.readers import Loads, read_once
from cluster_door.store_bodies import StoreBodies
from measure import MIB

CLIENTS = 2
GUEST_STAYS_S = 1.0


def come(scene):
    """A worker that was never there before, with a share."""
    shutil.rmtree(scene.folder / f"w{len(scene.workers)}", ignore_errors=True)
    guest = scene.cluster.add_worker()
    scene.cluster.wait_for_ring(scene.workers)
    return guest


def leave(scene, guest, has_room=True):
    """Where the others have no room for all, a drain says so and ends with 1. Whether they had."""
    drain = guest.run("cluster", "drain", check=has_room)
    assert not drain.returncode or "larger" in drain.stderr, drain.stderr
    time.sleep(GUEST_STAYS_S)
    guest.end()
    scene.workers.remove(guest)
    guest.close()
    scene.cluster.wait_for_ring(scene.workers)
    return not drain.returncode


def joins(setting):
    """joins: workers come and go in a row while clients read."""
    with setting.scene("load", workers=3) as scene:
        clients = scene.clients("/load", CLIENTS)
        fill(scene, "load", clients)
        bodies = StoreBodies(scene.store, setting.data.keys_of("load")[0])
        with scene.loads("load", clients) as loads:
            for _ in range(setting.sizes.joins):
                guest = come(scene)
                time.sleep(GUEST_STAYS_S)
                leave(scene, guest)
            told = loads.tell()
        # All that was there is there, in a folder that has seen nothing of it, and in the caches.
        _, folder = scene.client("/load")
        read_once(folder, setting.data.list_of("load"), 4)
        asked, words = bodies.since()
    failures = sum(one["failures"] + one["stale"] for one in (told, loads.end))
    first = told["messages"][:1]
    note = "; ".join((f"{setting.sizes.joins} joins and leaves, {told['reads']:,} reads", *first))
    return {"joins_failed": {"value": failures, "note": note},
            "joins_stall": {"value": max(told["longest_s"], loads.end["longest_s"]),
                            "note": f"{told['rate'] / MIB:,.0f} MiB/s"},
            "joins_lost": {"value": asked / setting.data.bytes_of("load"), "note": words}}


class Weights:
    """Memory and descriptors of processes, by the kernel, looked at each second while it is entered: they
    go up and down within a minute as requests come and heaps give back, so single looks say little."""

    def __init__(self, processes):
        """`processes`: name -> pid."""
        self.processes, self.looks, self.ended = processes, [], threading.Event()
        self.pool = ThreadPoolExecutor(1)

    def __enter__(self):
        self.looking = self.pool.submit(self.look_on)
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.pool.shutdown()

    def check(self):
        """Raises when one of them is gone."""
        if self.looking.done():
            self.looking.result()

    def look_on(self):
        while not self.ended.wait(1):
            self.looks.append({name: self.of(pid) for name, pid in self.processes.items()})

    @staticmethod
    def of(pid):
        status = Path(f"/proc/{pid}/status").read_text()
        resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024
        return resident, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())

    def grown(self, which):
        """(mean of the last quarter of the time ÷ that of the second, of the process where that is the
        most; in words of which)."""
        quarter = len(self.looks) // 4
        before, after = (
            {name: statistics.fmean(one[name][which] for one in looks) for name in self.processes}
            for looks in (self.looks[quarter:2 * quarter], self.looks[-quarter:]))
        name = max(self.processes, key=lambda one: after[one] / before[one])
        return after[name] / before[name], f"{name}: {before[name]:,.0f}, then {after[name]:,.0f}"


class Soak:
    """What happens in one, step after step; who is watched is never ended."""

    FRESHNESS = "max-age=2s"

    def __init__(self, scene):
        self.scene, self.data = scene, scene.setting.data
        self.version, self.guest, self.steps = 1, None, 0
        self.done = dict.fromkeys(("changes", "joins", "kills", "leaves",
                                   "of these without room for all with the others"), 0)

    def step(self):
        steps = (self.change, self.join, self.change, self.kill, self.leave)
        steps[self.steps % len(steps)]()
        self.steps += 1

    def change(self):
        self.version += 1
        files = list(self.data.files["changing"])
        self.data.upload("changing", self.scene.store, files, self.version)
        self.done["changes"] += 1

    def join(self):
        self.guest = come(self.scene)
        self.done["joins"] += 1

    def leave(self):
        had_room = leave(self.scene, self.guest, has_room=False)
        self.guest = None
        self.done["leaves"] += 1
        self.done["of these without room for all with the others"] += not had_room

    def kill(self):
        """The guest: the others are watched."""
        self.guest.kill()
        time.sleep(1)
        self.guest.start()
        self.scene.cluster.wait_for_ring(self.scene.workers)
        self.done["kills"] += 1

    def check_changes(self, folder):
        """What is read now is what was written last."""
        time.sleep(5)
        path = self.data.folder / "changing.last.list"
        path.write_text("".join(f"{file} {size} {self.version}\n"
                                for file, size in self.data.files["changing"].items()))
        read_once(folder, path, 2)


def soak(setting):
    """soak: reads, listings, changes at the store, joins and kills for an hour."""
    sizes, data = setting.sizes, setting.data
    cache_bytes = int(data.bytes_of("load") * 0.6 / 3)  # so that there is eviction all the time
    with setting.scene("load", "changing", workers=3, cache_bytes=cache_bytes,
                       freshness=Soak.FRESHNESS) as scene:
        data.upload("changing", scene.store)
        clients = scene.clients("/load", CLIENTS)
        changing = scene.client("/changing", Soak.FRESHNESS)
        watched = {worker.folder.name: worker.process.pid for worker in scene.workers}
        watched |= {client.folder.name: client.daemon_pid() for client in scene.cluster.clients}
        watched["etcd"] = scene.cluster.etcd.process.pid
        work, began, told = Soak(scene), time.monotonic(), []
        with (Weights(watched) as weights,
              Loads([*scene.loads("load", clients, 2, list_every=50).loads,
                     *scene.loads("changing", [changing], 2, list_every=20).loads]) as loads):
            while time.monotonic() - began < sizes.soak_s or work.guest:
                work.step()
                told.append(loads.tell())
                weights.check()
            work.check_changes(changing[1])
        told.append(loads.end)
    failures = sum(one["failures"] for one in told)
    words = ", ".join(f"{count} {what}" for what, count in work.done.items())
    words += f", {sum(one['stale'] for one in told)} of a version that was gone"
    messages = [message for one in told for message in one["messages"]][:1]
    resident, who = weights.grown(0)
    descriptors, whose = weights.grown(1)
    return {
        "soak_failed": {"value": failures, "note": "; ".join(
            (f"{sum(one['reads'] for one in told):,} reads, {words}", *messages))},
        "soak_stall": {"value": max(one["longest_s"] for one in told), "note": ""},
        "soak_resident": {"value": resident, "note": f"bytes of {who}"},
        "soak_open": {"value": descriptors, "note": whose}}
