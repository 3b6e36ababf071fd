# SPDX-License-Identifier: Apache-2.0
"""A cluster whose etcd speaks TLS, wants certificates of those who ask, and has users."""

import json
from pathlib import Path

import pytest

from e2e.cluster_files import body, read, read_all
from rig.certificates import Signer
from rig.cluster import Cluster, Etcd
from rig.process import wait_until

USER, PASSWORD = "leat", "a password of the tests"
# Where etcd has users it takes no request over HTTP of a certificate with a common name.
NAMELESS = "/O=leat tests"


@pytest.fixture
def signer(folder):
    return Signer(Path(folder) / "signer")


@pytest.fixture
def etcd(folder, signer):
    return Etcd(Path(folder) / "etcd", tls=(signer.ca, *signer.certificate("etcd"))).start()


def by_certificate(signer, pair):
    """Settings of a worker."""
    return {"LEAT_CLUSTER_REGISTRY_CA": str(signer.ca),
            "LEAT_CLUSTER_REGISTRY_CERTIFICATE": str(pair[0]),
            "LEAT_CLUSTER_REGISTRY_KEY": str(pair[1])}


def by_password(file, password):
    file.touch(mode=0o600)
    file.write_text(password + "\n")
    return {"LEAT_CLUSTER_REGISTRY_USER": USER, "LEAT_CLUSTER_REGISTRY_PASSWORD_FILE": str(file)}


@pytest.fixture
def welcome(folder, etcd, signer):
    """Settings by which workers join where etcd has users."""
    etcd.require_users(USER, PASSWORD, f"/leat/{Cluster.name}/")
    return {**by_certificate(signer, signer.certificate("worker", subject=NAMELESS)),
            **by_password(Path(folder) / "password", PASSWORD)}


def test_workers_join_by_certificate(make_cluster, etcd, signer):
    cluster = make_cluster(2, etcd=etcd, **by_certificate(signer, signer.certificate("worker")))
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))


def test_workers_join_by_certificate_and_password(make_cluster, etcd, welcome):
    cluster = make_cluster(2, etcd=etcd, **welcome)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))


def test_workers_log_in_again_after_etcd_restarts(make_cluster, etcd, welcome):
    """What it gave for the password ends with its process."""
    cluster = make_cluster(2, etcd=etcd, **welcome)
    etcd.stop()
    etcd.start()
    wait_until(lambda: not any(worker.status().get("trouble") for worker in cluster.workers),
               "the trouble to end", timeout_s=60)
    cluster.wait_for_ring(cluster.workers)
    cluster.mount("data/train/small", "/later")
    assert read(cluster.client().mount_cluster("/later"), "007") == body("train/small/007")


def wrong_password(folder, _signer):
    return by_password(Path(folder) / "guess", "12345")


def wrong_ca(folder, _signer):
    return {"LEAT_CLUSTER_REGISTRY_CA": str(Signer(Path(folder) / "other").ca)}


def strange_certificate(folder, signer):
    other = Signer(Path(folder) / "other")
    return by_certificate(signer, other.certificate("stranger", subject=NAMELESS))


def certificate_with_a_name(_folder, signer):
    return by_certificate(signer, signer.certificate("worker-1"))


@pytest.mark.parametrize("change, said", [
    (wrong_password, ["etcd", "authentication failed", "cluster.registry_password_file"]),
    (wrong_ca, ["certificate"]),
    (strange_certificate, ["certificate"]),
    (certificate_with_a_name, ["etcd", "certificate", "common name"]),
], ids=lambda one: getattr(one, "__name__", None))
def test_a_rejected_worker_says_why(make_cluster, etcd, welcome, signer, folder,
                                                       change, said):
    cluster = make_cluster(1, etcd=etcd, **welcome)
    stranger = cluster.new_worker(1)
    stranger.settings.update(change(folder, signer))
    stranger.start()

    def trouble():
        done = stranger.run("cluster", "status", "--json", check=False)
        return done.returncode == 0 and json.loads(done.stdout).get("trouble")
    try:
        told = wait_until(trouble, "the trouble to be told")
        print(told)
        log = stranger.log.read_text()
        for word in said:
            assert word in told and word in log, (told, log)
        assert list(cluster.members(cluster.workers[0])) == [cluster.workers[0].address]
    finally:
        stranger.close()
