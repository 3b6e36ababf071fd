# SPDX-License-Identifier: Apache-2.0
"""Rows of a worker's data door: what it serves from its cache for each second of one core, beside servers
that do as little as can be done; and a single read through a folder beside a ping-pong. Server and
client run on a core each, in two hosts, a folder's daemon beside its reader."""

import os
import subprocess
from contextlib import contextmanager

from cluster_door.data_sets import BUCKET, SMALL_BYTES
from cluster_door.readers import check_all, program_words
from cluster_door.scene import on_core, pin
from layers.layer_bench import client
from measure import KIB, MIB, run_json
from rig.process import cpu_seconds

SERVER_CORE = 0
SMALL_CONNECTIONS, RANGE_CONNECTIONS = 8, 4
RANGE_BYTES = 4 * MIB
PAGE_BYTES = 4 * KIB
SMALL_DEPTHS, TOGETHER = (1, 16, 64), 64


def client_core():
    return min(1, os.cpu_count() - 1)


class Door:
    """One worker, and a host that asks it. `set_name` is in its cache, its files whole."""

    def __init__(self, scene, set_name, directory):
        self.scene, self.set_name, self.directory = scene, set_name, directory
        self.server, self.asker = scene.network.host("w0"), scene.network.host("c0")
        self.worker = scene.workers[0]
        tls = scene.certificates
        self.more = tls.words() if tls else []
        self.of_worker = [self.worker.address, scene.cluster.token, f"/{set_name}", directory]
        files = scene.setting.data.files[set_name]
        self.files = {name: size for name, size in files.items() if name.startswith(directory)}
        self.fill()
        pin(self.worker.process.pid, SERVER_CORE)

    def fill(self):
        """Every byte is compared, once as it comes and once as it is cached."""
        whole = sum(self.files.values())
        for _ in range(2):
            done = self.ask("check", *self.of_worker, *self.more)
            if done["bytes"] != whole:
                raise RuntimeError(f"{done['bytes']} bytes were compared instead of {whole}")
            self.scene.wait_until_written(whole)

    def ask(self, *words):
        return run_json(*self.asker.before, *on_core(client_core()), client("leat_bench_peer"),
                        *words)

    def worth(self, pid, *words):
        """What the client says, with the server's CPU."""
        before = cpu_seconds(pid)
        done = self.ask(*words)
        done["cpu_s"] = cpu_seconds(pid) - before
        done["per_core_s"] = done["bytes"] / max(done["cpu_s"], 0.01)
        return done

    def ours(self, mode, size, connections):
        seconds = self.scene.setting.sizes.rate_s
        return self.worth(self.worker.process.pid, mode, *self.of_worker, size, connections,
                          seconds, *self.more)

    @contextmanager
    def bare(self, kind, *paths):
        """(pid, address) of such a server of these files, at the worker's place."""
        process = subprocess.Popen(
            [*self.server.before, *on_core(SERVER_CORE), client("leat_bench_bare"), kind,
             self.server.address, *paths],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield process.pid, f"{self.server.address}:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait()

    def stored(self):
        """The set's files as the store has them."""
        folder = self.scene.store.data / BUCKET / self.set_name
        return [folder / name for name in self.files]

    def cached(self):
        """A large file as the worker has it: how the kernel keeps it in memory is part of what sending
        costs, and came to a fifth where another file of the same bytes was sent."""
        size = max(self.files.values())
        return next(path for path in self.worker.cache_dir.rglob("*.data")
                    if path.stat().st_size == size)

    def beside(self, reference, subject):
        """The subject's worth of a core ÷ the reference's at both ends."""
        first, ours, last = reference(), subject(), reference()
        ends = [1 / first["per_core_s"], 1 / last["per_core_s"]]
        mean = (first["per_core_s"] + last["per_core_s"]) / 2
        return {"value": ours["per_core_s"] / mean, "reference": ends}, ours, first


def door(setting):
    """door: objects of 100 KB in turn, keep-alive, signed ÷ Beast with all of them in its memory."""
    with setting.scene("load", workers=1) as scene:
        one = Door(scene, "load", "small/")

        def beast():
            with one.bare("beast", *one.stored()) as (pid, address):
                return one.worth(pid, "beast", address, SMALL_BYTES, SMALL_CONNECTIONS,
                                 setting.sizes.rate_s, *one.files)

        result, ours, theirs = one.beside(
            beast, lambda: one.ours("leat", SMALL_BYTES, SMALL_CONNECTIONS))
    result["note"] = ", ".join(
        f"{who} {done['requests'] / done['seconds']:,.0f} requests/s, "
        f"{1e6 * done['cpu_s'] / done['requests']:.1f} µs of CPU each"
        for who, done in (("leat", ours), ("Beast", theirs)))
    return {"door": result}


def ranges_through(setting, mode, tls):
    with setting.scene("range", workers=1, tls=tls) as scene:
        one = Door(scene, "range", "")

        def raw():
            with one.bare("file", one.cached()) as (pid, address):
                return one.worth(pid, "raw", address, "file", setting.sizes.range_bytes,
                                 RANGE_BYTES, RANGE_CONNECTIONS, setting.sizes.rate_s)

        result, ours, theirs = one.beside(raw,
                                          lambda: one.ours(mode, RANGE_BYTES, RANGE_CONNECTIONS))
    result["note"] = ", ".join(
        f"{who} {done['bytes'] / done['seconds'] / MIB:,.0f} MiB/s, "
        f"{done['per_core_s'] / MIB:,.0f} MiB for a second of CPU"
        for who, done in (("leat", ours), ("sendfile", theirs)))
    return result


def ranges(setting):
    """ranges: 4 MiB each ÷ raw TCP with sendfile of the same file."""
    return {"ranges": ranges_through(setting, "leat", False)}


def ranges_tls(setting):
    """ranges-tls: the same with certificates on both sides ÷ raw TCP in clear."""
    return {"ranges_tls": ranges_through(setting, "tls", True)}


def remote_latency(setting):
    """remote-latency: pages of 4 KiB, one after the other, through a folder; in the worker's cache."""
    sizes = setting.sizes
    with setting.scene("range", workers=1) as scene:
        name, folder = scene.client("/range")
        one = Door(scene, "range", "")
        pin(scene.cluster.clients[0].daemon_pid(), client_core())
        host = scene.network.host(name)

        def pingpong():
            with one.bare("memory", *one.stored()) as (_, address):
                return one.ask("pingpong", address, "file", PAGE_BYTES, sizes.pings)["p50_s"]

        def pages():
            before = host.received_bytes()
            told = run_json(*on_core(client_core()),
                            *program_words("pages", folder, "file", sizes.range_bytes, sizes.pages))
            check_all(told, "the reader of pages")
            return told, (host.received_bytes() - before) / sizes.pages

        first = pingpong()
        told, moved = pages()
        ends = [first, pingpong()]
    mean = sum(ends) / 2
    return {"remote_latency": {"value": told["p50_s"] / mean, "reference": ends,
                               "note": f"{told['p50_s'] * 1e6:.0f} µs, p99 "
                                       f"{told['p99_s'] * 1e6:.0f}; ping-pong {mean * 1e6:.0f} µs"},
            "remote_bytes": {"value": moved, "note": f"{sizes.pages:,} reads"}}


def small_reads(setting):
    """small-reads: pages of 4 KiB by a client's requests, several of them in one ÷ each alone."""
    seconds = setting.sizes.rate_s / 2
    with setting.scene("load", workers=1) as scene:
        one = Door(scene, "load", "small/")

        def reads(depth, together):
            done = one.worth(one.worker.process.pid, "reads", *one.of_worker, PAGE_BYTES, depth,
                             seconds, together)
            each = 1e6 * (done["cpu_s"] + done["own_cpu_s"]) / done["requests"]
            return done["requests"] / done["seconds"], done["p99_s"], each

        figures = {}
        for depth in SMALL_DEPTHS:
            first, ours, last = (reads(depth, together) for together in (1, TOGETHER, 1))
            alone = (first[0] + last[0]) / 2
            figures[f"small_reads_{depth}"] = {
                "value": ours[0] / alone, "reference": [1 / first[0], 1 / last[0]],
                "note": ", ".join(f"{who} {rate:,.0f} reads/s, p99 {p99 * 1e6:.0f} µs, {cpu:.1f} µs "
                                  "of CPU at both ends"
                                  for who, (rate, p99, cpu) in (("together", ours), ("alone", last)))}
    return figures
