# SPDX-License-Identifier: Apache-2.0
"""`leat config`: what is in effect, what a file would do, and what a running daemon takes up."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def file(folder, leat):
    path = Path(folder) / "config/leat/leat.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[log]\nlevel = "warning"\n')
    leat.settings["XDG_CONFIG_HOME"] = str(path.parent.parent)
    return path


@pytest.fixture
def mounted(leat, store, s3, bucket, folder, file):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    return leat.mount(store, bucket, os.path.join(folder, "mnt"))


def options(leat, *words):
    return {one["name"]: one for one in leat.json("config", "show", *words)["options"]}


def test_each_value_says_where_it_is_from(leat, mounted, file):
    told = options(leat)
    assert told["log.level"]["value"] == "warning"
    assert told["log.level"]["place"] == f"{file}:2"
    assert told["cache.size"]["origin"] == "command line"
    assert told["telemetry.listen"]["place"] == "LEAT_TELEMETRY_LISTEN"
    assert told["fetch.requests_per_store_max"]["origin"] == "default"
    assert set(options(leat, "cache")) == {name for name in told if name.startswith("cache.")}
    assert "fetch.requests_per_store_max" not in options(leat, "--changed")
    wrong = leat.run("config", "show", "cache.sise", check=False)
    assert wrong.returncode == 2
    assert "did you mean 'cache.size'?" in wrong.stderr


def test_reload_changes_reloadable_options_only(leat, mounted, file):
    pid = leat.daemon_pid()
    assert "nothing is otherwise" in leat.run("config", "reload").stdout
    file.write_text('[log]\nlevel = "debug"\n[fetch]\nrequests_per_store_max = 9\n')
    assert leat.json("config", "reload") == {"changed": ["log.level"],
                                             "waiting": ["fetch.requests_per_store_max"]}
    told = options(leat)
    assert told["log.level"]["value"] == "debug"
    assert told["fetch.requests_per_store_max"]["value"] == "1024"
    assert leat.daemon_pid() == pid
    # Said again it is no change, and still waits.
    assert leat.json("config", "reload") == {"changed": [], "waiting": ["fetch.requests_per_store_max"]}
    leat.run("upgrade")
    assert options(leat)["fetch.requests_per_store_max"]["value"] == "9"
    assert (mounted / "a").read_bytes() == b"a"


def test_a_file_with_a_mistake_changes_nothing(leat, mounted, file):
    file.write_text('[log]\nlevel = "debug"\n[cache]\nsise = "1GiB"\n')
    done = leat.run("config", "reload", check=False)
    assert done.returncode == 2
    assert f"{file}:4" in done.stderr
    assert "did you mean 'cache.size'?" in done.stderr
    assert options(leat)["log.level"]["value"] == "warning"


def test_check_reads_as_a_daemon_would(leat, file):
    told = leat.run("config", "check").stdout
    assert f"{file}: a daemon would start with it" in told
    assert "log.level = warning" in told
    file.write_text("[fetch]\nrequests_per_store_max = 5000\n")
    done = leat.run("config", "check", file, check=False)
    assert done.returncode == 2
    assert f"{file}:2" in done.stderr
    assert "it must be 1 to 4096" in done.stderr
    file.write_text('[fetch]\nmemory_size = "1MiB"\n')
    done = leat.run("config", "check", file, check=False)
    assert f"{file}:2" in done.stderr
    assert "it must be 32MiB to 1TiB, or 0" in done.stderr
    file.write_text('[log]\nlevel = "verbose"\n')
    assert "debug, info, warning or error" in leat.run("config", "check", check=False).stderr


def test_a_folder_is_no_configuration(leat, folder):
    done = leat.run("config", "check", folder, check=False)
    assert done.returncode == 1 and f"cannot read {folder}: Is a directory" in done.stderr
    done = leat.run("cp", "-r", "--files-from", folder, f"file://{folder}", f"{folder}/copy",
                    check=False)
    assert done.returncode == 1 and f"cannot read {folder}: Is a directory" in done.stderr


def test_the_uncommented_template_is_valid(leat, file):
    template = leat.run("config", "template").stdout
    lines = [line[1:] if line.startswith("#") and not line.startswith("# ") else line
             for line in template.splitlines()]
    file.write_text("\n".join(lines))
    assert leat.run("config", "check").stdout.startswith(f"{file}: a daemon would start")
    file.write_text(template)
    leat.run("config", "check")
