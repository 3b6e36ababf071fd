#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what makes our English hard to read, and compares it with what each file is allowed.

Usage: check_language.py [--update | --report] [ROOT]

Counted are comments, docstrings and Markdown. tools/language_counts.json holds the count of each file and
rule; a file that is not there is allowed none. Prints one line a violation and exits with 1 if there was
any. --update lowers the counts in that file to those of today; no total rises. --report prints the totals.
"""

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from check_style import SHEBANG, tracked_files

COUNTS = "tools/language_counts.json"
SENTENCE_WORDS_MAX = 30
README_WORDS_MAX = 500
TEST_NAME_MAX = 40

# The rule's key, and what a violation of it says.
RULES = {
    "opening": "sentences or comments that start with Who, What, Of, Nobody …; begin with the subject",
    "who": "who, whom, whose; name the subject",
    "word": "told, tells, hears, believed, brought, graver, anew; use the field's term",
    "long": f"sentences over {SENTENCE_WORDS_MAX} words",
    "readme": f"words of a README over {README_WORDS_MAX}",
    "test_name": f"names of tests over {TEST_NAME_MAX} characters",
}

OPENING = re.compile(r"(Who|Whoever|Whose|Whom|What|Of|That which|Nobody|One that)\b")
WHO = re.compile(r"\b(who|whom|whose)\b", re.IGNORECASE)
WORD = re.compile(r"\b(told|tells|hears|believed|brought|graver|anew)\b", re.IGNORECASE)
WORDS = re.compile(r"\w[\w'’-]*")
# A colon or semicolon does not end a sentence; a full stop before a capital does.
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_`-]*[A-Z0-9]|--|`)")
TEST_NAME = re.compile(
    r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*\w+,\s*(\w+)\)|^def (test_\w+)\(", re.MULTILINE)
SPDX = re.compile(r"SPDX-License-Identifier:")
# Begins a comment in all languages but Python and Markdown; one behind code has a space before it.
SLASHES = re.compile(r"(?:^|(?<=\s))///?/?!?\s?(.*)$")
HASH = re.compile(r"^\s*#+\s?(.*)$")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')

SLASH_ENDINGS = {".cc", ".h", ".rs", ".ts", ".tsx", ".mjs", ".css"}
HASH_ENDINGS = {".sh", ".cmake", ".yml", ".yaml", ".toml"}


class Block(NamedTuple):
    """One comment, docstring or paragraph, in one line."""
    text: str


def joined(lines):
    return Block(" ".join(" ".join(lines).split()))


def blocks_of_slashes(text):
    """Comments on lines that follow one another, and that begin in one column, are one block."""
    lines, column = [], None
    for line in text.splitlines():
        bare = STRING.sub(lambda found: "s" * len(found[0]), line)
        found = SLASHES.search(bare)
        begins = found.start() if found else None
        if lines and begins != column:
            yield joined(lines)
            lines = []
        column = begins
        if found and not SPDX.search(line):
            lines.append(line[found.start(1):].rstrip("*/ "))
            if not lines[-1]:
                lines.pop()
    if lines:
        yield joined(lines)


def blocks_of_hashes(text):
    lines = []
    for line in text.splitlines():
        found = HASH.match(line)
        if found and not line.startswith("#!") and not SPDX.search(line) and found[1]:
            lines.append(found[1])
        elif lines:
            yield joined(lines)
            lines = []
    if lines:
        yield joined(lines)


def blocks_of_python(text):
    lines, last = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or token.string.startswith("#!") or SPDX.search(token.string):
            continue
        if lines and token.start[0] != last + 1:
            yield joined(lines)
            lines = []
        lines.append(token.string.lstrip("# "))
        last = token.start[0]
    if lines:
        yield joined(lines)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if said := ast.get_docstring(node):
                for paragraph in said.split("\n\n"):
                    yield joined(paragraph.splitlines())


def bare_markdown(text):
    """Without code, comments, addresses and marks of emphasis."""
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return text.replace("**", "").replace("__", "")


def blocks_of_markdown(text):
    """Paragraphs, list items, headings and cells of tables, without blocks of code."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    lines, fenced = [], False
    for line in [*text.splitlines(), ""]:
        bare = line.strip()
        fence = bare.startswith(("```", "~~~"))
        begins = fence or fenced or not bare or re.match(r"(#|\||[-*+] |\d+[.)] |>)", bare)
        if begins and lines:
            yield Block(bare_markdown(joined(lines).text))
            lines = []
        if fence:
            fenced = not fenced
        elif fenced or not bare:
            continue
        elif bare.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", bare.strip("|")):
                if cell.strip(" -:"):
                    yield Block(bare_markdown(cell.strip()))
        else:
            lines.append(re.sub(r"^(#+|[-*+]|\d+[.)]|>)\s+", "", bare))


