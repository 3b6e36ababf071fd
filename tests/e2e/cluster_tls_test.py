# SPDX-License-Identifier: Apache-2.0
"""A cluster whose workers and clients know each other by certificates as well."""

from pathlib import Path

import pytest

from e2e.cluster_files import body, names, read, read_all
from e2e.objects import put_all
from rig.certificates import Signer
from rig.cluster import Cluster
from rig.process import wait_until


def settings(signer, pair):
    return {"LEAT_WORKER_CA": str(signer.ca), "LEAT_WORKER_CERTIFICATE": str(pair[0]),
            "LEAT_WORKER_KEY": str(pair[1])}


def words(signer, pair):
    return ["-o", f"ca={signer.ca}", "-o", f"certificate={pair[0]}", "-o", f"key={pair[1]}"]


@pytest.fixture
def signer(folder):
    return Signer(Path(folder) / "signer")


@pytest.fixture
def cluster(folder, store, s3, bucket, signer):
    put_all(s3, bucket, {name: body(name) for name in names()})
    made = Cluster(Path(folder) / "cluster", store, 3,
                   settings=settings(signer, signer.certificate("workers")))
    try:
        made.start().mount(f"{bucket}/train", "/train")
        yield made
    finally:
        made.close()


def test_a_dead_worker_fails_no_read_under_tls(cluster, signer):
    mount = cluster.client().mount_cluster("/train", *words(signer, signer.certificate("client")),
                                           memory="64MiB")
    read_all(mount)
    cluster.workers[2].kill()
    read_all(mount)
    loaded = cluster.workers[0].json("cluster", "load", "/train")
    assert loaded["files_done"] == len(names()), loaded


def refused(cluster, *options):
    done = cluster.client().mount_cluster("/train", *options, check=False)
    assert done.returncode != 0
    return done.stderr


def test_a_wrong_certificate_gets_advice(cluster, signer, folder):
    other = Signer(Path(folder) / "other")
    # Nobody's: our certificate is signed by another one than the workers believe.
    unknown = refused(cluster, *words(signer, other.certificate("stranger")))
    assert "certificate" in unknown, unknown
    # The workers' is signed by another one than we believe.
    untrusted = refused(cluster, *words(other, signer.certificate("mistaken")))
    assert "certificate" in untrusted and "ca" in untrusted, untrusted
    bare = refused(cluster, "-o", f"ca={signer.ca}")
    assert "certificate" in bare, bare
    plain = refused(cluster)
    assert "TLS" in plain and "certificate" in plain and "rejects us" in plain, plain
    missing = refused(cluster, "-o", "ca=/no/such/file")
    assert "/no/such/file" in missing, missing
    # Nothing of that harms who is welcome.
    mount = cluster.client().mount_cluster("/train", *words(signer, signer.certificate("client")))
    assert read(mount, "train/small/007") == body("train/small/007")


def test_a_worker_with_a_foreign_certificate(cluster, signer, folder):
    """It is in the registry, since it has the secret; the others do not talk to it, and stand in."""
    other = Signer(Path(folder) / "other")
    cluster.settings = settings(other, other.certificate("stranger"))
    stranger = cluster.add_worker()
    wait_until(lambda: (cluster.members(cluster.workers[0]) or {}).get(stranger.address, {})
               .get("share"), "its share")
    mount = cluster.client().mount_cluster("/train", *words(signer, signer.certificate("client")),
                                           memory="64MiB")
    read_all(mount)
    assert stranger.counter("leat_peer_served_reads_total") == 0
