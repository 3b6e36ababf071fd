# SPDX-License-Identifier: Apache-2.0
"""A worker that leaves gives the others what it has."""

import os

from e2e.cluster_files import body, names, read, read_all, sent_bytes
from e2e.objects import put_all
from rig.cluster import Cluster
from rig.process import wait_until

WHOLE = sum(names().values())


def test_a_drained_worker_is_missed_by_nobody(make_cluster):
    cluster = make_cluster(3)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    leaver = cluster.workers[2]
    had = leaver.json("status")["cache"]["used_bytes"]
    before = sent_bytes(cluster.store)
    drained = leaver.json("cluster", "drain")
    assert drained["ended"] and not drained["stopped"] and drained["errors"] == []
    assert drained["objects_done"] > len(names()) / 10 and drained["objects_failed"] == 0
    # A worker's share of few large files differs with its identity, which is random.
    assert drained["bytes_done"] > had * 0.9 > WHOLE / 100, (drained, had)
    assert sent_bytes(cluster.store) - before < WHOLE * 0.02, "the others took it from there"
    text = leaver.run("cluster").stdout
    assert "all that this worker had is with others" in text, text
    leaver.kill()
    before = sent_bytes(cluster.store)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    assert sent_bytes(cluster.store) - before < WHOLE * 0.02, "nothing went with it"


def test_a_drain_keeps_its_limit_and_is_cancelled(make_cluster):
    cluster = make_cluster(2)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    leaver = cluster.workers[1]
    leaver.run("cluster", "drain", "--bandwidth", "2MiB", "--background")
    drain = wait_until(lambda: (now := leaver.status()["drain"])["bytes_done"] and now, "its beginning")
    assert not drain["ended"] and drain["bytes_done"] < 40 << 20, drain
    assert "draining: " in leaver.run("cluster").stdout
    # Readers do not wait for it.
    mount = cluster.client().mount_cluster("/train", memory="64MiB")
    assert read(mount, "train/large/003") == body("train/large/003")
    leaver.run("cluster", "undrain")
    assert "drain" not in leaver.status()
    cluster.wait_for_ring(cluster.workers)
    # And once more, without a limit.
    assert leaver.json("cluster", "drain")["objects_failed"] == 0


def test_what_has_no_room_elsewhere_is_said(folder, store, s3, bucket):
    """The one that stays is smaller than what the one that leaves has: of 32 files, whatever it has by
    chance, more than the other one's 6."""
    put_all(s3, bucket, {f"train/{i:02}": os.urandom(8 << 20) for i in range(32)})
    cluster = Cluster(os.path.join(folder, "cluster"), store, 2)
    leaver, small = cluster.workers
    small.cache_size = "48MiB"
    try:
        cluster.start().mount(f"{bucket}/train", "/train")
        mount = cluster.client().mount_cluster("/train", memory="64MiB")
        for i in range(32):
            assert len((mount / f"{i:02}").read_bytes()) == 8 << 20
        done = leaver.run("cluster", "drain", check=False)
        assert done.returncode != 0
        assert "do not hold all of it" in done.stderr and "make them larger" in done.stderr
        assert leaver.status()["drain"]["objects_failed"] > 0
        # It still is there to be asked.
        wait_until(lambda: (mount / "05").stat().st_size == 8 << 20, "its names")
    finally:
        cluster.close()
