# SPDX-License-Identifier: Apache-2.0
"""`leat …` in a shell's text, compared with what the program says of itself (`leat reference`)."""

import re
import shlex

ENDS = re.compile(r"[;&|()<>]+")
REDIRECTION = re.compile(r"[<>]+&?|&>+")
NUMBERED = re.compile(r"(?<!\S)[0-9](?=[<>])")
BEFORE = {"sudo", "exec", "time", "!", "if", "then", "else", "while", "until", "do", "{"}
ELLIPSIS = "…"
MOUNT_WORDS = ["list", "set", "update", "unset", "move", "remove"]  # `leat mount set` is `leat mounts set`
# What the program leaves out of its reference, since each command takes it.
HELP = {"flags": ["-h", "--help"], "value": "", "choices": [], "repeated": False}


def words_of(text):
    """The words of a shell's text. What separates commands stands for itself, `;` for the end of a line."""
    words = []
    for line in text.replace("\\\n", "  ").split("\n"):
        lexer = shlex.shlex(NUMBERED.sub("", line), posix=True, punctuation_chars=";&|()<>")
        lexer.whitespace_split = True
        try:
            words += [*lexer, ";"]
        except ValueError:
            words.append(";")  # a part of a quotation over several lines
    return words


def command_lines(text):
    """The arguments of each call of leat."""
    found, current, start = [], None, True
    words = iter(words_of(text))
    for word in words:
        if REDIRECTION.fullmatch(word):
            next(words, None)  # from where, or to where
        elif ENDS.fullmatch(word):
            current, start = None, True
        elif current is not None:
            current.append(word)
        elif start and word.rsplit("/", 1)[-1] == "leat":
            current, start = [], False
            found.append(current)
        else:
            start = start and (word in BEFORE or re.match(r"\w+=", word) is not None)
    return found


def command_of(reference, words):
    """What the reference says of the command that the words name, how it is called, and the rest."""
    name, rest = words[0], words[1:]
    command = next((one for one in reference["commands"] if one["name"] == name), None)
    if command is None:
        return None, name, rest
    while rest:
        parts = {f"{name} {alias}": part for part in command["parts"] for alias in part.get("aliases", [])}
        parts |= {part["name"]: part for part in command["parts"]}
        if f"{name} {rest[0]}" not in parts:
            break
        name = f"{name} {rest[0]}"
        command, rest = parts[name], rest[1:]
    return command, name, rest


class Usage:
    """The flags and the arguments that a command takes."""

    def __init__(self, command):
        self.flags = {flag: one for one in [*command["arguments"], HELP] for flag in one["flags"]}
        self.plain = [one for one in command["arguments"] if not one["flags"]]

    def wrong(self, words):
        """What is wrong with the words behind the command's name."""
        given, used, words = [], set(), list(words)
        while words:
            word = words.pop(0)
            if word == ELLIPSIS or not word.startswith("-") or word == "-":
                given.append(word)
                continue
            flag, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            known = self.flags.get(flag)
            if known is None:
                yield f"there is no flag {flag}"
                continue
            if flag in used and not known["repeated"]:
                yield f"{flag} is given twice"
            used.update(known["flags"])
            if known["value"] and not equals:
                if not words:
                    yield f"{flag} needs a value"
                    continue
                value = words.pop(0)
            yield from self._not_among(known, value, flag)
        yield from self._wrong_arguments(given)

    @staticmethod
    def _not_among(known, value, what):
        if known["choices"] and value not in known["choices"]:
            yield f"{what} takes {', '.join(known['choices'])}, not {value!r}"

    def _wrong_arguments(self, given):
        needed = sum(one["required"] for one in self.plain)
        if len(given) < needed and ELLIPSIS not in given:
            yield f"needs {' '.join(one['name'] for one in self.plain)}"
        if len(given) > len(self.plain) and not any(one["repeated"] for one in self.plain):
            yield f"takes no {given[len(self.plain)]!r}"
        for known, value in zip(self.plain, given):
            yield from self._not_among(known, value, known["name"])


def wrong(reference, words):
    """What is wrong with a command line, in words; nothing where it could be run."""
    if not words or words[0].startswith("-"):
        return [] if words in (["--help"], ["--version"]) else ["there is no command"]
    if words[0] == "mount" and words[1:2] and words[1] in MOUNT_WORDS:
        words = ["mounts", *words[1:]]
    command, name, rest = command_of(reference, words)
    if command is None:
        return [f"there is no command {name!r}"]
    if rest and command["parts"] and not rest[0].startswith("-"):
        return [f"there is no command '{name} {rest[0]}'"]
    return [f"{name}: {what}" for what in Usage(command).wrong(rest)]


def unknown(reference, words):
    """Commands and flags that there are not, of a mention in prose: it may leave out what is needed."""
    if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return []  # leat COMMAND, leat 0.1.0
    command, name, rest = command_of(reference, words)
    if command is None:
        return [f"there is no command {name!r}"]
    return [f"{name}: {what}" for what in Usage(command).wrong(rest) if what.startswith("there is no")]
