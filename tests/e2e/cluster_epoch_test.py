# SPDX-License-Identifier: Apache-2.0
"""A tree that clients of a cluster read at random is loaded by its workers, once."""

import os
import random

import pytest

from e2e.cluster_jobs_test import jobs_of
from e2e.cluster_replicas_test import in_threads
from e2e.objects import put_all
from rig.process import wait_until

FILES, BYTES = 600, 5000


def body(name):
    return random.Random(name).randbytes(BYTES)


@pytest.fixture
def tree(make_cluster, s3, bucket):
    """A cluster of two, and the names of a tree at /epoch."""
    names = [f"{directory:02}/{file:03}" for directory in range(10) for file in range(FILES // 10)]
    put_all(s3, bucket, {f"epoch/{name}": body(name) for name in names})
    cluster = make_cluster(2)
    cluster.mount(f"{bucket}/epoch", "/epoch")
    return cluster, names


def client_of(cluster, *options):
    mount = cluster.client().mount_cluster("/epoch", *options, memory="64MiB")
    for directory in sorted(os.listdir(mount)):
        os.listdir(mount / directory)
    return mount


def read_at_random(mount, names, seed):
    for name in random.Random(seed).sample(names, 100):
        assert (mount / name).read_bytes() == body(name), name


def gets(cluster):
    return [key for operation, key, *_ in cluster.store.requests() if operation == "GetObject"]


def test_two_ranks_share_one_load(tree):
    cluster, names = tree
    mounts = [client_of(cluster), client_of(cluster)]
    in_threads(lambda rank: read_at_random(mounts[rank], names[rank::2], rank), range(2))
    worker = cluster.workers[0]
    wait_until(lambda: any(one["job"]["state"] == "done" for one in jobs_of(worker).values()),
               "the load", timeout_s=60)
    loads = [one["job"] for one in jobs_of(worker).values()]
    assert [(job["kind"], job["path"], job["automatic"]) for job in loads] == [("load", "/epoch", True)]
    assert loads[0]["files_done"] == FILES
    assert "load (auto)" in worker.run("cluster", "jobs").stdout
    asked = gets(cluster)
    assert len(asked) == len(set(asked)) == FILES, "each file once"
    cluster.store.stop()
    for name in names:
        assert (mounts[0] / name).read_bytes() == body(name), name


def test_name_order_loads_nothing(tree):
    cluster, names = tree
    mount = client_of(cluster)
    for name in names:
        assert (mount / name).read_bytes() == body(name), name
    # Cached files are not loaded either, however they are read.
    read_at_random(mount, names, 7)
    read_at_random(client_of(cluster), names, 8)
    assert jobs_of(cluster.workers[0]) == {}


def test_a_client_may_say_never(tree):
    cluster, names = tree
    read_at_random(client_of(cluster, "-o", "load=never"), names, 3)
    assert jobs_of(cluster.workers[0]) == {}
