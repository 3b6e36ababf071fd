# SPDX-License-Identifier: Apache-2.0
"""The pages say what the program says of itself."""

import subprocess

from rig import schemas
from rig.leat import ROOT, leat_program


def test_pages_are_what_the_program_says():
    done = subprocess.run([str(ROOT / "tools/reference"), "--check", "--leat", leat_program()],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_fewer_than_forty_options_all_described():
    done = subprocess.run([leat_program(), "reference"], capture_output=True, check=True)
    options = schemas.check(["reference"], done.stdout)["options"]
    assert len(options) < 40
    for option in options:
        assert option["help"] and option["type"]
        # Numbers from where to where, words of which form.
        assert option["range"], option["name"]
        # What is counted has a name, and sizes and times a unit.
        assert option["unit"] or option["type"] in ("text", "true or false"), option["name"]


def test_names_of_metrics_tell_type_and_unit():
    done = subprocess.run([leat_program(), "reference"], capture_output=True, check=True)
    metrics = schemas.check(["reference"], done.stdout)["metrics"]
    assert len(metrics) > 50
    for metric in metrics:
        name = metric["name"]
        assert name.startswith(("leat_", "process_")), name
        assert name.endswith("_total") == (metric["type"] == "counter"), name
        assert metric["type"] != "histogram" or metric["unit"] == "seconds", name
        # Base units alone.
        assert not set(name.split("_")) & {"ms", "us", "microseconds", "milliseconds", "kib", "mb"}
        assert metric["help"] and not metric["help"].endswith("."), name
        assert metric["stability"] in ("stable", "experimental"), name
