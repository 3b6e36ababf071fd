# SPDX-License-Identifier: Apache-2.0
"""Many readers at once: more streams than there is memory for windows, and a daemon that is bounded."""

import os
import signal
import subprocess
import threading
import time

import pytest

from e2e.objects import put_all
from rig.process import wait_until

KIB, MIB = 1024, 1024 * 1024
STEP = 128 * KIB


class Rotated:
    """Files that are one block of noise, each begun elsewhere: quick to make and to compare, and no
    two have the same bytes at the same place."""

    def __init__(self, size):
        self.size = size
        self.noise = os.urandom(size) * 2

    def begin(self, number):
        return number * 4099 % self.size

    def body(self, number):
        begin = self.begin(number)
        return self.noise[begin:begin + self.size]

    def matches(self, number, offset, data):
        begin = self.begin(number) + offset
        return self.noise[begin:begin + len(data)] == data


def read_all_at_once(paths, files, steps=STEP):
    """Each path by a thread of its own, front to back; what went wrong."""
    wrong = []
    start = threading.Barrier(len(paths))

    def read_one(number):
        try:
            descriptor = os.open(paths[number], os.O_RDONLY)
            try:
                start.wait(60)
                offset = 0
                while data := os.read(descriptor, steps):
                    if not files.matches(number, offset, data):
                        wrong.append(f"{paths[number]} at {offset}: other bytes")
                        return
                    offset += len(data)
                if offset != files.size:
                    wrong.append(f"{paths[number]}: ended at {offset}")
            finally:
                os.close(descriptor)
        except (OSError, threading.BrokenBarrierError) as error:
            wrong.append(f"{paths[number]}: {error!r}")

    threads = [threading.Thread(target=read_one, args=(number,)) for number in range(len(paths))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def rss_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class PeakMemory(threading.Thread):
    """The most that a process had resident while this ran."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.bytes, self.ended = pid, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            self.bytes = max(self.bytes, rss_bytes(self.pid))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


@pytest.fixture
def group(make_memory_group):
    return make_memory_group(512 * MIB)


def nothing_under_way(leat):
    status = leat.json("status")
    left = "leat_fetch_reads_waiting", "leat_fetch_read_bytes"
    return (status["fetch"]["requests_in_flight"] == 0
            and not any(status["counters"][name] for name in left))


@pytest.mark.timeout(240)
def test_two_hundred_streams_in_half_a_gigabyte(leat, store, s3, bucket, folder, group):
    """Together they read more than the group may have, page cache included."""
    files = Rotated(3 * MIB + 4321)
    put_all(s3, bucket, {f"{number:03}": files.body(number) for number in range(200)})
    leat.group = group
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
    daemon = leat.daemon_pid()
    assert daemon in group.pids()
    memory_max = leat.json("status")["fetch"]["memory_bytes_max"]
    assert memory_max == 128 * MIB, "a quarter of what the group may have"
    begin = time.monotonic()
    with PeakMemory(daemon) as peak:
        wrong = read_all_at_once([mount / f"{number:03}" for number in range(200)], files)
    print(f"{200 * files.size / MIB / (time.monotonic() - begin):.0f} MiB/s, resident at most "
          f"{peak.bytes / MIB:.0f} MiB, the group {group.peak_bytes() / MIB:.0f} MiB")
    assert not wrong, "\n".join(wrong[:10])
    assert group.oom_kills() == 0
    assert leat.daemon_pid() == daemon
    assert peak.bytes < 400 * MIB
    wait_until(lambda: nothing_under_way(leat), "the last writes to the cache")
    assert leat.json("status")["fetch"]["memory_bytes"] <= memory_max
    leat.close()
    group.close()


@pytest.mark.timeout(240)
def test_sixty_four_threads_of_one_file(leat, store, s3, bucket, folder):
    """Through one descriptor, each in a part of its own, as the workers of a loader do."""
    files = Rotated(128 * MIB)
    s3.put_object(Bucket=bucket, Key="big", Body=files.body(0))
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
    before = store.counters()
    descriptor = os.open(mount / "big", os.O_RDONLY)
    part, wrong = files.size // 64, []

    def read_part(number):
        for offset in range(number * part, (number + 1) * part, STEP):
            if not files.matches(0, offset, os.pread(descriptor, STEP, offset)):
                wrong.append(offset)

    threads = [threading.Thread(target=read_part, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.close(descriptor)
    assert not wrong
    assert store.counters()["bytes"] - before["bytes"] <= 1.05 * files.size


def bytes_of(path):
    try:
        return path.read_bytes()
    except OSError:
        return None


def waits_in_the_kernel(process):
    """As the program that it is to become, for whatever it may be: it has the mount to wait for."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as text:
        name, rest = text.read().split("(", 1)[1].rsplit(")", 1)
    return name == "cat" and rest.split()[0] in "DS"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("number_of_signal", [signal.SIGKILL, signal.SIGINT])
def test_killed_readers_leave_a_hanging_store(leat, store, s3, bucket, folder,
                                                                 number_of_signal):
    files = Rotated(2 * MIB)
    put_all(s3, bucket, {f"{number:02}": files.body(number) for number in range(40)})
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
    assert len(os.listdir(mount)) == 40
    os.kill(store.pid, signal.SIGSTOP)
    try:
        # In the background of a shell SIGINT would be ignored.
        readers = [subprocess.Popen(["cat", mount / f"{number:02}"], stdout=subprocess.DEVNULL,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                   for number in range(40)]
        wait_until(lambda: all(map(waits_in_the_kernel, readers)), "the readers to wait")
        begin = time.monotonic()
        for reader in readers:
            reader.send_signal(number_of_signal)
        for reader in readers:
            assert reader.wait(timeout=30) == -number_of_signal
        print(f"40 readers went within {time.monotonic() - begin:.2f} s")
        # Their read-ahead is nobody's to interrupt: it ends with the requests.
    finally:
        os.kill(store.pid, signal.SIGCONT)
    wait_until(lambda: nothing_under_way(leat), "the requests to end")
    for number in range(40):
        # A store that was silent for 10 s is left alone for a moment.
        body = wait_until(lambda: bytes_of(mount / f"{number:02}"), "the store to be used again")
        assert files.matches(number, 0, body)
    wait_until(lambda: nothing_under_way(leat), "the last writes to the cache")
