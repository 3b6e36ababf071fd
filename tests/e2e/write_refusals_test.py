# SPDX-License-Identifier: Apache-2.0
"""A mount that cannot do a thing answers the right errno, and says in `.leat` why and how to go on."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.writing_test import errno_of
from rig.process import wait_until


def reasons(mount):
    """Path -> code and reason, of `.leat/errors`."""
    lines = (Path(mount) / ".leat" / "errors").read_text().splitlines()
    return {line["path"]: (line["code"], line["reason"]) for line in map(json.loads, lines)}


@pytest.fixture
def web(folder):
    """The URL of a web server with a file."""
    served = Path(folder) / "served"
    served.mkdir()
    (served / "f").write_bytes(b"hello")
    log = open(Path(folder) / "web.log", "w+")
    server = subprocess.Popen([sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1",
                               "--directory", served], stdout=log, stderr=log)
    wait_until(lambda: "port " in (Path(folder) / "web.log").read_text(), "the web server")
    port = (Path(folder) / "web.log").read_text().split("port ")[1].split()[0]
    yield f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()
    log.close()


def test_a_read_only_mount_says_how_to_write(leat, store, bucket, folder):
    mount = leat.mount(store, bucket, Path(folder) / "mnt")
    assert errno_of((mount / "new").write_bytes, b"x") == errno.EROFS
    assert errno_of(os.mkdir, mount / "d") == errno.EROFS
    readme = (mount / ".leat" / "README").read_text()
    assert f"leat umount {mount} && leat mount --writable s3://{bucket}" in readme
    assert json.loads((mount / ".leat" / "status").read_text())["mount"]["read_only"] is True
    leat.umount(mount)
    leat.mount(store, bucket, mount, "--writable")
    (mount / "new").write_bytes(b"x")
    assert "EROFS" not in (mount / ".leat" / "README").read_text()
    assert reasons(mount) == {}


def test_object_stores_say_what_they_lack(leat, store, bucket, folder):
    mount = leat.mount(store, bucket, Path(folder) / "mnt", "--writable")
    (mount / "f").write_bytes(b"x")
    for _ in range(3):
        assert errno_of(os.link, mount / "f", mount / "g") == errno.EPERM
        assert errno_of(os.mkfifo, mount / "p") == errno.EPERM
    found = reasons(mount)
    assert found.keys() == {"g", "p"}, "a line for each path"
    assert found["g"][0] == "unsupported" and "make a symbolic link" in found["g"][1]
    assert "special files" in found["p"][1] and "local directory" in found["p"][1]


def test_a_rename_that_has_to_copy_says_so(leat, store, bucket, folder):
    mount = leat.mount(store, bucket, Path(folder) / "mnt", "--writable")
    (mount / "local").mkdir()
    (mount / "f").write_bytes(b"x")
    leat.run("mounts", "set", mount / "local", "write=local")
    assert errno_of(os.rename, mount / "f", mount / "local" / "f") == errno.EXDEV
    code, reason = reasons(mount)["f"]
    assert code == "cross_device" and "copy it and remove it" in reason
    subprocess.run(["mv", mount / "f", mount / "local" / "f"], check=True)
    assert (mount / "local" / "f").read_bytes() == b"x"


def test_a_store_without_writes_says_so(leat, web, folder):
    mount = Path(folder) / "mnt"
    mount.mkdir()
    leat.run("mount", web, mount, "--writable", "--cache-dir", leat.cache_dir, "--cache-size",
             leat.cache_size)
    assert (mount / "f").read_bytes() == b"hello"
    assert errno_of((mount / "new").write_bytes, b"x") == errno.EROFS
    assert errno_of(open, mount / "f", "r+b") == errno.EROFS
    assert errno_of(os.unlink, mount / "f") == errno.EROFS
    found = reasons(mount)
    assert found.keys() == {"new", "f"}
    for code, reason in found.values():
        assert code == "read_only" and "takes no writes" in reason and "leat refresh" in reason
