# SPDX-License-Identifier: Apache-2.0
"""One data set in a local folder and in a mounted bucket, for programs that read both."""

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

from e2e.objects import client, put_all
from rig import leftovers
from rig.leat import Leat
from rig.store import Store

TESTS = Path(__file__).resolve().parent.parent
SECONDS = 120


def python_of(environment):
    """The interpreter of one of tools/setup's environments: programs, programs-large, docs, docs-large."""
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    program = os.path.join(deps, environment, "bin", "python")
    if not os.access(program, os.X_OK):
        raise RuntimeError(f"no Python environment at {program}: run tools/setup docs")
    return program


def run(words, folder, **environment):
    """What the program prints. Its home is empty, and it speaks no language of the machine's."""
    plain = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": str(TESTS),
             "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True,
                          timeout=SECONDS, stdin=subprocess.DEVNULL, check=False,
                          env={**plain, "HOME": environment.get("OUT", "/nonexistent"), **environment})
    assert done.returncode == 0, f"{words} in {folder} ended with {done.returncode}: " \
        f"{done.stdout[-1000:].decode(errors='replace')}{done.stderr[-3000:].decode(errors='replace')}"
    return done.stdout


class Copies:
    """`local` is the data set as it was made, `mounted` the bucket that has the same."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.local = self.folder / "local"
        self.local.mkdir()
        run([python_of("programs"), TESTS / "e2e" / "program_data.py", self.local], self.folder,
            OUT=str(self.folder))
        self.store = Store(self.folder / "store")
        self.leat = Leat(self.folder / "leat")

    def start(self):
        self.store.start()
        s3 = client(self.store)
        s3.create_bucket(Bucket="data")
        put_all(s3, "data", {path.relative_to(self.local).as_posix(): path.read_bytes()
                             for path in self.local.rglob("*") if path.is_file()})
        self.mounted = self.leat.mount(self.store, "data", self.folder / "mounted", freshness="immutable")
        return self

    def close(self):
        self.leat.close()
        self.store.stop()

    def compare(self, words, **environment):
        """Runs a program on the local copy, on the bucket for the first time, and on what it cached
        then. A program that writes does so to $OUT, which is new each time; $LOCAL is the local copy."""
        said = []
        for root in (self.local, self.mounted, self.mounted):
            with tempfile.TemporaryDirectory(dir=self.folder) as out:
                said.append(run([str(word).replace("ROOT", str(root)) for word in words], root, OUT=out,
                                LOCAL=str(self.local), **environment))
        assert said[0], "the program found nothing in the local copy"
        for what, found in zip(("the first", "the second"), said[1:]):
            assert found == said[0], f"{what} time from the mount: {found[-2000:]!r}, from the local " \
                f"copy: {said[0][-2000:]!r}"


@contextlib.contextmanager
def copies_of_data():
    folder, made = leftovers.make_folder(), None
    try:
        made = Copies(folder)
        yield made.start()
    finally:
        if made:
            made.close()
        left = leftovers.clear(folder)
    assert not left, f"processes of the test will not end: {left}"
