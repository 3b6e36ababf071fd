# SPDX-License-Identifier: Apache-2.0
"""Every command prints a document that has a schema (docs/schemas). what any test of this folder reads
by Leat.run is compared; here each command is run at least once."""

import contextlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from rig import schemas
from rig.leat import Leat, leat_program
from rig.process import wait_until


def with_parts(command):
    for part in command["parts"]:
        yield part
        yield from with_parts(part)


def commands():
    """The commands as they are called: of those that need a part, the parts alone."""
    done = subprocess.run([leat_program(), "reference"], capture_output=True, check=True)
    for command in schemas.check(["reference"], done.stdout)["commands"]:
        yield from with_parts(command)
        if not command["usage"].startswith(f"leat {command['name']} COMMAND"):
            yield command


def test_each_json_command_has_a_schema():
    taking = {command["name"] for command in commands()
              if any("--json" in argument["flags"] for argument in command["arguments"])}
    assert taking == set(schemas.index())


def test_a_test_that_reads_another_document_fails(folder, monkeypatch):
    program = Path(folder) / "other"
    program.write_text('#!/bin/sh\necho \'{"version": "0.1.0", "odd": 1}\'\n')
    program.chmod(0o755)
    leat = Leat(os.path.join(folder, "leat"))
    monkeypatch.setenv("LEAT_BIN", str(program))
    with pytest.raises(AssertionError, match="leat version printed what is not of .*'odd' was unexpected"):
        leat.json("version")
    leat.run("version")


class Caller:
    """Runs commands with --json and remembers which."""

    def __init__(self, leat, store):
        self.leat, self.store, self.called = leat, store, set()

    def __call__(self, *words, **options):
        done = self.leat.run(*words, "--json", credentials=self.store.credentials, **options)
        self.called.add(schemas.command_of(list(map(str, words))))
        assert done.stdout or done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else {}


def use_mounts(call, mount, folder):
    other, moved = folder / "other", folder / "moved"
    for path in (other, moved):
        path.mkdir()
    for words in (["ls"], [], ["set", mount, "ttl=1h"], ["unset", mount, "ttl"], ["list"]):
        call("mounts", *words)
    call("mounts", "set", mount / "d", "quota=64MiB")
    assert call("mounts", "add", folder / "copy", other)["path"] == str(other)
    call("mounts", "move", other, moved)
    call("mounts", "rm", moved)


def use_data(call, mount, url, folder):
    for place in (mount, mount / "d", mount / "d/one", url):
        call("ls", "-l", place)
        call("stat", place)
        call("du", place)
    call("cat", mount / "d/one")
    call("cp", "-r", url, folder / "copy")
    assert "error" in call("cp", "-r", url, folder / "copy", check=False)
    call("bench", "io", mount)
    assert call("bench", "io", "--random", "--reads", 3, "--seed", 7, mount)["seed"] == 7


def use_cache(call, mount, cache):
    call("load", mount)
    call("load", "--background", "--verify", mount)
    call("jobs", "wait", 2)
    for words in ([], ["ls"], ["show", 1], ["cancel", 1]):
        call("jobs", *words)
    assert call("pin", mount / "d")["paths"]
    assert call("pin", "--load", mount / "d")["kind"] == "load"
    assert call("pin")["pinned"]
    assert all("pin" not in one["options"] for one in call("unpin", mount / "d")["paths"])
    call("refresh", mount)
    call("flush", mount)
    assert call("cache", "ls")["objects"]
    call("cache", "verify")
    call("free", mount)
    call("cache", "evict", "--all")
    assert call("load", mount / "nothing", check=False)["error"]["code"] == "not_found"
    assert "error" in call("cache", "ls", "--cache-dir", cache, check=False)  # a daemon has it


def use_snapshots(call, mount, folder):
    call("snapshot", "build", mount, "--name", "one")
    call("snapshot", "build", mount, "--name", "two", "--use")
    assert len(call("snapshot", "ls")["snapshots"]) == 2
    call("snapshot", "release", mount)
    call("snapshot", "use", "one", mount)
    call("mounts")
    call("snapshot", "release", mount)
    call("snapshot", "diff", "one", "two")
    call("snapshot", "share", "one", folder / "one.snapshot")
    call("snapshot", "add", folder / "one.snapshot", "--name", "three")
    call("snapshot", "rm", "three")


