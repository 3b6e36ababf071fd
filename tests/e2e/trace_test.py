# SPDX-License-Identifier: Apache-2.0
"""Where the time of one read goes: `leat trace`, the log of slow operations, and the log as JSON."""

import contextlib
import json
import os
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from rig.faulty import FaultyFront
from rig.leat import leat_program
from rig.process import wait_until

MIB = 1024 * 1024


@pytest.fixture
def front(store, folder):
    front = FaultyFront(store, folder, seed=0, share=0)
    yield front
    front.stop()


@pytest.fixture
def mount(leat, front, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="d/large", Body=os.urandom(3 * MIB))
    s3.put_object(Bucket=bucket, Key="d/small", Body=b"small")
    return leat.mount(front, bucket, os.path.join(folder, "mnt"), freshness="immutable")


def names(request):
    return [span["what"] for span in request["spans"]]


def reads(trace):
    return [request for request in trace["requests"] if request["operation"] == "read"]


@contextlib.contextmanager
def held(front, word, seconds):
    """What names the word is answered `seconds` after it was asked."""
    before = front.held
    front.hold(word)

    def let_go():
        try:
            wait_until(lambda: front.held > before, f"{word} to be asked for")
            time.sleep(seconds)
        finally:
            front.hold(None)
    thread = threading.Thread(target=let_go)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_cold_read_is_traced_to_the_store(leat, mount):
    trace = leat.json("trace", mount / "d/large")
    assert trace["path"] == str(mount / "d/large")
    first = reads(trace)[0]
    assert (first["offset"], first["bytes"] > 0) == (0, True)
    assert {"fetch.store.wait", "fetch.store.read", "source.request",
            "source.first_byte"} <= set(names(first))
    for place, span in enumerate(first["spans"]):
        assert span.get("parent", -1) < place
        assert span["begin_seconds"] <= first["seconds"]
    noted = [span["note"] for span in first["spans"] if span["what"] == "fetch.store.read"]
    assert noted[0].endswith("of s3://data/d/large")
    looked_up = [request for request in trace["requests"] if request["operation"] == "lookup"]
    assert looked_up, trace


def test_what_is_cached_is_not_asked_of_the_store(leat, mount):
    (mount / "d/small").read_bytes()
    trace = leat.json("trace", mount / "d/small")
    for request in reads(trace):
        assert "fetch.store.read" not in names(request)
    text = leat.run("trace", mount / "d/small").stdout
    assert f"{mount}/d/small: 5 B at 0 in " in text


def test_another_program_is_waited_for(leat, mount):
    waiting = subprocess.Popen(
        [leat_program(), "trace", "--wait", "30s", str(mount / "d/large")], text=True,
        env=leat.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "waiting up to 30s" in waiting.stderr.readline()
    with open(mount / "d/large", "rb") as file:
        file.read(100)
    out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, err
    assert "read of " in out and "└ " in out


def test_names_of_a_folder_are_traced(leat, mount):
    trace = leat.json("trace", mount / "d")
    assert [request["operation"] for request in trace["requests"] if request["spans"]]
    assert trace["seconds"] > 0


def test_what_cannot_be_traced_is_said(leat, mount, folder):
    done = leat.run("trace", os.path.join(folder, "elsewhere"), check=False)
    assert (done.returncode, "is in no mount" in done.stderr) == (3, True)
    done = leat.run("trace", mount / "d/none", check=False)
    assert (done.returncode, "cannot look at" in done.stderr) == (3, True)
    done = leat.run("trace", "--size", "0B", mount / "d/large", check=False)
    assert done.returncode == 2
    done = leat.run("trace", "--otlp", "http://127.0.0.1:1", mount / "d/large", check=False)
    assert (done.returncode, "cannot send the trace to" in done.stderr) == (1, True)


def parsed(document):
    """Refuses what the protocol's own definition does not know."""
    return json_format.ParseDict(document, ExportTraceServiceRequest())


def check_otlp(document):
    spans = parsed(document).resource_spans[0].scope_spans[0].spans
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans)
    assert all(not span.parent_span_id or span.parent_span_id in ids for span in spans)
    roots = [span for span in spans if not span.parent_span_id]
    assert "read" in {root.name for root in roots}
    for span in spans:
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    assert abs(roots[0].start_time_unix_nano / 1e9 - time.time()) < 60


def test_open_telemetry_in_a_file(leat, mount, folder):
    file = os.path.join(folder, "trace.json")
    leat.run("trace", "--otlp", file, mount / "d/large")
    with open(file, encoding="utf-8") as written:
        check_otlp(json.load(written))


def test_open_telemetry_to_a_collector(leat, mount):
    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["Content-Type"], json.loads(body)))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        leat.run("trace", "--otlp", f"http://127.0.0.1:{server.server_port}", mount / "d/large")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    (path, content_type, document), = got
    assert (path, content_type) == ("/v1/traces", "application/json")
    check_otlp(document)


def slow_lines(leat):
    return [line["text"] for line in leat.json("logs", "-n", "0", "--level", "warning")["lines"]
            if line["text"].startswith("slow ")]


def test_a_slow_read_is_logged_with_its_reason(leat, front, mount, folder):
    assert os.listdir(mount / "d")
    with held(front, "d/large", 1.6):
        with open(mount / "d/large", "rb") as file:
            assert len(file.read(4096)) == 4096
    (line,) = [line for line in slow_lines(leat) if "slow read" in line]
    assert line.startswith(f"slow read of {mount}/d/large: ")
    assert "first byte" in line or "request" in line
    counters = leat.json("status")["counters"]
    assert counters["leat_slow_operations_total"] >= 1
    assert counters['leat_fuse_request_seconds_count{operation="read"}'] >= 1
    bundle = os.path.join(folder, "bundle.tar.gz")
    leat.run("support-bundle", bundle)
    kept = subprocess.run(["tar", "-xzOf", bundle, "--wildcards", "*/daemon/slow.json"],
                          capture_output=True, check=True)
    operations = json.loads(kept.stdout)["operations"]
    assert operations[0]["path"] == str(mount / "d/large")
    assert operations[0]["seconds"] > 1 and operations[0]["reason"]


def test_threshold_zero_disables_the_slow_log(leat, front, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="d/large", Body=os.urandom(MIB))
    leat.settings["LEAT_LOG_SLOW_THRESHOLD"] = "0s"
    mount = leat.mount(front, bucket, os.path.join(folder, "mnt"))
    with held(front, "d/large", 1.5):
        (mount / "d/large").read_bytes()
    assert slow_lines(leat) == []


def test_the_log_as_json(leat, front, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key='d/odd "näme" \\ x', Body=os.urandom(MIB))
    leat.settings.update(LEAT_LOG_FORMAT="json", LEAT_LOG_SLOW_THRESHOLD="300ms")
    mount = leat.mount(front, bucket, os.path.join(folder, "mnt"))
    with held(front, "d/odd", 1):
        (mount / 'd/odd "näme" \\ x').read_bytes()
    log_file = leat.json("status")["log_file"]
    wait_until(lambda: "slow read" in open(log_file, encoding="utf-8").read(), "the line")
    with open(log_file, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    slow = next(line for line in lines if line.get("operation") == "read")
    assert slow["path"] == str(mount / 'd/odd "näme" \\ x')
    assert slow["seconds"] >= 0.3 and slow["level"] == "warning"
    shown = leat.json("logs", "-n", "0")["lines"]
    assert [line["text"] for line in shown] == [line["message"] for line in lines]
    assert shown[0]["level"] == "info" and shown[0]["time"] == lines[0]["time"]
