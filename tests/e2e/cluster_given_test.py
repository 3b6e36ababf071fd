# SPDX-License-Identifier: Apache-2.0
"""Files that a worker gives readers on its host as they lie in its cache: over a Unix socket, read by
the kernel itself where it can, and there to the end whatever becomes of the worker."""

import array
import base64
import contextlib
import hashlib
import hmac
import json
import mmap
import os
import random
import socket
import time
import urllib.parse
import urllib.request

import pytest

from e2e.cluster_files import LARGE, LARGE_BYTES, body, names, path_in, read, read_all
from rig.process import wait_until

LARGE_NAMES = [name for name in names() if "/large/" in name]
WAYS = pytest.mark.parametrize("way", [(), ("--no-passthrough",)], ids=["kernel", "daemon"])


def counter(leat, name):
    counters = leat.json("status")["counters"]
    return sum(value for key, value in counters.items() if key.split("{")[0] == name)


def opened(leat):
    return counter(leat, "leat_peer_fds_received_total")


def given(cluster):
    return sum(worker.counter("leat_peer_fds_sent_total") for worker in cluster.workers)


def warm(cluster, client, mount, wanted=None):
    """Until each of the large files is given: what was just written has to be on the disk for good.
    Loaded by the workers, since a client that has bytes in its memory asks for none."""
    alive = next(one for one in cluster.workers if one.process.poll() is None)
    alive.run("cluster", "load", "/train/large")

    def is_given(name):
        before = opened(client)
        assert read(mount, name) == body(name), name
        return opened(client) > before
    for name in wanted or LARGE_NAMES:
        wait_until(lambda one=name: is_given(one), f"{name} to be given")


def set_up(make_cluster, *options, workers=1):
    cluster = make_cluster(workers)
    client = cluster.client()
    return cluster, client, client.mount_cluster("/train", *options)


