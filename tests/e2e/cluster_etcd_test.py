# SPDX-License-Identifier: Apache-2.0
"""A cluster whose etcd has three members, and loses one for good or for a while."""

import os
import time
from pathlib import Path

import pytest

from e2e.cluster_test import Readers
from rig.cluster import Etcd
from rig.process import wait_until

LONGER_THAN_A_LEASE_S = 13


@pytest.fixture
def etcd(folder):
    """The first, which workers ask, leads."""
    started = Etcd(Path(folder) / "etcd", count=3).start()
    leader = started.leader()
    started.members.sort(key=lambda member: member is not leader)
    return started


def stay(cluster, for_s):
    """For so long each worker sees all of them there."""
    everybody = {worker.address for worker in cluster.workers}
    end = time.monotonic() + for_s

    def over():
        for worker in cluster.workers:
            active = {address for address, one in cluster.members(worker).items()
                      if one["state"] == "active"}
            assert active == everybody, worker.status()
        return time.monotonic() > end
    wait_until(over, "the time to pass", timeout_s=for_s + 60, interval_s=0.5)


@pytest.mark.parametrize("how, back", [("kill", "start"), ("pause", "resume")])
def test_the_etcd_leader_is_lost(make_cluster, etcd, seed, how, back):
    cluster = make_cluster(3, etcd=etcd)
    mount = cluster.client().mount_cluster("/", freshness="max-age=1s", memory="64MiB")
    lost = etcd.leader()
    with Readers(mount / "train", seed) as readers:
        readers.more(50)
        getattr(lost, how)()
        stay(cluster, LONGER_THAN_A_LEASE_S)
        cluster.wait_without_trouble()
        cluster.add_worker()
        cluster.wait_for_ring(cluster.workers)
        cluster.mount("data/train/large", "/later")
        wait_until(lambda: sorted(os.listdir(mount)) == ["later", "train"], "the new mount")
        getattr(lost, back)()
        wait_until(lost.healthy, "the member to be back")
        readers.more(50)
        # One of 3.4.23 that led may end leases when it goes on, since it has not heard of their renewal;
        # whose they were takes another.
        cluster.wait_for_ring(cluster.workers)
        cluster.workers[-1].run("cluster", "umount", "/later")
        wait_until(lambda: os.listdir(mount) == ["train"], "the mount to be gone")
        readers.more(50)
    assert not readers.failures, readers.failures[:3]
    cluster.wait_for_ring(cluster.workers)
    cluster.wait_without_trouble()
