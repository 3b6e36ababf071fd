# SPDX-License-Identifier: Apache-2.0
"""Mode `through`: a directory of many objects is renamed as a whole, also if the daemon is killed."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rig.process import wait_until

NAMES = 1500


def filled(s3, bucket):
    def put(number):
        s3.put_object(Bucket=bucket, Key=f"old/{number}", Body=b"%d" % number)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(NAMES)))


def keys(s3, bucket):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {one["Key"] for page in pages for one in page.get("Contents", [])}


def expect_renamed(s3, bucket, mount):
    wanted = {f"new/{number}" for number in range(NAMES)}
    assert {key for key in keys(s3, bucket) if not key.endswith("/")} == wanted
    assert sorted(os.listdir(mount)) == ["new"]
    assert len(os.listdir(mount / "new")) == NAMES
    assert (mount / "new" / "7").read_bytes() == b"7"


def test_many_names_are_renamed(leat, store, s3, bucket, folder):
    filled(s3, bucket)
    mount = leat.mount(store, bucket, Path(folder) / "mnt", "--writable")
    os.rename(mount / "old", mount / "new")
    expect_renamed(s3, bucket, mount)
    assert leat.json("mounts")["mounts"][0].get("unsent", {}).get("changes", 0) == 0


def test_a_killed_rename_goes_on(leat, store, s3, bucket, folder):
    filled(s3, bucket)
    mount = leat.mount(store, bucket, Path(folder) / "mnt", "--writable")
    failed = []

    def rename():
        try:
            os.rename(mount / "old", mount / "new")
        except OSError as error:
            failed.append(error)
    program = threading.Thread(target=rename)
    program.start()
    wait_until(lambda: any(key.startswith("new/") for key in keys(s3, bucket)), "the first copies")
    leat.kill9()
    program.join()
    assert len({key for key in keys(s3, bucket) if key.startswith(("old/", "new/"))}) >= NAMES
    leat.mount(store, bucket, mount, "--writable")
    assert sorted(os.listdir(mount)) == ["new"]
    leat.run("flush", mount)
    expect_renamed(s3, bucket, mount)
