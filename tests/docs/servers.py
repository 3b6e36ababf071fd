# SPDX-License-Identifier: Apache-2.0
"""The stores of a reader's machine: real servers at the addresses that the pages name, and how a folder
of files comes into each. As src/source/*_test.h, which say more of their ways, but for the ports."""

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import socket
import subprocess
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rig.process import wait_until
from rig.store import Store

BUCKET = "my-bucket"
S3_PORT, GCS_PORT, AZURE_PORT = 7070, 4443, 10000
NAME_NODE = ("namenode", 8020)
NAME_NODE_WEB = ("namenode", 9870)
ACCOUNT = "devstoreaccount1"  # that azurite's documentation gives to everyone
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
USER = "trainer"


def deps():
    return Path(os.environ["LEAT_DEPS_DIR"])


def start(name, words, **options):
    log = open(f"/run/{name}.log", "wb")  # the server's own, as long as it lives
    return subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **options)


def listens(process, name, address):
    if process.poll() is not None:
        said = Path(f"/run/{name}.log").read_text(errors="replace")
        raise RuntimeError(f"{name} ended with {process.returncode}: {said[-2000:]}")
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def ask(method, url, body=b"", headers=None, redirects=1):
    """One request; an error of the test when the server refuses it."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", body, headers or {})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status == 307 and redirects:
            return ask(method, answer.getheader("Location"), body, headers, 0)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {url} was answered {answer.status}: {said[:500]!r}")
        return said
    finally:
        connection.close()


def put_all(folder, put):
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: put(urllib.parse.quote(str(name)), (folder / name).read_bytes()),
                      names))


def s3(sets):
    """`sets`: folder below the bucket -> files."""
    store = Store("/stores/s3", port=S3_PORT)
    for name, files in sets.items():
        shutil.copytree(files, store.data / BUCKET / name, symlinks=True)
    store.start()
    return {**store.credentials, "AWS_ENDPOINT_URL": store.endpoint, "STORE_PID": str(store.pid),
            "STORE_DATA": str(store.data)}


def gcs(sets):
    address = f"127.0.0.1:{GCS_PORT}"
    server = start("gcs", [
        deps() / "bin/fake-gcs-server", "-scheme", "http", "-host", "127.0.0.1", "-port", str(GCS_PORT),
        "-backend", "memory", "-public-host", address, "-external-url", f"http://{address}",
        "-log-level", "error", "-data", "/run/gcs-none"])
    wait_until(lambda: listens(server, "gcs", ("127.0.0.1", GCS_PORT)), "fake-gcs-server")
    ask("POST", f"http://{address}/storage/v1/b?project=leat", b'{"name":"%s"}' % BUCKET.encode(),
        {"Content-Type": "application/json"})
    for prefix, files in sets.items():
        put_all(files, lambda name, content, prefix=prefix: ask(
            "POST", f"http://{address}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name="
            + urllib.parse.quote(f"{prefix}/", safe="") + name.replace("/", "%2F"), content))
    return {"STORAGE_EMULATOR_HOST": f"http://{address}"}


def signature():
    """A shared access signature of the whole account, in the form of 2019-12-12."""
    rights, begin, end = "rwdlac", "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
    text = f"{ACCOUNT}\n{rights}\nb\nsco\n{begin}\n{end}\n\nhttps,http\n2019-12-12\n"
    code = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    return urllib.parse.urlencode({"sp": rights, "ss": "b", "srt": "sco", "st": begin, "se": end,
                                   "spr": "https,http", "sv": "2019-12-12",
                                   "sig": base64.b64encode(code).decode()})


def azure(sets):
    server = start("azure", [
        shutil.which("node"), deps() / "azurite/node_modules/azurite/dist/src/blob/main.js",
        "--blobHost", "127.0.0.1", "--blobPort", str(AZURE_PORT), "--silent", "--disableTelemetry",
        "--inMemoryPersistence", "--skipApiVersionCheck"], cwd="/run")
    wait_until(lambda: listens(server, "azure", ("127.0.0.1", AZURE_PORT)), "azurite", timeout_s=60)
    endpoint, signed = f"http://127.0.0.1:{AZURE_PORT}/{ACCOUNT}", signature()
    ask("PUT", f"{endpoint}/{BUCKET}?restype=container&{signed}")
    for prefix, files in sets.items():
        put_all(files, lambda name, content, prefix=prefix: ask(
            "PUT", f"{endpoint}/{BUCKET}/{prefix}/{name}?{signed}", content,
            {"x-ms-blob-type": "BlockBlob"}))
    return {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_BLOB_ENDPOINT": endpoint}


# $0 is the Java, $1 the class path.
BOTH_NODES = r"""
node() {
  "$java" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx256m -cp "$classes" \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=error "org.apache.hadoop.hdfs.server.$1"
}
java=$0 classes=$1
node namenode.NameNode & node datanode.DataNode & wait"""


def hdfs_configuration(home):
    properties = {
        "fs.defaultFS": "hdfs://%s:%d" % NAME_NODE,
        "dfs.namenode.http-address": "%s:%d" % NAME_NODE_WEB,
        "dfs.namenode.name.dir": home / "name",
        "dfs.datanode.data.dir": home / "blocks",
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.edits.noeditlogchannelflush": "true",
        "dfs.namenode.safemode.extension": "0",
        "dfs.permissions.enabled": "false",
        "dfs.replication": "1",
        "hadoop.tmp.dir": home / "tmp",
    }
    inside = "".join(f"<property><name>{name}</name><value>{value}</value></property>"
                     for name, value in properties.items())
    return f"<configuration>{inside}</configuration>"


def takes_files(web):
    """The name node answers long before a data node has registered and told how much room it has."""
    try:
        ask("PUT", f"{web}/probe?op=CREATE&noredirect=true")
        return True
    except (RuntimeError, OSError):
        return False


def hdfs(sets):
    home, installed = Path("/stores/hdfs"), deps() / "hdfs"
    home.mkdir()
    shutil.copytree(installed / "name", home / "name")
    for name in ("core-site.xml", "hdfs-site.xml"):
        (home / name).write_text(hdfs_configuration(home))
    start("hdfs", ["/bin/sh", "-c", BOTH_NODES, os.path.realpath(installed / "java"),
                   f"{home}:{installed}:{installed}/lib/*"])
    web = "http://%s:%d/webhdfs/v1" % NAME_NODE_WEB
    wait_until(lambda: takes_files(web), "HDFS", timeout_s=120, interval_s=0.2)
    for prefix, files in sets.items():
        put_all(files, lambda name, content, prefix=prefix: ask(
            "PUT", f"{web}/{prefix}/{name}?op=CREATE&overwrite=true&user.name={USER}", content))
    return {"HADOOP_USER_NAME": USER}


def etcd(_sets):
    """One member, which answers at the names of three."""
    port, peers = 2379, "http://127.0.0.1:2380"
    server = start("etcd", [
        deps() / "etcd/usr/bin/etcd", "--name", "m0", "--data-dir", "/stores/etcd",
        "--listen-client-urls", f"http://127.0.0.1:{port}",
        "--advertise-client-urls", f"http://127.0.0.1:{port}",
        "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
        "--initial-cluster", f"m0={peers}", "--logger", "zap", "--log-level", "error"])
    wait_until(lambda: listens(server, "etcd", ("127.0.0.1", port)), "etcd")
    return {}


# By what a page writes in front of `://` or, of etcd, as its address; S3 is there in any case.
SERVERS = {"gs": gcs, "az": azure, "hdfs": hdfs, "etcd": etcd}


def start_for(schemes, sets):
    """The environment in which a reader comes to them."""
    found = s3(sets)
    for scheme in sorted(schemes):
        found.update(SERVERS[scheme](sets))
    return found
