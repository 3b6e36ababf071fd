# SPDX-License-Identifier: Apache-2.0
"""Clusters with small limits, or with losses while they work: no read is wrong or fails, and
each job ends with its reason."""

import errno
import os
import random
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.cluster_files import body, names, read, read_all
from e2e.cluster_jobs_test import cluster_job, jobs_of, leader_of, others_than
from e2e.content import content, version_of
from e2e.objects import put_all
from rig.cluster import Place
from rig.process import is_alive, wait_until

MIB = 1 << 20
# Together the files of cluster_files have 77 MiB.
GROUP_BYTES = 96 * MIB
DESCRIPTORS = 256


def read_at_once(mount, order, readers):
    def check(name):
        assert read(mount, name) == body(name), name
    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(check, order))


@pytest.fixture
def groups(make_memory_group):
    """One for a worker, one for a client, each with less than they read."""
    return [make_memory_group(GROUP_BYTES) for _ in range(2)]


def test_memory_groups_kill_nobody(make_cluster, groups):
    """Both take their memory from their group's limit; page cache counts in it as well."""
    cluster = make_cluster(1)
    first, small = cluster.workers[0], cluster.new_worker(1)
    small.group = groups[0]
    cluster.workers.append(small.start())
    cluster.wait_for_ring(cluster.workers)
    first.end()
    client = cluster.client()
    client.group = groups[1]
    mount = client.mount_cluster("/train", "-o", "cache=never", memory=None)
    daemon = client.daemon_pid()
    for group, pid, one in zip(groups, (small.process.pid, daemon), (small, client), strict=True):
        assert pid in group.pids()
        assert one.json("status")["fetch"]["memory_bytes_max"] < GROUP_BYTES / 2
    for _ in range(2):
        read_at_once(mount, names(), 16)
    print("at most", [group.peak_bytes() // MIB for group in groups], "MiB")
    assert small.counter("leat_peer_served_bytes_total") > 0.9 * sum(names().values())
    assert [group.oom_kills() for group in groups] == [0, 0]
    assert is_alive(small.process.pid) and client.daemon_pid() == daemon
    cluster.close()
    for group in groups:
        group.close()


def test_few_descriptors_are_enough(make_cluster, s3):
    """More cached files than descriptors: idle ones are closed, and the worker answers all the time."""
    more = [f"train/more/{number:03}" for number in range(130)]
    put_all(s3, "data", {name: content(name, 1, 0, MIB) for name in more})

    def place(name):
        limit = ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]
        return Place(before=limit if name.startswith("w") else [])
    cluster = make_cluster(1, place=place)
    worker = cluster.workers[0]
    assert cluster_job(worker, "load", "/train")["state"] == "done"
    mount = cluster.client().mount_cluster("/train", "-o", "cache=never", memory="64MiB")

    def check(name):
        assert (mount / name.removeprefix("train/")).read_bytes() == content(name, 1, 0, MIB), name
    for _ in range(2):
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(check, more))
    status = worker.json("status")
    assert status["open_files_max"] == DESCRIPTORS, status
    assert status["cache"]["files"] >= len(more), status["cache"]


def wait_for_end(worker, number):
    """The job, also where it failed."""
    worker.run("cluster", "jobs", "wait", str(number), check=False)
    return jobs_of(worker)[number]


