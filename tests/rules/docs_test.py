# SPDX-License-Identifier: Apache-2.0
"""Links within the documentation lead somewhere, and tests that it names exist."""

import re
from pathlib import Path

import pytest

from rules.named_tests import NamedTests, named_tests, rows_of

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def anchors(page):
    """As GitHub and GitLab make them of headings."""
    found = set()
    for line in re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL).splitlines():
        if line.startswith("#"):
            words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            found.add(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    wrong = []
    for target in LINK.findall(without_code(page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        if not to.exists():
            wrong.append(target)
        elif anchor and to.suffix == ".md" and anchor not in anchors(to):
            wrong.append(target)
    assert not wrong


def test_alerts_lead_to_what_is_to_be_done():
    text = (ROOT / "deploy/prometheus/leat-alerts.yml").read_text()
    # As the package has the pages: whoever is called at night has no checkout.
    targets = re.findall(r"runbook_url: file:///usr/share/doc/leat/(\S+)", text)
    assert len(targets) == text.count("- alert: ")
    for target in targets:
        path, _, anchor = target.partition("#")
        assert anchor in anchors(ROOT / path), target


def test_the_table_of_alerts_is_that_of_the_file():
    text = (ROOT / "deploy/prometheus/leat-alerts.yml").read_text()
    alerts = dict(re.findall(r"- alert: (\w+)\n.*?runbook_url: file:///usr/share/doc/leat/docs/(\S+)",
                             text, re.DOTALL))
    table = dict(re.findall(r"^\| `(Leat\w+)` \|.*\]\((\S+)\) \|$",
                            (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
    assert table == alerts


@pytest.fixture(scope="module")
def tests():
    return NamedTests(ROOT)


@pytest.mark.parametrize("page", ["docs/semantics.md", "docs/trials.md"])
def test_tests_that_pages_name_exist(page, tests):
    """Each row of these tables names a test that there is; of a trial it may be none yet."""
    wrong = []
    for number, cells in rows_of((ROOT / page).read_text()):
        names = named_tests(cells[-1])
        if not names and not (cells[-1] == "no test yet" and page.endswith("trials.md")):
            wrong.append(f"{page}:{number} names no test: {cells[-1]}")
        wrong += [f"{page}:{number} names {name}, which does not exist"
                  for name in names if not tests.has(name)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name, there", [
    ("Names.DirectoryIsStableWhileItIsRead", True),
    ("DirectoryIsStableWhileItIsRead", True),
    ("Damage.*", True),
    ("Stores/SourceContract.NamesAreTakenLiterally", True),
    ("Stores/SourceContract.*/web_python", True),
    ("programs_test.test_a_command[tar]", True),
    ("test_links", True),
    ("Names.NoSuchTest", False),
    ("NoSuchSuite.*", False),
    ("programs_test.test_no_such_test", False),
])
def test_names_of_tests(name, there, tests):
    assert tests.has(name) == there
    assert named_tests(f"module: `{name}`") == [name]