def use_host(call, folder):
    call("status")
    call("top", "--interval", "100ms")
    call("trace", folder / "mnt")
    call("console")
    call("doctor", "--no-speed", check=False)
    call("logs")
    call("support-bundle", folder / "bundle.tar.gz")
    for words in ([], ["show"], ["check"], ["reload"], ["template"]):
        call("config", *words)
    call("upgrade")
    call("version")
    call("completion", "fish")
    call("complete", "lo")
    call("complete", "mounts", "set", "/mnt", "qu")
    call("reference")
    call("daemon", "--dump-config")


def use_offline_cache(call, cache, folder):
    assert call("cache", "ls", "--cache-dir", cache)["objects"]
    assert call("cache", "verify", "--cache-dir", cache)["objects"]
    call("cache", "evict", "--cache-dir", cache, "--size", "1")
    call("cache", "move", cache, folder / "elsewhere")
    call("cache", "format", "--yes", folder / "elsewhere")


@contextlib.contextmanager
def running(leat, store, *words):
    """A command that runs until it is ended, once it has printed its document."""
    process = subprocess.Popen([leat_program(), *map(str, words), "--json"],
                               env=leat.environment(store.credentials), stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        while not said.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, f"leat {words[0]} has ended"
            said += line
        schemas.check(list(map(str, words)), said)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def use_cluster(call, store, bucket, folder):
    """By a worker of a cluster of one."""
    leat = Leat(folder / "w")
    leat.supervised = False
    secret, registry = folder / "secret", folder / "registry.json"
    ask = Caller(leat, store)
    ask("cluster", "secret", secret)
    ask("cluster", "token", folder / "token", "--principal", "p", "--secret-file", secret)
    try:
        with running(leat, store, "worker", "--registry", f"file://{registry}", "--secret-file", secret,
                     "--listen", "127.0.0.1:0", "--cache-dir", leat.cache_dir):
            wait_until(lambda: ask("cluster")["workers"], "the ring")
            mounted = ask("cluster", "mount", f"s3://{bucket}", "/d",
                          "-o", f"endpoint={store.endpoint}", "-o", "region=us-east-1")
            assert mounted["path"] == "/d"
            wait_until(lambda: ask("cluster", "status")["mounts"], "the mount")
            for words in (["load", "/d"], ["load", "/d", "--on-change"], ["free", "/d"], ["verify"],
                          ["cp", "/d/three", "/d/copied"]):
                ask("cluster", *words)
            for words in ([], ["ls"], ["show", 1], ["wait", 1], ["cancel", 2]):
                ask("cluster", "jobs", *words)
            assert ask("status")["clusters"]
            ask("cluster", "umount", "/d")
            assert ask("cluster", "drain", check=False)["error"]["code"] == "busy"  # it is alone
            ask("cluster", "undrain")
        with running(leat, store, "cluster", "dev", "1", "--registry", "file"):
            pass
    finally:
        leat.close()
    call.called |= ask.called | {"worker", "cluster dev"}


def test_each_command_prints_what_its_schema_says(leat, store, s3, bucket, folder):
    for key, size in (("d/one", 5000), ("d/two", 3_000_000), ("three", 0)):
        s3.put_object(Bucket=bucket, Key=key, Body=os.urandom(size))
    folder = Path(folder)
    mount = folder / "mnt"
    mount.mkdir()
    url = f"s3://{bucket}?endpoint={store.endpoint}&region=us-east-1"
    call = Caller(leat, store)
    call("mount", url, mount, "--cache-dir", leat.cache_dir, "--path-option", "d:priority=high")
    with contextlib.suppress(AssertionError):
        call("mount", url, mount)  # mounted already: a document, too
    use_data(call, mount, url, folder)
    use_cache(call, mount, leat.cache_dir)
    use_snapshots(call, mount, folder)
    use_mounts(call, mount, folder)
    use_host(call, folder)
    use_cluster(call, store, bucket, folder)
    call("load", mount)
    call("umount", mount)
    leat.stop()
    use_offline_cache(call, leat.cache_dir, folder)
    assert call.called == set(schemas.index())
