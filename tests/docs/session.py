# SPDX-License-Identifier: Apache-2.0
"""Whether a command printed what its page says. Numbers that differ each time by their nature stand for
any such number; everything else has to be the same, word by word."""

import re

ELLIPSIS = "…"
# What differs each time, and what it is shown as when it is compared.
BY_NATURE = [(re.compile(pattern), shown) for pattern, shown in [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)", "<time>"),
    (r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", "<version of leat>"),
    (r"\bmtime:\d+(?:-\d+)+", "<version of the object>"),
    (r"\bgeneration:\d+", "<version of the object>"),
    (r'\betag:(\\?")0x[0-9A-F]+\1', "<version of the object>"),
    (r"#token=[0-9a-f]+", "#token=<token>"),
    (r"\b(pid|seed) \d+", r"\1 <number>"),
    (r"\b(up|in) (?:\d+(?:\.\d+)?(?:ms|[dhms]) ?)+", r"\1 <duration> "),
    (r"\bin \d+\.\d ms\b", "in <milliseconds>"),
    (r"^ *-?\d+\.\d +\d+\.\d  (?=\S| )", "<begin and took> "),  # of a trace
    (r"\b\d+(?:\.\d+)? (?:B|KiB|MiB|GiB|reads|files)/s", "<rate>"),
    (r"\b[\d.]+ MiB resident, [\d.]+ \w+ of [\d.]+ \w+ in buffers", "<memory>"),
    (r"\b\d+ of \d+ open\b", "<open files>"),
    (r"\bof [\d.]+ [KMGT]iB used\b", "of <capacity> used"),  # a part of the machine's disk
    # What the kernel and the set-up of this machine offer.
    (r"\bno problems, \d+ notes?", "no problems, <notes>"),
    (r"\b(?:(?:passthrough|readdirplus|survives|io_uring),?)+(?!\w)", "<features>"),
    (r"\((?:the kernel reads it by itself: passthrough|the daemon answers)\)", "(<who answers>)"),
    (r'("(?:pid|supervisor_pid|rss_bytes|uptime_seconds|seconds)": ?)[\d.]+', r"\1<number>"),
]]


def plain(line):
    """The line with what differs by nature replaced, and without the widths of columns."""
    for pattern, shown in BY_NATURE:
        line = pattern.sub(shown, line)
    return re.sub(r"\s+", " ", line).strip()


def line_fits(said, line):
    """`said` is what the page says; an ellipsis within it stands for any text."""
    parts = [re.escape(plain(part)) for part in said.split(ELLIPSIS)]
    return re.fullmatch(r" ?.* ?".join(parts), plain(line)) is not None


def fits_at(said, lines):
    """How many of the lines the page's lines take from their beginning; None where they differ."""
    if not said:
        return 0
    if said[0].strip() == ELLIPSIS:
        for skipped in range(len(lines) + 1):
            taken = fits_at(said[1:], lines[skipped:])
            if taken is not None and (len(said) > 1 or skipped == len(lines)):
                return skipped + taken
        return None
    if not lines or not line_fits(said[0], lines[0]):
        return None
    taken = fits_at(said[1:], lines[1:])
    return None if taken is None else taken + 1


def without_blank_end(lines):
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def fits(said, lines):
    """Whether that is the whole output."""
    said, lines = without_blank_end(said), without_blank_end(lines)
    return fits_at(said, lines) == len(lines)


def is_within(said, lines):
    """Whether it stands somewhere in the output, in one piece."""
    said = without_blank_end(said)
    return any(fits_at(said, lines[start:]) is not None for start in range(len(lines) + 1))
