# SPDX-License-Identifier: Apache-2.0
"""`leat cp`: both ways between folders, stores and local files; goes on after an interruption."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rig.leat import leat_program
from rig.process import wait_until

MIB = 1024 * 1024


@pytest.fixture
def tree(folder):
    """Some files: {name: content}, and where they are."""
    files = {"one": b"1", "part-1/a.jpg": os.urandom(70000), "part-1/b.txt": b"text",
             "part-2/deep/c.jpg": os.urandom(3 * MIB), "empty": b"", "part-2/odd\nname": b"odd"}
    root = Path(folder) / "tree"
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root, files


@pytest.fixture
def url(store, bucket):
    def make(prefix=""):
        return f"s3://{bucket}/{prefix}?endpoint={store.endpoint}&region=us-east-1"
    return make


@pytest.fixture
def cp(leat, store):
    def run(*words, check=True):
        done = leat.run("cp", "--json", *words, credentials=store.credentials, check=check)
        return json.loads(done.stdout)
    return run


def objects_in(s3, bucket, prefix=""):
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", []):
            if not item["Key"].endswith("/"):
                body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
                found[item["Key"][len(prefix):]] = body
    return found


def files_in(root):
    return {str(path.relative_to(root)): path.read_bytes()
            for path in Path(root).rglob("*") if path.is_file()}


def test_upload_download_and_store_to_store(cp, url, s3, bucket, tree, folder):
    root, files = tree
    told = cp("-r", root, url("up"))
    assert (told["files"], told["failed"]) == (len(files), 0)
    assert told["bytes"] == sum(map(len, files.values()))
    assert objects_in(s3, bucket, "up/") == files
    cp("-r", url("up"), url("again"))
    assert objects_in(s3, bucket, "again/") == files
    back = Path(folder) / "back"
    cp("-r", url("again"), back)
    assert files_in(back) == files


def test_a_mounted_folder_is_no_target(cp, leat, store, url, s3, bucket, tree, folder):
    root, files = tree
    cp("-r", root, url("data"))
    mounted = leat.mount(store, f"{bucket}/data", os.path.join(folder, "mnt"))
    cp("-r", mounted / "part-1", url("copy"))
    assert objects_in(s3, bucket, "copy/") == {"a.jpg": files["part-1/a.jpg"],
                                               "b.txt": files["part-1/b.txt"]}
    refused = cp(root / "one", mounted, check=False)
    assert refused["error"]["code"] == "read_only"
    assert "copy to the store's URL" in refused["error"]["message"]


def test_existing_files_are_kept_or_replaced(cp, url, s3, bucket, tree, folder):
    root, files = tree
    cp("-r", root, url("up"))
    again = cp("-r", root, url("up"), check=False)
    assert again["failed"] == len(files)
    assert again["error"]["code"] == "exists"
    assert cp("-r", "--update", root, url("up"))["skipped"] == len(files)
    # An object that is another: by size, and by being older than the file.
    s3.put_object(Bucket=bucket, Key="up/one", Body=b"22")
    (root / "part-1/b.txt").write_bytes(b"TEXT")
    os.utime(root / "part-1/b.txt", (time.time() + 10, time.time() + 10))
    assert cp("-r", "--update", root, url("up"))["files"] == 2
    assert objects_in(s3, bucket, "up/")["part-1/b.txt"] == b"TEXT"
    assert cp("-r", "--force", root, url("up"))["files"] == len(files)
    # Downwards by the time of the object, which the file keeps.
    back = Path(folder) / "back"
    cp("-r", url("up"), back)
    assert cp("-r", "--update", url("up"), back)["files"] == 0
    (back / "one").write_bytes(b"3")
    assert cp("-r", "--update", url("up"), back)["files"] == 1
    assert (back / "one").read_bytes() == b"1"


def test_patterns_lists_and_a_look_ahead(cp, leat, url, s3, bucket, tree, folder):
    root, files = tree
    cp("-r", "--include", "*.jpg", "--exclude", "deep/", root, url("jpg"))
    assert list(objects_in(s3, bucket, "jpg/")) == ["part-1/a.jpg"]
    names = Path(folder) / "names"
    names.write_text("one\npart-2/deep\n")
    cp("-r", "--files-from", names, root, url("listed"))
    assert sorted(objects_in(s3, bucket, "listed/")) == ["one", "part-2/deep/c.jpg"]
    cp("-r", "--regex", "^part-[12]/[a-z]+[.]", root, url("regex"))
    assert sorted(objects_in(s3, bucket, "regex/")) == ["part-1/a.jpg", "part-1/b.txt"]
    said = leat.run("cp", "-r", "--dry-run", "--include", "b.txt", root, Path(folder) / "none")
    assert said.stdout.strip() == f"{root}/part-1/b.txt -> {folder}/none/part-1/b.txt"
    assert not (Path(folder) / "none").exists()
    wrong = cp("-r", "--include", "a[b", root, Path(folder) / "none", check=False)
    assert "the '[' is not closed" in wrong["error"]["message"]


def test_one_failure_does_not_stop_the_others(cp, url, s3, bucket, tree):
    root, files = tree
    s3.put_object(Bucket=bucket, Key="up/one", Body=b"mine")
    told = cp("-r", root, url("up"), check=False)
    assert (told["failed"], told["files"]) == (1, len(files) - 1)
    assert "/one" in told["errors"][0] and "--force" in told["errors"][0]
    assert objects_in(s3, bucket, "up/") == {**files, "one": b"mine"}


def test_empty_directories_are_made_or_counted(cp, leat, store, url, s3, bucket, tree, folder):
    root, files = tree
    (root / "hollow/deeper").mkdir(parents=True)
    (root / "part-1/hollow").mkdir()
    local = Path(folder) / "local"
    assert cp("-r", root, local)["empty_directories"] == 0
    assert (local / "hollow/deeper").is_dir() and (local / "part-1/hollow").is_dir()
    told = cp("-r", root, url("up"))
    assert (told["files"], told["empty_directories"]) == (len(files), 2)
    said = leat.run("cp", "-r", root, url("again"), credentials=store.credentials).stderr
    assert re.search(rf"not copied: 2 empty directories, the first {root}/(hollow/deeper|part-1/"
                     "hollow): a store has no directories of its own", said), said
    assert cp("-r", "--include", "*.jpg", root, url("jpg"))["empty_directories"] == 0


def test_a_file_goes_into_a_folder_or_is_renamed(cp, url, s3, bucket, tree, folder):
    root, files = tree
    cp(root / "one", url("new"))
    cp(root / "one", url("dir/"))
    assert sorted(objects_in(s3, bucket)) == ["dir/one", "new"]
    there = Path(folder) / "there"
    there.mkdir()
    cp(url("new"), there)
    assert (there / "new").read_bytes() == b"1"
    assert cp(root, there, check=False)["error"]["code"] == "is_directory"


def test_an_interrupted_copy_resumes(leat, store, url, s3, bucket, folder):
    root = Path(folder) / "big"
    root.mkdir()
    for index in range(20):
        (root / f"{index:02}").write_bytes(os.urandom(MIB))
    process = subprocess.Popen(
        [leat_program(), "cp", "-r", "--bandwidth", "512KiB", "--parallel", "2", str(root),
         url("up")],
        env=leat.environment(store.credentials), stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_until(lambda: len(objects_in(s3, bucket, "up/")) >= 3, "some files to be there")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted after" in said and "--update goes on" in said
    copied = objects_in(s3, bucket, "up/")
    assert 3 <= len(copied) < 20
    assert all(len(content) == MIB for content in copied.values())
    assert s3.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    done = json.loads(leat.run("cp", "-r", "--update", "--json", root, url("up"),
                               credentials=store.credentials).stdout)
    assert done["skipped"] == len(copied) and done["files"] == 20 - len(copied)


def test_bandwidth_is_kept(cp, url, folder):
    file = Path(folder) / "file"
    file.write_bytes(os.urandom(4 * MIB))
    begun = time.monotonic()
    cp("--bandwidth", "2MiB", file, url("slow"))
    # 4 MiB at 2 MiB/s, of which a tenth of a second's worth and one piece may come at once.
    assert time.monotonic() - begun > 0.8
