# SPDX-License-Identifier: Apache-2.0
"""Look-ahead from file to file: what follows in name order is fetched before it is opened."""

import errno
import os
import random
import urllib.request

from e2e.objects import put_all
from rig.process import wait_until

FILES, SIZE = 400, 20_000


def put_files(s3, bucket, seed):
    source = random.Random(seed)
    bodies = {f"train/{number:05}.jpg": source.randbytes(SIZE) for number in range(FILES)}
    put_all(s3, bucket, bodies)
    return bodies


def prefetch_counts(leat):
    """The counters of prefetch in name order, by what they count."""
    address = leat.json("status")["metrics_address"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    prefix = 'leat_prefetch_files_total{what="'
    return {line[len(prefix):].split('"')[0]: float(line.rsplit(" ", 1)[1])
            for line in lines if line.startswith(prefix)}


def read_and_compare(mount, bodies, names):
    for name in names:
        assert (mount / name).read_bytes() == bodies[name], name


def test_ordered_opens_are_fetched_ahead(leat, store, s3, bucket, folder, seed):
    bodies = put_files(s3, bucket, seed)
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
    names, opened = sorted(bodies), 100
    read_and_compare(mount, bodies, names[:opened])
    wait_until(lambda: prefetch_counts(leat)["predicted"] >= 90, "the next names")
    # Who opens them may be faster than what fetches them.
    while prefetch_counts(leat)["used"] < 60 and opened < FILES:
        read_and_compare(mount, bodies, names[opened:opened + 1])
        opened += 1
    counts = prefetch_counts(leat)
    assert counts["used"] >= 60, counts
    # More than was read, and each once.
    keys = [key for operation, key, *_ in store.requests() if operation == "GetObject"]
    wait_until(lambda: len([1 for op, *_ in store.requests() if op == "GetObject"]) > opened,
               "requests for files that nobody has opened")
    assert len(keys) == len(set(keys)), "a file was fetched twice"


def test_random_opens_fetch_nothing_ahead(leat, store, s3, bucket, folder, seed):
    bodies = put_files(s3, bucket, seed)
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), "-o", "load=never",
                       freshness="immutable")
    names = sorted(bodies)
    random.Random(seed).shuffle(names)
    read_and_compare(mount, bodies, names[:200])
    assert prefetch_counts(leat)["predicted"] <= 8
    asked = {key for operation, key, *_ in store.requests() if operation == "GetObject"}
    assert len(asked) <= 208


def test_changing_files_are_one_version(leat, store, s3, bucket, folder, seed):
    """What was fetched ahead in an earlier version is served as that, whole, or not at all."""
    versions = {name: [body] for name, body in put_files(s3, bucket, seed).items()}
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="max-age=1s")
    names = sorted(versions)
    source = random.Random(seed)
    for number, name in enumerate(names):
        if number % 10 == 0:
            later = names[min(number + 3, FILES - 1)]
            versions[later].append(source.randbytes(SIZE))
            s3.put_object(Bucket=bucket, Key=later, Body=versions[later][-1])
        try:
            assert (mount / name).read_bytes() in versions[name], name
        except OSError as error:
            assert error.errno == errno.ESTALE, name  # the version opened is gone
