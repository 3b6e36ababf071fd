# SPDX-License-Identifier: Apache-2.0
"""`leat doctor` names the cause of twelve prepared faults, and what to do about it. Faults are real
where they can be had (a real S3 server, a real file system, a real limit); what only a cloud says is
answered by a server in the words of that cloud."""

import http.server
import json
import resource
import struct
import subprocess
import threading
from pathlib import Path

import pytest

from rig import schemas
from rig.clock import clock_off_by
from rig.faulty import FaultyFront
from rig.leat import leat_program
from rig.mounts import WITHOUT_FOLDERS, in_own_mounts
from rig.store import SECRET_KEY


@pytest.fixture
def doctor(leat):
    """Finding by name, of a host with one fault."""
    def run(*words, credentials=None, before=(), ok=False, **options):
        done = subprocess.run([*before, leat_program(), "doctor", "--json", *map(str, words)],
                              capture_output=True, text=True, timeout=120,
                              env=leat.environment(credentials), stdin=subprocess.DEVNULL, **options)
        assert done.returncode == (0 if ok else 5), done.stderr + done.stdout
        found = {}
        for finding in schemas.check(["doctor"], done.stdout)["findings"]:
            if finding["level"] != "ok":
                assert finding["cost"] and finding["action"], finding
                found[finding["name"]] = finding
        return found
    return run


@pytest.fixture
def objects(s3, bucket):
    s3.put_object(Bucket=bucket, Key="train/0001", Body=b"x" * 100_000)
    return bucket


def source(store, **options):
    given = {"endpoint": store.endpoint, "region": "us-east-1", **options}
    return "s3://data/train?" + "&".join(f"{name}={value}" for name, value in given.items())


def test_without_a_fault_there_is_none(doctor, store, objects):
    found = doctor("--no-speed", source(store), credentials=store.credentials, ok=True,
                   before=WITHOUT_FOLDERS)
    assert not any(name.startswith("store.") for name in found)


class Cloud(http.server.BaseHTTPRequestHandler):
    """Refuses everything with one S3 error."""
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, code, message = self.server.answer
        body = (f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
                f"<Message>{message}</Message><RequestId>4442587FB7D0A2F9</RequestId></Error>")
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def cloud(store):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cloud)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    server.credentials = store.credentials
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_1_no_permission(doctor, cloud):
    cloud.answer = (403, "AccessDenied", "User: arn:aws:iam::1:user/u is not authorized to perform: "
                    "s3:ListBucket on resource: arn:aws:s3:::data")
    found = doctor("--no-speed", source(cloud), credentials=cloud.credentials)
    assert "s3:ListBucket" in found["store.permission"]["action"]


def test_2_wrong_region(doctor, store, objects):
    found = doctor("--no-speed", source(store, region="eu-west-1"), credentials=store.credentials)
    assert "us-east-1" in found["store.region"]["what"]
    assert "-o region=" in found["store.region"]["action"]


def test_3_expired_key(doctor, cloud):
    cloud.answer = (400, "ExpiredToken", "The provided token has expired.")
    found = doctor("--no-speed", source(cloud), credentials=cloud.credentials)
    assert "have expired" in found["store.credentials"]["what"]


def test_3_wrong_key(doctor, store, objects):
    wrong = dict(store.credentials, AWS_SECRET_ACCESS_KEY="something-else")
    found = doctor("--no-speed", source(store), credentials=wrong)
    assert "AWS_SECRET_ACCESS_KEY" in found["store.credentials"]["action"]
    assert SECRET_KEY not in json.dumps(found) and "something-else" not in json.dumps(found)


def test_4_clock_skew(doctor, store, objects):
    skewed = {**store.credentials, **clock_off_by("-2h")}
    found = doctor("--no-speed", source(store), credentials=skewed)
    assert "timedatectl" in found["store.clock"]["action"]


def test_5_full_disk(doctor, folder):
    cache = Path(folder) / "small"
    cache.mkdir()
    full = in_own_mounts(f"mount -t tmpfs -o size=16m tmpfs {cache}; "
                         f"head -c 15m /dev/zero > {cache}/else; mkdir {cache}/leat")
    found = doctor("--cache-dir", cache / "leat", before=full)
    assert "room for nothing" in found["cache.space"]["what"]
    assert "--cache-dir" in found["cache.space"]["action"]


@pytest.fixture
def slow_disk(folder):
    """A file system that takes and gives 20 MB a second."""
    behind, slow = Path(folder) / "behind", Path(folder) / "slow"
    for path in (behind, slow):
        path.mkdir()
    subprocess.run(["bindfs", "--read-rate=20M", "--write-rate=20M", behind, slow], check=True)
    yield slow
    subprocess.run(["umount", slow], check=True)


def test_6_slow_disk(doctor, folder, slow_disk):
    found = doctor("--cache-dir", slow_disk, ok=True, before=WITHOUT_FOLDERS)
    assert "this disk is slow" in found["cache.speed"]["what"]


def test_7_no_fuse(doctor):
    hidden = in_own_mounts("mount -t tmpfs tmpfs /dev; mknod /dev/null c 1 3; "
                           "mknod /dev/urandom c 1 9")
    found = doctor("--no-speed", before=hidden)
    assert "/dev/fuse" in found["fuse.device"]["what"]


def test_8_small_limits(doctor):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    found = doctor("--no-speed", ok=True, before=WITHOUT_FOLDERS, preexec_fn=limit)
    assert "ulimit -Hn" in found["host.open_files"]["action"]


def test_9_store_down(doctor, store, objects):
    store.stop()
    found = doctor("--no-speed", source(store), credentials=store.credentials)
    assert store.endpoint in found["store.reachable"]["what"]


def test_10_throttling(doctor, cloud):
    cloud.answer = (503, "SlowDown", "Please reduce your request rate.")
    found = doctor("--no-speed", source(cloud), credentials=cloud.credentials)
    assert "requests_per_second" in found["store.throttling"]["action"]


def test_11_wrong_endpoint_style(doctor, store, objects):
    found = doctor("--no-speed", source(store, addressing="virtual"), credentials=store.credentials)
    assert "addressing=path" in found["store.addressing"]["action"]


def test_11_another_kind_of_server(doctor, store, folder):
    front = FaultyFront(store, folder, 1, 0.0, tls=True)
    try:
        found = doctor("--no-speed", source(front, endpoint=front.endpoint.replace("https", "http")),
                       credentials=store.credentials)
        assert found.keys() & {"store.endpoint", "store.reachable"}, found
    finally:
        front.stop()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def make_newer(cache):
    """A superblock with a feature that this version does not know (docs/formats/cache.md)."""
    path = cache / "superblock"
    block = bytearray(path.read_bytes())
    features = struct.unpack_from("<Q", block, 24)[0]
    struct.pack_into("<Q", block, 24, features | 1 << 40)
    struct.pack_into("<I", block, 124, crc32c(block[:124]))
    path.write_bytes(block)


def test_12_a_cache_of_a_newer_version(doctor, leat, folder):
    cache = Path(folder) / "newer"
    leat.run("cache", "format", cache)
    make_newer(cache)
    found = doctor("--cache-dir", cache)
    assert "newer" in found["cache.directory"]["what"]
