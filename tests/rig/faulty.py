# SPDX-License-Identifier: Apache-2.0
"""A front of an S3 server that fails: what it is asked it hands on, and now and then it refuses,
hangs up, cuts answers short, tells of another range, or says nothing more. In clear or under TLS. What
names one word can be held without an answer."""

import contextlib
import random
import re
import socket
import ssl
import struct
import subprocess
import threading
from collections import Counter
from pathlib import Path

HEAD_MAX = 64 * 1024
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>"
FAULTS = ["refuse", "reset", "cut", "stall head", "stall body", "other range", "page"]
# What only an answer with a body of bytes can suffer.
OF_BODIES = {"cut", "stall body", "other range"}
BODILESS = re.compile(rb"HTTP/1\.1 (204|304) ")


class FaultyFront:
    """In front of `store`, as a server at `endpoint`. `share` of the requests fail."""

    def __init__(self, store, folder, seed, share, tls=False):
        self.store, self.share, self.tls = store, share, tls
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.faults = Counter()
        self.ended = threading.Event()
        self.held_word, self.held = None, 0
        self.let_go = threading.Condition(self.lock)
        self.connections = set()
        self.certificate = Path(folder) / "front.pem"
        self.context = self.make_context(Path(folder)) if tls else None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    @property
    def endpoint(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.listener.getsockname()[1]}"

    @property
    def credentials(self):
        trust = {"AWS_CA_BUNDLE": str(self.certificate)} if self.tls else {}
        return dict(self.store.credentials, **trust)

    def make_context(self, folder):
        key = folder / "front.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-keyout", key, "-out", self.certificate, "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"],
            check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        return context

    def accept(self):
        while not self.ended.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        upstream = None
        with self.lock:
            self.connections.add(client)
        try:
            wire = self.context.wrap_socket(client, server_side=True) if self.tls else client
            upstream = socket.create_connection(("127.0.0.1", self.store.port))
            while self.one_request(client, wire, upstream):
                pass
        except OSError:
            pass  # either side is gone
        finally:
            with self.lock:
                self.connections.discard(client)
            for one in (client, upstream):
                if one is not None:
                    one.close()

    def one_request(self, client, wire, upstream):
        """False when the connection is over."""
        request, body = read_head(wire)
        if not request:
            return False
        left = length_of(request, missing=0) - len(body)
        self.wait_while_held(request)
        fault = self.choose(request)
        if fault == "refuse":
            self.note(fault)
            if not pass_bytes(wire, None, left):
                return False
            wire.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(SLOW_DOWN)
                         + (b"" if request.startswith(b"HEAD") else SLOW_DOWN))
            return True
        if fault == "reset":
            self.note(fault)
            reset(client)
            return False
        if fault == "page" and request.startswith(b"GET"):  # of some machine in between
            self.note(fault)
            page = b"<html><body>Welcome to the network</body></html>"
            wire.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s"
                         % (len(page), page))
            return True
        upstream.sendall(request + body)
        if not pass_bytes(wire, upstream, left):
            return False
        head, rest = read_head(upstream)
        if not head:
            return False
        has_body = not request.startswith(b"HEAD") and not BODILESS.match(head)
        size = length_of(head) if has_body else 0
        is_bytes = head.startswith(b"HTTP/1.1 206") and size > 1
        if fault == "lost":  # the request is done
            self.note(fault)
            reset(client)
            return False
        if fault == "stall head":
            self.note(fault)
            self.ended.wait(60)
            return False
        if fault not in OF_BODIES or not is_bytes:
            wire.sendall(head)
            return self.pass_body(wire, upstream, rest, size)
        self.note(fault)
        if fault == "other range":
            wire.sendall(head.replace(b"Content-Range: bytes ", b"Content-Range: bytes 1"))
            return self.pass_body(wire, upstream, rest, size)
        wire.sendall(head)
        with self.lock:
            part = self.random.randrange(size)
        self.pass_body(wire, upstream, rest[:part], part)
        if fault == "stall body":
            self.ended.wait(60)
        return False

    def pass_body(self, wire, upstream, rest, size):
        wire.sendall(rest)
        return pass_bytes(upstream, wire, size - len(rest))

    def hold(self, word):
        """From now on requests that have `word` in their first line wait; until hold(None)."""
        with self.lock:
            self.held_word = word.encode() if word else None
            self.let_go.notify_all()

    def wait_while_held(self, request):
        with self.lock:
            line = request.split(b"\r\n", 1)[0]
            while self.held_word and self.held_word in line and not self.ended.is_set():
                self.held += 1
                self.let_go.wait()

    def choose(self, _request):
        with self.lock:
            return self.random.choice(FAULTS) if self.random.random() < self.share else None

    def note(self, fault):
        with self.lock:
            self.faults[fault] += 1

    def stop(self):
        self.ended.set()
        self.hold(None)
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        with self.lock:
            for client in self.connections:
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)


def reset(connection):
    """Its close sends RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def pass_bytes(giver, taker, count):
    """To nobody where `taker` is None; False when the giver has ended before."""
    while count > 0:
        piece = giver.recv(min(count, 1 << 18))
        if not piece:
            return False
        if taker is not None:
            taker.sendall(piece)
        count -= len(piece)
    return True


def read_head(connection):
    """A head with its empty line, and what came along of the body; nothing at the end."""
    text = b""
    while b"\r\n\r\n" not in text:
        piece = connection.recv(4096)
        if not piece or len(text) > HEAD_MAX:
            return b"", b""
        text += piece
    size = text.index(b"\r\n\r\n") + 4
    return text[:size], text[size:]


def length_of(head, missing=None):
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    if missing is not None:
        return missing
    raise ValueError(f"an answer without a length: {head!r}")
