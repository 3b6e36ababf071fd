# SPDX-License-Identifier: Apache-2.0
"""Threads beside a test."""

import threading


class UntilTold:
    """run(*arguments), which a subclass has, in a thread for each of `arguments`, for as long as the block
    lasts: it ends soon after `stopping` is set."""

    def __init__(self, arguments):
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=each) for each in arguments]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
