# SPDX-License-Identifier: Apache-2.0
"""A file of more than two stripes, which several workers hold between them. All are on one host, where
large files would be handed to readers as they are: not here, so that all is served."""

import hashlib
import os
import random

import pytest

from e2e.cluster_files import sent_bytes
from rig.process import wait_until

STRIPE = 64 << 20
SIZE = 200 << 20
STRIPES = range(4)
# Where each stripe lies is drawn: of 27 files one lies with a single worker of three as a whole.
TRIES_MAX = 5
PIECE = 1 << 20


def bytes_of(stripe):
    return min(STRIPE, SIZE - stripe * STRIPE)


def read_at(path, offset, size):
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        return os.pread(file.fileno(), size, offset)


def digest_of(path, at=SIZE, then=lambda: None):
    """Of all of it, read from end to end; `then` is done when `at` bytes are there."""
    digest, come = hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            come += len(piece)
            if come == at:
                then()
    assert come == SIZE
    return digest.hexdigest()


class Striped:
    """A file of the store, in a mount of its own of a cluster of three workers."""

    def __init__(self, cluster, s3, place, data):
        self.cluster, self.place, self.data = cluster, place, data
        self.key, self.digest = f"{place}/file", hashlib.sha256(data).hexdigest()
        s3.put_object(Bucket="data", Key=self.key, Body=data)
        cluster.mount(f"data/{place}", f"/{place}")
        self.fetched_before, self.sent_before = self.fetched_bytes(), sent_bytes(cluster.store)
        path = self.path()
        self.holders = [self.holder_of(path, stripe) for stripe in STRIPES]

    def path(self):
        """For a client that has nothing of it yet."""
        client = self.cluster.client()
        return client.mount_cluster(f"/{self.place}", "-o", "cache=never", memory="64MiB") / "file"

    def fetched_bytes(self, workers=None):
        """By workers, of the store."""
        return sum(worker.counter("leat_fetch_source_bytes_total")
                   for worker in workers or self.cluster.workers)

    def served_bytes(self):
        return [worker.counter("leat_peer_served_bytes_total") for worker in self.cluster.workers]

    def holder_of(self, path, stripe):
        """The worker that answers for the middle of it."""
        before, middle = self.served_bytes(), stripe * STRIPE + bytes_of(stripe) // 2
        assert read_at(path, middle, 4096) == self.data[middle:middle + 4096]
        [holder] = [worker for worker, then, now in
                    zip(self.cluster.workers, before, self.served_bytes()) if now > then]
        return holder

    def held_bytes(self, worker):
        """By the ring."""
        return sum(bytes_of(stripe) for stripe in STRIPES if self.holders[stripe] is worker)

    def cached_bytes(self, worker):
        return sum(one["cached_bytes"] for one in worker.json("cache", "ls")["objects"]
                   if one["key"] == self.key)

    def cache_is_full(self):
        return all(self.cached_bytes(worker) == self.held_bytes(worker)
                   for worker in self.cluster.workers)


@pytest.fixture
def striped(make_cluster, s3, seed):
    # One reader is fast enough to make a stripe hot, and then others would have it, too.
    cluster = make_cluster(3, LEAT_WORKER_FD_SOCKET="none", LEAT_WORKER_HOT_STRIPE_BANDWIDTH="0")
    data = random.Random(seed).randbytes(SIZE)
    for number in range(TRIES_MAX):
        one = Striped(cluster, s3, f"striped-{number}", data)
        if any(holder is not one.holders[0] for holder in one.holders):
            return one
    raise AssertionError(f"each of {TRIES_MAX} files lies with one worker as a whole")


def test_stripes_are_spread_and_fetched_once(striped):
    path = striped.path()
    for stripe in STRIPES[1:]:
        begin = stripe * STRIPE - 5000
        assert read_at(path, begin, 10_000) == striped.data[begin:begin + 10_000], "across a border"
    for _ in range(2):
        assert digest_of(striped.path()) == striped.digest
    assert striped.fetched_bytes() - striped.fetched_before == SIZE
    asked = sent_bytes(striped.cluster.store) - striped.sent_before
    assert SIZE <= asked <= SIZE * 1.03, asked / SIZE
    wait_until(striped.cache_is_full, "each worker to keep its stripes and nothing else")


def test_a_stripe_owner_is_killed_during_a_read(striped):
    assert digest_of(striped.path()) == striped.digest
    victim = striped.holders[1]
    others = [worker for worker in striped.cluster.workers if worker is not victim]
    before = striped.fetched_bytes(others)
    assert digest_of(striped.path(), at=STRIPE + PIECE, then=victim.kill) == striped.digest
    # What it had and was still to be read the next one has asked the store for.
    assert 0 < striped.fetched_bytes(others) - before <= striped.held_bytes(victim)
