# SPDX-License-Identifier: Apache-2.0
"""What a writer to etcd without the cluster's secret can do, and which local files a cluster may touch:
docs/security.md."""

import base64
import json
import os
import threading
from pathlib import Path

import pytest

from e2e import cluster_files
from e2e.cluster_jobs_test import cluster_job
from rig.process import wait_until

PREFIX = "/leat/test/"
NOBODY = "0" * 32


class Stranger:
    """Writes to etcd itself, with no secret and no token."""

    def __init__(self, cluster):
        self.member = cluster.etcd.members[0]

    def ask(self, what, document):
        answer = self.member.ask(f"/v3/kv/{what}", "-d", json.dumps(document))
        assert answer, f"etcd does not take {document}"
        return json.loads(answer)

    @staticmethod
    def encoded(text):
        return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()

    def put(self, key, value):
        self.ask("put", {"key": self.encoded(PREFIX + key), "value": self.encoded(value)})

    def all(self):
        """key -> value of all that the cluster has there."""
        found = self.ask("range", {"key": self.encoded(PREFIX), "range_end": self.encoded(PREFIX[:-1] + "0")})
        return {base64.b64decode(one["key"]): base64.b64decode(one["value"]) for one in found["kvs"]}

    def get(self, key):
        found = self.ask("range", {"key": self.encoded(PREFIX + key)})
        return base64.b64decode(found["kvs"][0]["value"])


def forged_mount(path, source):
    return json.dumps({"v": 1, "path": path, "source": source, "options": {}, "store": NOBODY,
                       "prefix": "", "replicas": 1})


def forged_copy(path, to):
    return json.dumps({"v": 1, "id": 1, "order": {"kind": "copy", "path": path, "to": to, "over": "all"},
                       "principal": "stranger", "cancel": False, "worker": "", "begun": 0, "runs": 0,
                       "info": {"state": "running", "started_ms": 0, "took_ms": 0}})


def audit_lines(worker, *words):
    return [line for line in worker.log.read_text().splitlines()
            if "audit:" in line and all(word in line for word in words)]


def mounts_of(worker):
    return sorted(one["path"] for one in worker.status()["mounts"])


def noted_by_all(cluster, key):
    wait_until(lambda: all(audit_lines(worker, key) for worker in cluster.workers),
               f"the audit lines of {key}")


def test_forged_records_are_ignored_and_audited(make_cluster, folder):
    cluster = make_cluster(2, LEAT_WORKER_LOCAL_PATHS="/")
    mount = cluster.client().mount_cluster("/")
    target = Path(folder) / "target"
    target.mkdir(mode=0o700)
    stranger = Stranger(cluster)
    stranger.put("cluster/mounts/etc", forged_mount("/etc", "file:///etc"))
    stranger.put("jobs/00000000000000000001", forged_copy("/train", f"file://{target}/"))
    stranger.put(f"cluster/workers/{NOBODY[:-1]}1", json.dumps(
        {"v": 1, "id": NOBODY[:-1] + "1", "address": "10.9.9.9:1", "capacity": 1 << 40}))
    for key in ("cluster/mounts/etc", "jobs/00000000000000000001", "cluster/workers/" + NOBODY[:-1]):
        noted_by_all(cluster, key)
    # The registry goes on: what comes after the forgeries is acted upon.
    cluster.mount("data/train/small", "/later")
    for worker in cluster.workers:
        assert mounts_of(worker) == ["/later", "/train"]
        assert "10.9.9.9:1" not in json.dumps(
            [one for one in worker.status()["workers"] if one["state"] == "active"])
        assert worker.json("cluster", "jobs")["jobs"] == []
        assert len(audit_lines(worker, "cluster/mounts/etc")) == 1
        assert worker.counter("leat_cluster_rejected_records_total") == 3
    wait_until(lambda: sorted(os.listdir(mount)) == ["later", "train"], "the later mount")
    assert os.listdir(target) == []
    # A forged record does not keep its name from those who may.
    cluster.mount("data/train/small", "/etc")
    assert cluster_job(cluster.workers[0], "load", "/train")["state"] == "done"
    assert os.listdir(target) == []


def test_signed_records_cannot_be_put_back(make_cluster):
    cluster = make_cluster(2)
    stranger = Stranger(cluster)
    cluster.mount("data/train/small", "/old")
    signed = stranger.get("cluster/mounts/old")
    cluster.workers[0].run("cluster", "umount", "/old")
    wait_until(lambda: all(mounts_of(one) == ["/train"] for one in cluster.workers), "its end")
    stranger.put("cluster/mounts/old", signed)
    noted_by_all(cluster, "cluster/mounts/old")
    # At another place, altered, and once more with as many changes as it had.
    stranger.put("cluster/mounts/new", signed.replace(b'"/old"', b'"/new"'))
    noted_by_all(cluster, "cluster/mounts/new")
    stranger.ask("deleterange", {"key": stranger.encoded(PREFIX + "cluster/mounts/old")})
    stranger.put("cluster/mounts/old", "")
    stranger.put("cluster/mounts/old", signed)
    stranger.put("cluster/mounts/last", signed)
    noted_by_all(cluster, "cluster/mounts/last")
    cluster.add_worker()
    cluster.wait_for_ring(cluster.workers)
    for worker in cluster.workers:
        assert mounts_of(worker) == ["/train"], worker.status()


