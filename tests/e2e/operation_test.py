# SPDX-License-Identifier: Apache-2.0
"""What an operator asks of a host: its log, and a file for whoever is to help."""

import os
import signal
import subprocess
import tarfile
from pathlib import Path

import pytest

from rig.leat import leat_program
from rig.store import SECRET_KEY


@pytest.fixture
def mounted(leat, store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    return leat.mount(store, bucket, os.path.join(folder, "mnt"))


def test_logs_of_a_running_and_an_ended_daemon(leat, mounted):
    told = leat.json("logs")
    assert told["file"] == str(leat.runtime_dir / "daemon.log")
    assert any(line["text"] == f"mounted s3://data/ at {mounted}" and line["level"] == "info"
               for line in told["lines"])
    assert len(leat.run("logs", "-n", 1).stdout.splitlines()) == 1
    assert leat.run("logs", "--level", "error").stdout == ""
    leat.stop()
    assert leat.json("logs", "-n", 1)["lines"][0]["text"] == "ended"


def test_the_log_is_bounded(leat, store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    leat.settings = {"LEAT_LOG_FILE_SIZE": "64KiB", "LEAT_LOG_LEVEL": "debug"}
    mounted = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    log = leat.runtime_dir / "daemon.log"
    older = leat.runtime_dir / "daemon.log.1"
    # Each change is a line with its path.
    path = mounted.joinpath(*["x" * 250] * 10)
    number = 0
    while not older.exists():
        number += 1
        assert number < 100, log.stat().st_size
        leat.run("mounts", "set", path, f"ttl={number}h")
    assert max(log.stat().st_size, older.stat().st_size) <= 64 * 1024
    lines = leat.json("logs", "-n", "0")["lines"]
    assert sum(len(line["text"]) for line in lines) > 32 * 1024
    assert f"mounted s3://{bucket}/ at {mounted}" in [line["text"] for line in lines]


def test_a_log_is_followed(leat, mounted):
    process = subprocess.Popen([leat_program(), "logs", "-f", "-n", "1"], env=leat.environment(),
                               stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()  # what was there
        leat.run("mounts", "set", mounted, "freshness=immutable")
        leat.umount(mounted)
        seen = ""
        while "ended" not in seen:
            line = process.stdout.readline()
            assert line
            seen += line
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_bundle_has_what_helps_and_no_secret(leat, store, mounted, folder):
    # The daemon has the secret in its environment, the caller another one, the configuration none.
    other = "a-secret-of-the-caller"
    leat.run("cat", mounted / "missing", check=False)
    file = Path(folder) / "bundle.tar.gz"
    work = Path(folder) / "work"
    work.mkdir()
    told = leat.run("support-bundle", file, credentials={
        **store.credentials, "AWS_SESSION_TOKEN": other, "HF_TOKEN": other,
        "TMPDIR": str(work)}).stdout
    assert str(file) in told
    with tarfile.open(file) as bundle:
        texts = {member.name.split("/", 1)[1]: bundle.extractfile(member).read().decode()
                 for member in bundle.getmembers() if member.isfile()}
    for part in ("README", "version", "doctor.json", "daemon/status.json", "daemon/config.json",
                 "daemon/errors.json", "daemon/slow.json", "daemon/log", "host/mounts", "host/variables"):
        assert texts[part], part
    assert str(mounted) in texts["daemon/status.json"]
    assert "AWS_SESSION_TOKEN is set" in texts["host/variables"]
    whole = "".join(texts.values())
    assert SECRET_KEY not in whole and other not in whole
    token = (leat.runtime_dir / "console.token").read_text().strip()
    assert token not in whole
    assert leat.run("support-bundle", file, check=False,
                    credentials={"TMPDIR": str(work)}).returncode == 1
    assert list(work.iterdir()) == []


def test_a_bundle_of_a_service_has_its_journal(leat, folder):
    programs = Path(folder) / "programs"
    programs.mkdir()
    journalctl = programs / "journalctl"
    journalctl.write_text('#!/bin/sh\necho "asked for $*"\n'
                          'echo "leat[7]: HF_TOKEN hf_aaaaaaaaaaaaaaaaaaaaaaaa"\n')
    journalctl.chmod(0o755)
    file = Path(folder) / "bundle.tar.gz"
    leat.run("support-bundle", file,
             credentials={"PATH": f"{programs}:{os.environ['PATH']}"})
    with tarfile.open(file) as bundle:
        name = next(name for name in bundle.getnames() if name.endswith("daemon/log"))
        log = bundle.extractfile(name).read().decode()
    assert "asked for -u leat " in log
    assert "leat[7]: HF_TOKEN ***" in log


def test_a_bundle_needs_no_daemon(leat, folder):
    file = Path(folder) / "bundle.tar.gz"
    leat.run("support-bundle", file)
    with tarfile.open(file) as bundle:
        names = [member.name for member in bundle.getmembers()]
    assert any(name.endswith("doctor.json") for name in names)
