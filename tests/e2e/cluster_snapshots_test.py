# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a cluster: made once by its workers, one file for all who mount it, whoever dies."""

import errno
import os
from pathlib import Path

import pytest

from e2e.cluster_files import LARGE, SMALL, body, names, path_in, read, read_all
from e2e.objects import put_all
from rig.process import wait_until

DIRECTORIES = 3  # the mount's own, large, small


def listings(cluster):
    return sum(1 for operation, *_ in cluster.store.requests() if operation == "ListObjectsV2")


def names_below(mount):
    return {os.path.relpath(os.path.join(at, name), mount)
            for at, _, files in os.walk(mount) for name in files}


def all_names():
    return {name.removeprefix("train/") for name in names()}


def mount_of_worker(worker):
    """Whoever is a worker needs no token and may do anything."""
    directory = worker.folder / "mnt"
    directory.mkdir()
    worker.run("mount", f"leat://{worker.address}/train", directory)
    return directory


def shared(host, mount):
    return {one["name"]: one for one in host.json("snapshot", "ls", mount)["snapshots"]}


def test_clients_see_one_data_set_during_changes(make_cluster, s3, bucket):
    cluster = make_cluster(3)
    hosts = [cluster.client() for _ in range(4)]
    maker = hosts[0].mount_cluster("/train", memory="64MiB")
    before = listings(cluster)
    hosts[0].run("snapshot", "build", maker, "--name", "monday", "--use")
    assert listings(cluster) - before == DIRECTORIES
    pinned = [maker, hosts[1].mount_cluster("/train", "--snapshot", "monday", memory="64MiB"),
              hosts[2].mount_cluster("/train/small", freshness="snapshot", memory="64MiB")]
    live = hosts[3].mount_cluster("/train", freshness="max-age=1s", memory="64MiB")
    assert read(maker, "train/small/001") == body("train/small/001")  # a worker has it now

    put_all(s3, bucket, {"train/small/new": b"new", "train/small/001": b"other",
                         "train/small/002": b"other"})
    s3.delete_object(Bucket=bucket, Key="train/large/000")
    wait_until(lambda: "small/new" in names_below(live), "what is new at a client without it")
    assert (live / "small" / "002").read_bytes() == b"other"
    hosts[3].umount(live)  # it asks for names as its second ends
    asked = listings(cluster)
    assert names_below(pinned[0]) == names_below(pinned[1]) == all_names()
    assert names_below(pinned[2]) == {f"{i:03}" for i in range(SMALL)}
    assert len(os.listdir(pinned[1] / "large")) == LARGE
    for mount in pinned[:2]:
        # As on one host: what is cached is read, of another version there is nothing.
        assert read(mount, "train/small/001") == body("train/small/001")
        with pytest.raises(OSError) as failed:
            read(mount, "train/small/002")
        assert failed.value.errno == errno.ESTALE
        assert read(mount, "train/small/003") == body("train/small/003")
    assert (pinned[2] / "004").read_bytes() == body("train/small/004")
    assert listings(cluster) == asked, "names of a snapshot are asked of nobody"
    one = shared(hosts[1], pinned[1])["monday"]
    assert one["files"] == SMALL + LARGE
    assert one["used_by"] == [str(pinned[1])]

    hosts[1].run("snapshot", "release", pinned[1])
    assert "small/new" in names_below(pinned[1])
    hosts[1].run("snapshot", "use", "monday", pinned[1])
    assert names_below(pinned[1]) == all_names()


def built(worker):
    return worker.counter("leat_peer_snapshots_built_total")


