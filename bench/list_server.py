# SPDX-License-Identifier: Apache-2.0
"""An S3 server that has nothing but a listing, ready in memory, so that only the client takes time.

Usage: list_server.py KEYS [flat|FILES]    prints its port; ends with its standard input
Checks no signature. Any key may be a start-after. FILES: of each folder, 10,000 unless said.
`flat`: all keys in one folder, so many that a page is made when it is asked for.
"""

import bisect
import functools
import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit

PAGE = 1000


def key_in_folders(number, files=10_000):
    return f"train/class-{number // files:04}/image-{number:08}.jpg"


def flat_key_of(number):
    return f"train/image-{number:08}.jpg"


def item_of(key, number):
    return (f"<Contents><Key>{key}</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
            f'<ETag>"{number:032x}"</ETag><Size>110000</Size>'
            "<StorageClass>STANDARD</StorageClass></Contents>")


class Pages:
    """The page that follows a key, which any client may name."""

    def __init__(self, total, key_of, ready):
        self.total, self.key_of = total, key_of
        self.items = self.made(0, total) if ready else None
        self.item_bytes = len(self.made(0, 1))

    def made(self, first, last):
        return "".join(item_of(self.key_of(number), number) for number in range(first, last)).encode()

    def after(self, key):
        first = bisect.bisect_right(range(self.total), key, key=self.key_of)
        last = min(first + PAGE, self.total)
        if self.items is None:
            items = self.made(first, last)
        else:
            items = self.items[first * self.item_bytes:last * self.item_bytes]
        more = last < self.total
        token = f"<NextContinuationToken>{last}</NextContinuationToken>" if more else ""
        start = ('<?xml version="1.0" encoding="UTF-8"?><ListBucketResult '
                 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix></Prefix>'
                 f"<KeyCount>{last - first}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
                 f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}").encode()
        body = start + items + b"</ListBucketResult>"
        head = (f"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}"
                "\r\n\r\n")
        return head.encode() + body


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
            connection.sendall(pages.after(query.get("start-after", [""])[0]))


def accept(listener, pages):
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(connection, pages), daemon=True).start()


def main():
    total = int(sys.argv[1])
    layout = "".join(sys.argv[2:])
    flat = layout == "flat"
    key_of = functools.partial(key_in_folders, files=int(layout)) if layout.isdigit() else key_in_folders
    pages = Pages(total, flat_key_of if flat else key_of, ready=not flat)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=accept, args=(listener, pages), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
