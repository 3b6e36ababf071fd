# SPDX-License-Identifier: Apache-2.0
"""A store that is away is waited for: programs see nothing of it, and everybody sees why they wait."""

import errno
import json
import os
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from e2e import cluster_files
from e2e.content import content
from rig.faulty import FaultyFront
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
SIZE = 300 * KIB
READERS = 8


class SwitchedFront(FaultyFront):
    """Refuses everything for as long as `refuses` says."""

    refuses = False

    def choose(self, _request):
        return "refuse" if self.refuses else None


class ManyReaders:
    """Threads that read the files of a folder again and again, each from another one on, and prove
    every byte."""

    def __init__(self, mount, names):
        self.mount, self.names = mount, names
        self.ended = threading.Event()
        self.errors, self.reads = [], [0] * READERS
        self.threads = [threading.Thread(target=self.read, args=(number,)) for number in range(READERS)]
        for thread in self.threads:
            thread.start()

    def read(self, number):
        at = number * len(self.names) // READERS
        while not self.ended.is_set():
            name = self.names[at % len(self.names)]
            at += 1
            try:
                if (self.mount / name).read_bytes() != content(name, 1, 0, SIZE):
                    self.errors.append(f"{name}: wrong bytes")
            except OSError as error:
                self.errors.append(f"{name}: {error}")
            self.reads[number] += 1

    def go_on(self):
        """Returns when each has read some more."""
        before = list(self.reads)
        wait_until(lambda: all(now > then + 3 for now, then in zip(self.reads, before)),
                   "all readers to go on")

    def finish(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        return self.errors


@pytest.fixture
def names(s3, bucket):
    made = [f"d{number % 4}/{number:03}" for number in range(64)]
    for name in made:
        s3.put_object(Bucket=bucket, Key=name, Body=content(name, 1, 0, SIZE))
    return made


def outage(leat):
    found = leat.json("status")["unavailable"]
    return found[0] if found else None


def log_lines(leat, word):
    return [line for line in Path(leat.json("status")["log_file"]).read_text().splitlines()
            if word in line]


@pytest.mark.parametrize("seconds", [3, 8])
def test_eight_readers_wait_out_an_outage(leat, store, bucket, names, folder, seconds):
    leat.cache_size = "4MiB"  # much less than there is: the store is asked all the time
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="max-age=1s")
    readers = ManyReaders(mount, names)
    try:
        readers.go_on()
        store.stop()
        away = wait_until(lambda: outage(leat), "the outage to be seen")
        assert away["store"] == f"s3://{bucket}" and "refused" in away["reason"].lower()
        wait_until(lambda: outage(leat)["seconds"] >= seconds and outage(leat)["waiting"] > 0,
                   "readers to have waited")
        inside = json.loads((mount / ".leat/status").read_text())["unavailable"]
        assert [one["store"] for one in inside] == [f"s3://{bucket}"]
        assert f"s3://{bucket} does not answer" in leat.run("status").stdout
        address = leat.json("status")["metrics_address"]
        metrics = urllib.request.urlopen(f"http://{address}/metrics").read().decode()
        gauge = [line for line in metrics.splitlines()
                 if line.startswith("leat_source_unavailable{") and f's3://{bucket}"' in line]
        assert [line.split()[-1] for line in gauge] == ["1"]
        store.start()
        readers.go_on()
        wait_until(lambda: not outage(leat), "the outage to be over")
    finally:
        errors = readers.finish()
    assert errors == []
    assert len(log_lines(leat, "does not answer; reads and lookups wait for it up to 5m")) == 1
    assert len(log_lines(leat, "answers again after")) == 1


def test_a_load_waits_out_an_outage(leat, store, bucket, names, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="max-age=1s")
    store.stop()
    job = leat.json("load", "--background", mount)["id"]
    wait_until(lambda: outage(leat), "the outage to be seen")
    store.start()

    def ended():
        found = [one for one in leat.json("jobs")["jobs"] if one["id"] == job]
        return found[0] if found[0]["state"] != "running" else None
    done = wait_until(ended, "the load to end", timeout_s=60)
    assert done["state"] == "done" and done["files_failed"] == 0, done
    assert done["files_done"] == len(names)