def test_a_snapshot_outlives_its_builder(make_cluster):
    cluster = make_cluster(4)
    host = cluster.client()
    mount = host.mount_cluster("/train", memory="64MiB")
    host.run("snapshot", "build", mount, "--name", "monday")
    maker = next(worker for worker in cluster.workers if built(worker) > 0)
    maker.kill()
    before = listings(cluster)
    second = cluster.client()
    assert names_below(second.mount_cluster("/train", "--snapshot", "monday")) == all_names()

    for worker in cluster.workers:
        worker.end()
    for worker in cluster.workers:
        worker.start()
    cluster.wait_for_ring(cluster.workers)
    third = cluster.client().mount_cluster("/train", "--snapshot", "monday", memory="64MiB")
    assert names_below(third) == all_names()
    read_all(third, list(names())[:5])
    assert listings(cluster) - before <= 2, "mounting looks at the folder, nothing is made again"

    # Who has the file goes on with it; who has not hears why.
    for worker in cluster.workers:
        worker.kill()
    assert names_below(third) == all_names()
    late = cluster.client()
    refused = late.mount_cluster("/train", "--snapshot", "monday", check=False)
    assert refused.returncode != 0
    assert "worker" in refused.stderr


def test_a_damaged_file_is_not_used(make_cluster):
    cluster = make_cluster(3)
    host = cluster.client()
    mount = host.mount_cluster("/train")
    host.run("snapshot", "build", mount, "--name", "monday")
    files = [file for worker in cluster.workers
             for file in (Path(worker.cache_dir) / "snapshots").glob("*.snapshot")]
    assert len(files) == 3

    def damage(file):
        with open(file, "r+b") as open_file:
            open_file.seek(300)
            open_file.write(b"\xff\xfe\xfd")
    damage(files[0])
    assert names_below(cluster.client().mount_cluster("/train", "--snapshot", "monday")) == all_names()
    for file in files[1:]:
        damage(file)
    refused = cluster.client().mount_cluster("/train", "--snapshot", "monday", check=False)
    assert refused.returncode != 0
    assert "checksum" in refused.stderr


def test_names_are_the_clusters(make_cluster, s3, bucket):
    cluster = make_cluster(3)
    host = cluster.client()
    none = host.mount_cluster("/train", freshness="snapshot", check=False)
    assert none.returncode != 0
    assert "snapshot build" in none.stderr
    mount = host.mount_cluster("/train")
    host.run("snapshot", "build", mount, "--name", "monday")
    again = host.run("snapshot", "build", mount, "--name", "monday", check=False)
    assert again.returncode != 0
    assert "right to write" in again.stdout + again.stderr
    assert host.run("snapshot", "rm", "monday", mount, check=False).returncode != 0
    assert host.run("snapshot", "ls", host.folder, check=False).returncode != 0

    owner = cluster.workers[0]
    there = mount_of_worker(owner)
    put_all(s3, bucket, {"train/new": b"new"})
    owner.run("snapshot", "build", there, "--name", "monday")
    owner.run("snapshot", "build", there / "large", "--name", "part")
    assert shared(host, mount).keys() == {"monday", "part"}
    # The newer one of that name takes the place of the one that is here.
    host.run("snapshot", "use", "monday", mount)
    assert (mount / "new").read_bytes() == b"new"
    host.run("snapshot", "release", mount)
    refused = host.run("snapshot", "use", "part", mount, check=False)
    assert "large" in refused.stderr
    owner.run("snapshot", "rm", "monday", there)
    assert shared(host, mount).keys() == {"part"}
    late = cluster.client().mount_cluster("/train", "--snapshot", "monday", check=False)
    assert late.returncode != 0
    assert "monday" in late.stderr


def test_a_restarted_client_needs_no_worker(make_cluster):
    cluster = make_cluster(2)
    host = cluster.client()
    mount = host.mount_cluster("/train", memory="64MiB")
    host.run("snapshot", "build", mount, "--name", "monday", "--use")
    for worker in cluster.workers:
        worker.kill()
    host.kill_daemon()
    wait_until(lambda: names_below(mount) == all_names(), "the names at the next daemon")


def test_paths_in_the_mount(make_cluster):
    cluster = make_cluster(2)
    host = cluster.client()
    mount = host.mount_cluster("/train")
    host.run("snapshot", "build", mount / "small", "--name", "small")
    assert shared(host, mount)["small"]["source"] == "leat://train/small/"
    assert path_in(mount, "train/small/000").exists()
