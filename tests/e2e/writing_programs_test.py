# SPDX-License-Identifier: Apache-2.0
"""Programs write into a mount, and the store then has what they would have left on a local disk."""

import base64
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from e2e.content import content
from e2e.programs import TESTS, python_of, run
from e2e.writing_test import written_mount
from rig.process import wait_until


@pytest.fixture(params=["through", "back"])
def mode(request):
    return request.param


@pytest.fixture(params=["s3"])
def written(request, leat, folder, mode):
    return written_mount(request, leat, folder, "--writable", "-o", f"write={mode}")


on_both = pytest.mark.parametrize("written", ["s3", "file"], indirect=True)


@pytest.fixture
def stored(written, folder):
    """Answers a new local folder with all that the store has by now, fetched without Leat."""
    numbers = itertools.count()

    def fetch():
        written.leat.run("flush", written.mount)
        into = Path(folder) / f"stored{next(numbers)}"
        for name in written.side.names():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(written.side.read(name))
        return into
    return fetch


def new_folders(*paths):
    for path in paths:
        path.mkdir()
    return paths


# ---- libraries

def program(what, name, *folders):
    """Answers what the program read of each folder."""
    said = run([python_of("programs"), TESTS / "e2e" / "program_writes.py", what, name, *folders], "/")
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.parametrize("name", ["h5py", "zarr", "pyarrow", "tensorboard"])
def test_a_python_program_writes(written, stored, folder, name):
    plain, mounted = new_folders(Path(folder) / "plain", written.mount / "data")
    expected, found = program("write", name, plain, mounted)
    assert found == expected
    assert program("read", name, mounted, stored() / "data") == [expected, expected]


@on_both
def test_dvc_links_or_copies(written, stored):
    """An object store has no hard links: the errno is one after which DVC copies."""
    has_links = written.side.has_posix_files
    [work] = new_folders(written.mount / "work")
    [[names, [kinds, are_same], digests]] = program("write", "dvc", work)
    assert kinds == (["hardlink"] if has_links else []) + ["symlink", "copy"]
    assert are_same == [has_links] * 4
    assert names == [f"object{number}" for number in range(4)] and digests[:4] == digests[4:]
    [found] = program("read", "dvc", stored() / "work")
    assert found == [names, [kinds, are_same], digests]


@on_both
def test_zarr_needs_a_link_for_parents(written, stored):
    """Zarr gives a group that an array implies its name by a hard link. On an object store that fails,
    nothing is left of it, and groups that are made one by one work (write_zarr)."""
    [work] = new_folders(written.mount / "work")
    if not written.side.has_posix_files:
        with pytest.raises(AssertionError, match="PermissionError: .Errno 1. Operation not permitted"):
            program("write", "zarr_parents", work)
        assert [one for one in (work / "deep.zarr").rglob("*.partial")] == []
        return
    expected = program("write", "zarr_parents", work)
    assert program("read", "zarr_parents", stored() / "work") == expected


# ---- editors

EDIT = """
set backup writebackup backupdir=. backupskip= undofile undodir=. backupcopy=%s
%%s/one/1/
preserve
call writefile([swapname('%%'), filereadable(swapname('%%'))], $OUT)
write
%%s/two/2/
wq
"""
STOP = """
set updatecount=1
%s/1/unsaved/
preserve
call writefile(['ready'], $OUT)
sleep 60
"""
VIM = ["vim", "-es", "-u", "NONE", "-i", "NONE", "-N"]


@pytest.mark.parametrize("copy", ["no", "yes"])
def test_vim_edits_with_backup(written, stored, folder, copy):
    """`backupcopy=no` renames the file to its backup and writes a new one, `yes` writes in place."""
    script, out = Path(folder) / "edit.vim", Path(folder) / "out"
    script.write_text(EDIT % copy)
    (written.mount / "text").write_bytes(b"one\ntwo\n")
    os.chmod(written.mount / "text", 0o640)
    run([*VIM, "-S", script, "text"], written.mount, OUT=str(out))
    assert out.read_text().split() == [str(written.mount / ".text.swp"), "1"]
    for found in (written.mount, stored()):
        assert (found / "text").read_bytes() == b"1\n2\n"
        assert (found / "text~").read_bytes() == b"1\ntwo\n"
        assert sorted(os.listdir(found)) == [".text.un~", "text", "text~"]
    assert os.stat(written.mount / "text").st_mode & 0o777 == 0o640


