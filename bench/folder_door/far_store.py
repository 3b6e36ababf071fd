# SPDX-License-Identifier: Apache-2.0
"""A store that looks far away: a server behind a proxy that delays its answers
(clients/delay_proxy.cc). A connection's first request waits for the delay, too."""

import contextlib
import subprocess

from layers.layer_bench import client
from rig.store import free_port


@contextlib.contextmanager
def farther(port, delay_ms, host="127.0.0.1", jitter_ms=0):
    """A port at which the server at `port` is so far away."""
    here = free_port()
    proxy = subprocess.Popen(
        [client("leat_bench_delay"), str(here), host, str(port), str(delay_ms), str(jitter_ms)],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        if not proxy.stdout.readline():
            raise RuntimeError("the proxy that delays did not start")
        yield here
    finally:
        proxy.kill()
        proxy.wait()
        proxy.stdout.close()


class FarStore:
    """As a started Store, for a mount."""

    def __init__(self, store, port):
        self.store, self.port = store, port

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self):
        return self.store.process

    def __getattr__(self, name):
        return getattr(self.store, name)


@contextlib.contextmanager
def far(setting, delay_ms, jitter_ms=0):
    """The setting's store is so far away meanwhile. With 0 it is behind the proxy, too, which takes a
    part of the processor. Nothing is mounted at the beginning and at the end."""
    setting.unmount()
    near = setting.store
    with farther(near.port, delay_ms, near.host, jitter_ms) as port:
        setting.store = FarStore(near, port)
        try:
            yield setting.store
        finally:
            setting.unmount()
            setting.store = near
