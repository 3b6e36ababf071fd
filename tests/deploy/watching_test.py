# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus watches a real daemon with what `deploy` holds: each query is understood, and finds
something."""

import os
import re
import urllib.request

import pytest

from deploy.conftest import ALERTS, DASHBOARD, NAME, expressions_of, panels_of
from rig.process import wait_until
from rig.prometheus import Prometheus, promtool

COMPARISON = re.compile(r"\s*(==|[<>])\s*[\d.]+\s*$")


@pytest.fixture
def watched(leat, store, s3, bucket, folder):
    """A mount from which something was read, the Prometheus that scrapes its daemon, and a time by
    which it had done so often enough. Its alerts need no time to fire."""
    for number in range(4):
        s3.put_object(Bucket=bucket, Key=f"f{number}", Body=os.urandom(200_000))
    mount = leat.mount(store, bucket, os.path.join(folder, "mnt"))
    for name in os.listdir(mount):
        (mount / name).read_bytes()
    address = leat.json("status")["metrics_address"]
    rules = os.path.join(folder, "alerts.yml")
    with open(rules, "w") as file:
        file.write(re.sub(r"for: \w+", "for: 0s", ALERTS.read_text()))
    server = Prometheus(os.path.join(folder, "prometheus"), address, rules)
    # A rate needs two; later ones may come too late.
    enough = "timestamp(leat_build_info) and count_over_time(leat_build_info[10s]) > 3"
    [(_, at)] = wait_until(lambda: server.query(enough), "some scrapes")
    yield leat, server, address, at
    server.stop()


def test_promtool_has_nothing_against_the_metrics(watched):
    _, _, address, _ = watched
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    code, said = promtool("check", "metrics", text=text)
    assert code == 0 and not said, said


def test_every_query_finds_something(watched, dashboard, catalogue):
    _, server, _, at = watched
    empty = []
    for title, expression in expressions_of(dashboard):
        asked = expression.replace("$__rate_interval", "10s").replace("$job", ".+") \
            .replace("$instance", ".+")
        assert "$" not in asked, title
        if not server.query(asked, time=at):
            empty.append(f"{title}: {asked}")
    for group in server.ask("rules")["groups"]:
        for rule in group["rules"]:
            server.query(rule["query"])
            # Nothing is wrong, so what it looks at is below what it compares with.
            looked_at, count = COMPARISON.subn("", rule["query"])
            assert count == 1, rule["query"]
            if not server.query(looked_at, time=at):
                empty.append(f"{rule['name']}: {looked_at}")
    # All that the daemon tells is in the catalogue, and the other way round.
    told = set(server.ask("label/__name__/values", **{"match[]": '{job="leat"}'}))
    told = {name for name in told if NAME.fullmatch(name)}
    assert told == set(catalogue)
    assert not empty, "\n".join(empty)


def test_a_daemon_that_is_gone_is_told_of(watched):
    leat, server, address, _ = watched
    there = [({"__name__": "up", "instance": address, "job": "leat"}, 1)]
    # A scrape that comes too late tells of it, too.
    wait_until(lambda: server.query("up") == there and not server.ask("alerts")["alerts"],
               "the daemon to be there, and nothing to be wrong")
    leat.stop()
    [alert] = wait_until(lambda: server.ask("alerts")["alerts"], "an alert")
    assert alert["labels"]["alertname"] == "LeatDown" and alert["labels"]["severity"] == "critical"
    assert address in alert["annotations"]["summary"]


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=lambda file: file.name)
def test_only_stable_metrics_are_used(file, catalogue):
    used = set(NAME.findall(file.read_text()))
    assert used, "no metric is used"
    assert not used - set(catalogue)
    assert not [name for name in used if catalogue[name]["stability"] != "stable"]


def test_every_panel_says_what_it_shows(dashboard):
    assert dashboard["schemaVersion"] >= 39
    variables = [one["name"] for one in dashboard["templating"]["list"]]
    assert variables == ["datasource", "job", "instance"]
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Where reads come from", "Stores", "Cache", "Jobs", "Daemon"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert len({panel["title"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels_of(dashboard):
        assert panel["fieldConfig"]["defaults"]["unit"] and panel["description"].endswith((".", "which."))
        assert all(target["datasource"]["uid"] == "${datasource}" and target["legendFormat"]
                   for target in panel["targets"]), panel["title"]


def test_no_panel_lies_on_another(dashboard):
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
