# SPDX-License-Identifier: Apache-2.0
"""A cluster on hosts of its own: store, etcd, workers and clients each in a network namespace, real
processes all of them, made anew for each run."""

import os
import subprocess

from cluster_door import certificates
from cluster_door.data_sets import BUCKET, DataSets
from cluster_door.network import Network
from cluster_door.readers import Load, Loads
from folder_door import link
from measure import GIB, NotRun, say
from rig import leftovers
from rig.cluster import Cluster, etcd_program
from rig.memory_group import MemoryGroup, NoGroups
from rig.process import wait_until
from rig.store import Store

CLIENT_MEMORY = "32MiB"  # the least that a daemon takes
NOT_ASKED_AGAIN = "max-age=1h"


class Setting:
    """What the rows share: the data, and the store's folder."""

    def __init__(self, place, sizes, fixtures):
        self.place, self.sizes, self.fixtures = place, sizes, fixtures
        self.data = DataSets(place / "sets", sizes)
        self.store_folder = place / "store"
        for name in ("scene", "store"):  # what a bench left that was killed
            leftovers.end(place / name)
        link.remove_abandoned()

    def ready(self):
        """Raises where there can be no hosts."""
        reason = link.missing()
        if reason:
            raise NotRun(reason)
        try:
            etcd_program()
        except RuntimeError as error:
            raise NotRun(str(error)) from error

    def scene(self, *sets, **wanted):
        self.ready()
        return Scene(self, sets, **wanted)


class Scene:
    """`sets` are mounted at /NAME. `cache_bytes`: of each worker. Use with `with`."""

    def __init__(self, setting, sets, workers=4, cache_bytes=4 * GIB, memory="64MiB", tls=False,
                 freshness=NOT_ASKED_AGAIN):
        self.setting, self.sets, self.worker_count = setting, sets, workers
        self.cache_bytes, self.tls, self.freshness = cache_bytes, tls, freshness
        # What is free of the disk is for the bench to watch.
        # These hosts share a kernel and its files; what is measured goes over the network.
        self.settings = {"LEAT_CACHE_MIN_FREE": "256MiB", "LEAT_FETCH_MEMORY_SIZE": memory,
                         "LEAT_WORKER_FD_SOCKET": "none"}
        self.folder = setting.place / "scene"
        self.network = self.store = self.cluster = self.certificates = None
        self.groups = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        leftovers.clear(self.folder)
        self.folder.mkdir(parents=True)
        self.network = Network().start()
        host = self.network.host("store")
        self.store = Store(self.setting.store_folder, 7070, host.address, host.before).start()
        self.store.bucket(BUCKET)
        for name in self.sets:
            self.setting.data.prepare(name, self.store)
            if name != "changing":
                self.setting.fixtures.use(name, [self.store.data / BUCKET],
                                          self.setting.data.keys_of(name),
                                          self.setting.data.digest_of(name))
        if self.tls:
            self.certificates = certificates.make(self.folder / "tls", self.network.addresses())
            self.settings |= self.certificates.settings()
        self.cluster = Cluster(self.folder, self.store, self.worker_count, self.network.place,
                               str(self.cache_bytes), self.settings)
        self.cluster.start()
        for name in self.sets:
            self.cluster.mount(f"{BUCKET}/{name}", f"/{name}", "-o", f"freshness={self.freshness}")

    @property
    def workers(self):
        return self.cluster.workers

    def client(self, path, freshness=NOT_ASKED_AGAIN, memory=CLIENT_MEMORY):
        """One more host with a folder of `path`; the host's name and the folder."""
        client = self.cluster.client()
        folder = client.mount_cluster(path, freshness=freshness, memory=memory)
        return client.folder.name, folder

    def clients(self, path, count):
        return [self.client(path) for _ in range(count)]

    def little_memory(self, bytes_max):
        """A control group that a reader may be in."""
        try:
            self.groups.append(MemoryGroup(bytes_max))
        except NoGroups as why:
            raise NotRun(str(why)) from why
        return self.groups[-1]

    def loads(self, name, clients, threads=4, list_every=0):
        """A job on each of the clients, reading the set at random."""
        names = self.setting.data.list_of(name)
        return Loads([Load(f"the job on {host}", "load", folder, names, threads, number + 1,
                           list_every) for number, (host, folder) in enumerate(clients)])

    def cycles(self, clients, names, threads=4):
        """A job on each of the clients, reading the listed files again and again: none of them is
        read for a second time before all others were."""
        return Loads([Load(f"the job on {host}", "cycle", folder, names(number), threads)
                      for number, (host, folder) in enumerate(clients)])

    def worker_at(self, address):
        return next(one for one in self.workers if one.address == address)

    def counters(self, name):
        """Of all workers that run, together."""
        return sum(worker.counter(name) for worker in self.workers
                   if worker.process is not None and worker.process.poll() is None)

    def wait_until_written(self, size):
        """The cache has so much of the data on disk, behind the readers."""
        def written():
            used = [worker.json("status")["cache"]["used_bytes"] for worker in self.workers]
            return sum(used) >= size
        wait_until(written, "the caches to be written", timeout_s=120, interval_s=0.2)
        os.sync()

    def close(self):
        try:
            if self.cluster:
                self.network.heal()
                self.cluster.close()
        except Exception as error:  # the rest has to go all the same
            say(f"while the cluster was ended: {type(error).__name__}: {error}")
        leftovers.clear(self.folder)
        for group in self.groups:
            group.close()
        if self.store:
            self.store.stop()
        if self.network:
            self.network.remove()


def on_core(core):
    """Words in front of a command line that is to run there."""
    return ["taskset", "-c", str(core)]


def pin(pid, core):
    """All threads of a process, and those that they start."""
    subprocess.run(["taskset", "-a", "-p", "-c", str(core), str(pid)], check=True,
                   capture_output=True)
