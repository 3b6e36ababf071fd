# SPDX-License-Identifier: Apache-2.0
"""Many readers of single pages, and of small files, through a folder: while a worker is slow their reads
come to wait for each other, and go to it several in a request."""

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

from e2e.cluster_files import LARGE, LARGE_BYTES, body, path_in, read
from e2e.content import content
from e2e.objects import put_all

READERS, READS, PAGE = 48, 100, 4096
TINY, TINY_BYTES, TINY_READERS = 1200, 10_000, 32


def batched(client):
    return client.json("status")["counters"]["leat_peer_batched_reads_total"]


def hiccup(worker):
    worker.pause()
    time.sleep(0.05)
    worker.resume()


def open_at_random(mount, name):
    file = os.open(path_in(mount, name), os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    return file


def test_pages_are_batched_despite_a_dead_worker(make_cluster, seed):
    cluster = make_cluster(2, LEAT_WORKER_FD_SOCKET="none")
    client = cluster.client()
    mount = client.mount_cluster("/train", "-o", "cache=never", memory="32MiB")
    bodies = {name: body(name) for name in (f"train/large/{i:03}" for i in range(LARGE))}
    for name in bodies:  # into the workers' caches
        assert read(mount, name) == bodies[name]
    files = {name: open_at_random(mount, name) for name in bodies}

    def read_pages(reader, killed):
        chosen = random.Random(seed + reader)
        for number in range(READS):
            name = chosen.choice(list(bodies))
            at = chosen.randrange(LARGE_BYTES // PAGE) * PAGE
            os.posix_fadvise(files[name], 0, 0, os.POSIX_FADV_DONTNEED)
            assert os.pread(files[name], PAGE, at) == bodies[name][at:at + PAGE], (name, at)
            if reader == 0 and number % 10 == 0:
                hiccup(cluster.workers[0])
            if reader == 0 and killed is not None and number == READS // 4:
                killed.kill()

    def round_of_reads(killed=None):
        before = batched(client)
        with ThreadPoolExecutor(READERS) as pool:
            for done in [pool.submit(read_pages, reader, killed) for reader in range(READERS)]:
                done.result()
        return batched(client) - before

    try:
        assert round_of_reads() > READERS
        round_of_reads(cluster.workers[1])
        for name in bodies:  # what it had is the other one's now
            assert read(mount, name) == bodies[name]
        # For a second after batches that gave little all go alone.
        assert any(round_of_reads() > READERS for _ in range(20))
    finally:
        for file in files.values():
            os.close(file)


def test_small_files_are_batched_and_none_is_lost(make_cluster, s3, bucket, seed):
    bodies = {f"train/tiny/{i:04}": content(f"tiny {i}", 1, 0, TINY_BYTES) for i in range(TINY)}
    put_all(s3, bucket, bodies)
    cluster = make_cluster(2, LEAT_WORKER_FD_SOCKET="none")
    warming = cluster.client().mount_cluster("/train")
    for name in bodies:  # into the workers' caches, and not into that of who is asked below
        assert read(warming, name) == bodies[name]
    client = cluster.client()
    mount = client.mount_cluster("/train")
    os.listdir(path_in(mount, "train/tiny"))
    order = random.Random(seed).sample(list(bodies), TINY)

    def read_files(reader, names, killed):
        for number, name in enumerate(names):
            assert read(mount, name) == bodies[name], name
            if reader == 0 and number % 4 == 0:
                hiccup(cluster.workers[0])
            if reader == 0 and killed is not None and number == len(names) // 4:
                killed.kill()

    def read_by_many(names, killed=None):
        with ThreadPoolExecutor(TINY_READERS) as pool:
            for done in [pool.submit(read_files, reader, names[reader::TINY_READERS], killed)
                         for reader in range(TINY_READERS)]:
                done.result()

    read_by_many(order[:TINY // 2])
    assert batched(client) > TINY_READERS
    read_by_many(order[TINY // 2:], killed=cluster.workers[1])