@contextlib.contextmanager
def open_at(mount, name):
    fd = os.open(path_in(mount, name), os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def read_past_the_page_cache(fd, offset, size):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return os.pread(fd, size, offset)


@pytest.mark.parametrize("cache", ["never", "always"])
@WAYS
def test_a_warm_file_is_opened_by_fd_passing(make_cluster, seed, way, cache):
    cluster, client, mount = set_up(make_cluster, "-o", f"cache={cache}", *way)
    # By another one, since this one may keep what it reads by its bytes while it is not given yet.
    other = cluster.client()
    warm(cluster, other, other.mount_cluster("/train", "-o", "cache=never"))
    features = client.json("mounts")["mounts"][0]["features"]
    stat = client.json("stat", path_in(mount, LARGE_NAMES[0]))
    assert stat["served_by"] == ("kernel" if features["passthrough"] else "daemon")
    before, received = opened(client), counter(client, "leat_peer_received_bytes_total")
    given_before, served = given(cluster), cluster.workers[0].counter("leat_peer_served_bytes_total")
    chosen = random.Random(seed)
    for name in LARGE_NAMES:
        assert read(mount, name) == body(name), name
        with open_at(mount, name) as fd:
            for _ in range(20):
                offset = chosen.randrange(LARGE_BYTES)
                assert read_past_the_page_cache(fd, offset, 4096) == \
                    body(name)[offset:offset + 4096], (name, offset)
    assert opened(client) - before == 2 * LARGE
    assert given(cluster) - given_before == 2 * LARGE
    assert counter(client, "leat_peer_received_bytes_total") == received
    assert cluster.workers[0].counter("leat_peer_served_bytes_total") == served
    assert client.json("status")["cache"]["used_bytes"] < LARGE_BYTES, "no second copy"
    read_all(mount)  # small ones by their bytes


@WAYS
def test_passed_files_outlive_a_killed_worker(make_cluster, way):
    cluster, client, mount = set_up(make_cluster, *way)
    name, other = LARGE_NAMES[:2]
    warm(cluster, client, mount, [name, other])
    with open_at(mount, name) as fd:
        assert os.pread(fd, 4096, 0) == body(name)[:4096]
        cluster.workers[0].kill()
        for offset in range(0, LARGE_BYTES, 1 << 20):
            assert read_past_the_page_cache(fd, offset, 1 << 20) == \
                body(name)[offset:offset + (1 << 20)], offset
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as mapped:
            assert mapped[:] == body(name)
        # The next process of the worker knows nothing of who has it.
        cluster.workers[0].start()
        cluster.wait_for_ring(cluster.workers)
        assert read_past_the_page_cache(fd, 12345, 1 << 20) == body(name)[12345:12345 + (1 << 20)]
    warm(cluster, client, mount, [name, other])


def test_opens_after_a_kill_read_bytes(make_cluster):
    cluster, client, mount = set_up(make_cluster, workers=2)
    warm(cluster, client, mount)
    victim = cluster.workers[0]
    victim.kill()
    for name in LARGE_NAMES:
        assert read(mount, name) == body(name), name
    # By the one that stands in, which gives its files as well.
    warm(cluster, client, mount)
    victim.start()
    cluster.wait_for_ring(cluster.workers)
    warm(cluster, client, mount)


def test_a_stopped_worker_revokes_no_file(make_cluster):
    cluster, client, mount = set_up(make_cluster)
    name = LARGE_NAMES[0]
    warm(cluster, client, mount, [name])
    worker = cluster.workers[0]
    with open_at(mount, name) as fd:
        worker.end()
        assert not (worker.runtime_dir / "files.sock").exists()
        assert read_past_the_page_cache(fd, 4096, 1 << 20) == body(name)[4096:4096 + (1 << 20)]
        worker.start()
        cluster.wait_for_ring(cluster.workers)
        assert read_past_the_page_cache(fd, 8192, 1 << 20) == body(name)[8192:8192 + (1 << 20)]
        warm(cluster, client, mount, LARGE_NAMES[1:2])


def test_a_worker_that_stands_still_is_left_alone(make_cluster):
    cluster, client, mount = set_up(make_cluster, workers=2)
    warm(cluster, client, mount)
    cluster.workers[1].pause()
    for name in LARGE_NAMES:
        assert read(mount, name) == body(name), name
    cluster.workers[1].resume()
    warm(cluster, client, mount)


@WAYS
def test_passed_files_outlive_eviction(make_cluster, way):
    cluster, client, mount = set_up(make_cluster, *way)
    worker, name = cluster.workers[0], LARGE_NAMES[0]

    def held():
        return worker.json("status")["cache"]["unlinked_bytes"]
    warm(cluster, client, mount, [name])
    with open_at(mount, name) as fd:
        worker.run("cluster", "free", "/train/large")
        wait_until(lambda: held() >= LARGE_BYTES, "the bytes to count although they were freed")
        assert read_past_the_page_cache(fd, 0, LARGE_BYTES) == body(name)
    wait_until(lambda: held() == 0, "the bytes to be given up")
    warm(cluster, client, mount, [name])


@WAYS
def test_an_open_passed_file_is_one_version(make_cluster, s3, way):
    cluster, client, mount = set_up(make_cluster, *way)
    name = LARGE_NAMES[0]
    warm(cluster, client, mount, [name])
    with open_at(mount, name) as fd:
        s3.put_object(Bucket="data", Key=name, Body=body(name, 2))
        client.run("refresh", mount / "large")
        wait_until(lambda: read(mount, name) == body(name, 2), "the new version", timeout_s=10)
        assert read_past_the_page_cache(fd, 0, LARGE_BYTES) == body(name)
    before = opened(client)

    def new_one_is_given():
        assert read(mount, name) == body(name, 2)
        return opened(client) > before
    wait_until(new_one_is_given, "the new version to be given")


def test_open_files_outlive_a_killed_client(make_cluster):
    cluster, client, mount = set_up(make_cluster)
    if not client.json("mounts")["mounts"][0]["features"]["survives"]:
        pytest.skip("this kernel sends a successor nothing again (it needs Linux 6.9)")
    name = LARGE_NAMES[0]
    warm(cluster, client, mount, [name])
    with open_at(mount, name) as fd:
        client.kill_daemon()
        assert read_past_the_page_cache(fd, 0, LARGE_BYTES) == body(name)
        cluster.workers[0].run("cluster", "free", "/train/large")
        assert read_past_the_page_cache(fd, 0, LARGE_BYTES) == body(name)
        with open_at(mount, name) as again:
            assert read_past_the_page_cache(again, 0, LARGE_BYTES) == body(name)
    warm(cluster, client, mount, [name])


def test_a_worker_mounts_its_own_cache(make_cluster):
    cluster = make_cluster(1)
    worker = cluster.workers[0]
    mount = worker.folder / "mnt"
    mount.mkdir()
    worker.run("mount", f"leat://{worker.address}/train", mount, "-o", "cache=always")
    warm(cluster, worker, mount)
    used = worker.json("status")["cache"]["used_bytes"]
    for name in LARGE_NAMES:
        assert read(mount, name) == body(name), name
    assert worker.json("status")["cache"]["used_bytes"] <= used + LARGE_BYTES, "no second copy"
    worker.run("umount", mount)


def test_a_worker_may_give_nothing(make_cluster):
    cluster = make_cluster(1, LEAT_WORKER_FD_SOCKET="none")
    client = cluster.client()
    mount = client.mount_cluster("/train")
    for _ in range(2):
        read_all(mount)
    assert not (cluster.workers[0].runtime_dir / "files.sock").exists()
    assert (opened(client), given(cluster)) == (0, 0)


class Asker:
    """Asks a worker's socket by the protocol, as whoever has that token."""

    def __init__(self, worker, token):
        self.worker = worker
        _, self.claims, key = token.read_text().split()
        self.key = base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))
        self.session, self.count = os.urandom(8).hex(), 0

    def signed(self, method, target, to):
        self.count += 1
        date, nonce = str(int(time.time())), f"{self.session}-{self.count}"
        lines = ["leat-request-1", method, target, "", "", date, nonce, "",
                 *([f"leat-to:{to}"] if to else [])]
        text = "".join(f"{line}\n" for line in lines)
        fields = {"leat-token": self.claims, "leat-date": date, "leat-nonce": nonce,
                  "leat-signature": hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()}
        return {**fields, **({"leat-to": to} if to else {})}

    def view(self):
        target = "/peer/v1/cluster?after=0"
        request = urllib.request.Request(f"http://{self.worker.address}{target}",
                                         headers=self.signed("GET", target, ""))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            return json.load(answer)

    def descriptor(self, store, name, etag, to):
        """The file, or None."""
        query = {"epoch": "0", "key": name, "mount": "/train", "size": str(names()[name]), "store": store,
                 "version": f"1:{etag}"}
        target = "/peer/v1/bytes?" + urllib.parse.urlencode(query)
        fields = self.signed("DESCRIPTOR", target, to)
        text = f"DESCRIPTOR {target}\n" + "".join(f"{k}: {v}\n" for k, v in fields.items()) + "\n"
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(10)
            door.connect(str(self.worker.runtime_dir / "files.sock"))
            door.sendall(text.encode())
            byte, extra, *_ = door.recvmsg(1, socket.CMSG_SPACE(4))
        if byte == b"0":
            assert not extra
            return None
        assert byte == b"1"
        fds = array.array("i")
        fds.frombytes(extra[0][2])
        return os.fdopen(fds[0], "rb")


