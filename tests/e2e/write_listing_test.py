# SPDX-License-Identifier: Apache-2.0
"""A listing that the store made before a file was saved does not hide the file."""

import os
import threading
import time
from pathlib import Path

import pytest

from e2e.writing_test import Front
from rig.process import wait_until

NAMES = [f"f{number}" for number in range(8)]
SAVED_MEANWHILE = 6
LATE_S = 0.005  # well below the time after which a lookup no longer waits for a listing


class EarlyListing(Front):
    """Has the listing of `d` made while the store has one file of it, and answers it when it has more."""

    def __init__(self, *words, **options):
        self.request = threading.local()
        self.listed, self.saved, self.saves = threading.Event(), threading.Event(), 0
        super().__init__(*words, **options)

    def wait_while_held(self, request):
        self.request.line = request.split(b"\r\n", 1)[0]
        if b"PUT /data/d/f" in self.request.line and self.saves:
            self.listed.wait(10)
        super().wait_while_held(request)

    def pass_body(self, wire, upstream, rest, size):
        if b"prefix=d/&delimiter=" in self.request.line and not self.listed.is_set():
            self.listed.set()
            self.saved.wait(10)
            time.sleep(LATE_S)
        return super().pass_body(wire, upstream, rest, size)

    def one_request(self, client, wire, upstream):
        self.request.line = b""
        goes_on = super().one_request(client, wire, upstream)
        if b"PUT /data/d/f" in self.request.line:
            with self.lock:
                self.saves += 1
                if self.saves == SAVED_MEANWHILE:
                    self.saved.set()
        return goes_on


@pytest.fixture
def front(store, folder, seed):
    front = EarlyListing(store, folder, seed, share=0)
    yield front
    front.stop()


def test_an_early_listing_hides_no_file(leat, front, bucket, folder):
    """The first file that is in the store makes a renamed directory one that is listed."""
    mount = leat.mount(front, bucket, Path(folder) / "mnt", "--writable", "-o", "write=back",
                       freshness="max-age=10m")
    (mount / "tmp").mkdir()
    for name in NAMES:
        (mount / "tmp" / name).write_bytes(name.encode())
    os.rename(mount / "tmp", mount / "d")
    wait_until(lambda: leat.json("mounts")["mounts"][0]["unsent"]["changes"] == 0,
               "all to be in the store")
    assert front.listed.is_set() and front.saved.is_set()
    assert sorted(os.listdir(mount / "d")) == NAMES
    assert (mount / "d" / "f7").read_bytes() == b"f7"
