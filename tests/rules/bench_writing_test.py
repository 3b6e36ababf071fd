# SPDX-License-Identifier: Apache-2.0
"""The parts of the bench's layer `writing`: the check of the store, modes that the binary does not have, and
other programs. Nothing is measured here."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))
from catalog import LAYERS  # noqa: E402
from folder_door import link, write_rows, writing  # noqa: E402
from folder_door.data_sets import BUCKET, SMOKE  # noqa: E402
from folder_door.setting import LeatMount  # noqa: E402
from folder_door.write_peers import WRITING_PEERS  # noqa: E402
from layers.far import Far  # noqa: E402
from layers.fuse import Fuse  # noqa: E402
from layers.whole import Whole  # noqa: E402
from layers.writing import Writing  # noqa: E402
from measure import NotRun, compiled, run_json  # noqa: E402
from uploads import bodies_of  # noqa: E402

LAYERS_OF_MOUNTS = {"fuse": Fuse, "whole": Whole, "far": Far, "writing": Writing}


class FakeStore:
    endpoint, credentials = "http://127.0.0.1:1", {}

    def __init__(self, folder):
        self.data = folder / "data"


class FakeSetting:
    """A folder with the store's files, and the writer that they are from."""

    def __init__(self, folder, writer):
        self.folder, self.writer, self.sizes = folder, writer, SMOKE
        self.store, self.compared_bytes = FakeStore(folder), 0
        self.written = self.store.data / BUCKET / writing.WRITTEN
        self.written.mkdir(parents=True)

    def write(self, *words):
        return run_json(self.writer, *words)

    def mount(self, mounter):
        mounter.show()

    def unmount(self):
        pass


@pytest.fixture(scope="session")
def writer(tmp_path_factory):
    return compiled("fuse_writer.cc", tmp_path_factory.mktemp("writer") / "fuse_writer")


@pytest.fixture
def setting(tmp_path, writer):
    return FakeSetting(tmp_path, writer)


@pytest.mark.parametrize("name", LAYERS_OF_MOUNTS)
def test_the_catalog_has_the_rows_of_mounts(name):
    rows = LAYERS_OF_MOUNTS[name].rows
    assert list(rows) == list(LAYERS[name].rows)
    for row, (_, _, takes_mounter) in rows.items():
        assert takes_mounter or not LAYERS[name].rows[row].peers, row


def test_the_catalog_has_figures_of_modes():
    for row in ("small", "random", "checkpoint", "beside"):
        figures = [key for mode in write_rows.MODES for key in write_rows.figures_of(row, mode)]
        assert figures == list(LAYERS["writing"].rows[row].figures)


@pytest.mark.parametrize("end", ["close", "sync", "publish"])
def test_what_was_written_is_found(setting, end):
    work = writing.Work(2_100_000, count=5, threads=2, end=end)
    assert work.write(setting, setting.written)["bytes"] == work.bytes
    writing.wait_until_stored(setting, work)
    writing.check(setting, work)
    assert setting.compared_bytes == work.bytes
    first, second = ((setting.written / name).read_bytes() for name in ("0", "1"))
    assert first != second


@pytest.mark.parametrize("offset", [0, 1_048_575, 2_099_999])
def test_a_wrong_byte_is_found(setting, offset):
    work = writing.Work(2_100_000, count=2)
    work.write(setting, setting.written)
    with open(setting.written / "1", "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(RuntimeError, match="1 differs in the MiB at"):
        writing.check(setting, work)


def test_missing_and_short_files_are_found(setting, monkeypatch):
    monkeypatch.setattr(writing, "STORED_TIMEOUT_S", 0)
    work = writing.Work(5000, count=3)
    work.write(setting, setting.written)
    writing.wait_until_stored(setting, work)
    (setting.written / "1").unlink()
    (setting.written / "2").write_bytes(b"short")
    (setting.written / "3.part").write_bytes(b"left")
    with pytest.raises(RuntimeError, match=r"3 of 3 files; wrong are 1, 2, 3\.part"):
        writing.wait_until_stored(setting, work)


def test_random_writes_are_repeatable(setting, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        done = setting.write("random", tmp_path / name, 1 << 20, 300, 7)
        assert done["bytes"] == 300 * 4096
    assert (tmp_path / "a" / "0").read_bytes() == (tmp_path / "b" / "0").read_bytes()


def test_a_paced_writer_ends_with_its_input(setting):
    with write_rows.PacedWriter(setting, setting.written) as paced:
        pass
    result = paced.result()
    assert result["files"] > 0 and result["bytes"] == result["files"] * SMOKE.paced_bytes
    assert setting.compared_bytes == result["bytes"]


def test_a_writer_that_failed_is_reported(setting):
    with write_rows.PacedWriter(setting, setting.written / "absent") as paced:
        pass
    with pytest.raises(RuntimeError, match="beside the readers: .*create"):
        paced.result()


@pytest.mark.parametrize("said", ["source s3://x/ has unknown option 'write'; did you mean 'writable'?",
                                  "option write: 'back' is not a mode"])
def test_an_absent_mode_is_not_run(setting, monkeypatch, said):
    def refused(_):
        raise AssertionError(said)
    monkeypatch.setattr(LeatMount, "show", refused)
    with pytest.raises(NotRun, match="-o write=back"):
        writing.WritableMount(setting, "back").show()
    results = write_rows.in_modes(setting, "small", lambda mode: {f"measured {mode}": {}})
    assert list(results) == list(LAYERS["writing"].rows["small"].figures)
    assert all("not_run" in result for result in results.values())
    with pytest.raises(NotRun):
        write_rows.back_sequential(setting)


def test_other_failures_of_a_mount_stay(setting, monkeypatch):
    def refused(_):
        raise AssertionError("the bucket does not answer")
    monkeypatch.setattr(LeatMount, "show", refused)
    with pytest.raises(AssertionError, match="does not answer"):
        writing.WritableMount(setting, "back").show()


def test_peers_of_writing_mount_writable(setting):
    for peer in WRITING_PEERS:
        made = peer(setting)
        made.folder.mkdir(parents=True)
        words = made.words()
        assert "ro" not in words and "--read-only" not in words
        read_only = type(made).__mro__[1](setting).words()
        assert "ro" in read_only or "--read-only" in read_only
        assert made.writes in write_rows.MODES


def test_a_link_limits_each_direction(monkeypatch):
    ran = []
    monkeypatch.setattr(link, "run", lambda *words, **_: ran.append(" ".join(map(str, words))))
    link.limit(["ip", "netns", "exec", "x"], "far", 0)
    link.limit([], "near", 8000)
    assert ran == ["tc qdisc add dev near root tbf rate 8000bit burst 512kb latency 50ms"]


@pytest.mark.parametrize("size, lengths", [(1 << 20, [1 << 20]), (5 << 20, [2 << 20, 2 << 20, 1 << 20]),
                                           (100, [100])])
def test_parts_of_an_upload_are_the_whole(size, lengths):
    assert [len(body) for body in bodies_of(size, 2 << 20)] == lengths