def test_io_timeout_is_an_error_with_its_reason(leat, store, bucket, names, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), "--option", "io_timeout=2s",
                       freshness="max-age=0s")
    with open(mount / names[0], "rb", buffering=0) as file:
        store.stop()
        began = time.monotonic()
        with pytest.raises(OSError) as failed:
            file.read(SIZE)
        # Once, though the kernel asks again for what it read ahead in vain.
        assert time.monotonic() - began < 8
        assert failed.value.errno == errno.EIO
        reason = os.getxattr(file.fileno(), "user.leat.last_error").decode()
        assert "io_timeout=2s has passed" in reason, reason
    for look in (lambda: os.stat(mount / names[1]), lambda: os.listdir(mount / "d2")):
        with pytest.raises(OSError) as failed:
            look()
        assert failed.value.errno == errno.EIO
    store.start()
    wait_until(lambda: readable(mount / names[0]) == content(names[0], 1, 0, SIZE),
               "the store to be used again")


def readable(path):
    try:
        return path.read_bytes()
    except OSError:
        return None


def test_a_throttling_store_is_waited_for(leat, store, bucket, names, folder,
                                                                  seed):
    front = SwitchedFront(store, folder, seed, 0)
    try:
        mount = leat.mount(front, bucket, os.path.join(folder, "mnt"), "--option", "io_timeout=5s",
                           freshness="max-age=0s")
        front.refuses = True
        failures = []

        def look():
            try:
                os.listdir(mount / "d1")
            except OSError as error:
                failures.append(error.errno)
        looking = threading.Thread(target=look)
        looking.start()
        away = wait_until(lambda: outage(leat), "the outage to be seen")
        assert "SlowDown" in away["reason"] and looking.is_alive(), away
        looking.join(timeout=30)
        assert failures == [errno.EIO]
        front.refuses = False
        assert wait_until(lambda: readable(mount / names[3]), "the store to be used again") \
            == content(names[3], 1, 0, SIZE)
    finally:
        front.stop()


def test_a_wrong_endpoint_fails_at_once(leat, store, bucket, names, folder):
    store.stop()
    began = time.monotonic()
    done = leat.mount(store, bucket, os.path.join(folder, "mnt"), check=False)
    assert done.returncode != 0 and str(store.port) in done.stderr, done.stderr
    done = leat.run("ls", f"s3://{bucket}/?endpoint={store.endpoint}", credentials=store.credentials,
                    check=False)
    assert done.returncode != 0, done.stdout
    assert time.monotonic() - began < 60, "and not minutes"


def test_a_command_says_which_store_it_waits_for(leat, store, bucket, names, folder):
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), "--option", "io_timeout=8s",
                       freshness="max-age=0s")
    store.stop()
    done = leat.run("ls", mount / "d1", check=False)
    assert done.returncode != 0 and "io_timeout=8s has passed" in done.stderr, done.stderr
    assert f"waiting for s3://{bucket}, which does not answer" in done.stderr, done.stderr


def test_io_timeout_is_checked(leat, store, bucket, folder):
    for wrong in ("soon", "5"):
        done = leat.mount(store, bucket, os.path.join(folder, "mnt"), "--option",
                          f"io_timeout={wrong}", check=False)
        assert done.returncode != 0 and "io_timeout" in done.stderr, done.stderr
    outer = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    done = leat.mount(store, bucket, outer / "inner", "--option", "io_timeout=never", check=False)
    assert done.returncode != 0 and "as long an io_timeout" in done.stderr, done.stderr


def test_clients_wait_for_the_store_of_workers(make_cluster, store):
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/train")
    names = sorted(cluster_files.names())[:8]
    assert os.listdir(mount)
    store.stop()
    errors = []

    def read(name):
        try:
            if cluster_files.read(mount, name) != cluster_files.body(name):
                errors.append(f"{name}: wrong bytes")
        except OSError as error:
            errors.append(f"{name}: {error}")
    readers = [threading.Thread(target=read, args=(name,)) for name in names]
    for reader in readers:
        reader.start()
    wait_until(lambda: any(outage(worker) for worker in cluster.workers),
               "a worker to see the outage")
    store.start()
    for reader in readers:
        reader.join(timeout=60)
    assert errors == [] and not any(reader.is_alive() for reader in readers)
