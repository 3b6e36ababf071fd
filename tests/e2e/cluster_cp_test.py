# SPDX-License-Identifier: Apache-2.0
"""Copies that all workers of a cluster make together: given to one, led by their leader."""

import json
import os
import time

import pytest

from e2e.cluster_files import body, names, sent_bytes
from e2e.cluster_jobs_test import (WHOLE, cluster_job, jobs_of, leader_of, others_than, wait_for)
from e2e.objects import put_all
from rig.process import wait_until
from rig.store import REGION


@pytest.fixture
def out(s3):
    s3.create_bucket(Bucket="out")
    return "out"


def url(cluster, place):
    """A store's URL that workers can write to."""
    return f"s3://{place}?endpoint={cluster.store.endpoint}&region={REGION}"


def objects(s3, bucket, prefix=""):
    """key -> bytes of all that lies there."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {one["Key"]: s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
            for page in pages for one in page.get("Contents", [])}


def expected(prefix, *below):
    return {prefix + name.removeprefix("train/"): body(name) for name in names()
            if not below or any(name.startswith(f"train/{part}") for part in below)}


def copied_files(worker):
    return worker.counter("leat_peer_copied_files_total")


def test_a_copy_to_a_store_is_made_by_all_workers(make_cluster, s3, out):
    cluster = make_cluster(3)
    worker = others_than(cluster, leader_of(cluster))[0]
    job = cluster_job(worker, "cp", "/train", url(cluster, f"{out}/set/"))
    assert (job["kind"], job["state"], job["files_done"]) == ("copy", "done", len(names()))
    assert (job["bytes_done"], job["bytes_fetched"], job["files_present"]) == (WHOLE, WHOLE, 0)
    assert objects(s3, out) == expected("set/")
    assert all(copied_files(one) > len(names()) / 10 for one in cluster.workers)
    # Again: what is there costs a look.
    before = sent_bytes(cluster.store)
    again = cluster_job(worker, "cp", "/train", url(cluster, f"{out}/set/"))
    assert (again["state"], again["files_present"], again["bytes_fetched"]) == (
        "done", len(names()), 0)
    assert sent_bytes(cluster.store) - before < WHOLE * 0.01
    text = worker.run("cluster", "jobs", "show", str(again["id"])).stdout
    assert f"{len(names())} there already" in text, text


def test_a_copy_in_the_namespace_is_seen_at_once(make_cluster, s3, out):
    cluster = make_cluster(3)
    cluster.mount("out/here", "/out")
    mount = cluster.client().mount_cluster("/", memory="64MiB", freshness="max-age=1h")
    assert os.listdir(mount / "out") == []
    job = cluster_job(cluster.workers[0], "cp", "/train", "/out/deep/set", "--include", "small/*")
    assert (job["state"], job["files_done"]) == ("done", 120)
    assert objects(s3, out) == expected("here/deep/set/", "small/")
    wait_until(lambda: os.listdir(mount / "out") == ["deep"], "the new name")
    assert (mount / "out/deep/set/small/007").read_bytes() == body("train/small/007")
    # One file: by the name that is given, or into the folder.
    one = cluster.workers[1]
    cluster_job(one, "cp", "/train/small/001", "/out/renamed")
    cluster_job(one, "cp", "/train/small/002", "/out/folder/")
    there = objects(s3, out, "here/")
    assert there["here/renamed"] == body("train/small/001")
    assert there["here/folder/002"] == body("train/small/002")
    wrong = one.run("cluster", "cp", "/train/small/001", "/out/folder", check=False)
    assert wrong.returncode != 0 and "end it with '/'" in wrong.stderr, wrong.stderr


def test_existing_files_are_replaced_on_request(make_cluster, s3, out):
    cluster = make_cluster(2)
    worker = cluster.workers[0]
    s3.put_object(Bucket=out, Key="set/000", Body=b"mine")
    words = ["cp", "/train/small", url(cluster, f"{out}/set")]
    refused = worker.run("cluster", *words, check=False)
    assert refused.returncode != 0
    assert "set/000 exists and differs; --update replaces it" in refused.stderr
    there = objects(s3, out)
    assert there.pop("set/000") == b"mine"
    whole = {key.replace("small/", ""): data for key, data in expected("set/", "small/").items()}
    assert there == {key: data for key, data in whole.items() if key != "set/000"}
    job = cluster_job(worker, *words, "--update")
    assert (job["files_done"], job["files_present"]) == (120, 119)
    assert objects(s3, out) == whole
    assert cluster_job(worker, *words, "--force")["files_present"] == 0


def test_a_copy_goes_on_under_the_next_leader(make_cluster, s3, out):
    cluster = make_cluster(3)
    leader = leader_of(cluster)
    worker, other = others_than(cluster, leader)
    number = cluster_job(worker, "cp", "/train", url(cluster, out), "--bandwidth", "4MiB",
                         "--background")["id"]
    # Of 144, large ones first: a sixth of the bytes, so that the rest takes 15 s.
    wait_until(lambda: jobs_of(worker)[number]["job"]["files_done"] > 3, "the first of the copy")
    assert jobs_of(other)[number]["job"]["state"] == "running"
    assert all(expected("")[key] == data for key, data in objects(s3, out).items())
    leader.kill()
    ended = wait_for(worker, number)
    done = ended["job"]
    assert (done["state"], done["files_done"], done["files_failed"]) == ("done", len(names()), 0)
    assert ended["begun"] == 2 and done["files_present"] > 0
    assert objects(s3, out) == expected("")


def test_a_copy_outlives_one_who_copies(make_cluster, s3, out):
    """Large files are half done at the worker that dies, and are begun again by another."""
    cluster = make_cluster(3)
    put_all(s3, "data", {f"train/huge/{i}": os.urandom(40 << 20) for i in range(6)})
    leader = leader_of(cluster)
    victim, worker = others_than(cluster, leader)
    number = cluster_job(worker, "cp", "/train/huge", url(cluster, out), "--bandwidth", "48MiB",
                         "--background")["id"]
    wait_until(lambda: jobs_of(worker)[number]["job"]["bytes_done"] > 60 << 20, "a quarter of it")
    victim.kill()
    done = wait_for(worker, number)["job"]
    assert (done["state"], done["files_done"]) == ("done", 6), done
    assert objects(s3, out) == {key.removeprefix("train/huge/"): data
                                for key, data in objects(s3, "data", "train/huge/").items()}


def test_limits_hold_for_all_workers_together(make_cluster, s3, out):
    cluster = make_cluster(3)
    begin = time.monotonic()
    cluster_job(cluster.workers[0], "cp", "/train/large", url(cluster, out), "--bandwidth", "16MiB",
                "--requests", "4")
    took = time.monotonic() - begin
    assert took >= (72 / 16) * 0.8, took
    assert len(objects(s3, out)) == 24


def test_a_cancelled_copy_leaves_no_partial_file(make_cluster, s3, out):
    cluster = make_cluster(2)
    put_all(s3, "data", {"train/huge": os.urandom(64 << 20)})
    one, other = cluster.workers
    number = cluster_job(one, "cp", "/train/huge", url(cluster, out), "--bandwidth", "4MiB",
                         "--background")["id"]
    wait_until(lambda: number in jobs_of(other) and jobs_of(other)[number]["job"]["bytes_done"],
               "its beginning")
    other.run("cluster", "jobs", "cancel", str(number))
    wait_until(lambda: jobs_of(one)[number]["job"]["state"] == "cancelled", "its end")
    assert objects(s3, out) == {}


def test_what_cannot_be_copied_is_said(make_cluster, s3, out):
    cluster = make_cluster(2)
    worker = cluster.workers[1]

    def refused(*words):
        done = worker.run("cluster", "cp", *words, check=False)
        assert done.returncode != 0, words
        return done.stderr
    assert "lies in /train" in refused("/train", "/train/small/again")
    assert "nothing is mounted there" in refused("/train", "/elsewhere/x")
    assert "/nowhere" in refused("/nowhere", url(cluster, out))
    gone = refused("/train/small/001", url(cluster, "no-such-bucket/x"))
    assert "no-such-bucket" in gone, gone
    assert "is read-only" in refused("/train/small", "https://example.com/x/")
    assert objects(s3, out) == {}


def test_a_copy_onto_itself_is_rejected(make_cluster, s3):
    """By way of another mount of the same store."""
    cluster = make_cluster(2)
    cluster.mount("data/train", "/same")
    worker = cluster.workers[0]
    refused = worker.run("cluster", "cp", "--force", "/train/small", "/same/small", check=False)
    assert refused.returncode != 0 and "onto itself" in refused.stderr, refused.stderr
    # Within one store no byte goes through workers.
    job = cluster_job(worker, "cp", "/train/small", "/same/copy")
    assert (job["files_done"], job["bytes_fetched"]) == (120, 0)
    assert objects(s3, "data", "train/copy/") == {
        key.replace("small/", ""): data for key, data in expected("train/copy/", "small/").items()}


def test_odd_names_and_empty_files_come_over(make_cluster, s3, out):
    odd = {"train/odd/" + name: name.encode() * 9 for name in
           ["with space", "plus+and%20", "quote'\"", "ünïcode", "a&b=c?d#e", "new\nline", "-dash"]}
    odd["train/odd/empty"] = b""
    odd["train/odd/deep/er/file"] = b"x"
    cluster = make_cluster(3)
    put_all(s3, "data", odd)
    cluster.mount("out/odd", "/out")
    job = cluster_job(cluster.workers[0], "cp", "/train/odd", "/out/s p/ü")
    assert (job["state"], job["files_done"]) == ("done", len(odd)), job
    assert objects(s3, out) == {key.replace("train/odd/", "odd/s p/ü/"): data
                                for key, data in odd.items()}


def test_ten_thousand_small_files(make_cluster, s3, out):
    cluster = make_cluster(3)
    many = {f"train/many/{i % 10}/{i:05}": b"%d" % i for i in range(10_000)}
    put_all(s3, "data", many)
    leader = leader_of(cluster)

    def memory(worker):
        with open(f"/proc/{worker.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) << 10
    cluster_job(leader, "cp", "/train/small", url(cluster, f"{out}/warm/"))
    before = memory(leader)
    job = cluster_job(leader, "cp", "/train/many", url(cluster, f"{out}/many/"))
    assert (job["state"], job["files_done"]) == ("done", len(many)), job
    assert memory(leader) - before < 200 << 20
    assert objects(s3, out, "many/") == {key.removeprefix("train/"): data
                                         for key, data in many.items()}
    assert json.loads(leader.run("cluster", "jobs", "ls", "--json").stdout)["jobs"]
