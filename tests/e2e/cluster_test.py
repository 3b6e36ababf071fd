# SPDX-License-Identifier: Apache-2.0
"""A cluster of real workers over a real etcd and a real S3 server: what is fetched once, who answers
when somebody does not, and what reaches clients."""

import os
import random
import threading
import time

import pytest

from e2e.cluster_files import (LARGE, SMALL, SMALL_BYTES, body, names, path_in, read, read_all,
                               sent_bytes)
from rig.process import wait_until
from rig.threads import UntilTold


class Readers(UntilTold):
    """Threads that read at random, until they are told to stop; what they saw."""

    def __init__(self, mount, seed, count=3):
        self.mount, self.seed = mount, seed
        self.failures, self.reads, self.longest_s = [], 0, 0.0
        super().__init__([(i,) for i in range(count)])

    def run(self, number):
        chosen = random.Random(self.seed + number)
        all_names = list(names())
        while not self.stopping.is_set():
            name = chosen.choice(all_names)
            begin = time.monotonic()
            try:
                if read(self.mount, name) != body(name):
                    self.failures.append(f"{name}: wrong bytes")
            except OSError as failed:
                self.failures.append(f"{name}: {failed}")
            self.longest_s = max(self.longest_s, time.monotonic() - begin)
            self.reads += 1

    def more(self, count, timeout_s=60):
        """Until so many more reads have ended."""
        wanted = self.reads + count
        wait_until(lambda: self.reads >= wanted, f"{count} more reads", timeout_s=timeout_s)


