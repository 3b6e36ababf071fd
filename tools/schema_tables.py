# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages of docs/ out of docs/schemas: a row for each member, in the schema's order.

`a.b` is a member of an object, `a[]` an array of objects, and `.b` below it a member of each. Left
out are members with percent-encoded bytes, of which docs/cli.md tells once, and what several objects
of a table share is written where it comes first. A reference to a whole other schema is a link to
the page that has its table.
"""

import json
import os
import pathlib
import re

LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
TYPES = {"integer": "number"}


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


class Schemas:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.index = json.loads((folder / "index.json").read_text())
        self.documents = {path.stem: json.loads(path.read_text())
                          for path in sorted(folder.glob("*.json")) if path.stem != "index"}
        # Schema -> the page with its table.
        self.homes: dict[str, pathlib.Path] = {}

    def find_homes(self, pages: list[pathlib.Path]) -> None:
        for page in pages:
            for name in re.findall(r"<!-- generated: schema (\S+) -->", page.read_text()):
                if self.homes.setdefault(name, page) != page:
                    raise SystemExit(f"tools/reference: the table of {name} stands in two pages")

    def commands(self, name: str) -> list[str]:
        """What prints it: `leat pin --load PATH`."""
        return [" ".join(["leat", command, *given.split()])
                for command, schemas in self.index.items()
                for schema, given in schemas.items() if schema == name]

    def block(self, name: str, page: pathlib.Path) -> str:
        if name not in self.documents:
            raise SystemExit(f"tools/reference: there is no docs/schemas/{name}.json")
        return Table(self, name, page).text()

    def listing(self, page: pathlib.Path) -> str:
        """What each command prints."""
        text = "| command | document | described at |\n|---|---|---|\n"
        for command, schemas in self.index.items():
            for name, given in schemas.items():
                words = " ".join(["leat", command, *given.split()])
                home = self.homes.get(name)
                there = f"[{home.stem}]({relative(home, page)})" if home else ""
                file = relative(self.folder / f"{name}.json", page)
                text += f"| `{words}` | [{name}]({file}) | {there} |\n"
        return text


def relative(path: pathlib.Path, page: pathlib.Path) -> str:
    return os.path.relpath(path, page.parent)


class Table:
    def __init__(self, schemas: Schemas, name: str, page: pathlib.Path):
        self.schemas, self.name, self.page = schemas, name, page
        self.rows: list[str] = []
        self.written: set[str] = set()  # shared parts

    def text(self) -> str:
        document = self.schemas.documents[self.name]
        self.members(self.name, document, "")
        file = relative(self.schemas.folder / f"{self.name}.json", self.page)
        commands = [f"`{one}`" for one in self.schemas.commands(self.name)]
        said = f"JSON of {', '.join(commands)} ([schema]({file}))" if commands else ""
        if not self.rows:
            return f"{said}: an object without members.\n"
        head = f"{said}:\n\n" if said else ""
        return f"{head}| member | type, unit | meaning |\n|---|---|---|\n{''.join(self.rows)}"

    def members(self, file: str, schema: dict, before: str) -> None:
        """Rows of all members of an object; `file` is the schema in which it is described."""
        if "$ref" in schema:
            part = f"{file}{schema['$ref']}" if schema["$ref"][0] == "#" else schema["$ref"]
            if part not in self.written:
                self.written.add(part)
                self.members(*self.find(file, schema["$ref"]), before)
        for name, member in schema.get("properties", {}).items():
            if member.get("$ref") != "values.json#/$defs/encoded":
                self.member(file, name, member, name not in schema.get("required", []), before)

    def member(self, file: str, name: str, member: dict, optional: bool, before: str) -> None:
        kind, below = self.type_of(file, member), member.get("items", {})
        of_objects = below.get("type") == "object"
        path = f"{before}{name}{'[]' if of_objects else ''}"
        meaning = self.with_links(member["description"])
        if "enum" in member:
            meaning += f": {either([f'`{value}`' for value in member['enum']])}"
        kind += ", optional" if optional else ""
        self.rows.append(f"| `{path}` | {kind} | {cell(meaning)} |\n")
        if of_objects:
            # At the top the array is in no doubt; further below its name is repeated.
            self.members(file, below, f"{path}." if before.startswith(".") else ".")
        elif "properties" in member or member.get("$ref", "").startswith("#"):
            self.members(file, member, f"{path}.")

    def type_of(self, file: str, member: dict) -> str:
        if "title" in member:
            return member["title"]
        if "$ref" in member:
            to, found = self.find(file, member["$ref"])
            whole = found is self.schemas.documents[to]
            return f"a {self.link(to)}" if whole else found.get("title", "object")
        if "enum" in member:
            return "string"
        if member["type"] == "array" and ".json" in member["items"].get("$ref", ""):
            return f"array, each a {self.link(self.find(file, member['items']['$ref'])[0])}"
        types = member["type"] if isinstance(member["type"], list) else [member["type"]]
        return either([TYPES.get(one, one) for one in types])

    def find(self, file: str, reference: str) -> tuple[str, dict]:
        """The schema in which something referred to is described, and it."""
        to, _, pointer = reference.partition("#")
        file = to.removesuffix(".json") or file
        found = self.schemas.documents[file]
        for word in filter(None, pointer.split("/")):
            found = found[word]
        return file, found

    def link(self, name: str) -> str:
        home = self.schemas.homes.get(name)
        return name if home in (None, self.page) else f"[{name}]({relative(home, self.page)})"

    def with_links(self, text: str) -> str:
        """Links of the schemas are relative to their folder."""
        return LINK.sub(lambda m: f"]({self.moved(m[1], m[2] or '')})", text)

    def moved(self, target: str, anchor: str) -> str:
        path = pathlib.Path(os.path.normpath(self.schemas.folder / target))
        return anchor if anchor and path == self.page else relative(path, self.page) + anchor
