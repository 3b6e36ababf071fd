# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes: etcd, workers, and clients that mount it; on loopback, or each at a place
of its own."""

import base64
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from rig.leat import Leat, leat_program
from rig.process import is_alive, wait_until
from rig.store import REGION, free_port


@dataclass(frozen=True)
class Place:
    """Where a process runs: its address there, and words in front of its command line."""

    address: str = "127.0.0.1"
    before: list = field(default_factory=list)


def here(_name):
    """All on loopback."""
    return Place()


def etcd_program():
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    program = os.environ.get("LEAT_ETCD") or os.path.join(deps, "etcd", "usr", "bin", "etcd")
    if not os.access(program, os.X_OK):
        raise RuntimeError(f"no etcd at {program}: run tools/setup test")
    return program


class EtcdMember:
    """Start, stop and start again keep ports and data."""

    def __init__(self, etcd, name):
        self.etcd, self.name = etcd, name
        self.port, self.peer_port = free_port(), free_port()
        self.process = None

    @property
    def endpoint(self):
        return f"{'https' if self.etcd.tls else 'http'}://{self.etcd.place.address}:{self.port}"

    @property
    def peers(self):
        return f"http://{self.etcd.place.address}:{self.peer_port}"

    def launch(self):
        """Unless it runs."""
        if self.process is not None:
            return
        with open(self.etcd.folder / f"{self.name}.log", "ab") as output:
            self.process = subprocess.Popen(
                [*self.etcd.place.before, etcd_program(), "--name", self.name,
                 "--data-dir", str(self.etcd.data / self.name),
                 "--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint,
                 "--listen-peer-urls", self.peers, "--initial-advertise-peer-urls", self.peers,
                 "--initial-cluster", self.etcd.everybody(), *self.etcd.tls_words(),
                 "--auto-compaction-retention", "1h", "--logger", "zap", "--log-level", "error"],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def start(self):
        self.launch()
        wait_until(self.healthy, f"etcd's member {self.name}")

    def ask(self, path, *words, limit_s=2):
        """What it answers to curl; empty where that is an error, or nothing."""
        return subprocess.run(["curl", "-sf", "-m", str(limit_s), "--noproxy", "*",
                               *self.etcd.curl_words(), *words, f"{self.endpoint}{path}"],
                              capture_output=True, text=True).stdout

    def healthy(self):
        assert self.process.poll() is None, f"etcd ended; see {self.etcd.folder}/{self.name}.log"
        return "true" in self.ask("/health")

    def leads(self):
        return "\netcd_server_is_leader 1" in self.ask("/metrics")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)


class Etcd:
    """`count` members, of which workers ask the first to begin with. `tls`: (CA, certificate, key), for
    both ends; clients must have a certificate then, too."""

    def __init__(self, folder, place=Place(), count=1, tls=None):
        self.folder, self.place, self.tls = Path(folder), place, tls
        self.folder.mkdir(parents=True, exist_ok=True)
        self.members = [EtcdMember(self, f"m{number}") for number in range(count)]

    @property
    def endpoints(self):
        return ",".join(member.endpoint for member in self.members)

    @property
    def data(self):
        return self.folder / "data"

    @property
    def process(self):
        return self.members[0].process

    def everybody(self):
        return ",".join(f"{member.name}={member.peers}" for member in self.members)

    def tls_words(self):
        if not self.tls:
            return []
        ca, certificate, key = map(str, self.tls)
        return ["--cert-file", certificate, "--key-file", key, "--client-cert-auth",
                "--trusted-ca-file", ca]

    def curl_words(self):
        if not self.tls:
            return []
        ca, certificate, key = map(str, self.tls)
        return ["--cacert", ca, "--cert", certificate, "--key", key]

    def start(self):
        """Those that do not run."""
        for member in self.members:
            member.launch()
        for member in self.members:
            member.start()
        return self

    def stop(self):
        for member in self.members:
            member.kill()

    def leader(self):
        return wait_until(lambda: next((one for one in self.members if one.leads()), None),
                          "a member of etcd to lead")

    def require_users(self, name, password, prefix):
        """From then on it wants to know who asks: root, or `name` for keys that begin with `prefix`,
        which ends in '/'."""
        def ask(path, document):
            answer = self.members[0].ask(f"/v3/auth/{path}", "-d", json.dumps(document), limit_s=60)
            assert answer, f"etcd does not take {path}"

        def encoded(key):
            return base64.b64encode(key.encode()).decode()
        for user in ("root", name):
            ask("user/add", {"name": user, "password": password})
            ask("role/add", {"name": user})
            ask("user/grant", {"user": user, "role": user})
        ask("role/grant", {"name": name, "perm": {
            "permType": "READWRITE", "key": encoded(prefix),
            "range_end": encoded(prefix[:-1] + "0")}})  # which follows '/'
        ask("enable", {})

    def back_up(self):
        """What restore() brings back."""
        self._exchange(self.data, self.folder / "backup")

    def restore(self):
        self._exchange(self.folder / "backup", self.data)

    def _exchange(self, source, target):
        self.stop()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        self.start()


class Worker(Leat):
    """`leat worker`, in the foreground of a process of its own."""

    def __init__(self, folder, cluster, place=Place()):
        super().__init__(folder, cache_size=cluster.cache_size)
        self.supervised = False
        # One host stands for several: each worker fails by itself.
        self.settings = {"LEAT_WORKER_FAILURE_DOMAIN": folder.name, **cluster.settings}
        self.cluster, self.place, self.before = cluster, place, place.before
        self.port = free_port()
        self.listen = self.address = f"{self.place.address}:{self.port}"
        self.process = None
        self.log = self.folder / "worker.log"

    def advertise(self, address):
        """Where all who ask it find it, in place of where it listens."""
        self.address = self.settings["LEAT_WORKER_ADVERTISE"] = address

    def start(self, credentials=None, program=None):
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                [*self.before, program or leat_program(), "worker", "--registry",
                 self.cluster.etcd.endpoints, "--name", self.cluster.name,
                 "--secret-file", str(self.cluster.secret), "--listen", self.listen,
                 "--cache-dir", str(self.cache_dir), "--cache-size", self.cache_size],
                env=self.environment(credentials or self.cluster.credentials),
                stdout=output, stderr=output, stdin=subprocess.DEVNULL,
                preexec_fn=self.group.enter if self.group else None)
        return self

    def status(self):
        return self.json("cluster", "status")

    def counter(self, name):
        counters = self.json("status")["counters"]
        return sum(value for key, value in counters.items() if key.split("{")[0] == name)

    def mount_cluster(self, path="/", *options, freshness="max-age=60s"):
        """A folder of its own."""
        directory = self.folder / "mnt"
        directory.mkdir()
        self.run("mount", f"leat://{self.address}{path}", directory, "--freshness", freshness, *options)
        return directory

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self):
        """In order."""
        if self.process is not None and self.process.poll() is None:
            self.resume()
            self.process.terminate()
            self.process.wait(timeout=30)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        super().close()


class Client(Leat):
    """A host that mounts the cluster and is no worker."""

    def __init__(self, folder, cluster, place=Place()):
        super().__init__(folder)
        self.cluster, self.place, self.before = cluster, place, place.before

    def mount_cluster(self, path="/", *options, freshness="max-age=60s", token=None, check=True,
                      memory="256MiB"):
        directory = self.folder / "mnt"
        directory.mkdir(exist_ok=True)
        seeds = ",".join(worker.address for worker in self.cluster.workers)
        bound = ["--memory", memory] if memory else []
        done = self.run("mount", f"leat://{seeds}{path}", directory,
                        "-o", f"token={token or self.cluster.token}", "--cache-dir", self.cache_dir,
                        *bound, "--freshness", freshness, *options, check=check)
        return directory if check else done


class Cluster:
    """etcd and `count` workers over a store, in `folder`; all end with close(). `place`: "etcd", "w0",
    "c0" … -> where it runs; `settings`: LEAT_NAME -> value, of workers; `etcd`: in place of one of one
    member."""

    name = "test"

    def __init__(self, folder, store, count, place=here, cache_size="1GiB",
                 settings=(), etcd=None):
        self.folder = Path(folder)
        self.store, self.place = store, place
        self.cache_size, self.settings = cache_size, dict(settings)
        self.credentials = store.credentials
        self.secret, self.token = self.folder / "secret", self.folder / "token"
        self.etcd = etcd or Etcd(self.folder / "etcd", place("etcd"))
        self.workers = [self.new_worker(i) for i in range(count)]
        self.clients = []
        self.tool = Leat(self.folder / "tool")

    def start(self):
        self.tool.run("cluster", "secret", self.secret)
        self.new_token(self.token, "tester")
        self.etcd.start()
        for worker in self.workers:
            worker.start()
        self.wait_for_ring(self.workers)
        return self

    def new_token(self, file, principal, *options):
        self.tool.run("cluster", "token", file, "--principal", principal, "--secret-file",
                      self.secret, *options)
        return file

    def new_worker(self, number):
        name = f"w{number}"
        return Worker(self.folder / name, self, self.place(name))

    def add_worker(self):
        self.workers.append(self.new_worker(len(self.workers)).start())
        return self.workers[-1]

    def members(self, seen_by):
        done = seen_by.run("cluster", "status", "--json", check=False)
        if done.returncode != 0:
            return None
        # A worker that is gone may have left its address to another one.
        workers = sorted(json.loads(done.stdout)["workers"], key=lambda one: one["state"] != "down")
        return {one["address"]: one for one in workers}

    def wait_for_ring(self, workers):
        """Until each of `workers` sees all of them there, with a share."""
        wanted = {worker.address for worker in workers}

        def there():
            for worker in workers:
                assert worker.process.poll() is None, worker.log.read_text()[-2000:]
                members = self.members(worker) or {}
                shares = {address for address, one in members.items()
                          if one["share"] > 0 and one["state"] == "active"}
                if shares != wanted:
                    return False
            return True
        wait_until(there, "the ring of all workers")

    def wait_without_trouble(self):
        wait_until(lambda: not any(worker.status().get("trouble") for worker in self.workers),
                   "all to follow etcd again")

    def mount(self, source, path, *options):
        """For all: "bucket/prefix" of the store at `path` of the namespace."""
        self.workers[0].run("cluster", "mount", f"s3://{source}", path,
                            "-o", f"endpoint={self.store.endpoint}", "-o", f"region={REGION}",
                            *options)

        def served():
            return all(any(one["path"] == path and not one.get("trouble")
                           for one in worker.status()["mounts"])
                       for worker in self.workers if is_alive(worker.process.pid))
        wait_until(served, f"the mount at {path} at all workers")

    def client(self):
        name = f"c{len(self.clients)}"
        self.clients.append(Client(self.folder / name, self, self.place(name)))
        return self.clients[-1]

    def close(self):
        for one in [*self.clients, *self.workers, self.tool]:
            one.close()
        self.etcd.stop()
