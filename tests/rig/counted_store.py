# SPDX-License-Identifier: Apache-2.0
"""An S3 store in memory that counts what goes over its sockets, to the request and the byte, and fails
as it is told. It takes any signature. Figures stand before the client can have what they are of."""

import email.utils
import hashlib
import re
import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from rig.store import ACCESS_KEY, SECRET_KEY

MODIFIED = 1700000000
# Of a refused HEAD there is the status alone: 503 does not say then that it was too much.
REFUSALS = {"throttle": (503, "SlowDown"), "too many": (429, "TooManyRequests"),
            "fail": (500, "InternalError")}


class CountedStore:
    """One bucket, `data`. Listings have pages of `page_entries`."""

    def __init__(self, objects, page_entries=1000):
        self.objects, self.page_entries = dict(objects), page_entries
        self.lock = threading.Lock()
        self.faults = []
        # Requests by method, by what they were for (stat, list, read), and by the fault they met.
        self.requests, self.asked, self.met = Counter(), Counter(), Counter()
        self.sent_bytes = self.received_bytes = self.connections = 0
        self.reads = self.read_bytes = 0  # answered as a whole; given, also by answers that were cut
        handler = type("Bound", (Handler,), {"store": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def credentials(self):
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def plan(self, *faults, asked="read"):
        """The next requests for `asked` meet these, one each: throttle, too many, fail, cut (an
        answer that ends in the middle of its body), hang up (no answer); or well."""
        with self.lock:
            self.faults += [(asked, fault) for fault in faults]

    def next_fault(self, asked):
        with self.lock:
            for index, (wanted, fault) in enumerate(self.faults):
                if wanted == asked:
                    del self.faults[index]
                    self.met[fault] += 1
                    return fault
        return "well"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.store.lock:
            self.store.connections += 1

    def log_message(self, format, *args):
        pass

    def do_any(self):
        url = urlsplit(self.path)
        key = unquote(url.path).removeprefix("/data").removeprefix("/")
        query = {name: values[0] for name, values in parse_qs(url.query, True).items()}
        asked = {"HEAD": "stat", "GET": "list" if "list-type" in query else "read"}.get(
            self.command, "change")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.store.lock:
            self.store.requests[self.command] += 1
            self.store.asked[asked] += 1
            self.store.received_bytes += len(body)
        fault = self.store.next_fault(asked)
        if fault == "hang up":
            self.close_connection = True
        elif fault in REFUSALS:
            self.refuse(*REFUSALS[fault])
        elif asked == "list":
            self.answer(200, self.listing(query), fault)
        elif asked == "change":
            self.refuse(501, "NotImplemented")
        else:
            self.object(key, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_any

    def object(self, key, fault):
        if key not in self.store.objects:
            self.refuse(404, "NoSuchKey")
            return
        content = self.store.objects[key]
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        headers = {"ETag": tag, "Last-Modified": email.utils.formatdate(MODIFIED, usegmt=True)}
        if self.headers.get("If-Match", tag) != tag:
            self.refuse(412, "PreconditionFailed")
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not found:
            self.answer(200, content, fault, headers)
            return
        first, last = int(found[1]), min(int(found[2]), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        part = content[first:last + 1]
        with self.store.lock:
            if fault == "well":
                self.store.reads += 1
                self.store.read_bytes += len(part)
            elif fault == "cut":  # what has come of it is not asked for again
                self.store.read_bytes += len(part) // 2
        self.answer(206, part, fault, headers)

    def listing(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = max(query.get("start-after", ""), query.get("continuation-token", ""))
        names = {}  # as they are listed, with the last key that each stands for
        for key in sorted(self.store.objects):
            if key.startswith(prefix):
                end = key.find(delimiter, len(prefix)) if delimiter else -1
                names[key if end < 0 else key[:end + 1]] = key
        left = [name for name, last in names.items() if last > after]
        page = left[:min(self.store.page_entries, int(query.get("max-keys", 1000)))]
        text = [f"<ListBucketResult><Name>data</Name><Prefix>{escape(prefix)}</Prefix>"
                f"<KeyCount>{len(page)}</KeyCount>"]
        more = len(left) > len(page)
        text.append(f"<IsTruncated>{str(more).lower()}</IsTruncated>")
        if more:
            token = escape(names[page[-1]])
            text.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
        for name in page:
            if name not in self.store.objects:
                text.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
                continue
            content = self.store.objects[name]
            text.append(f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size>"
                        "<LastModified>2023-11-14T22:13:20.000Z</LastModified>"
                        f'<ETag>"{hashlib.md5(content).hexdigest()}"</ETag></Contents>')
        return ("".join(text) + "</ListBucketResult>").encode()

    def refuse(self, status, code):
        text = f"<Error><Code>{code}</Code><Message>as planned</Message></Error>"
        self.answer(status, text.encode(), "well")

    def answer(self, status, body, fault, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "cut":
            body = body[:len(body) // 2]
            self.close_connection = True
        with self.store.lock:
            self.store.sent_bytes += len(body)
        self.wfile.write(body)
