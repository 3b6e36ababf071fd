# SPDX-License-Identifier: Apache-2.0
"""Jobs of a whole cluster: given to any worker, done by their leader at all of them."""

import json
import os
import time

from e2e.cluster_files import names, path_in, read_all, sent_bytes
from rig.process import wait_until

WHOLE = sum(names().values())


def cluster_job(worker, *words, **options):
    return json.loads(worker.run("cluster", *words, "--json", **options).stdout)


def jobs_of(worker):
    return {one["job"]["id"]: one for one in cluster_job(worker, "jobs")["jobs"]}


def wait_for(worker, number):
    """The job as it ended."""
    worker.run("cluster", "jobs", "wait", str(number), "--json")
    return jobs_of(worker)[number]


def leader_of(cluster, of=None):
    """The worker that leads, as `of` sees it."""
    seen = (of or cluster.workers[0]).status()
    address = next((one["address"] for one in seen["workers"] if one["id"] == seen["leader"]), None)
    return next((worker for worker in cluster.workers if worker.address == address), None)


def others_than(cluster, worker):
    return [one for one in cluster.workers if one is not worker]


def test_a_load_reads_the_store_once(make_cluster):
    cluster = make_cluster(3)
    worker = others_than(cluster, leader_of(cluster))[0]
    before = sent_bytes(cluster.store)
    job = cluster_job(worker, "load", "/train")
    assert (job["state"], job["files_done"], job["bytes_fetched"]) == ("done", len(names()), WHOLE)
    assert jobs_of(worker)[job["id"]]["principal"] == f"worker:{worker.status()['self']}"
    assert sent_bytes(cluster.store) - before <= WHOLE * 1.03
    used = [one.json("status")["cache"]["used_bytes"] for one in cluster.workers]
    # The share of few large files differs with the identities, which are random.
    assert all(bytes_used > WHOLE / 100 for bytes_used in used), used
    before = sent_bytes(cluster.store)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    assert sent_bytes(cluster.store) - before < WHOLE * 0.02, "what is loaded is not asked for"
    again = cluster_job(worker, "load", "/train", "--verify")
    assert (again["bytes_fetched"], again["bytes_verified"]) == (0, WHOLE)
    for one in cluster.workers:
        assert jobs_of(one)[job["id"]]["job"]["state"] == "done"
    text = worker.run("cluster", "jobs", "show", str(job["id"])).stdout
    assert f"loaded {len(names())} files" in text and "done by worker" in text


def test_free_and_verify_reach_all_workers(make_cluster):
    cluster = make_cluster(3)
    worker = cluster.workers[1]
    cluster_job(worker, "load", "/train")
    verified = cluster_job(worker, "verify")
    assert verified["state"] == "done", verified
    assert verified["files_done"] == len(names())
    freed = cluster_job(worker, "free", "/train", "--include", "small/*")
    assert (freed["files_done"], freed["bytes_done"]) == (120, 120 * 40_000)
    freed = cluster_job(worker, "free", "/train")
    assert freed["bytes_done"] == WHOLE - 120 * 40_000
    before = sent_bytes(cluster.store)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    assert sent_bytes(cluster.store) - before >= WHOLE


def test_a_load_goes_on_under_the_next_leader(make_cluster):
    cluster = make_cluster(3)
    leader = leader_of(cluster)
    worker, other = others_than(cluster, leader)
    # Slow enough to be met half done: the rest takes 16 s.
    number = cluster_job(worker, "load", "/train", "--bandwidth", "4MiB", "--background")["id"]
    wait_until(lambda: jobs_of(worker)[number]["job"]["bytes_done"] > WHOLE / 10, "a tenth of the load")
    assert jobs_of(other)[number]["job"]["state"] == "running"
    leader.kill()
    ended = wait_for(worker, number)
    done = ended["job"]
    assert (done["state"], done["files_done"], done["files_failed"]) == ("done", len(names()), 0)
    assert ended["begun"] == 2
    assert "started 2 times" in worker.run("cluster", "jobs", "show", str(number)).stdout
    # All of it, and right, though a third of it lay with the one that was killed.
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))


