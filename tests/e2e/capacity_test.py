# SPDX-License-Identifier: Apache-2.0
"""A cache smaller than the data, and a disk smaller than the cache: reads go on, limits hold."""

import json
import os
import random
import signal
import subprocess
import threading

import pytest

from e2e.content import content, size_of
from e2e.objects import put_all
from rig.leat import Leat
from rig.process import disk_bytes, stat_fields, wait_until

KIB, MIB = 1024, 1024 * 1024
# A unit in flight: what one fetch may add before the eviction has made room.
UNIT_BYTES = 8 * MIB


class CapacitySampler:
    """The most that a folder took on disk while the `with` block ran. Its daemon stands still at
    each look, or what was evicted would count beside what has come in its place."""

    def __init__(self, folder, daemon):
        self.folder, self.daemon, self.most, self.samples = folder, daemon, 0, 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._sample)

    def _sample(self):
        while not self.stopping.is_set():
            os.kill(self.daemon, signal.SIGSTOP)
            try:
                wait_until(lambda: stat_fields(self.daemon)[0] == "T", "the daemon to stand still",
                           interval_s=0.001)
                self.most = max(self.most, disk_bytes(self.folder))
            finally:
                os.kill(self.daemon, signal.SIGCONT)
            self.samples += 1
            self.stopping.wait(0.005)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()


def put_files(s3, bucket, files):
    put_all(s3, bucket, {name: content(name, 1, 0, size_of(size, 1)) for name, size in files.items()})


def check_whole(mount, name, size):
    assert (mount / name).read_bytes() == content(name, 1, 0, size_of(size, 1)), name


@pytest.mark.parametrize("files", [
    {f"large{n}": 6 * MIB + n * 4096 for n in range(24)},
    {f"small{n}": 60 * KIB + n for n in range(1600)},
], ids=["large", "small"])
def test_never_more_than_configured(store, s3, bucket, folder, seed, scale, files):
    capacity = 48 * MIB
    put_files(s3, bucket, files)
    leat = Leat(os.path.join(folder, "leat"), cache_size=str(capacity))
    try:
        mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
        order = list(files)
        random_source = random.Random(seed)
        with CapacitySampler(leat.cache_dir, leat.daemon_pid()) as sampler:
            for _ in range(2 * scale):
                random_source.shuffle(order)
                for name in order:
                    check_whole(mount, name, files[name])
        assert sampler.samples > 10
        print(f"most on disk: {sampler.most / MIB:.1f} MiB of {capacity / MIB:.0f}")
        assert sampler.most <= capacity + UNIT_BYTES
        assert disk_bytes(leat.cache_dir) > capacity / 4, "hardly anything is cached"
    finally:
        leat.close()


def test_what_is_open_survives_eviction(store, s3, bucket, folder):
    files = {f"f{n}": 6 * MIB for n in range(16)}
    put_files(s3, bucket, files)
    leat = Leat(os.path.join(folder, "leat"), cache_size=str(32 * MIB))
    try:
        mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
        check_whole(mount, "f0", files["f0"])
        with open(mount / "f0", "rb") as held:
            for name in files:
                check_whole(mount, name, files[name])
            assert held.read() == content("f0", 1, 0, size_of(files["f0"], 1))
    finally:
        leat.close()


def test_a_mounts_quota_is_its_own(store, s3, bucket, folder):
    """Two mounts of one daemon: the one with a quota stays below it and takes nothing from the other."""
    files = {f"{name}/f{n}": 3 * MIB for n in range(12) for name in ("kept", "small")}
    put_files(s3, bucket, files)
    leat = Leat(os.path.join(folder, "leat"), cache_size=str(200 * MIB))
    try:
        kept = leat.mount(store, f"{bucket}/kept", os.path.join(folder, "kept"), "-o", "pin=true")
        small = leat.mount(store, f"{bucket}/small", os.path.join(folder, "small"),
                           "-o", "quota=16MiB", "-o", "ttl=1h", "-o", "priority=low")
        for name, size in files.items():
            mount = kept if name.startswith("kept/") else small
            data = (mount / name.split("/")[1]).read_bytes()
            assert data == content(name, 1, 0, size_of(size, 1)), name

        def pools_by_mount():
            return {pool["mount"]: pool for pool in leat.json("status")["cache"]["pools"]}

        def kept_on_disk():
            pools = pools_by_mount()
            return (pools[str(kept)]["used_bytes"] >= 36 * MIB
                    and pools[str(small)]["used_bytes"] >= 8 * MIB)
        wait_until(kept_on_disk, "what was read to be on the disk")
        pools = pools_by_mount()
        assert 36 * MIB <= pools[str(kept)]["used_bytes"] <= 40 * MIB
        assert 8 * MIB <= pools[str(small)]["used_bytes"] <= 16 * MIB
        assert pools[str(kept)]["pinned"] and not pools[str(small)]["pinned"]
        assert pools[str(small)]["ttl_seconds"] == 3600 and pools[str(small)]["priority"] == "low"
        text = leat.run("status").stdout
        assert f"of {small}, quota 16.0 MiB, ttl 1h, low priority" in text
        wrong = leat.run("mount", f"s3://{bucket}", os.path.join(folder, "other"),
                         "-o", "quota=plenty", check=False)
        assert wrong.returncode == 2 and "quota" in wrong.stderr
    finally:
        leat.close()


@pytest.fixture
def small_disk(folder):
    """An ext4 of 64 MiB of its own, so that it can be filled."""
    if os.getuid() != 0:
        pytest.skip("mounting a small disk needs root")
    image, point = os.path.join(folder, "disk.img"), os.path.join(folder, "disk")
    os.mkdir(point)
    with open(image, "wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    yield point
    subprocess.run(["umount", "-l", point], check=True)


def test_cache_disk_full(store, s3, bucket, folder, small_disk):
    """The disk fills long before the configured size: no reader sees it, and it is said."""
    files = {f"f{n}": 5 * MIB for n in range(24)}
    files.update({f"s{n}": 50 * KIB for n in range(200)})
    put_files(s3, bucket, files)
    leat = Leat(os.path.join(folder, "leat"), cache_dir=os.path.join(small_disk, "cache"),
                cache_size=str(1024 * MIB))
    try:
        mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
        for _ in range(2):
            for name, size in files.items():
                check_whole(mount, name, size)
        filler = os.path.join(small_disk, "filler")
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M"], capture_output=True)
        for name, size in files.items():
            check_whole(mount, name, size)
        os.unlink(filler)
        for name, size in files.items():
            check_whole(mount, name, size)
        leat.umount(mount)
        wait_until(lambda: not leat.daemon_pids(), "the daemon of no mounts to end")
    finally:
        leat.close()


def test_a_load_beyond_the_capacity_fails(store, s3, bucket, folder):
    files = {f"d/large{n}": 6 * MIB for n in range(16)}
    put_files(s3, bucket, files)
    leat = Leat(os.path.join(folder, "leat"), cache_size=str(48 * MIB))
    try:
        mount = leat.mount(store, bucket, os.path.join(folder, "mnt"), freshness="immutable")
        done = leat.run("load", mount / "d", "--json", check=False)
        assert done.returncode == 1, done.stdout
        told = json.loads(done.stdout)
        assert told["error"]["code"] == "no_space", told
        assert told["files_done"] < len(files) and told["bytes_done"] <= 48 * MIB
    finally:
        leat.close()
