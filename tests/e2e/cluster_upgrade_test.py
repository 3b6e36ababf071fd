# SPDX-License-Identifier: Apache-2.0
"""From one version to the next while programs read: one worker after the other."""

import os
import shutil
import subprocess
from pathlib import Path

from e2e.cluster_files import names, read_all, sent_bytes
from e2e.cluster_test import Readers
from rig.leat import leat_program

NEXT = "9.8.7"  # as long as the version of today


def version_of(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


def next_version(folder):
    """As its package brings it: another file, which says that it is the next version."""
    path = Path(folder) / "next" / "leat"
    path.parent.mkdir()
    shutil.copy(leat_program(), path)
    path.write_bytes(path.read_bytes().replace(version_of(path).encode(), NEXT.encode()))
    assert version_of(path) == NEXT
    return path


def versions(cluster):
    """As the first worker sees them, in the order of the cluster's list."""
    members = cluster.members(cluster.workers[0])
    return [members[worker.address]["version"] for worker in cluster.workers]


def runs(worker, program):
    return os.path.samefile(f"/proc/{worker.daemon_pid()}/exe", program)


def test_a_rolling_upgrade_fails_no_read(make_cluster, folder, seed):
    cluster = make_cluster(3)
    program, version = next_version(folder), version_of(leat_program())
    supervised = cluster.workers[0]  # as a service is
    supervised.end()
    supervised.supervised = True
    supervised.start()
    cluster.wait_for_ring(cluster.workers)
    client = cluster.client()
    mount = client.mount_cluster("/train", memory="64MiB")
    read_all(mount)
    with Readers(mount, seed) as readers:
        for number, worker in enumerate(cluster.workers):
            readers.more(40)
            if worker is supervised:
                worker.run("upgrade", program)
            else:
                worker.end()
                readers.more(20)
                worker.start(program=program)
            cluster.wait_for_ring(cluster.workers)
            assert [runs(one, program) for one in cluster.workers] == [i <= number for i in range(3)]
            assert versions(cluster) == [NEXT if i <= number else version for i in range(3)]
            readers.more(40)
        client.run("upgrade", program)  # whoever reads, last
        readers.more(40)
        # And back, as one does who has found something.
        worker = cluster.workers[1]
        worker.end()
        worker.start()
        cluster.wait_for_ring(cluster.workers)
        assert versions(cluster) == [NEXT, version, NEXT]
        readers.more(40)
    assert not readers.failures, readers.failures[:3]
    before = sent_bytes(cluster.store)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    assert sent_bytes(cluster.store) - before < sum(names().values()) * 0.05, "caches stayed"
