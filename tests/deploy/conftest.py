# SPDX-License-Identifier: Apache-2.0
"""Fixtures: those of the end-to-end tests, and what `deploy` holds for who watches Leat."""

import json
import re
import subprocess

import pytest

from e2e.conftest import bucket, leat, s3, store  # noqa: F401  fixtures
from rig.leat import ROOT, leat_program

ALERTS = ROOT / "deploy/prometheus/leat-alerts.yml"
DASHBOARD = ROOT / "deploy/grafana/leat-dashboard.json"
NAME = re.compile(r"\b((?:leat|process)_\w+)")


@pytest.fixture(scope="session")
def catalogue():
    """name -> what `leat reference` says of a metric, under each name that is scraped."""
    said = subprocess.run([leat_program(), "reference"], capture_output=True, check=True, timeout=60)
    names = {}
    for metric in json.loads(said.stdout)["metrics"]:
        endings = ["_bucket", "_sum", "_count"] if metric["type"] == "histogram" else [""]
        names.update({metric["name"] + ending: metric for ending in endings})
    return names


@pytest.fixture(scope="session")
def dashboard():
    return json.loads(DASHBOARD.read_text())


def panels_of(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions_of(dashboard):
    return [(f"{panel['title']} {target['refId']}", target["expr"])
            for panel in panels_of(dashboard) for target in panel["targets"]]
