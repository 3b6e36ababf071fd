# SPDX-License-Identifier: Apache-2.0
"""A folder over a store that fails in one request of twelve: whoever reads from it sees nothing of it."""

import os
import socket
import threading

import pytest

from e2e.content import content, size_of
from e2e.readers import Readers
from rig.faulty import FaultyFront

KIB, MIB = 1024, 1024 * 1024
BASE_SIZES = [200, 5000, 64 * KIB, 300 * KIB, MIB, 2 * MIB + 4096, 9 * MIB]
SHARE = 1 / 12


@pytest.fixture(params=["plain", "tls"])
def front(request, store, folder, seed):
    faulty = FaultyFront(store, folder, seed, SHARE, tls=request.param == "tls")
    yield faulty
    faulty.stop()


@pytest.fixture
def files(s3, bucket):
    found = {f"d{number % 4}/f{number}": BASE_SIZES[number % len(BASE_SIZES)] for number in range(28)}
    for name, base in found.items():
        s3.put_object(Bucket=bucket, Key=name, Body=content(name, 1, 0, size_of(base, 1)))
    return found


def test_readers_do_not_see_store_failures(leat, bucket, front, files, folder, seed, scale):
    leat.cache_size = "24MiB"  # less than there is, so that the store is asked again and again
    mount = leat.mount(front, bucket, os.path.join(folder, "mnt"))
    # One request in twelve meets a fault; how many requests there are differs.
    for number in range(5):
        counts = Readers(mount, files, seed + number, processes=3, opens=40 * scale).finish()
        print("faults:", dict(front.faults))
        assert counts["opens"] == 3 * 40 * scale
        if sum(front.faults.values()) > 5:
            break
    assert sum(front.faults.values()) > 5
    assert sorted(f"{path}/{name}" for path in os.listdir(mount) for name in os.listdir(mount / path)) \
        == sorted(files)


class Tampering(threading.Thread):
    """In front of a server at `port`: of what that says, one byte is another one, once it has said as
    much as no head has. All else goes through as it is."""

    UNTOUCHED = 64 * KIB

    def __init__(self, port):
        super().__init__()
        self.port, self.tampered = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            for source, target, tampers in ((client, server, False), (server, client, True)):
                threading.Thread(target=self.pump, args=(source, target, tampers), daemon=True).start()

    def pump(self, source, target, tampers):
        said = 0
        try:
            while piece := source.recv(16 * KIB):
                if tampers and said > self.UNTOUCHED and not self.tampered:
                    self.tampered += 1
                    piece = bytes([piece[0] ^ 1]) + piece[1:]
                target.sendall(piece)
                said += len(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            target.close()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.join()


class OnItsWay:
    """A store that sends bodies with changed bytes."""

    def __init__(self, front):
        self.tampering = Tampering(int(front.endpoint.rsplit(":", 1)[1]))
        port = self.tampering.listener.getsockname()[1]
        self.endpoint = f"{front.endpoint.rsplit(':', 1)[0]}:{port}"
        self.credentials = front.credentials


@pytest.mark.parametrize("tls", [False, True])
def test_a_byte_is_changed_on_its_way(leat, store, s3, bucket, folder, tls):
    """Without TLS the changed byte is read; under TLS the connection breaks, and the read is retried."""
    body = content("f", 1, 0, 2 * MIB)
    s3.put_object(Bucket=bucket, Key="f", Body=body)
    front = FaultyFront(store, folder, 1, 0.0, tls=tls)
    way = OnItsWay(front)
    try:
        mount = leat.mount(way, bucket, os.path.join(folder, "mnt"))
        read = (mount / "f").read_bytes()
        assert way.tampering.tampered == 1
        assert len(read) == len(body)
        assert sum(a != b for a, b in zip(read, body, strict=True)) == (0 if tls else 1)
    finally:
        way.tampering.stop()
        front.stop()
