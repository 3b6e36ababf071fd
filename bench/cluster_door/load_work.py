# SPDX-License-Identifier: Apache-2.0
"""A job over a whole cluster that is under way while something breaks."""

import json
import subprocess
import time

from cluster_door.readers import read_once
from measure import say
from rig.process import is_alive, wait_until

SET = "loaded"
ENDED_S = 300


class ClusterLoad:
    """`leat cluster load` of a set that nobody has read, so slow that the fault comes while
    it is under way. `scene` has the set."""

    def __init__(self, scene):
        self.scene = scene
        self.whole = scene.setting.data.bytes_of(SET)
        self.count = len(scene.setting.data.files[SET])
        self.job = {}

    def begin(self):
        """Returns when some of it is done."""
        sizes = self.scene.setting.sizes
        lasts_s = 2 * (sizes.rate_s + 3)
        words = ["load", f"/{SET}", "--verify", "--bandwidth", str(int(self.whole / lasts_s)),
                 "--background"]
        self.number = json.loads(self.scene.workers[0].run("cluster", *words, "--json").stdout)["id"]
        wait_until(lambda: (self.state() or {}).get("job", {}).get("bytes_done"), "the load to begin")

    def state(self):
        """As any worker that answers knows it; None where none does."""
        for worker in self.scene.workers:
            if worker.process is None or not is_alive(worker.process.pid):
                continue
            try:
                done = worker.run("cluster", "jobs", "show", str(self.number), "--json", check=False,
                                  timeout_s=10)
            except subprocess.TimeoutExpired:
                continue
            if done.returncode == 0:
                return json.loads(done.stdout)
        return None

    def end(self):
        """Waits for its end; how many files it left out or were wrong when they were read."""
        def ended():
            self.job = self.state() or {}
            return self.job.get("job", {}).get("state") in ("done", "failed", "cancelled")
        began = time.monotonic()
        wait_until(ended, "the end of the load", timeout_s=ENDED_S, interval_s=0.2)
        say(f"the load ended {time.monotonic() - began:.0f} s after the readers")
        told = self.job["job"]
        _, folder = self.scene.client(f"/{SET}")
        read_once(folder, self.scene.setting.data.list_of(SET), 4)
        return self.count - told["files_done"]

    def words(self):
        told = self.job["job"]
        first = "".join(f"; {one}" for one in told["errors"][:1])
        return (f"{told['state']}, {told['files_done']:,} of {self.count:,} files, begun "
                f"{self.job['begun']} times, {told['seconds']:.0f} s in its last run{first}")