def test_vim_recovers_what_was_not_saved(written, folder):
    script, out = Path(folder) / "stop.vim", Path(folder) / "out"
    script.write_text(STOP)
    (written.mount / "text").write_bytes(b"1\n2\n")
    with subprocess.Popen([*VIM, "-S", script, "text"], cwd=written.mount, stdin=subprocess.DEVNULL,
                          env={**os.environ, "OUT": str(out)}) as vim:
        wait_until(out.exists, "vim to keep what is not saved")
        vim.send_signal(signal.SIGKILL)
    written.remount()
    assert sorted(os.listdir(written.mount)) == [".text.swp", "text"]
    subprocess.run([*VIM, "-r", "text", "-c", "write! got", "-c", "quit!"], cwd=written.mount,
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (written.mount / "got").read_bytes() == b"unsaved\n2\n"
    assert (written.mount / "text").read_bytes() == b"1\n2\n"


# ---- packages and archives

def wheel(folder, version):
    """A package with a module, data and a command; made without a build tool."""
    name = f"leat_tool-{version}"
    files = {
        "leat_tool/__init__.py": f'VERSION = "{version}"\ndef main():\n    print("tool", VERSION)\n',
        f"leat_tool/only_in_{version[0]}/__init__.py": "",
        "leat_tool/data/table.bin": "row\n" * 100_000,
        f"{name}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: leat-tool\nVersion: {version}\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/entry_points.txt": "[console_scripts]\nleat-tool = leat_tool:main\n",
    }
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}")
    files[f"{name}.dist-info/RECORD"] = "\n".join([*rows, f"{name}.dist-info/RECORD,,", ""])
    path = Path(folder) / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for one, text in files.items():
            packed.writestr(one, text)
    return path


def test_pip_installs_into_a_folder(written, stored, folder):
    """The second time it replaces the package, by renames from a temporary folder in the mount."""
    site, temporary = written.mount / "site", written.mount / "tmp"
    temporary.mkdir()
    for version, where in (("1.0", folder), ("2.0", temporary)):
        run([python_of("programs"), "-m", "pip", "install", "--no-index", "--no-deps", "--no-cache-dir",
             "--disable-pip-version-check", "--upgrade", "--target", site, wheel(folder, version)],
            folder, PIP_CONFIG_FILE="/dev/null", TMPDIR=str(where))
        said = run([site / "bin" / "leat-tool"], "/", PYTHONPATH=str(site))
        assert said.decode() == f"tool {version}\n"
    assert os.listdir(temporary) == []
    kept = {str(one.relative_to(site)) for one in site.rglob("*") if one.is_file()}
    assert "leat_tool/only_in_2/__init__.py" in kept and "leat_tool/only_in_1/__init__.py" not in kept
    found = stored()
    assert {str(one.relative_to(found / "site")) for one in found.rglob("*") if one.is_file()} == kept
    said = run([sys.executable, "-c", "import leat_tool; leat_tool.main()"], "/",
               PYTHONPATH=str(found / "site"))
    assert said == b"tool 2.0\n"


def tree(root):
    for number in range(12):
        path = root / f"d{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(path.name, 1, 0, 20_000 * number))
        path.chmod(0o600 if number % 2 else 0o755)
        os.utime(path, (1_500_000_000 + 2 * number, 1_400_000_000 + 2 * number))
    return root


def of_tree(root):
    found = [(path, path.stat()) for path in sorted(root.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): (path.read_bytes(), one.st_mode & 0o777, int(one.st_mtime))
            for path, one in found}


def test_zip_packs_and_unpacks(written, stored, folder):
    """zip changes an archive by a temporary file and a rename, or in place with `-g`."""
    plain = tree(Path(folder) / "plain")
    archive, copy = written.mount / "all.zip", written.mount / "copy"
    run(["zip", "-qr", archive, "."], plain)
    (plain / "d0" / "late").write_bytes(b"late")
    (plain / "d1" / "f1").write_bytes(b"changed")
    run(["zip", "-qu", archive, "d1/f1"], plain)
    run(["zip", "-qg", archive, "d0/late"], plain)
    run(["zip", "-qd", archive, "d2/f2"], plain)
    (plain / "d2" / "f2").unlink()
    run(["unzip", "-q", archive, "-d", copy], "/")
    assert of_tree(copy) == of_tree(plain)
    run(["zip", "-qr", written.mount / "again.zip", "copy"], written.mount)
    run(["unzip", "-qo", written.mount / "again.zip"], written.mount)
    assert of_tree(copy) == of_tree(plain)
    found = stored()
    assert sorted(one.name for one in found.iterdir()) == ["again.zip", "all.zip", "copy"]
    run(["unzip", "-qt", found / "again.zip"], "/")
    run(["unzip", "-q", found / "all.zip", "-d", found / "unpacked"], "/")
    assert of_tree(found / "unpacked") == of_tree(plain)
