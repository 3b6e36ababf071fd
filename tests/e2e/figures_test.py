# SPDX-License-Identifier: Apache-2.0
"""The daemon's figures are those of the store and of the reader, to the request and the byte."""

import mmap
import os
import re
import urllib.request
from collections import defaultdict

import pytest

from e2e.content import content
from rig.counted_store import CountedStore
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
SIZES = {"train/large": 9 * MIB + 5000, "train/medium": 700 * KIB, "train/empty": 0,
         **{f"train/small/f{number:02}": 1000 + 777 * number for number in range(11)}}
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Figures:
    """What /metrics says: sums over the labels that are not asked for."""

    def __init__(self, text):
        self.samples = defaultdict(list)
        for line in text.splitlines():
            if found := SAMPLE.match(line):
                self.samples[found[1]].append((dict(LABEL.findall(found[2] or "")), float(found[3])))

    def __call__(self, name, **labels):
        assert name in self.samples, f"there is no {name}"
        return sum(value for has, value in self.samples[name] if labels.items() <= has.items())

    def by(self, label, name):
        return {has[label]: self(name, **{label: has[label]}) for has, _ in self.samples[name]}


def scrape(leat):
    address = leat.json("status")["metrics_address"]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return answer.read().decode()


def figures_at_rest(leat, store):
    """When neither side has anything under way."""
    seen = []

    def rests():
        figures = Figures(scrape(leat))
        seen.append((sum(store.requests.values()), store.sent_bytes,
                     figures("leat_source_http_requests_total"),
                     figures("leat_source_http_received_bytes_total")))
        still = len(seen) > 5 and len(set(seen[-5:])) == 1
        return figures if still and figures("leat_fetch_requests_in_flight") == 0 else None
    return wait_until(rests, "store and daemon to be at rest", interval_s=0.05)


@pytest.fixture
def rig(leat):
    """Nothing is read by the kernel on its own."""
    store = CountedStore({key: content(key, 1, 0, size) for key, size in SIZES.items()},
                         page_entries=3)
    leat.settings["LEAT_FUSE_DISABLED_FEATURES"] = "passthrough"
    yield leat, store
    leat.close()
    store.stop()


def read_direct(path, offset, size):
    """Past the page cache, so that each read is one of the daemon's."""
    memory = mmap.mmap(-1, size)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        count = os.preadv(descriptor, [memory], offset)
        return memory[:count]
    finally:
        os.close(descriptor)
        memory.close()


def read_all(mount):
    """Bytes that were read: all of the small files, parts of the large ones, some of them twice.
    Directories are listed first: else a name of one with several pages is requested alone, and S3
    answers whether it is a directory by a listing."""
    for _ in os.walk(mount):
        pass
    names = ["train/small/" + name for name in sorted(os.listdir(mount / "train/small"))]
    assert names == [key for key in SIZES if "small" in key]
    wanted = [(name, 0, 16 * KIB) for name in names] + [
        ("train/large", 4 * MIB, 64 * KIB), ("train/large", 0, 128 * KIB), ("train/medium", 0, MIB),
        ("train/large", 4 * MIB, 64 * KIB), ("train/large", 9 * MIB, 8 * KIB), (names[3], 0, 4 * KIB)]
    total = 0
    for name, offset, size in wanted:
        read = read_direct(mount / name, offset, size)
        assert read == content(name, 1, offset, min(size, SIZES[name] - offset))
        total += len(read)
    return total


def compare(figures, store, read):
    # What went over the wire.
    assert {method: count for method, count in
            figures.by("method", "leat_source_http_requests_total").items() if count} \
        == dict(store.requests)
    assert figures("leat_source_http_received_bytes_total") == store.sent_bytes
    assert figures("leat_source_http_sent_bytes_total") == store.received_bytes == 0
    assert figures("leat_source_http_connections_total") == store.connections
    # Requests as Leat makes them: for S3 each attempt is one of HTTP.
    asked = {name: store.asked[name] for name in ("stat", "list", "read")}
    requests = figures.by("store_op", "leat_source_requests_total")
    assert {name: requests[name] for name in asked} == asked and sum(requests.values()) == sum(asked.values())
    attempts = figures.by("store_op", "leat_source_request_seconds_count")
    assert attempts == {**asked, "change": 0}
    throttled = store.met["throttle"] + store.met["too many"]
    failed = store.met["fail"] + store.met["cut"]
    assert figures("leat_source_throttled_total") == throttled
    assert figures.by("reason", "leat_source_errors_total") == {
        "throttled": throttled, "failed": failed}
    assert figures("leat_source_retries_total") == throttled + failed
    # Bytes of objects: what the store gave, and what the reader got.
    for name in ("leat_source_bytes_total", "leat_fetch_source_bytes_total"):
        assert figures(name) == store.read_bytes, name
    assert figures("leat_fetch_store_requests_total") == store.reads
    assert figures("leat_fetch_store_requests_failed_total") == 0
    assert figures("leat_fetch_bytes_total") == read
    assert figures("leat_vfs_read_bytes_total") == read


def test_figures_are_the_stores_and_the_readers(rig, folder):
    leat, store = rig
    mount = leat.mount(store, "data", os.path.join(folder, "mnt"), freshness="immutable")
    read = read_all(mount)
    for name in ("train/nothing", "train/small/f99", "elsewhere"):
        assert not os.path.exists(mount / name)
    assert store.asked["list"] > 4 and store.asked["read"] >= len(SIZES) - 1
    compare(figures_at_rest(leat, store), store, read)


def test_and_stay_so_while_the_store_fails(rig, folder):
    leat, store = rig
    mount = leat.mount(store, "data", os.path.join(folder, "mnt"), freshness="immutable")
    store.plan("throttle", "fail", "cut", asked="list")
    store.plan("throttle", "cut", "well", "fail", "throttle", "throttle", "well", "well", "cut",
               "well", "fail", "well", "well", "well", "cut")
    store.plan("fail", "too many", asked="stat")
    read = read_all(mount)
    leat.run("stat", mount / "train/large")
    leat.run("refresh", mount / "train/medium")
    print("faults:", dict(store.met), "asked:", dict(store.asked))
    assert store.met["throttle"] >= 4 and store.met["fail"] >= 3 and store.met["cut"] >= 4
    compare(figures_at_rest(leat, store), store, read)


def test_requests_that_got_no_answer_were_sent(rig, folder):
    leat, store = rig
    mount = leat.mount(store, "data", os.path.join(folder, "mnt"), freshness="immutable")
    store.plan("well", "hang up", "well", "hang up", "well", "well", "hang up")
    store.plan("hang up", asked="list")
    read = read_all(mount)
    assert store.met["hang up"] == 4
    figures = figures_at_rest(leat, store)
    for method in ("GET", "HEAD"):
        assert figures("leat_source_http_requests_total", method=method) == store.requests[method]
    assert figures("leat_source_http_received_bytes_total") == store.sent_bytes
    assert figures("leat_source_http_connections_total") == store.connections
    assert figures("leat_vfs_read_bytes_total") == read
