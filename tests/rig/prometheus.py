# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus on loopback, and its promtool: Debian's, unpacked by tools/setup."""

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from rig.process import wait_until
from rig.store import free_port


def program(name):
    deps = os.environ.get("LEAT_DEPS_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "leat-build")
    path = os.path.join(deps, "prometheus", "usr", "bin", name)
    if not os.access(path, os.X_OK):
        raise RuntimeError(f"no Prometheus at {path}: run tools/setup test")
    return path


def promtool(*arguments, text=None):
    """Its exit code and what it said."""
    done = subprocess.run([program("promtool"), *map(str, arguments)], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.returncode, done.stdout


class Prometheus:
    """Scrapes `target` as a job `leat`, by rules out of `rules`, twice a second."""

    def __init__(self, folder, target, rules):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.port = free_port()
        config = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms",
                             "evaluation_interval": "500ms"},
                  "rule_files": [str(rules)],
                  "scrape_configs": [{"job_name": "leat",
                                      "static_configs": [{"targets": [target]}]}]}
        (self.folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [program("prometheus"), f"--config.file={self.folder}/prometheus.yml",
                 f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            wait_until(self._answers, "Prometheus to answer")
        except BaseException:
            self.stop()
            raise

    def _answers(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=10):
                return True
        except OSError:  # 503 until it is
            return False

    def ask(self, what, **parameters):
        """The data of an answer of /api/v1; an AssertionError with Prometheus's own words."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None
        assert said["status"] == "success" and not said.get("warnings"), said
        return said["data"]

    def query(self, expression, **when):
        """What it is now, or was at `time`: a list of (labels, value)."""
        return [(one["metric"], float(one["value"][1]))
                for one in self.ask("query", query=expression, **when)["result"]]

    def stop(self):
        self.process.kill()
        self.process.wait()
