# SPDX-License-Identifier: Apache-2.0
"""From one version to the next while programs read: one worker after the other."""

import os
import shutil
from pathlib import Path

from e2e.cluster_files import names, read_all, sent_bytes
from e2e.cluster_test import Readers
from rig.leat import leat_program

def other_program(folder):
    """As a package of the next version brings it: another file."""
    path = Path(folder) / "next" / "leat"
    path.parent.mkdir()
    shutil.copy(leat_program(), path)
    return path


def runs(worker, program):
    return os.path.samefile(f"/proc/{worker.daemon_pid()}/exe", program)


def test_workers_are_replaced_one_after_the_other_and_no_read_fails(make_cluster, folder, seed):
    cluster = make_cluster(3)
    program = other_program(folder)
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
            readers.more(40)
        client.run("upgrade", program)  # whoever reads, last
        readers.more(40)
        # And back, as one does who has found something.
        worker = cluster.workers[1]
        worker.end()
        worker.start()
        cluster.wait_for_ring(cluster.workers)
        readers.more(40)
    assert not readers.failures, readers.failures[:3]
    before = sent_bytes(cluster.store)
    read_all(cluster.client().mount_cluster("/train", memory="64MiB"))
    assert sent_bytes(cluster.store) - before < sum(names().values()) * 0.05, "caches stayed"
