# SPDX-License-Identifier: Apache-2.0
"""What clients of a cluster are told of changes, and what they believe when nobody tells them anything.
Names would be believed for an hour, so nothing but the telling, or its absence, shows what is new."""

import errno
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from e2e.cluster_files import SMALL, SMALL_BYTES, body
from e2e.objects import put_all
from rig.cluster import Cluster
from rig.faulty import FaultyFront
from rig.leat import ROOT
from rig.process import wait_until

sys.path.append(str(ROOT / "bench"))
from cluster_door.network import Network  # noqa: E402
from folder_door import link  # noqa: E402

FOR_AN_HOUR = "max-age=1h"
CLIENTS, CHANGES = 3, 5
# A second is promised; the rest is for a machine that has much else to do.
TOLD_WITHIN_S = 2
# A worker that says nothing is found dead about 11 s after its last word; a question that waits for
# news is given up after 15 s.
BELIEVED_MAX_S = 30


def mount_for_an_hour(cluster):
    cluster.mount("data/train", "/still", "-o", f"freshness={FOR_AN_HOUR}")


def folder_of(one):
    """Of a worker, or of a client."""
    return one.mount_cluster("/still", freshness=FOR_AN_HOUR) / "small"


def size_of(version):
    return 1000 + version


class Looker:
    """Looks until it sees a version, as a new size of a name that is there and as a new name."""

    def __init__(self, folder):
        self.folder = folder

    def sees(self, version):
        return ((self.folder / "001").stat().st_size == size_of(version)
                and f"new-{version}" in os.listdir(self.folder))

    def saw(self, version):
        """When it did."""
        wait_until(lambda: self.sees(version), f"version {version} in {self.folder}", interval_s=0.01)
        return time.monotonic()


def test_a_change_reaches_clients_of_all_workers(make_cluster, s3):
    cluster = make_cluster(3)
    mount_for_an_hour(cluster)
    lookers = [Looker(folder_of(cluster.client())) for _ in range(CLIENTS)]
    asked = folder_of(cluster.workers[0])
    for folder in [asked, *(looker.folder for looker in lookers)]:
        assert len(os.listdir(folder)) == SMALL
    took_s = []
    with ThreadPoolExecutor(CLIENTS) as pool:
        for version in range(CHANGES):
            looking = [pool.submit(looker.saw, version) for looker in lookers]
            put_all(s3, "data", {"train/small/001": bytes(size_of(version)),
                                 f"train/small/new-{version}": b"new"})
            assert not wait(looking, timeout=0.2).done, "who has told them?"
            cluster.workers[0].run("refresh", asked)
            told = time.monotonic()
            took_s += [one.result() - told for one in looking]
    print(f"seen {max(took_s):.3f} s after refresh at the latest")
    assert max(took_s) <= TOLD_WITHIN_S, took_s


def test_a_vanished_version_is_invalidated(make_cluster, s3):
    cluster = make_cluster(3)
    mount_for_an_hour(cluster)
    folders = [folder_of(cluster.client()) for _ in range(CLIENTS)]
    for folder in folders:
        assert (folder / "001").stat().st_size == SMALL_BYTES
    put_all(s3, "data", {"train/small/001": bytes(size_of(1))})
    with pytest.raises(OSError) as stale:
        (folders[0] / "001").read_bytes()
    assert stale.value.errno == errno.ESTALE
    found = time.monotonic()
    for folder in folders:
        wait_until(lambda folder=folder: (folder / "001").stat().st_size == size_of(1),
                   f"the new version in {folder}", interval_s=0.01)
    assert time.monotonic() - found <= TOLD_WITHIN_S
    for folder in folders:
        assert (folder / "001").read_bytes() == bytes(size_of(1))


@pytest.fixture
def behind_a_front(folder, store, s3, bucket):
    """A cluster of one worker that all find at a front of it, and the front."""
    put_all(s3, bucket, {f"train/small/{i:03}": body(f"train/small/{i:03}") for i in range(SMALL)})
    cluster = Cluster(Path(folder) / "cluster", store, 1)
    front = FaultyFront(cluster.workers[0], folder, seed=0, share=0)
    cluster.workers[0].advertise(front.endpoint.removeprefix("http://"))
    try:
        cluster.start()
        mount_for_an_hour(cluster)
        yield cluster, front
    finally:
        front.stop()
        cluster.close()


def tell(cluster, s3, name, folder):
    s3.put_object(Bucket="data", Key=f"train/small/{name}", Body=b"new")
    cluster.workers[0].run("refresh", folder)


def test_missing_invalidations_stale_all_names(behind_a_front, s3):
    """All but the news goes through as ever."""
    cluster, front = behind_a_front
    folder, asked = folder_of(cluster.client()), folder_of(cluster.workers[0])
    for each in (folder, asked):
        assert len(os.listdir(each)) == SMALL
    front.hold("/peer/v1/changes")
    # Told of it, or since both believe nothing any more: either way it is a while until the next time.
    tell(cluster, s3, "last", asked)
    wait_until(lambda: front.held >= 2 and all("last" in os.listdir(each) for each in (folder, asked)),
               "both to be told nothing any more", timeout_s=BELIEVED_MAX_S)
    tell(cluster, s3, "new", asked)
    assert "new" in os.listdir(asked)
    assert "new" not in os.listdir(folder), "who has told it?"
    wait_until(lambda: "new" in os.listdir(folder), "the new name", timeout_s=BELIEVED_MAX_S)


@pytest.fixture
def network():
    if reason := link.missing():
        pytest.skip(reason)
    made = Network().start()
    yield made
    made.remove()


def test_a_cut_off_client_shows_nothing_stale(network, make_cluster, s3):
    """The client alone has a machine of its own, as it were."""
    cluster = make_cluster(2, place=lambda name: network.place(name if name == "c0" else "bench"))
    mount_for_an_hour(cluster)
    client = cluster.client()
    folder, asked = folder_of(client), folder_of(cluster.workers[0])
    for each in (folder, asked):
        assert len(os.listdir(each)) == SMALL
    network.cut_off("c0")
    tell(cluster, s3, "new", asked)
    assert "new" not in os.listdir(folder), "who has told it?"

    def rounds_in_vain():
        return client.json("status")["counters"]["leat_peer_retry_rounds_total"]
    with ThreadPoolExecutor(1) as pool:
        def waiting():
            """A listing that workers are asked for, since it is not answered by what is known."""
            before = rounds_in_vain()
            listing = pool.submit(os.listdir, folder)
            wait_until(lambda: listing.done() or rounds_in_vain() > before,
                       "a listing, or workers to be asked for it in vain", timeout_s=60)
            if not listing.done():
                return listing
            assert "new" not in listing.result()
            return None
        try:
            listing = wait_until(waiting, "what is known to be believed no more",
                                 timeout_s=BELIEVED_MAX_S)
        finally:
            network.heal()
        assert "new" in listing.result(timeout=20)