class SmallReads(threading.Thread):
    """Reads small files of a mount again and again, past its cache; keeps the first error."""

    def __init__(self, mount):
        super().__init__()
        self.mount, self.reads, self.error = mount, 0, None
        self.ended = threading.Event()

    def run(self):
        while not self.ended.is_set() and not self.error:
            name = f"train/small/{self.reads % cluster_files.SMALL:03}"
            try:
                assert cluster_files.read(self.mount, name) == cluster_files.body(name), name
            except (AssertionError, OSError) as error:
                self.error = error
            self.reads += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def test_a_secret_is_exchanged_and_mounts_stay(make_cluster):
    """A client reads all the time, and gets its new token before the old secret goes."""
    cluster = make_cluster(2)
    client = cluster.client()
    mount = client.mount_cluster("/train", "-o", "cache=never", freshness="max-age=1s", memory="64MiB")
    with SmallReads(mount) as reads:
        exchange_secret(cluster, client)
        since = reads.reads
        wait_until(lambda: reads.reads > since + 200 or reads.error, "more reads")
    assert not reads.error, reads.error


def exchange_secret(cluster, client):
    old = cluster.secret.read_text().splitlines()[-1]
    other = cluster.folder / "other"
    cluster.tool.run("cluster", "secret", other)
    new = other.read_text().splitlines()[-1]

    def write(*lines):
        beside = cluster.folder / "beside"
        beside.touch(mode=0o600)
        beside.write_text("\n".join(lines) + "\n")
        beside.rename(cluster.secret)
        wait_until(lambda: all(worker.log.read_text().count("secret was read again") == write.times
                               for worker in cluster.workers), "the secrets to be read")
        write.times += 1
    write.times = 1

    def key_ids():
        return {value.split()[1] for value in Stranger(cluster).all().values()}
    before = key_ids()
    assert len(before) == 1
    write(old, new)
    write(new, old)
    wait_until(lambda: len(key_ids()) == 1 and key_ids() != before, "all records to be signed again")
    cluster.new_token(cluster.folder / "token2", "tester")
    (cluster.folder / "token2").rename(cluster.token)
    wait_until(lambda: "was read again" in client.run("logs").stdout, "the new token to be read")
    write(new)
    cluster.wait_for_ring(cluster.workers)
    for worker in cluster.workers:
        assert mounts_of(worker) == ["/train"]
        assert not audit_lines(worker, "record"), worker.log.read_text()
    cluster.mount("data/train/small", "/later")


@pytest.fixture
def local(folder):
    """A folder with files, a link that stays in it, and one that leads out."""
    root = Path(folder) / "local"
    (root / "allowed" / "data").mkdir(parents=True)
    (root / "outside").mkdir()
    (root / "allowed" / "data" / "file").write_bytes(b"inside")
    (root / "outside" / "secret").write_bytes(b"secret")
    (root / "allowed" / "data" / "escape").symlink_to(root / "outside" / "secret")
    (root / "allowed" / "door").symlink_to(root / "outside")
    return root


def refused(worker, *words):
    done = worker.run(*words, check=False)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def test_only_allowed_local_paths_are_served(make_cluster, local):
    cluster = make_cluster(2, LEAT_WORKER_LOCAL_PATHS=f"{local}/allowed")
    worker = cluster.workers[0]
    for source in ("file:///etc", f"file://{local}/outside", f"file://{local}", f"{local}/outside"):
        assert "worker.local_paths" in refused(worker, "cluster", "mount", source, "/evil")
    assert "worker.local_paths" in refused(
        worker, "cluster", "mount", f"file://{local}/allowed/door", "/evil"), "a link that leads out"
    assert mounts_of(worker) == ["/train"]
    assert audit_lines(worker, "/etc is not below a folder")

    worker.run("cluster", "mount", f"file://{local}/allowed/data", "/local")
    mount = cluster.client().mount_cluster("/")
    wait_until(lambda: "local" in os.listdir(mount), "the mount")
    assert (mount / "local" / "file").read_bytes() == b"inside"
    with pytest.raises(PermissionError):
        (mount / "local" / "escape").read_bytes()

    names = cluster_files.names()
    inside = local / "allowed" / "out"
    worker.run("cluster", "cp", "/train", f"file://{inside}/")
    assert sum(len(files) for _, _, files in os.walk(inside)) == len(names)
    said = refused(worker, "cluster", "cp", "/train", f"file://{local}/outside/out/")
    assert "worker.local_paths" in said
    refused(worker, "cluster", "cp", "/train", f"file://{local}/allowed/door/out/")
    assert os.listdir(local / "outside") == ["secret"]


def test_no_local_file_without_the_option(make_cluster, local):
    cluster = make_cluster(1)
    said = refused(cluster.workers[0], "cluster", "mount", f"file://{local}/allowed", "/local")
    assert "worker.local_paths" in said
    said = refused(cluster.workers[0], "cluster", "cp", "/train", f"file://{local}/allowed/")
    assert "worker.local_paths" in said


def test_a_worker_with_another_secret_is_rejected(make_cluster):
    cluster = make_cluster(2)
    other = cluster.folder / "other"
    cluster.tool.run("cluster", "secret", other)
    odd = cluster.new_worker(len(cluster.workers))
    secret, cluster.secret = cluster.secret, other
    odd.start()
    cluster.secret = secret
    try:
        def states(worker):
            return sorted(one["state"] for one in worker.status()["workers"])
        wait_until(lambda: all(states(one) == ["active", "active", "rejected"]
                               for one in cluster.workers), "it to be shown")
        assert "rejected" in cluster.workers[0].run("cluster").stdout
        wait_until(lambda: "have another secret" in odd.run("cluster", check=False).stdout,
                   "it to say so itself")
        cluster.mount("data/train/small", "/later")
        assert [one["path"] for one in odd.status()["mounts"]] == []
    finally:
        odd.close()
    wait_until(lambda: all(states(one) == ["active", "active"] for one in cluster.workers), "its end")

