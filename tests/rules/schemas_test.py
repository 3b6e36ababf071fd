# SPDX-License-Identifier: Apache-2.0
"""The schemas of what commands print are valid and whole, and the comparison with them does refuse what
is not of them."""

import copy
import json
import re

import pytest
from jsonschema import Draft202012Validator

from rig import schemas

NAMES = list(schemas.published())
REFERENCE = re.compile(r"((?P<file>[a-z-]+)\.json)?(#(?P<pointer>/.+))?")

JOB = {"id": 3, "kind": "load", "path": "/mnt/train", "state": "done", "planned": True, "files_total": 4,
       "files_done": 4, "files_failed": 0, "bytes_total": 10, "bytes_done": 10, "bytes_fetched": 0,
       "bytes_verified": 0, "files_uncached": 0, "bytes_uncached": 0, "seconds": 0.25, "errors_total": 0,
       "errors": []}
LS = {"path": "/mnt/train", "skipped": 0, "entries": [
    {"name": "0001.png", "kind": "file", "size": 5, "version": 'etag:"1"', "mtime": "2026-11-21T14:45:56Z",
     "cached_bytes": 5},
    {"name": "a\ufffd", "name_encoded": "a%FF", "kind": "directory"}]}
MOUNT = {"path": "/mnt/train", "source": "s3://b/train/", "options": {"region": "us-east-1"}, "paths": [],
         "freshness": "max-age=1m", "read_only": True, "allow_other": False, "inspection": True,
         "own_fuse_mount": True, "passthrough_off": "", "passthrough_files": 0,
         "uid": 0, "gid": 0, "umask": "022",
         "features": {"passthrough": True, "no_open": False, "io_uring": False, "readdirplus": True,
                      "survives": True}}
ERROR = {"code": "not_found", "message": "no such file"}
GOOD = [("load", JOB), ("ls", LS), ("mounts", {"mounts": [MOUNT]}), ("pin", MOUNT), ("pin", JOB),
        ("pin", {"pinned": []}), ("snapshot rm", {})]


def objects_in(schema):
    """All that describes an object within one; conditions name members that are described already."""
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for name, value in schema.items():
            if name not in ("if", "then"):
                yield from objects_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects_in(value)


def references_in(schema):
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for value in schema.values():
            yield from references_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references_in(value)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_schema(name):
    schema = schemas.published()[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema" and schema["title"]
    for reference in references_in(schema):
        to = REFERENCE.fullmatch(reference)
        found = schemas.published()[to["file"] or name]
        for word in (to["pointer"] or "/").split("/")[1:]:
            found = found[word] if word else found


@pytest.mark.parametrize("name", NAMES)
def test_it_says_of_each_member_what_it_is(name):
    for one in objects_in(schemas.published()[name]):
        assert "additionalProperties" not in one, "the published ones stay open"
        for member, said in one["properties"].items():
            assert said["description"] and {"type", "$ref", "enum"} & set(said), f"{name}: {member}"
            # Its unit is in its name, and is that of its type.
            if member.endswith("bytes_per_second"):
                assert said["$ref"].endswith("#/$defs/rate"), f"{name}: {member}"
            elif member.endswith("bytes") or "_bytes_" in member:
                assert said["$ref"] == "values.json#/$defs/bytes", f"{name}: {member}"
            # One that may be below zero says so by itself.
            if member.endswith("seconds") and said.get("title") != "number, s":
                assert said["$ref"] == "values.json#/$defs/seconds", f"{name}: {member}"


def test_each_is_of_a_command():
    used = {name for names in schemas.index().values() for name in names}
    assert used <= set(NAMES)
    assert set(NAMES) - used == {"error", "values"}


def test_each_has_its_table_on_one_page():
    """But those of commands that have no page."""
    pages = [*schemas.FOLDER.parent.rglob("*.md")]
    shown = sorted(name for page in pages
                   for name in re.findall(r"<!-- generated: schema (\S+) -->", page.read_text()))
    assert shown == sorted(set(NAMES) - {"complete", "reference", "values"})


@pytest.mark.parametrize("command, document", GOOD)
def test_what_is_of_it_is_taken(command, document):
    schemas.check([command, "--json"], json.dumps(document))


def test_a_failure_alone_and_with_partial_results():
    schemas.check(["ls", "/x", "--json"], json.dumps({"error": ERROR}))
    schemas.check(["load", "/x", "--json"], json.dumps({**JOB, "state": "failed", "error": ERROR}))


def changed(document, change):
    made = copy.deepcopy(document)
    change(made)
    return made


@pytest.mark.parametrize("command, document, said", [
    ("load", changed(JOB, lambda job: job.pop("seconds")), "'seconds' is a required property"),
    ("load", changed(JOB, lambda job: job.update(odd=1)), "'odd' was unexpected"),
    ("load", changed(JOB, lambda job: job.update(files_done=-1)), "less than the minimum"),
    ("load", changed(JOB, lambda job: job.update(bytes_done="5 MiB")), "is not of type 'integer'"),
    ("load", changed(JOB, lambda job: job.update(state="ended")), "is not one of"),
    ("load", changed(JOB, lambda job: job.update(kind="refresh")), "'added' is a required property"),
    ("load", changed(JOB, lambda job: job.update(code="odd")), "is not one of"),
    ("ls", changed(LS, lambda ls: ls["entries"][1].update(odd=1)), "'odd' was unexpected"),
    ("ls", changed(LS, lambda ls: ls["entries"][0].pop("size")), "'size' is a required property"),
    ("ls", changed(LS, lambda ls: ls["entries"][0].update(mtime="yesterday")), "does not match"),
    ("ls", changed(LS, lambda ls: ls["entries"][1].update(name_encoded="a\ufffd")), "does not match"),
    ("mounts", {"mounts": [{**MOUNT, "odd": 1}]}, "'odd' was unexpected"),
    ("mounts", {"mounts": [{**MOUNT, "features": {}}]}, "'survives' is a required property"),
    ("mounts", {"mounts": [{**MOUNT, "features": {**MOUNT["features"], "odd": True}}]}, "'odd'"),
    ("snapshot rm", {"name": "monday"}, "'name' was unexpected"),
    ("pin", {"pinned": [{"path": "/mnt/train"}]}, "'cached_bytes' is a required property"),
    ("ls", {"error": {"code": "odd", "message": ""}}, "with another error"),
    ("ls", {"error": {**ERROR, "odd": 1}}, "with another error"),
    ("ls", {"error": ERROR, "odd": 1}, "'odd' was unexpected"),
])
def test_what_is_not_of_it_is_refused(command, document, said):
    with pytest.raises(AssertionError, match=re.escape(said)):
        schemas.check([command, "--json"], json.dumps(document))


def test_command_lines_are_those_of_their_command():
    for line, command in [("snapshot build /mnt/a --name b", "snapshot build"), ("jobs list", "jobs ls"),
                          ("mounts update /mnt/a pin=true", "mounts set"), ("jobs", "jobs"),
                          ("ls status", "ls"), ("load --verify /mnt/a", "load")]:
        assert schemas.command_of(line.split()) == command