def test_four_cold_clients_read_the_store_once(make_cluster):
    cluster = make_cluster(3)
    mounts = [cluster.client().mount_cluster("/train", memory="64MiB") for _ in range(4)]
    before = sent_bytes(cluster.store)
    failures = []

    def all_of(mount, seed):
        order = list(names())
        random.Random(seed).shuffle(order)
        try:
            read_all(mount, order)
        except (AssertionError, OSError) as failed:
            failures.append(failed)
    threads = [threading.Thread(target=all_of, args=(mount, i)) for i, mount in enumerate(mounts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    asked = sent_bytes(cluster.store) - before
    whole = sum(names().values())
    # Heads of answers and listings are in it, too.
    assert whole <= asked <= whole * 1.03, asked / whole


def test_a_directory_is_listed_once_for_all(make_cluster):
    cluster = make_cluster(3)
    mounts = [cluster.client().mount_cluster("/train") for _ in range(3)]

    def listings():
        return sum(1 for operation, *_ in cluster.store.requests()
                   if operation == "ListObjectsV2")
    before = listings()
    for mount in mounts:
        assert len(os.listdir(mount / "small")) == SMALL
        assert len(os.listdir(mount / "large")) == LARGE
        assert (mount / "small" / "007").stat().st_size == SMALL_BYTES
    assert listings() - before == 2


def test_workers_have_shares_and_restart_warm(make_cluster):
    cluster = make_cluster(3)
    mount = cluster.client().mount_cluster("/train", memory="64MiB")
    read_all(mount)
    cached = [worker.json("status")["cache"]["used_bytes"] for worker in cluster.workers]
    assert all(used > 0 for used in cached), cached
    for worker in cluster.workers:
        worker.end()
        worker.start()
    cluster.wait_for_ring(cluster.workers)
    before = sent_bytes(cluster.store)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    asked = sent_bytes(cluster.store) - before
    assert asked < sum(names().values()) * 0.02, "names are asked for again, bytes are not"


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_dead_or_stopped_worker_fails_no_read(make_cluster, seed, how):
    cluster = make_cluster(4)
    mount = cluster.client().mount_cluster("/train", memory="64MiB")
    read_all(mount)
    victim = cluster.workers[1]
    with Readers(mount, seed) as readers:
        readers.more(100)
        readers.longest_s = 0
        getattr(victim, how)()
        readers.more(600)
        if how == "pause":
            victim.resume()
            readers.more(200)
    assert not readers.failures, readers.failures[:3]
    print(f"longest read {readers.longest_s:.2f} s")


def test_without_etcd_all_goes_on_and_it_heals(make_cluster, seed):
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/train", memory="64MiB")
    with Readers(mount, seed) as readers:
        readers.more(50)
        cluster.etcd.stop()
        wait_until(lambda: cluster.workers[0].status().get("trouble"), "the trouble to be told")
        readers.more(300)
        assert len(cluster.members(cluster.workers[0])) == 2
        cluster.etcd.start()
        newcomer = cluster.add_worker()
        cluster.wait_for_ring(cluster.workers)
        readers.more(200)
    assert not readers.failures, readers.failures[:3]
    assert newcomer.status().get("trouble") is None


def test_an_etcd_restored_from_a_backup(make_cluster, seed):
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/", freshness="max-age=1s")
    cluster.etcd.back_up()
    for _ in range(10):
        cluster.mount("data/train/large", "/later")
        cluster.workers[0].run("cluster", "umount", "/later")
        assert [one["path"] for one in cluster.workers[0].status()["mounts"]] == ["/train"]
    cluster.mount("data/train/large", "/later")
    cluster.add_worker()
    cluster.wait_for_ring(cluster.workers)
    wait_until(lambda: sorted(os.listdir(mount)) == ["later", "train"], "the mount to be seen")
    with Readers(mount / "train", seed) as readers:
        readers.more(50)
        cluster.etcd.restore()
        wait_until(lambda: os.listdir(mount) == ["train"], "the mount to be gone again",
                   timeout_s=60)
        cluster.wait_for_ring(cluster.workers)
        readers.more(50)
    assert not readers.failures, readers.failures[:3]
    cluster.wait_without_trouble()
    cluster.mount("data/train/small", "/after")
    wait_until(lambda: sorted(os.listdir(mount)) == ["after", "train"], "the new mount")


def test_workers_come_and_go_while_programs_read(make_cluster, seed, scale):
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/train", memory="64MiB")
    with Readers(mount, seed) as readers:
        for _ in range(2 * scale):
            guest = cluster.add_worker()
            cluster.wait_for_ring(cluster.workers)
            readers.more(50)
            guest.run("cluster", "drain")
            readers.more(50)
            guest.end()
            cluster.workers.remove(guest)
            guest.close()
            readers.more(50)
    assert not readers.failures, readers.failures[:3]


def test_served_bytes_are_counted_for_all_paths(make_cluster):
    cluster = make_cluster(2, LEAT_WORKER_FD_SOCKET="none")
    whole = sum(names().values())
    for times in (1, 2):  # as it comes from the store, and from complete files by the kernel
        read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
        served = sum(worker.counter("leat_peer_served_bytes_total") for worker in cluster.workers)
        assert served >= times * whole, served / whole


def test_what_a_drained_worker_has_is_had_from_it(make_cluster):
    cluster = make_cluster(2)
    read_all(cluster.client().mount_cluster("/train"))
    leaver = cluster.workers[1]
    leaver.run("cluster", "drain")
    before = sent_bytes(cluster.store)
    read_all(cluster.client().mount_cluster("/train"))
    asked = sent_bytes(cluster.store) - before
    assert asked < sum(names().values()) * 0.05, "its share came from it"
    assert cluster.workers[0].counter("leat_peer_previous_owner_bytes_total") > 0
    leaver.run("cluster", "undrain")
    cluster.wait_for_ring(cluster.workers)


def test_a_change_reaches_all_clients(make_cluster, s3):
    cluster = make_cluster(3)
    first, second = cluster.client(), cluster.client()
    mounts = [one.mount_cluster("/train", freshness="max-age=1h") for one in (first, second)]
    name = "train/small/005"
    for mount in mounts:
        assert read(mount, name) == body(name)
    s3.put_object(Bucket="data", Key=name, Body=body(name, 2))
    s3.put_object(Bucket="data", Key="train/small/new", Body=b"new")
    first.run("refresh", mounts[0] / "small")
    for mount in mounts:
        wait_until(lambda where=mount: read(where, name) == body(name, 2),
                   "the new version", timeout_s=10)
        wait_until(lambda where=mount: (where / "small" / "new").exists(), "the new name",
                   timeout_s=10)


def test_changes_are_seen_after_max_age(make_cluster, s3):
    age_s, missing_age_s, slack_s = 4, 2, 1
    cluster = make_cluster(2)
    cluster.mount("data/train", "/aged", "-o", f"freshness=max-age={age_s}s",
                  "-o", f"negative_ttl={missing_age_s}s")
    mount = cluster.client().mount_cluster("/aged", "-o", f"negative_ttl={missing_age_s}s",
                                           freshness=f"max-age={age_s}s")
    changing, coming = [f"train/small/{i:03}" for i in range(10)], mount / "small" / "coming"
    for name in changing:
        assert read(mount, name) == body(name)
    assert not coming.exists()
    for name in changing:
        s3.put_object(Bucket="data", Key=name, Body=body(name, 2))
    s3.put_object(Bucket="data", Key="train/small/coming", Body=b"new")
    changed = time.monotonic()

    def over():
        # That somebody looks meanwhile must not make it be believed for longer.
        for name in changing:
            path_in(mount, name).stat()
        coming.exists()
        return time.monotonic() - changed > max(age_s, 2 * missing_age_s) + slack_s
    wait_until(over, "the ages to be over", timeout_s=60, interval_s=0.2)
    assert coming.exists()
    for name in changing:
        assert read(mount, name) == body(name, 2), name


def test_a_client_keeps_the_clusters_max_age(make_cluster, s3):
    """Cluster mount: 4 s. Client: the default, a minute. No worker finds the change by itself."""
    cluster = make_cluster(2)
    cluster.mount("data/train", "/aged", "-o", "freshness=max-age=4s", "-o", "negative_ttl=2s")
    mount = cluster.client().mount_cluster("/aged")
    name, coming = "train/small/001", mount / "small" / "coming"
    assert read(mount, name) == body(name)
    assert not coming.exists()
    s3.put_object(Bucket="data", Key=name, Body=body(name, 2))
    s3.put_object(Bucket="data", Key="train/small/coming", Body=b"new")
    wait_until(lambda: read(mount, name) == body(name, 2) and coming.exists(),
               "the change to be seen", timeout_s=20, interval_s=0.5)


def test_a_mount_survives_a_restart_alone(make_cluster):
    cluster = make_cluster(2)
    client = cluster.client()
    mount = client.mount_cluster("/train", "-o", "io_timeout=5s", memory="64MiB")
    if not client.json("mounts")["mounts"][0]["features"]["survives"]:
        pytest.skip("this kernel sends a successor nothing again (it needs Linux 6.9)")
    name = "train/small/001"
    assert read(mount, name) == body(name)
    for worker in cluster.workers:
        worker.kill()
    client.kill_daemon()
    assert [one["path"] for one in client.json("mounts")["mounts"]] == [str(mount)]
    with pytest.raises(OSError):
        os.listdir(mount / "large")
    for worker in cluster.workers:
        worker.start()
    # As a program would that tries again and does nothing else.
    wait_until(lambda: os.path.exists(path_in(mount, name)), "the folder to work", timeout_s=60)
    read_all(mount)
    client.kill_daemon()
    read_all(mount)


def test_who_has_no_right_gets_nothing(make_cluster, folder):
    cluster = make_cluster(2)
    cluster.mount("data/train/small", "/private")
    token = cluster.new_token(cluster.folder / "narrow", "eve", "--read", "/train")
    mount = cluster.client().mount_cluster("/", token=token)
    assert read(mount / "train", "train/small/001") == body("train/small/001")
    assert os.listdir(mount) == ["train"], "what may not be read is not even told of"
    with pytest.raises(FileNotFoundError):
        (mount / "private" / "001").read_bytes()
    cluster.tool.run("cluster", "secret", cluster.folder / "other-secret")
    cluster.tool.run("cluster", "token", cluster.folder / "foreign", "--principal", "mallory",
                     "--secret-file", cluster.folder / "other-secret")
    refused = cluster.client().mount_cluster("/", token=cluster.folder / "foreign", check=False)
    assert refused.returncode != 0
    assert "token" in refused.stderr, refused.stderr


def test_a_token_that_is_exchanged_is_read_again(make_cluster):
    cluster = make_cluster(2)
    cluster.mount("data/train/small", "/private")
    token = cluster.new_token(cluster.folder / "in-use", "eve", "--read", "/train")
    mount = cluster.client().mount_cluster("/", token=token, freshness="max-age=1s")
    assert os.listdir(mount) == ["train"]
    os.replace(cluster.new_token(cluster.folder / "wider", "eve"), token)
    wait_until(lambda: sorted(os.listdir(mount)) == ["private", "train"], "the wider right",
               timeout_s=60)
    assert read(mount / "private", "001") == body("train/small/001")


def test_status_shows_the_cluster(make_cluster):
    cluster = make_cluster(3)
    client = cluster.client()
    mount = client.mount_cluster("/train")
    read_all(mount)
    each = [worker.json("status")["clusters"] for worker in cluster.workers]
    assert [len(clusters) for clusters in each] == [1, 1, 1]
    own = [clusters[0] for clusters in each]
    assert [one["address"] for one in own] == [worker.address for worker in cluster.workers]
    assert len({one["worker"] for one in own}) == len({one["role"] for one in own}) + 2 == 3
    assert all(0.2 < one["share"] < 0.5 and one["name"] == "test" for one in own)
    assert sum(one["worker"] == one["leader"] for one in own) == 1

    def seen_by_client():
        [one] = client.json("status")["clusters"]
        return one
    seen = seen_by_client()
    assert (seen["role"], seen["workers"], seen["mounts"], seen["trouble"]) == ("client", 3, 1, "")
    assert seen["unresponsive"] == seen["down"] == 0
    cluster.workers[0].kill()
    read_all(mount)
    wait_until(lambda: seen_by_client()["down"] == 1, "the lease of the dead worker to end")
    assert "3 workers, 1 of them down" in client.run("status").stdout
    for worker in cluster.workers[1:]:
        worker.kill()
    wait_until(lambda: seen_by_client()["trouble"], "the client to see that nobody answers")


def test_cluster_mounts_come_and_go(make_cluster):
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/", freshness="max-age=1s")
    assert os.listdir(mount) == ["train"]
    cluster.mount("data/train/large", "/big/one")
    wait_until(lambda: sorted(os.listdir(mount)) == ["big", "train"], "the mount to be seen")
    assert len(os.listdir(mount / "big" / "one")) == LARGE
    cluster.workers[1].run("cluster", "umount", "/big/one")
    wait_until(lambda: os.listdir(mount) == ["train"], "the mount to be gone")


def test_a_worker_mounts_its_own_cluster(make_cluster):
    cluster = make_cluster(2)
    worker = cluster.workers[0]
    mount = worker.mount_cluster("/train")
    read_all(mount)
    worker.run("umount", mount)


def test_a_path_that_is_not_there_does_not_mount(make_cluster, s3):
    """It would be an empty folder: a path of no mount, one that its store lacks, or one that the
    token may not read as a whole."""
    cluster = make_cluster(2)
    cluster.mount("data/train/small", "/private")
    narrow = cluster.new_token(cluster.folder / "narrow", "eve", "--read", "/train")
    part = cluster.new_token(cluster.folder / "part", "eve", "--read", "/train/small")
    client = cluster.client()

    def refused(path, token=None):
        done = client.mount_cluster(path, token=token, check=False)
        assert done.returncode != 0, path
        return done.stderr
    assert "nothing is mounted at /nosuch" in refused("/nosuch")
    assert "no directory /train/nosuch" in refused("/train/nosuch")
    missing = refused("/private", narrow)
    assert "'eve' has no right to read /private" in missing and "/train" in missing, missing
    for path in ("/", "/train", "/train/small"):
        assert "a right names a whole mount" in refused(path, part), path
    assert os.listdir(client.mount_cluster("/train/small", token=narrow))
