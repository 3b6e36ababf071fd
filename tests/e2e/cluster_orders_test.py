# SPDX-License-Identifier: Apache-2.0
"""Jobs of a cluster that are ordered on a client's host, by the right of its token."""

import pytest

from e2e.cluster_cp_test import expected, objects, url
from e2e.cluster_files import names
from e2e.cluster_jobs_test import WHOLE, cluster_job, jobs_of, leader_of
from rig.process import wait_until


@pytest.fixture
def out(s3):
    s3.create_bucket(Bucket="out")
    return "out"


def client_with(cluster, name, *rights):
    client = cluster.client()
    token = cluster.new_token(cluster.folder / f"{name}.token", name, *rights)
    client.mount_cluster("/train", token=token, memory="64MiB")
    return client


def log_of(cluster):
    return "".join(worker.log.read_text() for worker in cluster.workers)


def test_a_client_orders_watches_and_ends_jobs(make_cluster):
    cluster = make_cluster(3)
    client = client_with(cluster, "trainer", "--jobs", "/train")
    assert jobs_of(client) == {}
    job = cluster_job(client, "load", "/train")
    assert (job["state"], job["files_done"], job["bytes_done"]) == ("done", len(names()), WHOLE)
    shown = jobs_of(cluster.workers[0])[job["id"]]
    assert shown["principal"] == "trainer" == jobs_of(client)[job["id"]]["principal"]
    assert cluster_job(client, "free", "/train")["files_done"] == len(names())
    number = cluster_job(client, "load", "/train", "--bandwidth", "1KiB", "--background")["id"]
    assert "requested by trainer" in client.run("cluster", "jobs", "show", str(number)).stdout
    client.run("cluster", "jobs", "cancel", str(number))
    ended = client.run("cluster", "jobs", "wait", str(number), check=False)
    assert "cancelled" in ended.stderr, ended.stderr
    said = log_of(cluster)
    assert f"starts job {job['id']} of the cluster, the load of /train" in said
    assert "trainer (127.0.0.1:" in said and f"cancels job {number} of the cluster" in said


def test_a_token_may_what_it_says_and_no_more(make_cluster, s3, out):
    cluster = make_cluster(2)
    cluster.mount("out/here", "/out")
    worker = cluster.workers[0]
    reader = client_with(cluster, "reader")
    small = client_with(cluster, "small", "--read", "/train", "--jobs", "/train/small",
                        "--write", "/out/small")

    def refused(client, *words):
        done = client.run("cluster", *words, check=False)
        assert done.returncode != 0, words
        return done.stderr
    for words in (["load", "/train"], ["free", "/train/small"], ["verify"]):
        said = refused(reader, *words)
        assert "get a token that has the right 'jobs' on" in said, said
    assert "'jobs' on /train" in refused(small, "load", "/train")
    assert "'jobs' on /train" in refused(small, "load", "/train/large")
    assert "'jobs' on /" in refused(small, "verify")
    assert cluster_job(small, "load", "/train/small")["files_done"] == 120
    # Where to: a place that it may write, and no store besides.
    assert "'write' on /out/x" in refused(small, "cp", "/train/small", "/out/x")
    assert "'admin' on /" in refused(small, "cp", "/train/small", url(cluster, out))
    copied = cluster_job(small, "cp", "/train/small/", "/out/small/")
    assert copied["files_done"] == 120
    assert objects(s3, out) == {key.replace("small/small/", "small/"): data for key, data in
                                expected("here/small/", "small/").items()}
    chief = client_with(cluster, "chief", "--jobs", "/", "--read", "/", "--admin")
    assert cluster_job(chief, "cp", "/train/small/001", url(cluster, f"{out}/one"))["files_done"] == 1
    # Others' jobs are not there for it.
    number = cluster_job(worker, "load", "/train", "--bandwidth", "1KiB", "--background")["id"]
    wait_until(lambda: number in jobs_of(chief), "the job to be seen")
    assert number not in jobs_of(small)
    for word in ("show", "cancel"):
        assert f"no job {number}" in refused(small, "jobs", word, str(number))
    chief.run("cluster", "jobs", "cancel", str(number))
    assert "audit: reader (127.0.0.1:" in log_of(cluster)


def test_a_restart_of_a_worker_is_no_audit(make_cluster):
    """Peers do not know of the new process yet, and sign anew when they are told."""
    cluster = make_cluster(2)
    client = client_with(cluster, "trainer", "--jobs", "/train")
    for worker in cluster.workers:
        worker.kill()
        worker.start()
        for word in ("load", "free"):
            wait_until(lambda w=word: client.run("cluster", w, "/train", check=False).returncode == 0,
                       "the job to be done")
    assert "starts job" in log_of(cluster)
    assert not [line for line in log_of(cluster).splitlines()
                if "audit:" in line and " rejected: " in line]


def test_an_order_finds_a_worker_that_lives(make_cluster):
    cluster = make_cluster(3)
    client = client_with(cluster, "trainer", "--jobs", "/train")
    leader = leader_of(cluster)
    number = cluster_job(client, "load", "/train", "--bandwidth", "8MiB", "--background")["id"]
    leader.kill()
    for _ in range(3):
        assert number in jobs_of(client)
    done = client.json("cluster", "jobs", "wait", str(number))
    assert (done["state"], done["files_done"]) == ("done", len(names()))


def test_an_odd_path_adds_no_log_line(make_cluster):
    cluster = make_cluster(2)
    client = client_with(cluster, "trainer", "--jobs", "/train")
    refused = client.run("cluster", "load", "/train/x\nforged line", check=False)
    assert refused.returncode != 0
    wait_until(lambda: "is failed" in log_of(cluster), "the job's end in a log")
    assert "\nforged line" not in log_of(cluster) and "\\nforged line" in log_of(cluster)


def test_who_mounts_no_cluster_is_told_so(make_cluster):
    cluster = make_cluster(1)
    plain = cluster.client()
    plain.mount(cluster.store, "data/train", plain.folder / "plain")
    done = plain.run("cluster", "load", "/train", check=False)
    assert done.returncode != 0 and "mounts none" in done.stderr, done.stderr
