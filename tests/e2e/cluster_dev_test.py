# SPDX-License-Identifier: Apache-2.0
"""`leat cluster dev`: a whole cluster as children of one command, and what is left of it: nothing."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from e2e.objects import put_all
from rig import schemas
from rig.cluster import etcd_program
from rig.leat import Leat, leat_program
from rig.mounts import mounts_below
from rig.process import is_alive, wait_until
from rig.store import REGION

FILES = {f"train/{i:03}": bytes([i]) * 50_000 for i in range(20)}


class Dev:
    """The command, with --json, in `folder`/dev."""

    def __init__(self, folder, store):
        self.folder, self.store = Path(folder), store
        self.directory = self.folder / "dev"
        self.point = self.folder / "mnt"
        self.point.mkdir(exist_ok=True)
        self.tool = Leat(self.folder / "tool")
        self.variables = {**self.tool.environment(store.credentials), "LEAT_ETCD": etcd_program()}
        self.process, self.document = None, None

    def words(self, *words):
        return [leat_program(), "cluster", "dev", *map(str, words)]

    def source(self):
        return ["--mount", "s3://data/train", "-o", f"endpoint={self.store.endpoint}",
                "-o", f"region={REGION}"]

    def start(self, *words):
        command = self.words(*words, "--json")
        self.errors = self.folder / "errors"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(command, env=self.variables, stdout=subprocess.PIPE,
                                            stderr=errors, stdin=subprocess.DEVNULL, text=True)
        lines = []
        while (line := self.process.stdout.readline()) and line != "}\n":
            lines.append(line)
        assert line, f"ended with {self.process.wait()}: {self.said()}"
        self.document = schemas.check(command[1:], "".join([*lines, line]))
        assert "error" not in self.document, self.document
        return self

    def pids(self):
        named = [*self.document["workers"], self.document.get("etcd"), self.document.get("folder")]
        return [one["pid"] for one in named if one]

    def ask(self, number, *words):
        """As worker `number` sees it, from 1."""
        variables = {**self.variables,
                     "LEAT_RUNTIME_DIR": self.document["workers"][number - 1]["runtime_directory"]}
        done = subprocess.run([leat_program(), *map(str, words)], env=variables, check=True,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return done.stdout

    def said(self):
        return self.errors.read_text()

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        print(self.said())  # for a test that fails
        return code

    def nothing_is_left(self):
        return not any(map(is_alive, self.pids())) and not mounts_below(self.folder)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=60)
        self.tool.close()


@pytest.fixture
def dev(folder, store, s3, bucket):
    put_all(s3, bucket, FILES)
    made = Dev(folder, store)
    yield made
    made.close()


def test_workers_and_mount_end_with_the_command(dev):
    dev.start(3, dev.point, *dev.source())
    assert len(dev.document["workers"]) == 3
    assert dev.document["mount"]["path"] == "/train"
    for name, body in FILES.items():
        assert (dev.point / name).read_bytes() == body
    seen = json.loads(dev.ask(2, "cluster", "--json"))
    assert sorted(one["address"] for one in seen["workers"]) == \
        sorted(one["address"] for one in dev.document["workers"])
    assert all(one["share"] > 0 for one in seen["workers"])
    further = dev.folder / "further"
    further.mkdir()
    dev.tool.run("mount", dev.document["url"], further, "-o", f"token={dev.document['token']}")
    assert (further / "train" / "007").read_bytes() == FILES["train/007"]
    dev.tool.run("umount", further)
    directory = Path(dev.document["directory"])
    assert directory.exists()
    assert dev.end() == 0, dev.said()
    assert dev.nothing_is_left()
    assert not directory.exists()
    assert dev.said() == ""


def test_a_directory_keeps_the_state(dev):
    dev.start(2, dev.point, "--dir", dev.directory, *dev.source())
    assert (dev.point / "train" / "003").read_bytes() == FILES["train/003"]
    token = Path(dev.document["token"]).read_text()
    busy = subprocess.run(dev.words(1, "--dir", dev.directory), env=dev.variables, check=False,
                          capture_output=True, text=True)
    assert busy.returncode == 1 and "another cluster runs in" in busy.stderr
    assert dev.end(signal.SIGTERM) == 0
    assert dev.nothing_is_left()
    dev.start(2, dev.point, "--dir", dev.directory)
    assert Path(dev.document["token"]).read_text() == token
    assert (dev.point / "train" / "003").read_bytes() == FILES["train/003"], "the mount was kept"
    assert dev.end() == 0
    assert dev.nothing_is_left() and dev.directory.exists()


def test_a_dead_child_is_reported(dev):
    dev.start(3, dev.point, *dev.source())
    # A folder of a worker's own, which nobody takes away when that is killed but the command.
    own = dev.folder / "own"
    own.mkdir()
    dev.ask(2, "mount", dev.document["url"] + "train", own)
    victim = dev.document["workers"][1]
    os.kill(victim["pid"], signal.SIGKILL)
    wait_until(lambda: f"worker 2 (pid {victim['pid']}) was killed by signal 9" in dev.said(),
               "the death to be told")
    for name, body in FILES.items():
        assert (dev.point / name).read_bytes() == body
    os.kill(dev.document["etcd"]["pid"], signal.SIGKILL)
    wait_until(lambda: "etcd (pid" in dev.said(), "the other one, too")
    assert (dev.point / "train" / "001").read_bytes() == FILES["train/001"]
    assert dev.end() == 0
    assert dev.nothing_is_left()


def test_children_end_when_it_is_killed(dev):
    dev.start(2, dev.point, "--dir", dev.directory, *dev.source())
    dev.process.kill()
    dev.process.wait()
    wait_until(dev.nothing_is_left, "its children to end")


def test_an_early_end_leaves_nothing(dev):
    process = subprocess.Popen(dev.words(3, dev.point, "--dir", dev.directory, *dev.source()),
                               env=dev.variables, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                               text=True)
    runtime = dev.directory / "w3" / "run"
    wait_until(runtime.exists, "the last worker to be started")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (0, 1), said  # it may have been up just then
    assert not mounts_below(dev.folder)
    # Nobody holds a port, a lock or a folder of the next one.
    dev.start(3, dev.point, "--dir", dev.directory, *dev.source())
    assert dev.end() == 0


def test_an_etcd_killed_early_is_restarted(dev):
    """As it leaves its log when it has made the file and not yet written who is a member."""
    log = dev.directory / "etcd" / "data" / "member" / "wal"
    log.mkdir(parents=True)
    for folder in (dev.directory, dev.directory / "etcd"):
        folder.chmod(0o700)
    (log / f"{0:016x}-{0:016x}.wal").write_bytes(bytes(4096))
    dev.start(1, "--dir", dev.directory, *dev.source())
    assert dev.document["mount"]["path"] == "/train"
    assert dev.end() == 0
    dev.start(1, "--dir", dev.directory)
    assert "/train" in dev.ask(1, "cluster"), "what it was told is kept from then on"
    assert dev.end() == 0


def curl(dev, path, document):
    done = subprocess.run(["curl", "-s", "-m", "20", "--noproxy", "*", "-d", json.dumps(document),
                           dev.document["registry"] + path], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_its_etcd_asks_for_a_password(dev):
    dev.start(1, "--dir", dev.directory, *dev.source())
    put = {"key": "YQ==", "value": "YQ=="}
    assert "user name is empty" in curl(dev, "/v3/kv/put", put)["error"]
    assert "user name is empty" in curl(dev, "/v3/kv/range", {"key": "AA==", "range_end": "AA=="})["error"]
    file = Path(dev.document["etcd"]["password_file"])
    assert file.stat().st_mode & 0o777 == 0o600
    password = file.read_text().strip()
    login = {"name": dev.document["etcd"]["user"], "password": password}
    assert curl(dev, "/v3/auth/authenticate", login)["token"]
    assert "error" in curl(dev, "/v3/auth/authenticate", {**login, "password": "guess"})
    assert dev.end() == 0
    dev.start(1, "--dir", dev.directory)
    assert file.read_text().strip() == password
    assert "/train" in dev.ask(1, "cluster")
    assert "user name is empty" in curl(dev, "/v3/kv/put", put)["error"]
    assert dev.end() == 0


def test_a_local_folder_is_served_after_a_restart(dev):
    local = dev.folder / "local"
    local.mkdir()
    (local / "file").write_bytes(b"bytes")
    dev.start(2, dev.point, "--dir", dev.directory, "--mount", local)
    assert (dev.point / "local" / "file").read_bytes() == b"bytes"
    assert dev.end() == 0
    dev.start(2, dev.point, "--dir", dev.directory)
    assert (dev.point / "local" / "file").read_bytes() == b"bytes"
    refused = subprocess.run([leat_program(), "cluster", "mount", "file:///etc", "/etc"], env={
        **dev.variables, "LEAT_RUNTIME_DIR": dev.document["workers"][0]["runtime_directory"]},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert refused.returncode != 0 and "worker.local_paths" in refused.stderr
    assert dev.end() == 0


def test_without_etcd_it_says_how_to_get_one(dev):
    dev.variables.update(PATH="/nowhere", LEAT_DEPS_DIR="/nowhere", LEAT_ETCD="")
    done = subprocess.run(dev.words(3), env=dev.variables, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "apt-get install etcd-server" in done.stderr
    dev.variables["LEAT_ETCD"] = "/nowhere/etcd"
    done = subprocess.run(dev.words(3), env=dev.variables, capture_output=True, text=True, check=False)
    assert "LEAT_ETCD names /nowhere/etcd" in done.stderr
    dev.start(1, dev.point, "--registry", "file", *dev.source())
    assert (dev.point / "train" / "001").read_bytes() == FILES["train/001"]
    assert dev.end() == 0


@pytest.mark.parametrize("words, said", [
    ((0,), "1 to 32 workers"),
    ((2, "--registry", "file"), "a single worker"),
    ((1, "/no/such/place"), "no such directory"),
])
def test_wrong_usage_is_rejected_before_a_start(dev, words, said):
    done = subprocess.run(dev.words(*words), env=dev.variables, capture_output=True, text=True,
                          check=False)
    assert done.returncode != 0 and said in done.stderr
