# SPDX-License-Identifier: Apache-2.0
"""Rows of servers that are 30 ms away and have long listings, no ETags, or a limit of requests."""

import contextlib
import json
import os
import shutil
import subprocess
import time

from folder_door.far_rows import NEVER, READERS, RTT_MS
from folder_door.far_store import farther
from layers.layer_bench import client, run_client
from layers.stores import environment
from listing import mounted_listing
from measure import NotRun
from rig import leftovers
from rig.leat import Leat
from rig.process import wait_until
from rig.store import free_port

LONG, LONG_SMOKE = 300_000, 3_000
NAMES, NAMES_SMOKE = 1_000_000, 20_000
FILES_OF_A_FOLDER = 1_000
THROTTLED_TO, THROTTLED_BYTES, THROTTLED_READS = 1_000, 100_000, 10_000

NGINX = """daemon off; master_process off; pid {0}/pid; error_log stderr;
events {{ worker_connections 4096; }}
http {{
  access_log off; etag {1}; sendfile on; tcp_nopush on; keepalive_requests 1000000;
  client_body_temp_path {0}/t1; proxy_temp_path {0}/t2; fastcgi_temp_path {0}/t3;
  uwsgi_temp_path {0}/t4; scgi_temp_path {0}/t5; autoindex on; autoindex_format json;
  server {{ listen 127.0.0.1:{2}; root {3}; }}
}}
"""


def place_of(setting, name):
    place = setting.folder / "leat" / name
    leftovers.clear(place)
    place.mkdir(parents=True, exist_ok=True)
    return place


def long_bucket(setting, count):
    """A folder of so many objects of one byte, in the store's own directory."""
    name = f"long{count}"
    folder = setting.store.data / name / "d"
    if not (setting.store.data / f"{name}.done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / f"{number:08}").write_bytes(b"x")
        (setting.store.data / f"{name}.done").write_bytes(b"")
    return name


def one_name(setting):
    """name: `cat` of one name in a directory of 300,000 that is not listed yet."""
    setting.serve()
    count = LONG_SMOKE if setting.sizes.smoke else LONG
    bucket = long_bucket(setting, count)
    leat = Leat(place_of(setting, "name"), cache_size="1GiB")
    try:
        with farther(setting.store.port, RTT_MS) as port:
            mount = leat.folder / "mnt"
            mount.mkdir()
            leat.run("mount", f"s3://{bucket}/", mount, "--option", f"endpoint=http://127.0.0.1:{port}",
                     "--cache-dir", leat.cache_dir, "--cache-size", "1GiB",
                     credentials=setting.store.credentials)
            (mount / "d").stat()
            began = time.monotonic()
            content = (mount / f"d/{count // 2:08}").read_bytes()
            seconds = time.monotonic() - began
            if content != b"x":
                raise RuntimeError("the file has other content")
    finally:
        leat.close()
        setting.store.stop()  # ends its listing
    return {"one_name": {"value": seconds * 1e3 / RTT_MS, "note": f"{seconds * 1e3:.0f} ms"}}


def snapshot_seconds(setting, layout):
    count = NAMES_SMOKE if setting.sizes.smoke else NAMES
    with mounted_listing(place_of(setting, "names"), count, layout,
                         farther=lambda port: farther(port, RTT_MS)) as (leat, mount):
        began = time.monotonic()
        done = json.loads(leat.run("snapshot", "build", mount, "--name", "all", "--json",
                                   timeout_s=900).stdout)
        seconds = time.monotonic() - began
        files = done.get("files_done") or done.get("files")
        if files != count:
            raise RuntimeError(f"the snapshot is not of {count} names: {done}")
        return {"value": seconds, "note": f"{count / seconds:,.0f} names/s"}


def snapshot(setting):
    """snapshot: of 1,000,000 names 30 ms away, in 1,000 directories and in one."""
    return {"snapshot_folders": snapshot_seconds(setting, str(FILES_OF_A_FOLDER)),
            "snapshot_flat": snapshot_seconds(setting, "flat")}


def nginx_program():
    named = os.environ.get("LEAT_NGINX")
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.expanduser("~/.cache/leat-build")
    program = named or shutil.which("nginx") or f"{deps}/nginx/usr/sbin/nginx"
    if not os.access(program, os.X_OK):
        raise NotRun("there is no nginx: tools/setup test, or name it in LEAT_NGINX")
    return program


@contextlib.contextmanager
def web_server(setting, etag):
    """The native files by HTTP; its port."""
    place, port = place_of(setting, "web"), free_port()
    (place / "nginx.conf").write_text(NGINX.format(place, etag, port, setting.data.native))
    with open(place / "log", "wb") as log:
        server = subprocess.Popen([nginx_program(), "-p", place, "-c", place / "nginx.conf", "-e", "stderr"],
                                  stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        def answers():
            return subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://127.0.0.1:{port}/"],
                                  check=False).returncode == 0
        wait_until(answers, "nginx")
        yield port
    finally:
        server.kill()
        server.wait()


def web_seconds(setting, etag):
    with web_server(setting, etag) as server, farther(server, RTT_MS) as port:
        leat = Leat(place_of(setting, "web_leat"), cache_size="8GiB")
        try:
            mount = leat.folder / "mnt"
            mount.mkdir()
            leat.run("mount", f"http://127.0.0.1:{port}/", mount, *NEVER, "--cache-dir", leat.cache_dir,
                     "--cache-size", "8GiB", "--freshness", "immutable")
            list((mount / "first").iterdir())
            return setting.files(mount, "first", READERS)["seconds"]
        finally:
            leat.close()


def no_etag(setting):
    """no_etag: the 10,000 files at random by 8 readers, demand alone, from a web server with ETags ÷
    without."""
    with_etag, without = web_seconds(setting, "on"), web_seconds(setting, "off")
    count = setting.sizes.first_count
    return {"no_etag": {"value": with_etag / without,
                        "note": f"{count / without:,.0f} and {count / with_etag:,.0f} files/s"}}


def throttle(setting):
    """throttle: a store that takes 1,000 requests a second, 30 ms away: 100 KB objects, 256 readers."""
    reads = 500 if setting.sizes.smoke else THROTTLED_READS
    server = subprocess.Popen(
        [client("leat_bench_bad_store"), "throttled", "500", str(THROTTLED_BYTES), str(THROTTLED_TO)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        near = server.stdout.readline().strip().rsplit(":", 1)[1]
        with farther(near, RTT_MS) as port:
            result = run_client("leat_bench_client", f"http://127.0.0.1:{port}", "bench", "bad", 500,
                                THROTTLED_BYTES, THROTTLED_BYTES, 256, reads,
                                environment=environment())
        served = json.loads(server.communicate()[0])
    finally:
        server.kill()
        server.wait()
    if served["violations"]:
        raise RuntimeError(f"the store was asked wrongly: {served}")
    return {"throttle": {"value": result["reads"] / result["seconds"] / THROTTLED_TO,
                         "note": f"{result['reads'] / result['seconds']:,.0f} reads/s"},
            "throttle_refused": {"value": served["throttled"] / served["requests"],
                                 "note": f"{served['throttled']} of {served['requests']}"}}
