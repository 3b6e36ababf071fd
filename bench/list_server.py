# SPDX-License-Identifier: Apache-2.0
"""An S3 server that has nothing but a listing, ready in memory, so that only the client takes time.

Usage: list_server.py KEYS [flat]    prints its port; ends with its standard input
Checks no signature. A page is found by its start-after. `flat`: all keys in one folder, so many that
a page is made when it is asked for.
"""

import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit

PAGE = 1000


def key_of(number):
    return f"train/class-{number // 10_000:04}/image-{number:08}.jpg"


def flat_key_of(number):
    return f"train/image-{number:08}.jpg"


def page_of(first, total, key_of=key_of):
    last = min(first + PAGE, total)
    items = "".join(
        f"<Contents><Key>{key_of(number)}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
        f'<ETag>"{number:032x}"</ETag><Size>110000</Size><StorageClass>STANDARD</StorageClass></Contents>'
        for number in range(first, last))
    more = last < total
    token = f"<NextContinuationToken>{last}</NextContinuationToken>" if more else ""
    body = ('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult '
            'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix></Prefix>'
            f"<KeyCount>{last - first}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>").encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class FlatPages:
    """As a dictionary of pages by their start-after."""

    def __init__(self, total):
        self.total = total

    def __getitem__(self, after):
        first = int(after[-12:-4]) + 1 if after else 0
        return page_of(first, self.total, flat_key_of)


def serve(connection, pages):
    received = b""
    with connection:
        while True:
            while b"\r\n\r\n" not in received:
                more = connection.recv(65536)
                if not more:
                    return
                received += more
            request, received = received.split(b"\r\n\r\n", 1)
            query = parse_qs(urlsplit(request.split(b" ", 2)[1].decode()).query)
            connection.sendall(pages[query.get("start-after", [""])[0]])


def accept(listener, pages):
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(connection, pages), daemon=True).start()


def main():
    total = int(sys.argv[1])
    if sys.argv[2:] == ["flat"]:
        pages = FlatPages(total)
    else:
        pages = {"" if first == 0 else key_of(first - 1): page_of(first, total)
                 for first in range(0, total, PAGE)}
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=accept, args=(listener, pages), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
