# SPDX-License-Identifier: Apache-2.0
"""The raw baseline: signed ranged GETs in parallel streams, whose bytes are received and dropped.

Usage: streams.py ENDPOINT BUCKET KEY SIZE STREAMS RANGE_BYTES  (credentials from the environment)
A loop over recv_into(2) costs less than any client library; `measure.py` also runs as many curl
processes and takes the faster of the two. Prints one JSON line.
"""

import datetime
import hashlib
import hmac
import json
import os
import queue
import resource
import socket
import sys
import threading
import time
from urllib.parse import quote, urlsplit

REGION = "us-east-1"
BUFFER_BYTES = 512 * 1024


def digest(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Signer:
    """AWS Signature Version 4 of GETs without a query."""

    def __init__(self, host, path):
        self.host, self.path = host, path
        self.access = os.environ["AWS_ACCESS_KEY_ID"]
        self.secret = os.environ["AWS_SECRET_ACCESS_KEY"]

    def request(self, first, last):
        now = datetime.datetime.now(datetime.timezone.utc)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        headers = {"host": self.host, "range": f"bytes={first}-{last}",
                   "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": stamp}
        names = ";".join(headers)
        canonical = "\n".join(["GET", self.path, "", *(f"{k}:{v}" for k, v in headers.items()), "",
                               names, "UNSIGNED-PAYLOAD"])
        scope = f"{day}/{REGION}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                             hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{self.secret}".encode()
        for part in (day, REGION, "s3", "aws4_request"):
            key = digest(key, part)
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.access}/{scope}, "
                                    f"SignedHeaders={names}, Signature={signature}")
        lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        return f"GET {self.path} HTTP/1.1\r\n{lines}\r\n".encode()


def read_head(connection, buffer):
    """Reads past the header; answers how many bytes of the body came with it."""
    have = b""
    while b"\r\n\r\n" not in have:
        count = connection.recv_into(buffer, 16384)
        if not count:
            raise RuntimeError("the server closed the connection before it answered")
        have += bytes(buffer[:count])
    head, rest = have.split(b"\r\n\r\n", 1)
    if not head.startswith(b"HTTP/1.1 206"):
        raise RuntimeError(f"the server answered {head.splitlines()[0]!r} {rest[:300]!r}")
    return len(rest)


def stream(address, signer, ranges, failures):
    buffer = memoryview(bytearray(BUFFER_BYTES))
    try:
        with socket.create_connection(address) as connection:
            while True:
                first, last = ranges.get_nowait()
                connection.sendall(signer.request(first, last))
                left = last - first + 1 - read_head(connection, buffer)
                while left:
                    count = connection.recv_into(buffer, min(left, BUFFER_BYTES))
                    if not count:
                        raise RuntimeError("the server closed the connection inside a body")
                    left -= count
    except queue.Empty:
        pass
    except (OSError, RuntimeError) as error:
        failures.append(str(error))


def main():
    endpoint, bucket, key = sys.argv[1:4]
    size, streams, range_bytes = map(int, sys.argv[4:7])
    url = urlsplit(endpoint)
    signer = Signer(url.netloc, "/" + quote(f"{bucket}/{key}"))
    ranges, failures = queue.SimpleQueue(), []
    for first in range(0, size, range_bytes):
        ranges.put((first, min(first + range_bytes, size) - 1))
    started = time.monotonic()
    threads = [threading.Thread(target=stream, args=((url.hostname, url.port), signer, ranges, failures))
               for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - started
    if failures:
        sys.exit(f"streams.py: {failures[0]}")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"bytes": size, "seconds": seconds, "cpu_s": usage.ru_utime + usage.ru_stime}))


if __name__ == "__main__":
    main()
