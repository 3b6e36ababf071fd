# SPDX-License-Identifier: Apache-2.0
"""Bytes that reach the readers of a cluster while the rest of them is still on its way from the store."""

import os
import subprocess
import threading

import pytest

from e2e.content import content
from rig.cluster import Cluster
from rig.faulty import FaultyFront
from rig.leat import leat_program
from rig.process import wait_until

SIZE = 32 << 20
COME = 1 << 20
# Well within the second after which a store that sends nothing counts as silent.
BYTE_EVERY_S = 0.1


class HeldFront(FaultyFront):
    """Bodies stop after their first MiB, but for a byte now and then, until they are let go."""

    def __init__(self, *arguments):
        super().__init__(*arguments, seed=0, share=0)
        self.go, self.stopped = threading.Event(), 0

    def pass_body(self, wire, upstream, rest, size):
        if size <= COME:
            return super().pass_body(wire, upstream, rest, size)
        first, rest = rest[:COME], rest[COME:]
        if not super().pass_body(wire, upstream, first, COME):
            return False
        with self.lock:
            self.stopped += 1
        left = size - COME
        while not self.go.wait(BYTE_EVERY_S):
            if not super().pass_body(wire, upstream, rest[:1], 1):
                return False
            rest, left = rest[1:], left - 1
        return not self.ended.is_set() and super().pass_body(wire, upstream, rest, left)

    def stop(self):
        self.ended.set()
        self.go.set()
        super().stop()


@pytest.fixture
def front(store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="train/big", Body=content("big", 1, 0, SIZE))
    held = HeldFront(store, folder)
    yield held
    held.stop()


@pytest.fixture
def make_held_cluster(folder, front, bucket):
    made = []

    def make(count):
        made.append(Cluster(os.path.join(folder, "cluster"), front, count).start())
        made[-1].mount(f"{bucket}/train", "/train")
        return made[-1]
    yield make
    front.go.set()
    for cluster in made:
        cluster.close()


class Reading(threading.Thread):
    """Of a range, beside the test."""

    def __init__(self, path, offset, size):
        super().__init__(daemon=True)
        self.path, self.offset, self.size, self.got, self.failed = path, offset, size, b"", None
        self.start()

    def run(self):
        try:
            with open(self.path, "rb", buffering=0) as file:
                while len(self.got) < self.size:
                    left = self.size - len(self.got)
                    self.got += os.pread(file.fileno(), min(left, 1 << 17), self.offset + len(self.got))
        except OSError as failed:
            self.failed = failed

    def text(self, timeout_s=60):
        self.join(timeout_s)
        assert not self.is_alive(), f"{len(self.got)} of {self.size} bytes have come"
        assert self.failed is None, self.failed
        return self.got


def load(client, path):
    return subprocess.Popen([leat_program(), "load", str(path)], env=client.environment(),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_readers_get_bytes_of_requests_in_flight(make_held_cluster, front):
    cluster = make_held_cluster(1)
    before = front.store.counters()["bytes"]
    clients = [cluster.client() for _ in range(2)]
    # Only who keeps something can load it.
    files = [clients[0].mount_cluster("/train", "-o", "cache=always") / "big",
             clients[1].mount_cluster("/train") / "big"]
    loading = load(clients[0], files[0])
    wait_until(lambda: front.stopped >= 1, "a request of which a part has come")
    # One shares the request of its own host, the other one that of the worker.
    for file in files:
        assert Reading(file, 0, COME // 2).text() == content("big", 1, 0, COME // 2)
    late = Reading(files[1], 2 * COME, 4096)
    late.join(0.5)
    assert late.is_alive(), "of what has not come nothing is read"
    front.go.set()
    assert late.text() == content("big", 1, 2 * COME, 4096)
    assert loading.wait(60) == 0
    for file in files:
        assert Reading(file, 0, SIZE).text() == content("big", 1, 0, SIZE)
    asked = front.store.counters()["bytes"] - before
    assert SIZE <= asked <= SIZE * 1.03, "each byte is asked for once"


def test_a_streaming_worker_dies_another_goes_on(make_held_cluster, front):
    cluster = make_held_cluster(2)
    client = cluster.client()
    file = client.mount_cluster("/train", "-o", "cache=always") / "big"
    loading = load(client, file)
    wait_until(lambda: front.stopped >= 1, "a request of which a part has come")
    assert Reading(file, 0, COME // 2).text() == content("big", 1, 0, COME // 2)
    owner = max(cluster.workers, key=lambda worker: worker.counter("leat_fetch_store_requests_total"))
    owner.kill()
    front.go.set()
    assert Reading(file, 0, SIZE).text() == content("big", 1, 0, SIZE)
    assert loading.wait(60) == 0
