# SPDX-License-Identifier: Apache-2.0
"""No page and no help text says what has ceased to be so.

A change that lifts a limitation adds the words that spoke of it to RETIRED, with an example as it
stood in a page and the reason. Add several patterns where several wordings are likely.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

CLUSTER = "workers on several hosts share one cache (docs/how-to/cluster.md)"
CLUSTER_JOBS = "'leat cluster load' and 'leat cluster cp' work on all hosts (docs/commands/cluster.md)"
ONE_BENCH = "'make bench BENCH=LAYER:ROW' measures all layers (docs/performance.md)"

# (pattern, example, reason). Case is ignored, any white space counts as one space.
RETIRED = [
    (r"nothing (?:\w+ )?shared between hosts",
     "Each host has its own daemon and its own cache; nothing is shared between hosts today.", CLUSTER),
    (r"(?:hosts|machines) (?:do not|don't|cannot|can't) share (?:a|one|their) cache",
     "Two hosts cannot share a cache.", CLUSTER),
    (r"not shared between (?:hosts|machines)", "The cache is not shared between hosts.", CLUSTER),
    (r"no: each host caches for itself",
     "no: each host caches for itself, and *n* hosts fetch *n* times", CLUSTER),
    (r"leat (?:0\.\d )?is one host", "Leat 0.1 is one host: a daemon, its disks, a folder.", CLUSTER),
    (r"not a distributed cache",
     "It is not a distributed cache for a Spark cluster; Leat 0.1 has none.", CLUSTER),
    (r"want one cache for it, leat is not there yet",
     "If you have a Spark cluster and want one cache for it, Leat is not there yet.", CLUSTER),
    (r"needs the mount, at the same path, and has its own cache",
     "each host that reads needs the mount, at the same path, and has its own cache.", CLUSTER),
    (r"shared cache[^.|]* has no counterpart",
     "The shared cache in S3 Express One Zone has no counterpart.", CLUSTER),
    (r"no counterpart today [^.]*(?:; the shared cache;|that share a file system or a cache)",
     "## What has no counterpart today Writing of any kind; the shared cache; a CSI driver.", CLUSTER),
    (r"no master, no workers", "**No servers**: no master, no workers, no job service.", CLUSTER),
    (r"there is one copy, on this host", "none: there is one copy, on this host",
     "a mount of a cluster has the option replicas (docs/commands/cluster.md)"),
    (r"leat load` on each host", "| `distributedLoad` | `leat load` on each host |", CLUSTER_JOBS),
    (r"`--worker`: none", "and works on one host (`--worker`: none)", CLUSTER_JOBS),
    (r"\*\*door\*\* is a way in\. there are three", "A **door** is a way in. There are three:",
     "a worker has a door for its peers (docs/concepts.md)"),
    (r"nobody starts it by hand", "Nobody starts it by hand, although one can.",
     "services and 'leat worker' run a daemon (docs/install.md)"),
    (r"metrics and later consoles", "One protocol for the command line, metrics and later consoles.",
     "the console is there (docs/console.md)"),
    (r"charts begin when the page is opened", "charts begin when the page is opened.",
     "they begin with the daemon's last hour (docs/console.md)"),
    (r"`?daemon\.log`?[^.|]*never rotated", "`daemon.log` (appended to, never rotated)",
     "log.file_size bounds it (docs/cli.md)"),
    (r"`df` shows the cache", "a directory says two; `df` shows the cache",
     "df shows free room, leat status the cache (docs/semantics.md)"),
    (r"read fails when none answered for 30 s", "A read fails when none answered for 30 s.",
     "a read waits up to the mount's io_timeout (docs/stores.md)"),
    (r"what is not cached fails? at once until it answers",
     "Reads of what is not cached fail at once until it answers again.",
     "a read waits up to the mount's io_timeout (docs/stores.md)"),
    (r"make bench-(?:cache|files|fuse|stores)", "at 0.7 and more (`make bench-cache`)", ONE_BENCH),
]

# What was, and is told as that.
HISTORY = {"CHANGELOG.md", "docs/performance-history.md", "docs/trials.md"}


def texts():
    """Names of all that users read: pages, what packages hold, help and messages in the program."""
    found = [*ROOT.glob("*.md")]
    for folder, kinds in (("docs", ("*.md", "*.svg", "*.json")), ("src", ("*.md", "*.cc", "*.h")),
                          ("deploy", ("*",)), ("examples", ("*.md",)),
                          ("web/src", ("*.ts", "*.tsx", "*.html")), ("bench", ("*.md",))):
        for kind in kinds:
            found += (ROOT / folder).rglob(kind)
    names = {path.relative_to(ROOT).as_posix() for path in found if path.is_file()}
    return sorted(names - HISTORY)


def flat(text):
    """One line; string literals of C++ that follow each other are one."""
    return re.sub(r"\s+", " ", re.sub(r'"\s*\n\s*"', "", text))


def claims(text):
    line = flat(text)
    for pattern, _, reason in RETIRED:
        if found := re.search(pattern, line, re.IGNORECASE):
            yield f"says '{found[0]}', but {reason}"


def test_no_text_makes_a_retired_claim():
    wrong = []
    for name in texts():
        text = (ROOT / name).read_text(errors="replace")
        wrong += [f"{name} {claim}" for claim in claims(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("example", [example for _, example, _ in RETIRED])
def test_each_example_is_found(example):
    assert list(claims(example))


def test_claims_are_found_across_lines():
    assert list(claims("nothing is\n  shared between\nhosts"))
    assert list(claims('say("nothing is shared "\n    "between hosts");'))
    assert not list(claims("Hosts that mount a cluster share one cache."))


def test_pages_help_and_packages_are_read():
    names = texts()
    for name in ("README.md", "docs/how-to/spark.md", "src/apps/cli/mount/cmd_mount.cc",
                 "deploy/man/mount.leat.8", "deploy/debian/control"):
        assert name in names
