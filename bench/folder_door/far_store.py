# SPDX-License-Identifier: Apache-2.0
"""A store that looks far away: the bench's server behind a proxy that delays its answers
(clients/delay_proxy.cc). A connection's first request waits for the delay, too."""

import contextlib
import subprocess

from layers.layer_bench import client
from rig.store import free_port


class FarStore:
    """As a started Store, for a mount."""

    def __init__(self, store, delay_ms, jitter_ms=0):
        self.store, self.port = store, free_port()
        self.proxy = subprocess.Popen(
            [client("leat_bench_delay"), str(self.port), store.host, str(store.port), str(delay_ms),
             str(jitter_ms)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        if not self.proxy.stdout.readline():
            raise RuntimeError("the proxy that delays did not start")

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self):
        return self.store.process

    def __getattr__(self, name):
        return getattr(self.store, name)

    def close(self):
        self.proxy.kill()
        self.proxy.wait()
        self.proxy.stdout.close()


@contextlib.contextmanager
def far(setting, delay_ms, jitter_ms=0):
    """The setting's store is so far away meanwhile. With 0 it is behind the proxy, too, which takes a
    part of the processor. Nothing is mounted at the beginning and at the end."""
    setting.unmount()
    near = setting.store
    setting.store = FarStore(near, delay_ms, jitter_ms)
    try:
        yield setting.store
    finally:
        setting.unmount()
        setting.store.close()
        setting.store = near
