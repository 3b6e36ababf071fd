# SPDX-License-Identifier: Apache-2.0
"""What a read costs below the mount: the store client alone against libcurl, over nginx on tmpfs; a
listing from a server that answers from memory; reads from a store that fails (clients/bad_store.cc).
Of the first three: CPU seconds (user and system) of each client for the same signed reads, in turn;
ends of each range are compared by the client."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from layers.layer_bench import LayerBench, against, client, run_client
from measure import GIB, KIB, MIB, ROOT
from rig.process import wait_until
from rig.store import free_port

BUCKET = "bucket"
THROTTLED_TO = 200
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; etag on;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl; root {folder}/data;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; ssl_protocols TLSv1.3;
  }}
}}
"""


@dataclass(frozen=True)
class Reads:
    """As clients/plan.h has them."""

    objects: int
    object_bytes: int
    range_bytes: int
    in_flight: int
    reads: int

    def words(self):
        return (self.objects, self.object_bytes, self.range_bytes, self.in_flight, self.reads)


READS = {
    "plain": Reads(4, 256 * MIB, 4 * MIB, 16, 2048),
    "tls": Reads(4, 256 * MIB, 4 * MIB, 16, 1024),
    "small": Reads(2000, 100_000, 100_000, 32, 40_000),
    "throttled": Reads(64, 64 * KIB, 64 * KIB, 64, 4000),
    "stalls": Reads(4, 64 * MIB, 4 * MIB, 16, 1000),
}
SMOKE_READS = {
    "plain": replace(READS["plain"], object_bytes=16 * MIB, reads=64),
    "tls": replace(READS["tls"], object_bytes=16 * MIB, reads=64),
    "small": replace(READS["small"], objects=100, reads=1000),
    "throttled": replace(READS["throttled"], reads=300),
    "stalls": replace(READS["stalls"], reads=30),
}
LIST_KEYS, SMOKE_LIST_KEYS = 1_000_000, 20_000


def environment(**more):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("AWS_", "LEAT_", "RUST_")) and not k.lower().endswith("_proxy")}
    return dict(kept, AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench-secret", **more)


class Server:
    """nginx over a folder in memory."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="leat-stores-", dir="/dev/shm"))
        self.plain, self.tls = free_port(), free_port()
        self.process = None

    @property
    def data(self):
        return self.folder / "data" / BUCKET

    def start(self):
        self.folder.chmod(0o755)  # the worker is nobody
        self.data.mkdir(parents=True)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-keyout", self.folder / "key.pem", "-out", self.folder / "cert.pem",
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
             "-addext", "basicConstraints=critical,CA:FALSE"], check=True, capture_output=True)
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, plain=self.plain, tls=self.tls))
        self.process = subprocess.Popen(["nginx", "-c", config])
        wait_until(self.answers, "nginx to listen")

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"nginx ended with {self.process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.plain), 1):
            return True
        return False

    def fill(self, prefix, reads):
        """The names of objects that hold numbers where ranges begin and end."""
        names = [f"{prefix}{number}" for number in range(reads.objects)]
        for number, name in enumerate(names):
            size = reads.object_bytes
            content = bytearray(size)
            step = 100_000 if size % MIB else MIB
            for base in range(0, size, step):
                for at in (base, base + step - 8):
                    content[at:at + 8] = (number * size + at).to_bytes(8, "little")
            (self.data / name).write_bytes(content)
        return names

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Stores(LayerBench):
    def __init__(self, place, smoke):
        super().__init__(place, smoke)
        self.reads = SMOKE_READS if smoke else READS
        self.server = None

    def peers(self, row):
        """The same through the transport that OpenDAL comes with."""
        return [("stock", "", 100)] if row in ("plain", "tls", "small") else []

    def run(self, row, subject, last):
        if row == "list":
            return self.run_list()
        if row in ("throttled", "stalls"):
            return getattr(self, f"run_{row}")()
        return self.beside_curl(row, subject)

    def close(self):
        if self.server:
            self.server.stop()

    # -- the client's cost ------------------------------------------------------------------------
    def serve(self, row):
        if self.server is None:
            self.server = Server()
            self.server.start()
        prefix = "small" if row == "small" else "large"
        if prefix not in self.fixtures.known:
            names = self.server.fill(prefix, self.reads[row])
            self.fixtures.use(prefix, [self.server.data], names)
        return prefix

    def beside_curl(self, row, subject):
        prefix = self.serve(row)
        port, scheme = (self.server.tls, "https") if row == "tls" else (self.server.plain, "http")
        words = [f"{scheme}://127.0.0.1:{port}", BUCKET, prefix, *self.reads[row].words()]
        certificate = {"AWS_CA_BUNDLE": str(self.server.folder / "cert.pem")}

        def cost(program, **more):
            result = run_client(program, *words, environment=environment(**certificate, **more))
            if row == "small":
                return result["cpu_s"] * 1e3 / result["reads"], result
            return result["cpu_s"] * GIB / result["bytes"], result

        stock = {"LEAT_TRANSPORT": "stock"} if subject == "stock" else {}
        first, _ = cost("leat_bench_curl")
        ours, result = cost("leat_bench_client", **stock)
        last, _ = cost("leat_bench_curl")
        rate = result["bytes"] / result["seconds"] / MIB
        unit = "ms each" if row == "small" else "s/GiB"
        return {row: {"value": against([first, last], ours, higher_is_slower=False),
                      "reference": [first, last],
                      "note": f"libcurl {(first + last) / 2:.3f} {unit}"},
                f"cpu_{row}": {"value": ours, "note": f"{rate:,.0f} MiB/s"}}

    # -- listing and a store that fails -----------------------------------------------------------
    def run_list(self):
        keys = SMOKE_LIST_KEYS if self.smoke else LIST_KEYS
        server = subprocess.Popen([sys.executable, ROOT / "bench" / "list_server.py", str(keys)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
            result = run_client("leat_bench_list", endpoint, BUCKET, environment=environment())
        finally:
            server.stdin.close()
            server.wait()
        if result["keys"] != keys:
            raise RuntimeError(f"{result['keys']} keys were listed instead of {keys}")
        return {"list": {"value": keys / result["seconds"], "note": ""}}

    def bad_store(self, row):
        """What the client says, and the server."""
        reads = self.reads[row]
        server = subprocess.Popen(
            [client("leat_bench_bad_store"), row, str(reads.objects), str(reads.object_bytes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            endpoint = server.stdout.readline().strip()
            result = run_client("leat_bench_client", endpoint, BUCKET, "bad", *reads.words(),
                                environment=environment())
            served = run_said(server)
        finally:
            server.kill()
            server.wait()
        if served["violations"]:
            raise RuntimeError(f"the store was asked wrongly: {served}")
        refused = f"{served['throttled']} refused, {served['stalled']} stalled of {served['requests']}"
        return result, refused

    def run_throttled(self):
        result, refused = self.bad_store("throttled")
        return {"throttled": {"value": result["reads"] / result["seconds"] / THROTTLED_TO,
                              "note": refused},
                "slowest_throttled": {"value": result["slowest_s"], "note": ""}}

    def run_stalls(self):
        result, refused = self.bad_store("stalls")
        return {"stalls": {"value": result["slowest_s"], "note": refused}}


def run_said(process):
    """The JSON that a server prints once its input ends."""
    return json.loads(process.communicate()[0])


def open_layer(place, smoke):
    return Stores(place, smoke)
