# SPDX-License-Identifier: Apache-2.0
"""A cluster beside another one in the same etcd, and a mount that goes while it is loaded."""

import os

from e2e.cluster_files import read_all
from e2e.cluster_jobs_test import cluster_job, jobs_of
from rig.cluster import Cluster
from rig.process import wait_until


def test_two_clusters_share_an_etcd(make_cluster, folder, store, bucket):
    """The name of one begins with that of the other."""
    first = make_cluster(1)
    second = Cluster(os.path.join(folder, "second"), store, 1, etcd=first.etcd)
    second.name = first.name + "2"
    try:
        second.start()
        second.mount(f"{bucket}/train/small", "/only")
        for one, path in ((first, "/train"), (second, "/only")):
            seen = one.workers[0].status()
            assert [worker["address"] for worker in seen["workers"]] == [one.workers[0].address]
            assert [mount["path"] for mount in seen["mounts"]] == [path]
            assert seen["leader"] == seen["self"]
        job = cluster_job(second.workers[0], "load", "/only")
        assert job["state"] == "done" and list(jobs_of(second.workers[0])) == [job["id"]]
        assert not jobs_of(first.workers[0])
        refused = second.client().mount_cluster("/only", token=first.token, check=False)
        assert refused.returncode != 0 and "token" in refused.stderr, refused.stderr
        first.workers[0].end()
        assert len(os.listdir(second.client().mount_cluster("/only"))) == 120
    finally:
        for one in (*second.clients, *second.workers, second.tool):
            one.close()


def test_a_mount_that_goes_ends_its_load(make_cluster, bucket):
    """The job fails and says so; the mount comes again, and so does all that was there."""
    cluster = make_cluster(2)
    worker = cluster.workers[0]
    job = cluster_job(worker, "load", "/train", "--background", "--bandwidth", "2MiB")
    number = job["id"]
    wait_until(lambda: jobs_of(worker)[number]["job"]["files_done"] > 0, "the load to begin")
    worker.run("cluster", "umount", "/train")
    wait_until(lambda: jobs_of(worker)[number]["job"]["state"] != "running", "the job to end",
               timeout_s=60)
    ended = jobs_of(worker)[number]["job"]
    assert ended["state"] == "failed" and ended["files_failed"] > 0, ended
    assert ended["errors"], ended
    cluster.mount(f"{bucket}/train", "/train")
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