def test_the_token_decides_who_is_given_a_file(make_cluster, s3):
    cluster, client, mount = set_up(make_cluster)
    name, worker = LARGE_NAMES[0], cluster.workers[0]
    warm(cluster, client, mount, [name])
    etag = s3.head_object(Bucket="data", Key=name)["ETag"]
    good = Asker(worker, cluster.token)
    view = good.view()
    store = next(one["store"] for one in view["mounts"] if one["path"] == "/train")
    published = view["workers"][0]
    assert published["socket"] == str(worker.runtime_dir / "files.sock")
    to = published["id"]
    with good.descriptor(store, name, etag, to) as file:
        assert file.read() == body(name)
        with pytest.raises(OSError):
            os.pwrite(file.fileno(), b"x", 0)
    narrow = Asker(worker, cluster.new_token(cluster.folder / "narrow", "eve", "--read", "/other"))
    cluster.tool.run("cluster", "secret", cluster.folder / "other-secret")
    cluster.tool.run("cluster", "token", cluster.folder / "foreign", "--principal", "mallory",
                     "--secret-file", cluster.folder / "other-secret")
    foreign = Asker(worker, cluster.folder / "foreign")
    refused = worker.counter("leat_peer_auth_failures_total")
    for asker, at in ((narrow, to), (foreign, to), (good, "0123456789abcdef" * 2)):
        assert asker.descriptor(store, name, etag, at) is None
    assert worker.counter("leat_peer_auth_failures_total") == refused + 3
    assert "eve (process " in worker.log.read_text(), "the log says who asked"
    assert good.descriptor(store, name, '"another"', to) is None