def test_a_load_outlives_its_registry(make_cluster):
    cluster = make_cluster(2)
    worker = cluster.workers[0]
    number = cluster_job(worker, "load", "/train", "--bandwidth", "8MiB", "--background")["id"]
    wait_until(lambda: jobs_of(worker)[number]["job"]["bytes_done"] > 0, "the load to begin")
    cluster.etcd.stop()
    wait_until(lambda: worker.status().get("trouble"), "the trouble to be told")
    time.sleep(12)  # longer than any lease
    cluster.etcd.start()
    done = wait_for(worker, number)["job"]
    assert (done["state"], done["files_done"]) == ("done", len(names()))


def test_limits_hold_for_all_workers_together(make_cluster):
    cluster = make_cluster(3)
    begin = time.monotonic()
    job = cluster_job(cluster.workers[0], "load", "/train", "--bandwidth", "16MiB")
    took = time.monotonic() - begin
    # What goes at once before a limit can hold: a piece for each of its requests.
    assert took >= (WHOLE / (16 << 20)) * 0.8, took
    assert job["state"] == "done"


def test_a_load_is_cancelled_from_another_worker(make_cluster):
    cluster = make_cluster(3)
    one, other = cluster.workers[:2]
    number = cluster_job(one, "load", "/train", "--bandwidth", "1MiB", "--background")["id"]
    wait_until(lambda: number in jobs_of(other), "the other one to hear of it")
    other.run("cluster", "jobs", "cancel", str(number))
    wait_until(lambda: jobs_of(one)[number]["job"]["state"] == "cancelled", "its end")


def test_failures_of_a_job_are_listed(make_cluster):
    cluster = make_cluster(2)
    worker = cluster.workers[1]
    missing = worker.run("cluster", "load", "/nowhere", check=False)
    assert missing.returncode != 0
    assert "/nowhere" in missing.stderr, missing.stderr
    wrong = worker.run("cluster", "load", "train", check=False)
    assert wrong.returncode == 2 and "begin with '/'" in wrong.stderr, wrong.stderr
    unknown = worker.run("cluster", "jobs", "show", "999", check=False)
    assert unknown.returncode == 3 and "no job 999" in unknown.stderr, unknown.stderr
    plain = cluster.client()
    plain.run("daemon", "start", check=False)
    refused = plain.run("cluster", "load", "/train", check=False)
    assert refused.returncode != 0


def test_a_load_and_readers_share_the_workers(make_cluster):
    """Demand reads come first: they end while a load of all is under way."""
    cluster = make_cluster(2)
    worker = cluster.workers[0]
    mount = cluster.client().mount_cluster("/train", memory="64MiB")
    number = cluster_job(worker, "load", "/train", "--background")["id"]
    read_all(mount)
    assert wait_for(worker, number)["job"]["state"] == "done"
    assert path_in(mount, "train/small/001").stat().st_size == 40_000


def test_a_recurring_load_follows_changes(make_cluster, s3):
    cluster = make_cluster(2)
    worker, other = cluster.workers
    number = cluster_job(worker, "load", "/train", "--on-change", "--on-mount", "--every",
                         "1d")["id"]
    wait_until(lambda: jobs_of(worker)[number]["runs"] == 1, "its first run")
    s3.put_object(Bucket="data", Key="train/small/new", Body=os.urandom(1000))
    client = cluster.client()
    mount = client.mount_cluster("/train")
    os.listdir(mount / "small")  # only what is known is asked about
    client.run("refresh", mount / "small")
    wait_until(lambda: jobs_of(other)[number]["runs"] == 2, "the run after the change",
               timeout_s=60)
    assert jobs_of(other)[number]["job"]["files_done"] == len(names()) + 1
    cluster.mount("data/train/large", "/train/inside")
    wait_until(lambda: jobs_of(other)[number]["runs"] == 3, "the run after the mount", timeout_s=60)
    shown = other.run("cluster", "jobs", "show", str(number)).stdout
    assert "repeats every 1d, on change, on mount; 3 runs so far" in shown, shown
    other.run("cluster", "jobs", "cancel", str(number))
    wait_until(lambda: jobs_of(worker)[number]["job"]["state"] == "cancelled", "its end")
