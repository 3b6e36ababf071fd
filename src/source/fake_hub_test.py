#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face Hub on loopback, as far as its documentation says what one does: repositories with
commits, trees in pages, paths-info, and `resolve`, which sends whoever asks for a large file on to
another port that refuses to be told who asks. A PUT to a file's path makes a commit of it."""
import hashlib
import json
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = sys.argv[2]  # that private repositories want
PAGE = 5
LFS_FROM = 32  # bytes
DATE = "2024-05-06T07:08:09.000Z"

lock = threading.Lock()
# "datasets/o/n" -> the commits, oldest first: (sha, {path: content})
repositories = {}
renamed = {"datasets/old/name": "datasets/some/dataset"}
log = []


def files_of(repo, revision):
    commits = repositories.get(repo)
    if not commits:
        return None, None
    if revision in ("main", "refs/pr/1"):
        return commits[-1]
    return next((one for one in commits if one[0] == revision), (None, None))


def oid_of(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def info_of(path, content):
    info = {"type": "file", "path": path, "oid": oid_of(content), "size": len(content)}
    if len(content) >= LFS_FROM:
        oid = hashlib.sha256(content).hexdigest()
        info["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 130}
    return info


def level_of(files, folder):
    """What is directly in a folder; None where there is no such folder."""
    prefix = folder + "/" if folder else ""
    found = {}
    for path in files:
        if path.startswith(prefix):
            name, slash, _ = path[len(prefix):].partition("/")
            if slash:
                found[name] = {"type": "directory", "path": prefix + name, "oid": "0" * 40, "size": 0}
            else:
                found[name] = info_of(path, files[path])
    return [found[name] for name in sorted(found)] if found or not folder else None


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, content=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        length = headers.get("Content_Length")
        if length is None:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def answer_json(self, value, **headers):
        self.answer(200, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def fail(self, status, text):
        self.answer(status, b"<html>a long page</html>", X_Error_Message=text)

    def answer_range(self, content, **headers):
        given = self.headers.get("Range")
        if given is None:
            return self.answer(200, content, **headers)
        first, last = (int(text) for text in given.removeprefix("bytes=").split("-"))
        if first >= len(content):
            return self.answer(416, Content_Range=f"bytes */{len(content)}", **headers)
        last = min(last, len(content) - 1)
        where = f"bytes {first}-{last}/{len(content)}"
        self.answer(206, content[first:last + 1], Content_Range=where, **headers)


class Hub(Server):
    def do_any(self):
        sent = self.body()
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")[1:]]
        with lock:
            log.append(f"{self.command} {self.path} {self.headers.get('Authorization', '-')}")
            if parts == ["forget"]:  # what the other port was told
                blobs.clear()
                return self.answer(200)
            if parts == ["log"]:
                return self.answer(200, "\n".join(log).encode())
            is_api = parts[0] == "api"
            parts = parts[is_api:]
            if not is_api and parts[0] not in ("datasets", "spaces"):
                parts.insert(0, "models")
            repo = "/".join(parts[:3])
            if repo in renamed:
                to = self.path.replace(repo, renamed[repo], 1)
                return self.answer(307, Location=to)
            if self.command == "PUT":
                return self.commit(repo, "/".join(parts[3:]), sent)
            wanted = self.headers.get("Authorization")
            if wanted not in (None, f"Bearer {TOKEN}"):
                return self.fail(401, "Invalid credentials in Authorization header")
            if "private" in repo and wanted is None or repo not in repositories:
                return self.fail(401, "Invalid username or password.")
            verb, revision, path = parts[3], parts[4], "/".join(parts[5:])
            sha, files = files_of(repo, revision)
            if sha is None:
                return self.fail(404, f"Invalid rev id: {revision}")
            getattr(self, "do_" + verb.replace("-", "_"))(sha, files, path, query, sent)

    do_GET = do_HEAD = do_POST = do_PUT = do_any

    def commit(self, repo, path, content):
        commits = repositories.setdefault(repo, [])
        files = dict(commits[-1][1]) if commits else {}
        files[path] = content
        commits.append((hashlib.sha1(f"{repo} {len(commits)}".encode()).hexdigest(), files))
        self.answer(200)

    def do_revision(self, sha, *_):
        self.answer_json({"sha": sha, "lastModified": DATE, "siblings": []})

    def do_tree(self, sha, files, path, query, _):
        found = level_of(files, path)
        if found is None:
            return self.fail(404, f"{path} does not exist on this revision")
        start = int(query.get("cursor", 0))
        size = min(int(query.get("limit", PAGE)), PAGE)
        headers = {}
        if path == "endless":
            headers["Link"] = f'<{hub_url}{self.path}>; rel="next"'
        elif start + size < len(found):
            to = self.path.split("?")[0]
            headers["Link"] = f'<{hub_url}{to}?limit={size}&cursor={start + size}>; rel="next"'
        self.answer_json(found[start:start + size], **headers)

    def do_paths_info(self, sha, files, path, query, sent):
        found = []
        for wanted in urllib.parse.parse_qs(sent.decode())["paths"]:
            if wanted in files:
                found.append(info_of(wanted, files[wanted]))
            elif level_of(files, wanted):
                found.append({"type": "directory", "path": wanted, "oid": "0" * 40, "size": 0})
        self.answer_json(found)

    def do_resolve(self, sha, files, path, query, _):
        if path not in files:
            return self.fail(404, "Entry not found")
        content = files[path]
        if len(content) < LFS_FROM:
            return self.answer_range(content, ETag=f'"{oid_of(content)}"', X_Repo_Commit=sha)
        oid = hashlib.sha256(content).hexdigest()
        blobs[oid] = content
        # One that lasts longer than any clock.
        end = 2**64 - 1 if path == "eternal" else int(time.time()) + 3600
        self.answer(302, X_Linked_ETag=f'"{oid}"', X_Linked_Size=str(len(content)),
                    X_Repo_Commit=sha, ETag='"of-the-redirection"',
                    Location=f"{cdn_url}/{oid}?Expires={end}&Signature=s1gned")


blobs = {}

class Cdn(Server):
    def do_GET(self):
        self.body()
        with lock:
            log.append(f"CDN {self.path} {self.headers.get('Authorization', '-')}")
            if self.headers.get("Authorization") is not None:
                return self.answer(400, b"Only one auth mechanism allowed")
            content = blobs.get(urllib.parse.urlsplit(self.path).path[1:])
        if content is None:
            return self.answer(403, b"expired")
        self.answer_range(content, ETag='"of-the-bytes"')


if __name__ == "__main__":
    cdn = ThreadingHTTPServer(("127.0.0.1", 0), Cdn)
    cdn_url = f"http://127.0.0.1:{cdn.server_port}"
    threading.Thread(target=cdn.serve_forever, daemon=True).start()
    hub = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hub)
    hub_url = f"http://127.0.0.1:{hub.server_port}"
    hub.serve_forever()
