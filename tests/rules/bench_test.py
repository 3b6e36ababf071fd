# SPDX-License-Identifier: Apache-2.0
"""What `make bench` makes of figures: statistics, merging, the page, the choice of rows, the refusals.
Nothing is measured here."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))
from catalog import LAYERS, Figure, Layer, Row, figure_of, programs_of  # noqa: E402
from course import Course, Estimate, Options  # noqa: E402
from hygiene.fixtures import Fixtures, WrongFixture, digest  # noqa: E402
from hygiene.processor import busy_share, with_processor  # noqa: E402
from hygiene.quiet import Moment, others  # noqa: E402
from layers.layer_bench import LayerBench, against  # noqa: E402
from measure import NotRun  # noqa: E402
from results import book, page, picture  # noqa: E402
from results.records import above_all, record, reference_of, spread, subject  # noqa: E402
from rig.process import TICKS_PER_SECOND  # noqa: E402
from selection import NoSuchRow, chosen, described  # noqa: E402

MACHINE = {"cores": 2, "memory_gib": 24, "kernel": "6.18"}
SVG = "{http://www.w3.org/2000/svg}"


def runs(*values, reference=None):
    return [{"value": value, "note": f"note of {value}", "reference": reference} for value in values]


def made(layer="fuse", key="hot", values=(1.0, 0.9, 1.2), peers=None, date="2026-01-02", **more):
    figure = LAYERS[layer].figures()[key]
    found = {name: runs(*those) for name, those in (peers or {}).items()}
    more.setdefault("reference", [1.0, 1.1])
    return record(layer, LAYERS[layer].row_of(key), key, figure,
                  runs(*values, reference=more.pop("reference")), found, date=date,
                  machine=MACHINE, versions={"leat": "0.1.0"}, **more)


# -- statistics --------------------------------------------------------------------------------------
def test_the_median_and_the_ends_of_runs():
    assert spread(runs(3, 1, 2)) == {"median": 2, "min": 1, "max": 3}
    assert spread(runs(4, 1)) == {"median": 2.5, "min": 1, "max": 4}
    assert spread([{"not_run": "no kernel"}]) == {}


def test_the_note_is_that_of_the_median_run():
    assert subject(runs(3, 1, 2))["note"] == "note of 2"
    assert subject([{"failed": "it broke"}])["reason"] == "failed: it broke"


def test_a_drifting_reference_is_reported():
    assert reference_of(runs(1, 1, reference=[1.0, 1.1]))["drifted"] is False
    drifted = reference_of(runs(1, reference=[1.0, 1.3]))
    assert drifted["drifted"] and drifted["drift"] == pytest.approx(0.3)
    assert reference_of(runs(1)) is None


def test_a_run_that_failed_spoils_the_figure():
    figure = Figure("x", 0.5)
    one = record("fuse", "hot", "hot", figure, [*runs(1.0), {"failed": "no"}], {}, date="d")
    assert one["failed"] and one["met"] is None
    assert record("fuse", "hot", "hot", figure, runs(0.4), {}, date="d")["met"] is False
    assert record("fuse", "hot", "hot", Figure("x"), runs(0.4), {}, date="d")["met"] is None


def test_speed_and_cost_against_both_ends():
    assert against([1.0, 3.0], 4.0) == 0.5
    assert against([1.0, 3.0], 4.0, higher_is_slower=False) == 2.0


def test_above_every_peer_or_tied_at_the_link():
    shaped = LAYERS["whole"].figures()["first_shaped"]
    ours = made("whole", "first_shaped", [0.98], {"rclone": [0.99], "s3fs": [0.5]})
    assert above_all(shaped, ours) is True
    assert above_all(Figure("x", 0.9), ours) is False
    assert above_all(shaped, made("whole", "first_shaped", [0.98])) is None


# -- the choice of rows ------------------------------------------------------------------------------
def test_selected_rows_keep_catalog_order():
    assert list(chosen([])) == list(LAYERS)
    assert chosen(["fuse:random,hot", "stores:list", "fuse:disk"]) == {
        "stores": ["list"], "fuse": ["hot", "disk", "random"]}
    assert chosen(["cache"])["cache"] == list(LAYERS["cache"].rows)


@pytest.mark.parametrize("word, said", [("nowhere", "no layer 'nowhere'"), ("fuse:x", "no row 'x'"),
                                        ("hot", "no layer 'hot'")])
def test_what_there_is_not_is_named(word, said):
    with pytest.raises(NoSuchRow, match=said):
        chosen([word])


def test_only_what_the_rows_need_is_built():
    assert programs_of(chosen(["files:hot"])) == ["leat", "leat_bench_file"]


def test_help_names_every_row():
    done = subprocess.run(["/usr/bin/python3", "-I", ROOT / "bench" / "run", "--help"], check=True,
                          capture_output=True, text=True)
    for line in described():
        assert line in done.stdout
    wrong = subprocess.run(["/usr/bin/python3", "-I", ROOT / "bench" / "run", "fuse:x"],
                           capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "there are hot disk" in wrong.stderr


def test_each_layer_declares_known_figures():
    for name, layer in LAYERS.items():
        source = (ROOT / "bench" / "layers" / f"{name}.py").read_text()
        assert "def open_layer(place, smoke):" in source
        for key, figure in layer.figures().items():
            assert figure_of(f"{name}:{key}") is figure
            assert not figure.beside or figure.beside in layer.figures()
    assert figure_of("fuse:gone") is None


# -- the data and the machine ------------------------------------------------------------------------
def test_data_that_was_changed_is_refused(tmp_path):
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    names = ["a", "b"]
    expected = digest(tmp_path, names)
    Fixtures().use("set", [tmp_path], names, expected)
    fixtures = Fixtures()
    fixtures.use("set", [tmp_path, tmp_path], names, expected)
    (tmp_path / "b").write_text("twO")
    with pytest.raises(WrongFixture, match="'set'.*is not what was made .after the runs"):
        fixtures.check_after()
    with pytest.raises(WrongFixture, match="before the runs"):
        Fixtures().use("set", [tmp_path], names, expected)
    (tmp_path / "b").unlink()
    with pytest.raises(WrongFixture, match="No such file"):
        Fixtures().use("set", [tmp_path], names, expected)


def at(seconds, busy, stolen=0, **processes):
    """pid -> (start, ticks, name, parent) of p7=(ticks, name, parent)."""
    known = {int(pid[1:]): (1, ticks, name, parent) for pid, (ticks, name, parent) in
             processes.items()}
    return Moment(seconds, busy, stolen, known)


def test_work_of_others_is_told_from_our_own():
    second = TICKS_PER_SECOND
    before = at(0, 0, p10=(0, "bench", 1), p11=(0, "reader", 10), p20=(0, "cc1plus", 1))
    ours = at(1, second, p10=(0, "bench", 1), p11=(second, "reader", 10), p20=(0, "cc1plus", 1))
    assert others(before, ours, {10})[0] == 0
    both = at(1, 2 * second, p10=(0, "bench", 1), p11=(second, "reader", 10),
              p20=(second, "cc1plus", 1))
    cores, who = others(before, both, {10})
    assert cores == pytest.approx(1) and who == "cc1plus 1.00"


def test_short_processes_and_host_time_count():
    second = TICKS_PER_SECOND
    before, after = at(0, 0), at(2, second, stolen=second)
    cores, who = others(before, after, set())
    assert cores == pytest.approx(1) and "the host 0.50" in who


def test_a_slow_start_does_not_count():
    # (idle, all) of two cores: a slice at half, then three in full, then one without a tick.
    moments = [(0, 0), (10, 20), (10, 40), (11, 60), (11, 80), (11, 80)]
    assert busy_share(moments) == pytest.approx(0.975)
    assert busy_share(moments[:1]) == 0
    result = with_processor(lambda: {"seconds": 1.5})
    assert result["seconds"] == 1.5 and 0 <= result["processor"] <= 1


# -- a course of rows --------------------------------------------------------------------------------
class Bench(LayerBench):
    """Answers of each row in turn; an exception is raised."""

    def __init__(self, place, answers, changed=False):
        super().__init__(place, True)
        self.answers, self.closed = answers, False
        if changed:
            (place / "data").write_text("as made")
            self.fixtures.use("data", [place], ["data"])
            (place / "data").write_text("changed")

    def run(self, row, subject, last):
        answer = self.answers[row]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def peers(self, row):
        return [("other", "", 1), ("absent", "it is not installed", 1)]

    def close(self):
        self.closed = True


@pytest.fixture
def course(tmp_path, monkeypatch):
    layer = Layer("Made up", "nothing", {
        "good": Row("one", {"good": Figure("good", 2)}, 1, peers=True),
        "bad": Row("two", {"bad": Figure("bad")}, 1),
        "absent": Row("three", {"absent": Figure("absent")}, 1)})
    monkeypatch.setitem(LAYERS, "made_up", layer)
    said = []
    made_course = Course(Options(runs=3, peer_runs=1), tmp_path / "results.json", None, lambda: "",
                         {"date": "2026-01-02", "machine": MACHINE, "versions": {}}, said.append)
    made_course.said = said
    return made_course


ANSWERS = {"good": {"good": {"value": 1.0, "note": ""}}, "bad": ValueError("it broke"),
           "absent": NotRun("no such kernel")}


def test_a_row_that_breaks_ends_no_other_one(course, tmp_path):
    bench = Bench(tmp_path, ANSWERS)
    course.open_layer = lambda name: bench
    course.run(chosen(["made_up:good,bad,absent"], LAYERS))
    assert course.close() == 1 and bench.closed
    records = book.read(course.path)
    assert [run["value"] for run in records["made_up:good"]["leat"]["runs"]] == [1.0, 1.0, 1.0]
    assert records["made_up:good"]["peers"]["other"]["median"] == 1.0
    assert records["made_up:good"]["peers"]["absent"]["reason"] == "not run: it is not installed"
    assert len(records["made_up:bad"]["leat"]["runs"]) == 1
    assert course.broken == ["made_up:bad: ValueError: it broke"]
    assert any("BROKEN: made_up:bad" in line for line in course.said)
    assert any("below what is promised: made_up:good 1, promised ≥ 2" in line
               for line in course.said)
    assert any("left" in line for line in course.said)


def test_a_layer_that_cannot_be_opened_is_named(course):
    def open_layer(name):
        raise RuntimeError("no disk")
    course.open_layer = open_layer
    course.run({"made_up": ["good"]})
    assert course.close() == 1 and "made_up: RuntimeError: no disk" in course.broken


def test_figures_of_changed_data_are_dropped(course, tmp_path):
    course.open_layer = lambda name: Bench(tmp_path, ANSWERS, changed=True)
    course.run({"made_up": ["good"]})
    assert course.close() == 1
    assert "is not what was made" in book.refusal(book.read(course.path)["made_up:good"])


def test_figures_under_load_are_not_published(course, tmp_path):
    course.open_layer = lambda name: Bench(tmp_path, ANSWERS)
    course.quiet = lambda: "1.00 cores were busy with other work: cc1plus 1.00"
    course.run({"made_up": ["good"]})
    assert course.close() == 0
    assert "busy machine" in book.refusal(book.read(course.path)["made_up:good"])


def test_the_estimate_uses_past_run_times():
    estimate = Estimate({"fuse": ["hot", "disk"]}, Options(runs=2), {"fuse:hot": {"row": "hot"}})
    estimate.ran("fuse", "hot", 300)
    estimate.row_ended("fuse", "disk")
    assert estimate.words() == "about 5 min left"
    assert Estimate({"fuse": ["hot"]}, Options(runs=2),
                    {"fuse:hot": {"row": "hot", "run_s": 10}}).words() == "about 20 s left"


# -- merging and the page ----------------------------------------------------------------------------
def test_what_was_not_measured_keeps_its_record():
    published = {"fuse:hot": made(values=[1.0], date="2026-01-01"), "fuse:disk": made(key="disk")}
    fresh = {"fuse:hot": made(values=[1.1], date="2026-02-02"),
             "fuse:names": made(key="names", busy="somebody else")}
    records, refused = book.merged(published, fresh)
    assert records["fuse:hot"]["leat"]["median"] == 1.1
    assert records["fuse:disk"] == published["fuse:disk"]
    assert list(refused) == ["fuse:names"] and "fuse:names" not in records
    smoke = {"fuse:disk": made(key="disk", values=[9], smoke=True)}
    assert book.merged(published, smoke)[0] == published


def test_a_skipped_peer_keeps_its_dated_figure():
    published = {"whole:first": made("whole", "first", [0.4], {"s3fs": [0.1]}, "2026-01-01")}
    fresh = {"whole:first": made("whole", "first", [0.5], {"rclone": [0.2]}, "2026-02-02")}
    records, _ = book.merged(published, fresh)
    peers = records["whole:first"]["peers"]
    assert (peers["s3fs"]["median"], peers["s3fs"]["date"]) == (0.1, "2026-01-01")
    assert (peers["rclone"]["median"], peers["rclone"]["date"]) == (0.2, "2026-02-02")
    assert "0.10 (2026-01-01)" in page.block("whole", records, None)


def test_a_file_that_holds_no_results_is_refused(tmp_path):
    path = tmp_path / "results.json"
    assert book.read(path) == {}
    for text in ("{", '{"format": 99, "records": {}}', "[]"):
        path.write_text(text)
        with pytest.raises(book.WrongBook):
            book.read(path)
    book.write(path, {"fuse:hot": made()})
    book.put(path, made(key="disk"))
    assert list(book.read(path)) == ["fuse:disk", "fuse:hot"]
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]


def empty_page():
    blocks = "\n".join(f"text before {name}\n<!-- measured: {name} -->\nwhat stood here\n<!-- end -->"
                       for name in LAYERS)
    return f"# Performance\n{blocks}\ntext at the end\n"


def report(tmp_path, *words):
    return subprocess.run([sys.executable, ROOT / "bench" / "report", "--docs", tmp_path, "--results",
                           tmp_path / "results.json", *words], capture_output=True, text=True,
                          check=False)


def test_the_report_writes_tables_and_pictures(tmp_path):
    (tmp_path / "performance.md").write_text(empty_page())
    keys = ("first", "first_small", "again", "cpu_first")
    records = {f"whole:{key}": made("whole", key, [0.3, 0.42, 0.5], {"s3fs": [0.1]},
                                    reference=[1.0, 1.5]) for key in keys}
    records["fuse:gone"] = {**made(), "figure": "gone"}
    book.write(tmp_path / "results.json", records)
    done = report(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fuse:gone is kept and not shown" in done.stderr
    text = (tmp_path / "performance.md").read_text()
    assert "what stood here" not in text and text.endswith("text at the end\n")
    assert ("| first read of 2 GiB ÷ 8 signed streams | ≥ 0.5 | 0.42 | 0.30 to 0.50, 3 runs | **no** |"
            " note of 0.42; the reference drifted by up to 50% within a run | 2026-01-02 |") in text
    assert "| 4 GiB sequential, page cache hot ÷ ext4 | ≥ 0.95 | not measured yet |" in text
    assert "2026-01-02: 2 cores, 24 GiB, kernel 6.18. With leat 0.1.0." in text
    assert "![" in text and "pictures/performance-whole.svg" in text
    drawing = ElementTree.parse(tmp_path / "pictures" / "performance-whole.svg")
    assert len(drawing.findall(f".//{SVG}rect[@height='11']")) == 6
    assert report(tmp_path, "--check").returncode == 0
    assert report(tmp_path).stderr.count("wrote") == 0
    (tmp_path / "performance.md").write_text(text.replace("0.42 |", "0.99 |"))
    assert report(tmp_path, "--check").returncode == 1


def test_a_page_without_its_marks_is_refused(tmp_path):
    (tmp_path / "performance.md").write_text("# Performance\n<!-- measured: whole -->\n<!-- end -->\n")
    done = report(tmp_path)
    assert done.returncode == 1 and "must be one" in done.stderr
    assert not (tmp_path / "performance.json").exists()


def test_bars_end_where_their_figures_are():
    bars = {"leat": {"median": 0.5, "min": 0.25, "max": 2.0}, "<s3fs>": {"median": 1, "min": 1,
                                                                     "max": 1}}
    root = ElementTree.fromstring(picture.drawn("a & b", [("work", 0.9, bars)]))
    widths = [float(bar.get("width")) for bar in root.findall(f"{SVG}rect[@height='11']")]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    whiskers = root.findall(f"{SVG}line[@class='whisker']")
    assert len(whiskers) == 3  # one bar has a spread: a line and its two ends
    assert float(whiskers[0].get("x2")) <= picture.WIDTH
    assert len(root.findall(f"{SVG}line[@class='promise']")) == 1
    assert "prefers-color-scheme: dark" in root.find(f"{SVG}style").text


@pytest.mark.parametrize("value, text", [(0, "0"), (0.0002, "0.0002"), (0.052, "0.052"),
                                         (0.456, "0.46"), (12.34, "12.3"), (198000.4, "198,000")])
def test_numbers_have_significant_digits(value, text):
    assert page.number(value) == text


def test_the_page_matches_its_results():
    done = subprocess.run([sys.executable, ROOT / "bench" / "report", "--check"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_published_records_name_no_host():
    records = json.loads((ROOT / "docs" / "performance.json").read_text())["records"]
    for one in records.values():
        assert set(one["machine"]) == {"cores", "memory_gib", "kernel"}
        assert not one.get("smoke") and not one.get("busy")


# -- scale ---------------------------------------------------------------------------------------------
def test_figures_of_scale_match_its_program():
    printed = set(re.findall(r": ([^:\n]+)$", (ROOT / "bench/scale/output.txt").read_text(), re.M))
    rows, measured = 0, False
    for line in (ROOT / "docs/design/scale.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("|"):
            measured = False
        elif cells[0].startswith("`leat_scale"):
            measured = True
        elif measured and not line.startswith("|---"):
            rows += 1
            assert set(cells[1:]) - {"–"} <= printed, line
    assert rows > 50
