#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Finds where a C++ source can be mutated: one small change of behaviour at one place of the code.

Usage: sites.py SOURCE [COMPILER_FLAG…]     prints one line a site
Needs python3-clang-19. The mutation operators are the usual ones (Jia and Harman, "An Analysis and Survey of
the Development of Mutation Testing", 2011): relational and arithmetic operators, logical connectors,
negated conditions, deleted statements, literals, jumps.
"""

import re
import sys
from dataclasses import dataclass

from clang import cindex
from clang.cindex import CursorKind as Kind

OPERATORS = {
    "<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"],
    "&&": ["||"], "||": ["&&"], "+=": ["-="], "-=": ["+="], "|=": ["&="], "&": ["|"], "|": ["&"],
    "<<": [">>"], ">>": ["<<"],
}
FUNCTIONS = {Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR,
             Kind.FUNCTION_TEMPLATE, Kind.CONVERSION_FUNCTION, Kind.LAMBDA_EXPR}
STATEMENTS = {Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR,
              Kind.UNARY_OPERATOR}
# Logs are for people; a check of an invariant has no test, since it holds; assertions of the compiler
# have none either.
QUIET = re.compile(r"\b(LEAT_CHECK|static_assert|log::|slow_log::|SPDLOG)|\bassert\(")
# What a coroutine waits for or returns cannot be taken out and still be compiled.
SUSPENDS = re.compile(r"^\s*(co_await|co_return|co_yield|delete|throw)\b")


@dataclass(frozen=True)
class Site:
    """Replace bytes [start, end) of `file` by `after`."""
    file: str
    line: int
    start: int
    end: int
    before: str
    after: str
    operator: str

    def apply(self, text: bytes) -> bytes:
        assert text[self.start:self.end].decode() == self.before
        return text[:self.start] + self.after.encode() + text[self.end:]

    def __str__(self):
        def short(words):
            words = " ".join(words.split())
            return words if len(words) <= 60 else words[:57] + "…"
        after = short(self.after) or "nothing"
        return f"{self.file}:{self.line}: {self.operator}: `{short(self.before)}` → `{after}`"


class Finder:
    """Walks the syntax tree of one source; includes are parsed and left alone."""

    def __init__(self, path, name):
        with open(path, "rb") as file:
            self.text = file.read()
        self.path, self.name = str(path), name
        self.sites = {}

    def words(self, start, end):
        return self.text[start:end].decode(errors="replace")

    def line_of(self, start):
        return self.text.count(b"\n", 0, start) + 1

    def add(self, operator, start, end, after):
        line_start = self.text.rfind(b"\n", 0, start) + 1
        line_end = self.text.find(b"\n", end)
        if QUIET.search(self.words(line_start, line_end if line_end >= 0 else len(self.text))):
            return
        before = self.words(start, end)
        site = Site(self.name, self.line_of(start), start, end, before, after, operator)
        self.sites.setdefault((start, end, after), site)

    def here(self, cursor):
        return cursor.location.file is None or cursor.location.file.name == self.path

    def walk(self, cursor, inside=False):
        for child in cursor.get_children():
            if not self.here(child):
                continue
            within = inside or (child.kind in FUNCTIONS)
            if within and not self.from_macro(child):
                self.look(child)
            self.walk(child, within)

    def from_macro(self, cursor):
        """A macro's expansion has all of its places at the macro's name: nothing there can be replaced."""
        extent = cursor.extent
        return extent.start.offset >= extent.end.offset

    def look(self, cursor):
        kind = cursor.kind
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        if kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR):
            self.operator(cursor)
        elif kind == Kind.CALL_EXPR:
            self.operator(cursor)  # an operator of a class is a call
        elif kind == Kind.UNARY_OPERATOR:
            self.unary(cursor, start, end)
        elif kind in (Kind.IF_STMT, Kind.WHILE_STMT):
            self.condition(cursor)
        elif kind == Kind.CXX_BOOL_LITERAL_EXPR:
            word = self.words(start, end)
            if word in ("true", "false"):
                self.add("literal", start, end, "false" if word == "true" else "true")
        elif kind == Kind.INTEGER_LITERAL:
            word = self.words(start, end)
            if re.fullmatch(r"[0-9]+u?", word):
                number = int(word.rstrip("u")) + 1
                self.add("literal", start, end, f"{number}{'u' if word.endswith('u') else ''}")
        elif kind == Kind.COMPOUND_STMT:
            for statement in cursor.get_children():
                self.statement(statement)
        elif kind == Kind.BREAK_STMT and self.words(start, end) == "break":
            self.add("jump", start, end, "continue")
        elif kind == Kind.CONTINUE_STMT and self.words(start, end) == "continue":
            self.add("jump", start, end, "break")

    def operator(self, cursor):
        """Between the left side's end and the right side's start there is the operator and no more."""
        sides = list(cursor.get_children())
        if cursor.kind == Kind.CALL_EXPR and len(sides) == 3:
            sides = [sides[0], sides[2]]  # left, the operator's function, right
        if len(sides) != 2:
            return
        start, end = sides[0].extent.end.offset, sides[1].extent.start.offset
        if not 0 <= start < end <= len(self.text):
            return
        between = self.words(start, end)
        word = between.strip()
        for other in OPERATORS.get(word, ()):
            at = start + len(between[:between.index(word)].encode())
            self.add("operator", at, at + len(word), other)

    def unary(self, cursor, start, end):
        words = self.words(start, end)
        if words.startswith("!") and not words.startswith("!="):
            self.add("condition", start, start + 1, "")
        for word, other in (("++", "--"), ("--", "++")):
            if words.startswith(word):
                self.add("operator", start, start + 2, other)
            elif words.endswith(word):
                self.add("operator", end - 2, end, other)

    def condition(self, cursor):
        """The last expression in front of the statement that depends on it."""
        head = [child for child in cursor.get_children() if child.kind.is_expression()]
        if not head:
            return
        # `if (a) b();` has two expressions, the second of which is the statement.
        start = cursor.extent.start.offset
        for expression in reversed(head):
            first, last = expression.extent.start.offset, expression.extent.end.offset
            before, after = self.words(start, first), self.words(last, last + 1)
            if after == ")" and before.count("(") == before.count(")") + 1:
                words = self.words(first, last)
                if expression.kind != Kind.UNARY_OPERATOR or not words.startswith("!"):
                    self.add("condition", first, last, f"!({words})")
                return

    def statement(self, cursor):
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        if cursor.kind not in STATEMENTS or self.from_macro(cursor) or not self.here(cursor):
            return
        words = self.words(start, end)
        if self.words(end, end + 1) == ";" and not SUSPENDS.match(words):
            self.add("statement", start, end, "")


def find(path, flags, name=None):
    """The sites of one source, in their order. `flags` are the compiler's, without the source."""
    unit = cindex.Index.create().parse(str(path), args=flags)
    failed = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if failed:
        raise RuntimeError(f"cannot parse {path}: {failed[0]}")
    finder = Finder(path, name or str(path))
    finder.walk(unit.cursor)
    return [finder.sites[key] for key in sorted(finder.sites)]


if __name__ == "__main__":
    for found in find(sys.argv[1], sys.argv[2:] or ["-std=c++23"]):
        print(found)
