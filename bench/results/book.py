# SPDX-License-Identifier: Apache-2.0
"""Records by `LAYER:FIGURE` in a JSON file: `build/bench/results.json` of this machine's runs, and
`docs/performance.json`, from which the page is written."""

import json
import os
from pathlib import Path

FORMAT = 1


class WrongBook(Exception):
    """A file that is not such a one."""


def read(path):
    """Its records; none where there is no file."""
    path = Path(path)
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text())
        if document["format"] != FORMAT:
            raise WrongBook(f"{path} has format {document['format']}, this reads {FORMAT}")
        return document["records"]
    except (KeyError, TypeError, ValueError) as error:
        raise WrongBook(f"{path} holds no results: {error}") from error


def write(path, records):
    """In one step, so that a run that is broken off leaves what was there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    text = json.dumps({"format": FORMAT, "records": dict(sorted(records.items()))}, indent=1,
                      ensure_ascii=False)
    fresh.write_text(text + "\n")
    os.replace(fresh, path)


def put(path, record):
    """One more record into a file; one of before of the same figure goes."""
    records = read(path)
    records[f"{record['layer']}:{record['figure']}"] = record
    write(path, records)


def refusal(record):
    """Why a record is not to be published; empty where it is."""
    if record.get("smoke"):
        return "a smoke run measures nothing"
    if record.get("failed") or "median" not in record["leat"]:
        return record["leat"].get("reason") or "it has no figure"
    if record.get("wrong_fixture"):
        return record["wrong_fixture"]
    if record.get("busy"):
        return f"measured on a busy machine ({record['busy']})"
    return ""


def merged(published, fresh):
    """(records, refused: id -> why). What was not measured keeps its record, and a peer that was not
    run beside a new figure its own of before, which bears its own day."""
    records, refused = dict(published), {}
    for record_id, record in fresh.items():
        why = refusal(record)
        if why:
            refused[record_id] = why
            continue
        before = records.get(record_id, {}).get("peers", {})
        kept = {name: peer for name, peer in before.items()
                if "median" in peer and "median" not in record["peers"].get(name, {})}
        records[record_id] = {**record, "peers": {**record["peers"], **kept}}
    return records, refused
