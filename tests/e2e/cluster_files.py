# SPDX-License-Identifier: Apache-2.0
"""What lies in the store of the tests of clusters, and how it is read."""

import os

from e2e.content import content

LARGE, LARGE_BYTES = 24, 3 << 20
SMALL, SMALL_BYTES = 120, 40_000


def names():
    return {**{f"train/large/{i:03}": LARGE_BYTES for i in range(LARGE)},
            **{f"train/small/{i:03}": SMALL_BYTES for i in range(SMALL)}}


def body(name, version=1):
    return content(name, version, 0, names()[name])


def path_in(mount, name):
    return mount / name.removeprefix("train/")


def read(mount, name):
    """Past the kernel's page cache as far as it goes."""
    with open(path_in(mount, name), "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        data = b""
        while piece := file.read(1 << 20):
            data += piece
    return data


def read_all(mount, order=None):
    for name in order or names():
        assert read(mount, name) == body(name), name


def sent_bytes(store):
    """Of objects, by the server's own log: bytes that GET answered with."""
    return store.counters()["bytes"]
