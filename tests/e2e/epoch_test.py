# SPDX-License-Identifier: Apache-2.0
"""A tree that is read at random is loaded behind its readers; others are not."""

import os
import random
import subprocess
import time

import pytest

from e2e.objects import put_all
from rig.process import wait_until

DIRECTORIES, FILES, BYTES = 10, 60, 5000


def body(name):
    return random.Random(name).randbytes(BYTES)


@pytest.fixture
def names(s3, bucket):
    keys = [f"train/{directory:02}/{file:03}" for directory in range(DIRECTORIES)
            for file in range(FILES)]
    put_all(s3, bucket, {name: body(name) for name in [*keys, "other/file"]})
    return keys


def read(mount, name):
    assert (mount / name).read_bytes() == body(name), name


def read_at_random(mount, names, count):
    order = random.Random(1).sample(names, count)
    for name in order:
        read(mount, name)
    return order


def jobs(leat):
    return leat.json("jobs")["jobs"]


def settled_jobs(leat):
    """After the time in which a load would have begun."""
    time.sleep(0.3)
    return jobs(leat)


def test_a_tree_read_at_random_is_loaded(leat, store, bucket, names):
    mount = leat.mount(store, bucket, leat.folder / "mnt", freshness="immutable")
    for directory in range(DIRECTORIES):
        os.listdir(mount / f"train/{directory:02}")
    order = read_at_random(mount, names, 45)
    wait_until(lambda: [job["state"] for job in jobs(leat)] == ["done"], "the load")
    job = jobs(leat)[0]
    assert (job["kind"], job["path"]) == ("load", str(mount / "train"))
    assert job["files_done"] == len(names)
    asked = [key for operation, key, *_ in store.requests() if operation == "GetObject"]
    assert len(asked) == len(set(asked)) == len(names), "each file once"
    store.stop()
    for name in names:
        read(mount, name)
    assert order, "the store was not needed"


def test_name_order_and_lists_load_nothing(leat, store, bucket, names):
    mount = leat.mount(store, bucket, leat.folder / "mnt", freshness="immutable")
    subprocess.run(["find", mount, "-type", "f"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ls", "-lR", mount], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["grep", "-r", "-c", "needle", mount / "train/03"], stdout=subprocess.DEVNULL)
    assert subprocess.run(["grep", "-r", "needle", mount], stdout=subprocess.DEVNULL).returncode == 1
    assert settled_jobs(leat) == []


def test_a_few_files_load_nothing(leat, store, bucket, names):
    mount = leat.mount(store, bucket, leat.folder / "mnt", freshness="immutable")
    read_at_random(mount, names, 30)
    assert settled_jobs(leat) == []


def test_a_mount_may_say_never(leat, store, bucket, names):
    mount = leat.mount(store, bucket, leat.folder / "mnt", "-o", "load=never", freshness="immutable")
    read_at_random(mount, names, 300)
    assert settled_jobs(leat) == []


def test_a_mount_may_be_loaded_at_once(leat, store, bucket, names):
    mount = leat.mount(store, bucket, leat.folder / "mnt", "-o", "load=on-mount",
                       freshness="immutable")
    wait_until(lambda: [job["state"] for job in jobs(leat)] == ["done"], "the load")
    assert jobs(leat)[0]["files_done"] == len(names) + 1
    store.stop()
    read(mount, names[-1])


def test_a_wrong_word_is_named(leat, store, bucket, names):
    refused = leat.mount(store, bucket, leat.folder / "mnt", "-o", "load=sometimes", check=False)
    assert refused.returncode != 0
    assert "load=sometimes" in refused.stderr and "on-mount" in refused.stderr, refused.stderr


def test_the_load_ends_with_its_readers(leat, store, bucket, names):
    """The store is slow enough that it is not done before."""
    mount = leat.mount(store, bucket, leat.folder / "mnt", "-o", "requests_per_second=20",
                       freshness="immutable")
    read_at_random(mount, names, 60)
    assert [job["state"] for job in jobs(leat)] == ["running"]
    wait_until(lambda: [job["state"] for job in jobs(leat)] == ["cancelled"], "its end", timeout_s=40)
    read(mount, names[7])
