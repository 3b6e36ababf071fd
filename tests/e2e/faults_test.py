# SPDX-License-Identifier: Apache-2.0
"""A folder over a store that fails in one request of twelve: whoever reads from it sees nothing of it."""

import os

import pytest

from e2e.content import content, size_of
from e2e.readers import Readers
from rig.faulty import FaultyFront

KIB, MIB = 1024, 1024 * 1024
BASE_SIZES = [200, 5000, 64 * KIB, 300 * KIB, MIB, 2 * MIB + 4096, 9 * MIB]
SHARE = 1 / 12


@pytest.fixture(params=["plain", "tls"])
def front(request, store, folder, seed):
    faulty = FaultyFront(store, folder, seed, SHARE, tls=request.param == "tls")
    yield faulty
    faulty.stop()


@pytest.fixture
def files(s3, bucket):
    found = {f"d{number % 4}/f{number}": BASE_SIZES[number % len(BASE_SIZES)] for number in range(28)}
    for name, base in found.items():
        s3.put_object(Bucket=bucket, Key=name, Body=content(name, 1, 0, size_of(base, 1)))
    return found


def test_readers_see_nothing_of_a_store_that_fails(leat, bucket, front, files, folder, seed, scale):
    leat.cache_size = "24MiB"  # less than there is, so that the store is asked again and again
    mount = leat.mount(front, bucket, os.path.join(folder, "mnt"))
    counts = Readers(mount, files, seed, processes=3, opens=40 * scale).finish()
    print("faults:", dict(front.faults))
    assert counts["opens"] == 3 * 40 * scale
    assert sum(front.faults.values()) > 5
    assert sorted(f"{path}/{name}" for path in os.listdir(mount) for name in os.listdir(mount / path)) \
        == sorted(files)
