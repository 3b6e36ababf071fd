# SPDX-License-Identifier: Apache-2.0
"""Stores that are down, refuse or do not know us: the reason is where a person looks for it."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from rig.process import wait_until
from rig.store import ACCESS_KEY

MIB = 1024 * 1024


@pytest.fixture
def objects(s3, bucket):
    for number in range(4):
        s3.put_object(Bucket=bucket, Key=f"d/{number}", Body=bytes([number]) * 2 * MIB)
    return bucket


def readable(path):
    try:
        return path.read_bytes()
    except OSError:
        return None


def test_store_down_and_back(leat, store, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), "--option", "io_timeout=1s",
                       freshness="immutable")
    assert sorted(os.listdir(mount / "d")) == ["0", "1", "2", "3"]
    assert (mount / "d/0").read_bytes() == b"\0" * 2 * MIB
    store.stop()
    with pytest.raises(OSError) as raised:
        (mount / "d/1").read_bytes()
    assert raised.value.errno == errno.EIO
    reason = os.getxattr(mount / "d/1", "user.leat.last_error").decode()
    assert "d/1" in reason
    assert re.search("refused|connect|unreachable", reason, re.IGNORECASE), reason
    assert (mount / "d/0").read_bytes() == b"\0" * 2 * MIB, "cached bytes need no store"
    store.start()
    wait_until(lambda: readable(mount / "d/1") == b"\1" * 2 * MIB, "the store to be used again", 30)


# Prints the errno of one open(2), 0 where it went well. Python's own open would hide an EINTR.
OPENER = """
import ctypes, os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.siginterrupt(signal.SIGUSR1, True)
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
print(0 if libc.open(sys.argv[1].encode(), os.O_RDONLY) >= 0 else ctypes.get_errno(), flush=True)
"""


def open_while_the_store_hangs(store, path):
    os.kill(store.pid, signal.SIGSTOP)
    opener = subprocess.Popen([sys.executable, "-c", OPENER, str(path)], stdout=subprocess.PIPE,
                              text=True)
    assert opener.stdout.readline() == "ready\n"
    # In the kernel, waiting for the daemon's answer.
    wait_until(lambda: "fuse" in Path(f"/proc/{opener.pid}/stack").read_text()
               if os.getuid() == 0 else time.sleep(1) is None, "the open to wait")
    return opener


def test_a_signal_is_no_error(leat, store, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), freshness="validate")
    assert (mount / "d/0").stat().st_size == 2 * MIB
    try:
        opener = open_while_the_store_hangs(store, mount / "d/0")
        for _ in range(3):
            opener.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
        assert opener.poll() is None
        os.kill(store.pid, signal.SIGCONT)
        assert opener.communicate(timeout=60)[0] == "0\n"
        opener = open_while_the_store_hangs(store, mount / "d/1")
        opener.send_signal(signal.SIGUSR1)  # the kernel tells the daemon of the first signal only
        opener.terminate()
        assert opener.wait(timeout=30) == -signal.SIGTERM
    finally:
        os.kill(store.pid, signal.SIGCONT)


def test_wrong_secret(leat, store, objects, folder):
    wrong = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    done = leat.mount(store, objects, os.path.join(folder, "mnt"), credentials=wrong, check=False)
    assert done.returncode != 0
    assert f"s3://{objects}" in done.stderr
    assert "SignatureDoesNotMatch" in done.stderr, done.stderr
    assert "not-the-secret" not in done.stderr + done.stdout
    assert not os.path.ismount(os.path.join(folder, "mnt"))


def test_unknown_key_and_bucket(leat, store, objects, folder):
    stranger = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
    done = leat.mount(store, objects, os.path.join(folder, "m1"), credentials=stranger, check=False)
    # versitygw's word for S3's InvalidAccessKeyId.
    assert done.returncode != 0 and "XAdminUserNotFound" in done.stderr, done.stderr
    done = leat.mount(store, "no-such-bucket", os.path.join(folder, "m2"), check=False)
    assert done.returncode != 0 and "no-such-bucket" in done.stderr, done.stderr


def test_no_server_at_the_endpoint(leat, store, objects, folder):
    store.stop()
    done = leat.mount(store, objects, os.path.join(folder, "mnt"), check=False)
    assert done.returncode != 0
    assert str(store.port) in done.stderr, done.stderr
    store.start()


def test_unknown_option_names_the_nearest(leat, store, objects, folder):
    mount = os.path.join(folder, "mnt")
    os.mkdir(mount)
    done = leat.run("mount", f"s3://{objects}", mount, "--option",
                    f"endpont={store.endpoint}", credentials=store.credentials, check=False)
    assert done.returncode != 0
    assert "endpont" in done.stderr and "endpoint" in done.stderr, done.stderr


def test_secrets_are_nowhere(leat, store, objects, folder):
    """Neither in what the commands print nor in any file below the runtime and cache folders."""
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"))
    (mount / "d/0").read_bytes()
    secret = store.credentials["AWS_SECRET_ACCESS_KEY"]
    for command in ("status", "mounts"):
        assert secret not in leat.run(command).stdout
        assert secret not in leat.run(command, "--json").stdout
    for base, _, names in os.walk(leat.folder):
        for name in names:
            path = os.path.join(base, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    assert secret.encode() not in file.read(), path


def test_metrics_can_be_scraped(leat, store, objects, folder):
    mount = leat.mount(store, objects, os.path.join(folder, "mnt"), freshness="immutable")
    (mount / "d/0").read_bytes()
    (mount / "d/0").read_bytes()
    address = leat.json("status")["metrics_address"]
    assert re.match(r"(127\.0\.0\.1|\[::1\]):\d+$", address), "beyond loopback nobody is asked who he is"
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    names = set(re.findall(r"^(leat_\w+)(?:\{[^}]*\})? [0-9.eE+-]+$", text, re.MULTILINE))
    assert names, text[:500]
    for line in text.splitlines():
        assert re.match(r"^(#|[a-z_]+(\{.*\})? [-+0-9.eE]+$|$)", line), line
