# SPDX-License-Identifier: Apache-2.0
"""Fixtures: an S3 server, a client that is not ours, and leat; all of their own for each test."""

import os
import random

import pytest

from e2e import cluster_files
from e2e.objects import client, put_all
from rig import schemas
from rig.cluster import Cluster, here
from rig.leat import Leat
from rig.memory_group import MemoryGroup, NoGroups
from rig.store import Store

Leat.listener = schemas.check_if_json


@pytest.fixture
def store(folder):
    server = Store(os.path.join(folder, "store")).start()
    yield server
    server.stop()


@pytest.fixture
def s3(store):
    return client(store)


@pytest.fixture
def bucket(s3):
    s3.create_bucket(Bucket="data")
    return "data"


@pytest.fixture
def leat(folder):
    program = Leat(os.path.join(folder, "leat"))
    yield program
    program.close()


@pytest.fixture
def make_memory_group():
    """Control groups with so many bytes of memory; skips the test where none can be made."""
    def make(limit_bytes):
        try:
            return MemoryGroup(limit_bytes)
        except NoGroups as why:
            pytest.skip(str(why))
    return make


@pytest.fixture
def make_cluster(folder, store, s3, bucket):
    """Clusters of so many workers, with the files of cluster_files at /train; LEAT_NAME=value of
    workers; the others as of a Cluster."""
    put_all(s3, bucket, {name: cluster_files.body(name) for name in cluster_files.names()})
    made = []

    def make(count, place=here, etcd=None, cache_size="1GiB", **settings):
        made.append(Cluster(os.path.join(folder, "cluster"), store, count, place, cache_size,
                            settings=settings, etcd=etcd).start())
        made[-1].mount(f"{bucket}/train", "/train")
        return made[-1]
    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def seed():
    """LEAT_TEST_SEED repeats a run; pytest shows the printed line when a test fails."""
    value = int(os.environ.get("LEAT_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"seed: LEAT_TEST_SEED={value}")
    return value


@pytest.fixture(scope="session")
def scale():
    """How many times as long the loops run: 1 in `make test`, more in `make soak`."""
    return int(os.environ.get("LEAT_TEST_SCALE") or 1)
