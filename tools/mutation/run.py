#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of one module: changes its code in one place at a time, and sees whether its tests notice.

Usage: run.py [--count N] [--seed N] [--only PATTERN] [--again] MODULE
Samples N changes (60) of the module's sources (*.cc, no headers) by the seed, builds the module's test
program with each, without sanitizers, and runs it. A change that no test notices is a survivor: a test is
missing, or the change is none (docs/mutants.md says which). Works in build/mutants, on a copy of the files
that git tracks; prints a line a mutant, and at the end the rows for docs/mutants.md, which also lie in
build/mutants/MODULE.md. With --again it tries the survivors of that file alone, after tests were added.
"""

import argparse
import json
import math
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import sites
from report import Report

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
TREE = WORK / "tree"
BUILD = WORK / "build"
# Tests of clusters wait for servers more than they compute.
SHARDS = 4 * (os.cpu_count() or 1)
# A mutant that loops is killed by the clock: so many times what the sound program takes, and this at least.
TIMES, SECONDS_MIN = 4, 30


def call(words, log, **options):
    with open(log, "ab") as out:
        return subprocess.run(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, check=False,
                              **options).returncode


def copy_tree():
    """Only files that differ are written, so that what was built before is built no more."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"],
                           capture_output=True, check=True).stdout.decode().split("\0")
    kept = set()
    for name in filter(None, names):
        source, target = ROOT / name, TREE / name
        if not source.is_file():
            continue
        kept.add(target)
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    for path in TREE.rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()


def flags_of(source):
    """As the build compiles it, without the precompiled header, which is the compiler's own."""
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    words = next(shlex.split(e["command"]) for e in entries if e["file"] == str(source))
    flags, at = [], 1
    while at < len(words):
        if words[at] in ("-Xclang", "-o", "-c"):
            at += 2
        elif words[at].startswith("-W"):
            at += 1
        else:
            flags.append(words[at])
            at += 1
    return [flag for flag in flags if flag != str(source) and not flag.endswith("ccache")]


class Module:
    def __init__(self, name, log):
        self.name, self.log = name, log
        flat = name.replace("/", "_")
        self.target = f"leat_{flat}_test"
        self.program = BUILD / "src" / name / self.target
        self.limit = None

    def sources(self):
        found = []
        for path in sorted((TREE / "src" / self.name).rglob("*.cc")):
            if not path.stem.endswith(("_test", "_fuzz", "_bench")) and "torture" not in path.parts:
                found.append(path)
        return found

    def build(self):
        return call(["ninja", "-C", BUILD, self.target], self.log) == 0

    def start(self, shard):
        with open(self.log, "ab") as out:
            return subprocess.Popen(
                [self.program, "--gtest_brief=1", "--gtest_fail_fast", "--gtest_shuffle=0"],
                cwd=self.program.parent, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)})

    def failing(self, shards):
        """The first shard with a failed or late test; None where all pass. Ends the other shards."""
        running = {shard: self.start(shard) for shard in shards}
        ends = time.monotonic() + self.limit if self.limit else math.inf
        found = None
        while running and found is None:
            time.sleep(0.02)
            for shard, process in list(running.items()):
                code = process.poll()
                if code == 0:
                    del running[shard]
                elif code is not None or time.monotonic() > ends:
                    found = shard
        for process in running.values():
            if process.poll() is None:
                try:
                    os.killpg(process.pid, 9)
                except ProcessLookupError:
                    pass
            process.wait()
        return found

    def tests_pass(self):
        """A shard that fails is run again: a test that fails now and then notices nothing."""
        shards = set(range(SHARDS))
        while (failed := self.failing(shards)) is not None:
            if self.failing({failed}) is not None:
                return False
            shards = shards - {failed}
        return True

    def baseline(self):
        if not self.build():
            sys.exit(f"mutants: {self.target} does not build, see {self.log}")
        began = time.monotonic()
        if not self.tests_pass():
            sys.exit(f"mutants: {self.target} fails without any mutant, see {self.log}")
        took = time.monotonic() - began
        self.limit = max(SECONDS_MIN, TIMES * took)
        return took


def try_mutant(module, site):
    """"killed", "survived", or None where it does not compile."""
    path = TREE / site.file
    sound = path.read_bytes()
    path.write_bytes(site.apply(sound))
    try:
        if not module.build():
            return None
        return "survived" if module.tests_pass() else "killed"
    finally:
        path.write_bytes(sound)


def prepare(name):
    WORK.mkdir(parents=True, exist_ok=True)
    copy_tree()
    log = WORK / f"{name.replace('/', '-')}.log"
    log.write_bytes(b"")
    if call(["cmake", "-G", "Ninja", "-S", TREE, "-B", BUILD, "-DCMAKE_BUILD_TYPE=Debug",
             "-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19",
             "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], log) != 0:
        sys.exit(f"mutants: cmake failed, see {log}")
    return Module(name, log)


def candidates(module, only, seed):
    found = []
    for source in module.sources():
        name = str(source.relative_to(TREE))
        if only in name:
            found += sites.find(source, flags_of(source), name)
    random.Random(seed).shuffle(found)
    return found


def try_all(module, found, count):
    """The survivors of the first `count` places that compile, and how many were tried."""
    tried, survivors = 0, []
    for site in found:
        if tried == count:
            break
        outcome = try_mutant(module, site)
        if not outcome:
            continue
        tried += 1
        print(f"{tried:3} {outcome:8} {site}", flush=True)
        if outcome == "survived":
            survivors.append(site)
    return tried, survivors


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    words.add_argument("--count", type=int, default=60)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", default="", help="sources whose path contains this")
    words.add_argument("--again", action="store_true", help="only the survivors of the last run")
    words.add_argument("module")
    asked = words.parse_args()
    module = prepare(asked.module)
    report = Report(WORK, asked.module)
    took = module.baseline()
    found = candidates(module, asked.only, asked.seed)
    if asked.again:
        before, places, seed, names = report.read()
        found = [site for site in found if str(site) in names]
        print(f"{asked.module}: the {len(found)} survivors; the tests take {took:.0f} s", flush=True)
        if {str(site) for site in found} != names:
            sys.exit("mutants: the sources are not those of the last run any more; run without --again")
        _, survivors = try_all(module, found, len(found))
        report.write(before, places, seed, survivors)
        return
    print(f"{asked.module}: {len(found)} places, sampling {asked.count} by seed {asked.seed}; "
          f"the tests take {took:.0f} s", flush=True)
    tried, survivors = try_all(module, found, asked.count)
    report.write(tried, len(found), asked.seed, survivors)


if __name__ == "__main__":
    main()
