# SPDX-License-Identifier: Apache-2.0
"""The raw baseline of writing: an object by a multipart upload, its parts in parallel from memory.

Usage: uploads.py sdk|loop ENDPOINT BUCKET KEY SIZE STREAMS PART_BYTES  (credentials from the environment).
`sdk` sends parts by boto3 as it is fastest: from memory, unsigned, without checksums. `loop` lets it
sign the parts' addresses, and sends them by sendall(2). Prints one JSON line.
"""

import json
import os
import resource
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

REGION = "us-east-1"
BLOCK_BYTES = 1 << 20


def client_of(endpoint, streams):
    config = Config(s3={"addressing_style": "path", "payload_signing_enabled": False},
                    signature_version="s3v4", max_pool_connections=streams,
                    request_checksum_calculation="when_required")
    return boto3.client("s3", endpoint_url=endpoint, region_name=REGION, config=config)


class SdkSender:
    """Parts by the SDK."""

    def __init__(self, client):
        self.client = client

    def send(self, part, body):
        return self.client.upload_part(Body=body, **part)["ETag"]


class LoopSender:
    """Parts by a connection of each thread."""

    def __init__(self, client, endpoint):
        url = urlsplit(endpoint)
        self.client, self.address, self.host = client, (url.hostname, url.port), url.netloc
        self.local = threading.local()

    def send(self, part, body):
        if not hasattr(self.local, "connection"):
            self.local.connection = socket.create_connection(self.address)
        url = urlsplit(self.client.generate_presigned_url("upload_part", part))
        head = (f"PUT {url.path}?{url.query} HTTP/1.1\r\nhost: {self.host}\r\n"
                f"content-length: {len(body)}\r\n\r\n")
        self.local.connection.sendall(head.encode())
        self.local.connection.sendall(body)
        return etag_of(self.local.connection)


def etag_of(connection):
    """The ETag in the head of an answer without a body."""
    have = b""
    while b"\r\n\r\n" not in have:
        more = connection.recv(16384)
        if not more:
            raise RuntimeError("the server closed the connection before it answered")
        have += more
    status, *lines = have.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in
               (line.partition(":") for line in lines)}
    if status.split()[1] != "200" or "etag" not in headers:
        raise RuntimeError(f"the server answered {have[:500]!r}")
    return headers["etag"]


def bodies_of(size, part_bytes):
    """In the order of the parts. All but the last are the same memory."""
    whole = os.urandom(BLOCK_BYTES) * (part_bytes // BLOCK_BYTES)
    last = size % part_bytes
    return [whole] * (size // part_bytes) + ([whole[:last]] if last else [])


def upload(client, sender, where, bodies, streams):
    """Returns when the store has the object."""
    upload_id = client.create_multipart_upload(**where)["UploadId"]

    def send(number, body):
        part = dict(where, UploadId=upload_id, PartNumber=number)
        return {"PartNumber": number, "ETag": sender.send(part, body)}

    with ThreadPoolExecutor(streams) as pool:
        parts = list(pool.map(send, range(1, len(bodies) + 1), bodies))
    client.complete_multipart_upload(MultipartUpload={"Parts": parts}, UploadId=upload_id, **where)


def main():
    way, endpoint, bucket, key = sys.argv[1:5]
    size, streams, part_bytes = map(int, sys.argv[5:8])
    client = client_of(endpoint, streams)
    sender = SdkSender(client) if way == "sdk" else LoopSender(client, endpoint)
    where, bodies = {"Bucket": bucket, "Key": key}, bodies_of(size, part_bytes)
    started = time.monotonic()
    upload(client, sender, where, bodies, streams)
    seconds = time.monotonic() - started
    found = client.head_object(**where)["ContentLength"]
    if found != size:
        sys.exit(f"uploads.py: the object has {found} bytes")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"bytes": size, "seconds": seconds, "cpu_s": usage.ru_utime + usage.ru_stime}))


if __name__ == "__main__":
    main()