def blocks_of(name, text):
    """None for a file in a language that is not checked."""
    ending = Path(name).suffix
    if ending == ".md":
        return list(blocks_of_markdown(text))
    if ending in SLASH_ENDINGS:
        return list(blocks_of_slashes(text))
    if ending == ".py" or SHEBANG.match(text) and "python" in text.splitlines()[0]:
        return list(blocks_of_python(text))
    if ending in HASH_ENDINGS or SHEBANG.match(text) or Path(name).name in ("CMakeLists.txt", "Makefile"):
        return list(blocks_of_hashes(text))
    return None


def sentences(block):
    return SENTENCE_END.split(block.text)


def count(name, text):
    """How often each rule is broken, and what the totals are made of; None for other files."""
    blocks = blocks_of(name, text)
    if blocks is None:
        return None
    found = Counter()
    for block in blocks:
        found["words"] += len(WORDS.findall(block.text))
        found["who"] += len(WHO.findall(block.text))
        found["word"] += len(WORD.findall(block.text))
        parts = sentences(block)
        # The start of a comment stops a reader; in a page each sentence has one.
        starts = parts if name.endswith(".md") else parts[:1]
        found["starts"] += len(starts)
        found["opening"] += sum(bool(OPENING.match(start.lstrip("\"'(*_"))) for start in starts)
        found["long"] += sum(len(WORDS.findall(part)) > SENTENCE_WORDS_MAX for part in parts)
    if Path(name).name == "README.md":
        found["readme"] = max(0, found["words"] - README_WORDS_MAX)
    if not name.endswith(".md"):
        names = (plain or function for plain, function in TEST_NAME.findall(text))
        found["test_name"] = sum(len(test) > TEST_NAME_MAX for test in names)
    return found


def count_tree(root):
    counted = {}
    for name in tracked_files(root):
        try:
            text = (root / name).read_text()
        except UnicodeDecodeError:
            continue
        if (found := count(name, text)) is not None:
            counted[name] = found
    return counted


def read_allowed(root):
    path = root / COUNTS
    return json.loads(path.read_text()) if path.is_file() else {}


def check_tree(root):
    allowed = read_allowed(root)
    counted = count_tree(root)
    for name, found in counted.items():
        limits = allowed.get(name, {})
        for rule, advice in RULES.items():
            if found[rule] > limits.get(rule, 0):
                yield f"{name}: {found[rule]} (allowed {limits.get(rule, 0)}) {advice}"
            elif found[rule] < limits.get(rule, 0):
                yield (f"{name}: better than {COUNTS} says ({rule}: {found[rule]}, not {limits[rule]}); "
                       "run tools/check_language.py --update")
    for name in sorted(allowed.keys() - counted.keys()):
        yield f"{name}: is in {COUNTS} and not in the tree; run tools/check_language.py --update"


def update(root):
    """Lowers what each file is allowed. A file that is new here, as one that was renamed or split off,
    may take what the others have lost."""
    allowed = read_allowed(root)
    counted = count_tree(root)
    kept = {name: {rule: min(found[rule], allowed[name].get(rule, 0)) for rule in RULES}
            for name, found in counted.items() if name in allowed}
    lost = Counter()
    for name, limits in allowed.items():
        lost.update({rule: limit - kept.get(name, {}).get(rule, 0) for rule, limit in limits.items()})
    for name, found in counted.items():
        if name in allowed:
            continue
        kept[name] = {rule: min(found[rule], lost[rule]) for rule in RULES}
        lost.subtract(kept[name])
    rows = []
    for name, limits in sorted(kept.items()):
        if limits := {rule: limit for rule, limit in limits.items() if limit}:
            rows.append(f'  "{name}": {json.dumps(limits)}')
    (root / COUNTS).write_text("{\n" + ",\n".join(rows) + "\n}\n")


def report(root):
    comments, pages = Counter(), Counter()
    for name, found in count_tree(root).items():
        (pages if name.endswith(".md") else comments).update(found)
    for what, found in (("comments", comments), ("pages", pages)):
        print(f"{what}: {100 * found['opening'] / found['starts']:.1f} % of {found['starts']} starts, "
              f"{1000 * found['who'] / found['words']:.1f} who/whom/whose in 1,000 of "
              f"{found['words']} words, "
              f"{found['word']} private words, {found['long']} long sentences")
    print(f"READMEs: {pages['readme']} words over {README_WORDS_MAX}; "
          f"tests: {comments['test_name']} names over {TEST_NAME_MAX} characters")


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    words.add_argument("--update", action="store_true", help="lower the counts to those of today")
    words.add_argument("--report", action="store_true", help="print the totals")
    words.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    asked = words.parse_args()
    if asked.update:
        update(asked.root)
    if asked.report:
        report(asked.root)
    violations = list(check_tree(asked.root))
    print("\n".join(violations), end="\n" if violations else "")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
