# SPDX-License-Identifier: Apache-2.0
"""Each alert, in promtool's own time: a course of figures by which it fires, and it alone, and one by
which nothing does."""

import json
import re
from typing import NamedTuple

import pytest

from deploy.conftest import ALERTS
from rig.prometheus import promtool

FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'
STORE = 'store="s3://b", store_id="01"'
READS = f'leat_source_request_seconds_count{{{STORE}, store_op="read"}}'
BUCKET = f'leat_source_request_seconds_bucket{{{STORE}, store_op="read", le="%s"}}'
FAILED = f'leat_source_errors_total{{{STORE}, reason="failed"}}'
THROTTLED = f'leat_source_errors_total{{{STORE}, reason="throttled"}}'
STATE = 'leat_cache_directory_state{directory="/fast/leat"}'
STARTED = "process_start_time_seconds{}"


class Case(NamedTuple):
    minute: int  # at which it is looked
    fires: dict  # series -> values, one a minute
    calm: dict


CASES = {
    "LeatDown": Case(10, {"up{}": "0+0x20"}, {"up{}": "1+0x4 0+0x2 1+0x20"}),
    "LeatRestartsOften": Case(35, {STARTED: "1+0x9 2+0x9 3+0x9 4+0x9"}, {STARTED: "1+0x9 2+0x9 3+0x19"}),
    "LeatOpenFilesNearLimit": Case(
        15, {"process_open_fds{}": "95+0x20", "process_max_fds{}": "100+0x20"},
        {"process_open_fds{}": "85+0x20", "process_max_fds{}": "100+0x20"}),
    "LeatReadsWaitForMemory": Case(20, {"leat_fetch_reads_waiting{}": "3+0x30"},
                                   {"leat_fetch_reads_waiting{}": "3 9 3 0 " * 8}),
    "LeatProgramsGetErrors": Case(15, {"leat_fuse_errors_total{}": "0+6x30"},
                                  {"leat_fuse_errors_total{}": "70+0x30"}),
    "LeatStoreFails": Case(25, {FAILED: "0+6x40", THROTTLED: "0+0x40", READS: "0+60x40"},
                           {FAILED: "0+2x40", THROTTLED: "0+0x40", READS: "0+60x40"}),
    "LeatStoreThrottles": Case(35, {FAILED: "0+0x40", THROTTLED: "0+9x40", READS: "0+60x40"},
                               {FAILED: "0+0x40", THROTTLED: "0+5x40", READS: "0+60x40"}),
    "LeatStoreCircuitOpen": Case(8, {"leat_source_circuit_opened_total{}": "0+0x4 1+0x20"},
                               {"leat_source_circuit_opened_total{}": "1+0x20"}),
    "LeatStoreSlow": Case(
        30, {BUCKET % "3": "0+97x40", BUCKET % "10": "0+100x40", BUCKET % "+Inf": "0+100x40"},
        {BUCKET % "3": "0+100x40", BUCKET % "10": "0+100x40", BUCKET % "+Inf": "0+100x40"}),
    "LeatCacheDirectoryNotNormal": Case(10, {STATE: "0+0x2 1 2+0x20"}, {STATE: "0+0x2 1 0+0x20"}),
    "LeatCacheCorrupt": Case(20, {"leat_cache_corrupt_blocks_total{}": "0+0x9 3+0x60"},
                             {"leat_cache_corrupt_blocks_total{}": "3+0x60"}),
    "LeatCacheRejects": Case(
        45, {"leat_cache_admission_rejected_bytes_total{}": "0+200x60",
         "leat_fetch_source_bytes_total{}": "0+999x60"},
        {"leat_cache_admission_rejected_bytes_total{}": "0+90x60",
         "leat_fetch_source_bytes_total{}": "0+999x60"}),
}


def course(series, minute, alerts):
    """One test of promtool's. The labels that Prometheus adds go before those of the series."""
    own = 'job="leat", instance="host:9464"'
    return {
        "interval": "1m",
        "input_series": [{"series": name.replace("{", "{" + own + (", " if "=" in name else ""), 1),
                          "values": values.strip()} for name, values in series.items()],
        "promql_expr_test": [{
            "expr": FIRING, "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]}]}


def test_the_rules_are_good():
    code, said = promtool("check", "rules", ALERTS)
    assert code == 0 and "SUCCESS" in said, said


def test_the_example_configuration_is_good():
    code, said = promtool("check", "config", ALERTS.parent / "prometheus.yml")
    assert code == 0, said


def test_there_is_a_case_for_each_alert():
    assert set(re.findall(r"- alert: (\w+)", ALERTS.read_text())) == set(CASES)


@pytest.mark.parametrize("alert", CASES)
def test_alert(alert, tmp_path):
    case = CASES[alert]
    tests = [course(case.fires, case.minute, [alert]), course(case.calm, case.minute, [])]
    file = tmp_path / "cases.yml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m",
                                "tests": tests}))
    code, said = promtool("test", "rules", file)
    assert code == 0, said