def fill(disk):
    """With one file, until nothing fits any more."""
    other = Path(disk) / "else"
    with open(other, "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(1 << 16))
    return other


@pytest.fixture
def small_disk(folder):
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "leat-test", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_disk_fills_during_a_load(make_cluster, small_disk):
    cluster = make_cluster(1, cache_size="192MiB")
    worker, full = cluster.workers[0], cluster.new_worker(1)
    full.cache_dir = cluster.folder / "disk-of-full"
    full.cache_dir.symlink_to(small_disk)
    full.cache_size = "64MiB"
    cluster.workers.append(full.start())
    cluster.wait_for_ring(cluster.workers)
    number = cluster_job(worker, "load", "/train", "--bandwidth", "16MiB", "--background")["id"]
    wait_until(lambda: full.json("status")["cache"]["files"] > 0, "the load to reach the disk")
    other = fill(small_disk)
    ended = wait_for_end(worker, number)["job"]
    assert (ended["state"], ended["code"]) == ("failed", "no_space"), ended
    tried = ended["files_done"] + ended["files_failed"]
    of_files = [error for error in ended["errors"] if "was ended" not in error]
    assert of_files and tried <= ended["files_total"] == len(names()), ended
    assert tried == len(names()) or len(of_files) < len(ended["errors"]), "it was not ended early"
    for error in of_files:
        assert f"({full.address}): cannot load" in error and small_disk in error, error
    for error in ended["errors"]:
        assert "--cache-size" not in error, "the disk is what is too small"
    read_all(cluster.client().mount_cluster("/train", "-o", "cache=never", memory="64MiB"))
    other.unlink()
    wait_until(lambda: cluster_job(worker, "load", "/train", check=False)["state"] == "done",
               "a load to find room again", timeout_s=60)
    cluster.close()


def test_leader_and_mount_go_during_a_load(make_cluster, bucket):
    cluster = make_cluster(3)
    leader = leader_of(cluster)
    worker, other = others_than(cluster, leader)
    number = cluster_job(worker, "load", "/train", "--bandwidth", "4MiB", "--background")["id"]
    wait_until(lambda: jobs_of(worker)[number]["job"]["files_done"] > 0, "the load to begin")
    leader.kill()
    cluster.workers.remove(leader)
    worker.run("cluster", "umount", "/train")
    ended = wait_for_end(worker, number)
    assert ended["job"]["state"] == "failed" and ended["begun"] == 2, ended
    assert ended["job"]["errors"] == ["nothing is mounted at or above /train"], ended
    shown = other.run("cluster", "jobs", "show", str(number)).stdout
    assert "nothing is mounted at or above /train" in shown, shown
    assert all(is_alive(one.process.pid) for one in (worker, other))
    cluster.mount(f"{bucket}/train", "/train")
    assert cluster_job(other, "load", "/train")["state"] == "done"


class Use:
    """The resources of a process. Heaps shrink late, so its memory is the least of several samples."""

    LOOKS = 10
    DESCRIPTORS_MORE = 16
    # Besides, a new version of a tiny file stays in memory with a page or two, up to a bound.
    ANONYMOUS_MORE_BYTES, OF_A_CHANGE = 3 * MIB, 8192

    def __init__(self, pid):
        looks = [self.look(pid) for _ in range(self.LOOKS)]
        self.descriptors, self.anonymous_bytes = map(min, zip(*looks, strict=True))

    @staticmethod
    def look(pid):
        time.sleep(0.1)
        status = Path(f"/proc/{pid}/status").read_text()
        anonymous_kib = int(re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)[1])
        return len(os.listdir(f"/proc/{pid}/fd")), anonymous_kib * 1024

    def __repr__(self):
        return f"{self.descriptors} descriptors, {self.anonymous_bytes / MIB:.1f} MiB anonymous"


class Wear:
    """Opens, reads, lookups of missing names, listings, and changes in the store."""

    FILES, CHANGED, OPENS = 200, 10, 500

    def __init__(self, mount, s3, seed):
        self.mount, self.s3, self.random = mount, s3, random.Random(seed)
        self.versions = dict.fromkeys(range(self.FILES), 1)
        self.opens = self.stale = 0
        put_all(s3, "data", {self.key(one): self.bytes_of(one, 1) for one in self.versions})
        wait_until(lambda: all(map(self.is_whole, range(10))), "the names to be seen")

    @staticmethod
    def key(number):
        return f"train/wear/{number % 10}/{number:03}"

    def bytes_of(self, number, version):
        return content(self.key(number), version, 0, 512 * (1 + number % 2))

    def is_whole(self, folder):
        names = self.mount / "wear" / str(folder)
        return names.exists() and len(os.listdir(names)) == self.FILES // 10

    def change(self):
        changed = self.random.sample(sorted(self.versions), self.CHANGED)
        for number in changed:
            self.versions[number] += 1
        put_all(self.s3, "data", {self.key(one): self.bytes_of(one, self.versions[one])
                                  for one in changed})

    def read(self, number):
        """The content of any version; another test checks its freshness."""
        path = self.mount / self.key(number).removeprefix("train/")
        try:
            data = path.read_bytes()
        except OSError as error:
            assert error.errno == errno.ESTALE, error
            self.stale += 1
            return
        version = version_of(self.key(number), data, 0)
        assert data == self.bytes_of(number, version), path

    def go_on(self, rounds):
        for _ in range(rounds):
            self.change()
            for folder in range(10):
                assert self.is_whole(folder)
                assert not (self.mount / "wear" / str(folder) / f"no-{self.opens}").exists()
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(self.read, self.random.choices(range(self.FILES), k=self.OPENS)))
            self.opens += self.OPENS


def test_memory_and_descriptors_stay(make_cluster, s3, seed, scale):
    """After the last third of the work they are what they were after the first."""
    cluster = make_cluster(1)
    client = cluster.client()
    mount = client.mount_cluster("/train", "-o", "cache=never", memory="32MiB", freshness="max-age=1s")
    pids = {"worker": cluster.workers[0].process.pid, "client": client.daemon_pid()}
    wear, uses = Wear(mount, s3, seed), []
    rounds = 4 * scale
    for _ in range(3):
        wear.go_on(rounds)
        uses.append({name: Use(pid) for name, pid in pids.items()})
        print(f"{wear.opens} opens, {wear.stale} stale:", uses[-1])
    more_bytes = Use.ANONYMOUS_MORE_BYTES + 2 * rounds * wear.CHANGED * Use.OF_A_CHANGE
    for name, after in uses[-1].items():
        before = uses[0][name]
        assert after.descriptors <= before.descriptors + Use.DESCRIPTORS_MORE, (name, uses)
        assert after.anonymous_bytes <= before.anonymous_bytes + more_bytes, (name, uses)
    assert client.daemon_pid() == pids["client"]
