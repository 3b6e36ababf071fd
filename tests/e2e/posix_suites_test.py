# SPDX-License-Identifier: Apache-2.0
"""pjdfstest and fsx on mounts that take writes. Each case that does not pass is listed here with its
reason: a listed case that passes fails the test, as does another one that fails."""

import os
import re
import subprocess
from pathlib import Path

import pytest

SEEDS = range(1, 6)
OPERATIONS = {"file": 3000, "s3": 1500}

PJDFSTEST_SETTINGS = """
[features]
posix_fallocate = {{}}
rename_ctime = {{}}
utime_now = {{}}
utimensat = {{}}
secondary_fs = "{secondary}"
[settings]
naptime = 0.02
expected_failures = []
[dummy_auth]
entries = [["nobody", "nogroup"], ["games", "games"]]
"""

# All operations, on a file that is mapped, written and cut.
FSX_SETTINGS = """
[weights]
close_open = 1.0
invalidate = 1.0
mapread = 10.0
mapwrite = 10.0
read = 10.0
write = 10.0
truncate = 10.0
fsync = 2.0
fdatasync = 1.0
posix_fallocate = 2.0
punch_hole = 2.0
sendfile = 1.0
copy_file_range = 2.0
"""

# Skipped everywhere: what Linux has not, and a read-only remount.
SKIPPED = ("chflags", "nfsv4acl", "::erofs", "link_count_max")

# mknod(2) of special files answers EPERM on an object store.
SPECIAL_TYPES = ["block", "char", "fifo", "socket"]
WITH_SPECIAL_FILES = [
    "chmod::change_perm", "chmod::enotdir_component", "chmod::failed_chmod_unchanged_ctime",
    "chmod::update_ctime", "chown::enotdir_component", "chown::lchown::enotdir_component",
    "link::changed_ctime_success", "link::eexist_dest_exists", "link::enotdir_component_either",
    "link::remove_link", "link::share_metadata", "link::unchanged_ctime_fails", "mkdir::eexist_file_exists",
    "mkdir::enotdir_component", "mkfifo::eexist_file_exists", "mkfifo::enotdir_component",
    "mknod::eexist_file_exists", "mknod::enotdir_comp_char_block", "mknod::enotdir_component",
    "mknod::privileged::eexist_file_exists", "open::eexist_file_exists", "rename::changed_ctime_success",
    "rename::eexist_enotempty_to_non_empty", "rename::eisdir_to_dir_from_not_dir",
    "rename::enotdir_component_either", "rename::enotdir_from_dir_to_not_dir", "rename::preserve_metadata",
    "rename::to_multiply_linked", "rename::unchanged_ctime_failed", "rmdir::eexist_enotempty_non_empty_dir",
    "rmdir::enotdir_component", "symlink::eexist_file_exists", "symlink::enotdir_component",
    "truncate::enotdir_component", "unlink::enotdir_component", "unlink::remove_type",
    "unlink::unchanged_ctime_failed", "unlink::update_ctime_success",
    "unlink::update_mtime_ctime_success_folder", "utimensat::changes_timestamps",
]
WITH_SOME_SPECIAL_FILES = [
    "mknod::changed_times_success::block", "mknod::changed_times_success::char", "mknod::device_files::block",
    "mknod::device_files::char", "symlink::create_symlink::block", "symlink::create_symlink::char",
    "symlink::create_symlink::fifo", "mkfifo::changed_time_fields_success",
    "mkfifo::permission_bits_from_mode", "mkfifo::uid_gid_eq_euid_egid", "mknod::changed_time_fields_success",
    "mknod::permission_bits_from_mode", "mknod::uid_gid_eq_euid_egid", "open::fifo_nonblock_wronly",
    "open::socket_error",
]
# Hard links: link(2) answers EPERM on an object store.
WITH_HARD_LINKS = [
    "link::changed_ctime_success::regular", "link::remove_link::regular", "link::share_metadata::regular",
    "rename::preserve_metadata::regular", "rename::to_multiply_linked::regular",
    "unlink::unchanged_ctime_failed::regular", "unlink::update_ctime_success::regular",
]

FAILS = {
    "file": set(),
    "s3": {*WITH_HARD_LINKS, *WITH_SOME_SPECIAL_FILES,
           *(f"{case}::{kind}" for case in WITH_SPECIAL_FILES for kind in SPECIAL_TYPES)},
}


def suite(name):
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    program = Path(deps) / name / "bin" / name
    assert os.access(program, os.X_OK), f"no {program}: run tools/setup test"
    return program


@pytest.fixture(params=["file", "s3"])
def mounted(request, leat, folder):
    """The kind of the store, and a mount of it that takes writes."""
    # Paths of the greatest length are those of the mount, and of sockets those of 107 bytes.
    mount, root = Path(folder) / "m", Path(folder) / "d"
    if request.param == "s3":
        leat.mount(request.getfixturevalue("store"), request.getfixturevalue("bucket"), mount,
                   "--writable", "--allow-other")
    else:
        root.mkdir()
        mount.mkdir()
        leat.run("mount", root, mount, "--writable", "--allow-other", "--cache-dir", leat.cache_dir,
                 "--cache-size", leat.cache_size, "--freshness", "max-age=1s")
    return request.param, mount


def outcomes(text):
    """Case -> "ok", "FAILED" or "skipped"; the lines after a failure."""
    found, why, last = {}, {}, None
    for line in text.splitlines():
        match = re.match(r"(\S+::\S+) +(ok|FAILED|skipped)$", line)
        if match:
            last = match[1]
            found[last] = match[2]
        elif last and line.startswith("\t"):
            why.setdefault(last, []).append(line.strip())
    return found, why


def test_pjdfstest_fails_as_listed(mounted, folder):
    kind, mount = mounted
    if os.geteuid() != 0:
        pytest.skip("pjdfstest changes users, which needs root")
    secondary = Path(folder) / "secondary"
    secondary.mkdir()
    settings = Path(folder) / "pjdfstest.toml"
    settings.write_text(PJDFSTEST_SETTINGS.format(secondary=secondary))
    os.chmod(folder, 0o755)  # other users reach the mount
    done = subprocess.run([suite("pjdfstest"), "-c", settings, "-p", mount], cwd=folder, text=True,
                          capture_output=True, timeout=120, check=False,
                          env={**os.environ, "NO_COLOR": "1", "RUST_BACKTRACE": "0"})
    found, why = outcomes(done.stdout)
    assert len(found) > 390, done.stdout[-2000:] + done.stderr[-2000:]
    skipped = {case for case, outcome in found.items() if outcome == "skipped"}
    unexpected = {case for case in skipped if not any(part in case for part in SKIPPED)}
    assert not unexpected, {case: why.get(case) for case in unexpected}
    failed = {case for case, outcome in found.items() if outcome == "FAILED"}
    listed = FAILS[kind]
    assert not failed - listed, {case: why.get(case) for case in sorted(failed - listed)}
    assert not listed - failed, "listed, but it passes"


def test_fsx_finds_no_difference(mounted, folder):
    kind, mount = mounted
    settings = Path(folder) / "fsx.toml"
    settings.write_text(FSX_SETTINGS)
    for seed in SEEDS:
        done = subprocess.run([suite("fsx"), "-N", str(OPERATIONS[kind]), "-S", str(seed), "-f",
                               settings, "-P", folder, mount / f"fsx-{seed}"],
                              cwd=folder, text=True, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, f"seed {seed}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        assert "All operations completed" in done.stdout + done.stderr, done.stdout + done.stderr
