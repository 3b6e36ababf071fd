# SPDX-License-Identifier: Apache-2.0
"""What commands print with --json, compared with docs/schemas. These are open, since members may be
added; here every object is closed, so that a member which no schema has is found where it appears."""

import functools
import json
from pathlib import Path

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "schemas"
ALIASES = {"list": "ls", "update": "set"}
SHOWN_MAX = 5


@functools.cache
def index():
    """Command -> the schemas of what it prints, of which one holds."""
    return {command: list(schemas)
            for command, schemas in json.loads((FOLDER / "index.json").read_text()).items()}


@functools.cache
def published():
    """Schema -> as it lies in the folder."""
    return {path.stem: json.loads(path.read_text())
            for path in sorted(FOLDER.glob("*.json")) if path.stem != "index"}


def closed(schema):
    """The same without room for further members. What only describes a part of an object has no type
    and stays open."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    is_object = "object" in made.get("type", ())
    if is_object and "additionalProperties" not in made:
        made["unevaluatedProperties"] = False
    return made


@functools.cache
def validator(name):
    registry = Registry().with_resources(
        (f"{file}.json", DRAFT202012.create_resource(closed(schema)))
        for file, schema in published().items())
    return Draft202012Validator({"$ref": f"{name}.json"}, registry=registry)


def differences(name, document):
    """How it is not what the schema says, in words."""
    return [f"{error.json_path}: {error.message[:300]}"
            for error in validator(name).iter_errors(document)]


def command_of(words):
    """The command that a command line is of, as `leat reference` calls it: "snapshot build"."""
    names = [ALIASES.get(word, word) for word in words if not word.startswith("-")]
    return next((longest for longest in (" ".join(names[:count]) for count in (3, 2))
                 if longest in index()), names[0])


def check_document(command, document):
    """Refuses what is not of one of the schemas of the command."""
    found = {name: differences(name, document) for name in index()[command]}
    if all(found.values()):
        lines = [f"leat {command} printed what is not of docs/schemas/{name}.json: {line}"
                 for name, wrong in found.items() for line in wrong[:SHOWN_MAX]]
        raise AssertionError("\n".join(lines))


def check(words, text):
    """Of a command line with --json, what it printed. Answers the document."""
    document = json.loads(text)
    rest = dict(document)
    failed = {"error": rest.pop("error")} if "error" in rest else {}
    if failed:
        wrong = differences("error", failed)
        assert not wrong, f"leat {' '.join(words)} failed with another error than is documented: {wrong}"
    if rest or not failed:
        check_document(command_of(words), rest)
    return document


def check_if_json(words, text):
    """The same of any command line. What runs until it is ended prints nothing."""
    if "--json" in words and text.strip():
        check(words, text)
