# SPDX-License-Identifier: Apache-2.0
"""What operators do to a cluster by mistake, and what disks and clocks do by themselves: no read fails
for it, or it is said what to do."""

import os
import shutil
import subprocess

import pytest

from e2e.cluster_files import body, names, read, read_all, sent_bytes
from e2e.objects import put_all
from rig.clock import clock_off_by
from rig.process import wait_until


def trouble_of(worker):
    return worker.status().get("trouble") or ""


def test_a_copied_cache_directory_is_detected(make_cluster):
    """As of a machine that was made from another one's image."""
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/train", memory="64MiB")
    read_all(mount)
    elder = cluster.workers[1]
    elder.end()
    copy = cluster.new_worker(2)
    shutil.copytree(elder.cache_dir, copy.cache_dir, dirs_exist_ok=True)
    elder.start()
    cluster.wait_for_ring(cluster.workers)
    copy.start()
    wait_until(lambda: copy.address in trouble_of(elder), "the trouble to be told", timeout_s=60)
    assert "--cache-dir" in trouble_of(elder)
    read_all(mount)
    copy.end()
    wait_until(lambda: not trouble_of(elder), "the trouble to end", timeout_s=60)
    cluster.wait_for_ring(cluster.workers)
    read_all(mount)


def test_a_shared_cache_directory_is_rejected(make_cluster):
    cluster = make_cluster(1)
    second = cluster.new_worker(1)
    second.cache_dir = cluster.workers[0].cache_dir
    second.start()
    assert second.process.wait(timeout=60) != 0
    assert str(second.cache_dir) in second.log.read_text(), second.log.read_text()
    assert read(cluster.client().mount_cluster("/train"), "train/small/001") == body("train/small/001")


def test_an_empty_etcd_is_filled_again(make_cluster, s3, bucket):
    """The mounts were its own and have to be made again; what workers hold has not to be fetched."""
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/", freshness="max-age=1s", memory="64MiB")
    read_all(mount / "train")
    before = sent_bytes(cluster.store)
    cluster.etcd.stop()
    shutil.rmtree(cluster.etcd.data)
    cluster.etcd.start()
    cluster.wait_for_ring(cluster.workers)
    cluster.mount(f"{bucket}/train", "/train")
    wait_until(lambda: os.listdir(mount) == ["train"], "the mount", timeout_s=60)
    read_all(mount / "train")
    cluster.wait_without_trouble()
    assert sent_bytes(cluster.store) - before <= 0.5 * sum(names().values())


def test_a_worker_with_a_full_disk_serves(make_cluster, folder):
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "leat-test", disk], check=True)
    # As large as the disk, so that each worker owns half of the files, whatever their identities.
    cluster = make_cluster(1, cache_size="48MiB")
    try:
        full = cluster.new_worker(1)
        full.cache_dir = cluster.folder / "disk-of-full"
        full.cache_dir.symlink_to(disk)
        cluster.workers.append(full.start())
        cluster.wait_for_ring(cluster.workers)
        with open(os.path.join(disk, "else"), "wb", buffering=0) as other, pytest.raises(OSError):
            while True:
                other.write(bytes(1 << 16))
        mount = cluster.client().mount_cluster("/train", "-o", "cache=never", memory="64MiB")
        for _ in range(2):
            read_all(mount)
        assert full.counter("leat_peer_served_reads_total") > 0
    finally:
        cluster.close()
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("offset", ["-2h", "+2h"])
def test_a_client_with_a_wrong_clock_gets_advice(make_cluster, offset):
    cluster = make_cluster(1)
    client = cluster.client()
    client.settings = clock_off_by(offset)
    refused = client.mount_cluster("/train", check=False)
    assert refused.returncode != 0
    assert "clock" in refused.stderr and "NTP" in refused.stderr, refused.stderr


def test_a_worker_whose_cache_was_emptied_says_so(make_cluster):
    """A restart with what it had says nothing; one without it is a worker of another identity."""
    cluster = make_cluster(2)
    worker = cluster.workers[1]

    def restart():
        worker.end()
        worker.start()
        cluster.wait_for_ring(cluster.workers)
        return worker.counter("leat_cluster_caches_lost_total")
    assert restart() == 0
    shutil.rmtree(worker.cache_dir)
    assert restart() == 1
    said = worker.log.read_text()
    assert "begins with an empty cache" in said and worker.address in said, said[-2000:]
    assert restart() == 0


def test_a_worker_with_a_wrong_clock_is_shown(make_cluster):
    """It holds its lease, and refuses what others ask it as they refuse what it asks."""
    cluster = make_cluster(1)
    late = cluster.new_worker(1)
    late.settings.update(clock_off_by("-1h"))
    late.start()
    try:
        for seen_by, other in ((cluster.workers[0], late), (late, cluster.workers[0])):
            wait_until(lambda by=seen_by, of=other: (cluster.members(by) or {}).get(
                of.address, {}).get("state") == "refusing", "the state to be shown", timeout_s=60)
            trouble = cluster.members(seen_by)[other.address]["trouble"]
            assert "clock" in trouble and "NTP" in trouble, trouble
            assert "is refusing: " in seen_by.run("cluster").stdout
        assert "refuses the requests of this worker" in cluster.workers[0].log.read_text()
        shown = cluster.workers[0].json("status")["clusters"][0]
        assert shown["refusing"] == 1 and "clock" in shown["trouble"], shown
        assert cluster.workers[0].counter("leat_peer_checks_rejected_total") > 0
        found = cluster.workers[0].run("doctor", "--no-speed", check=False).stdout
        assert "daemon.cluster" in found, found
    finally:
        late.end()


def test_odd_names_are_read_as_they_are(make_cluster, s3):
    odd = ["with space", "plus+and%20", "quote'\"", "ünïcode", "a&b=c?d#e", "new\nline", "-dash", "%",
           "..dots", "back\\slash", "x" * 255, "ta\tb", "emoji 🦊", "semi;colon", "[brackets]*"]
    put_all(s3, "data", {f"train/odd/{name}/{name}": name.encode() * 9 for name in odd})
    cluster = make_cluster(2)
    mount = cluster.client().mount_cluster("/train")
    assert sorted(os.listdir(mount / "odd")) == sorted(odd)
    for name in odd:
        assert os.listdir(mount / "odd" / name) == [name]
        assert (mount / "odd" / name / name).read_bytes() == name.encode() * 9
