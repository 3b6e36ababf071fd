# SPDX-License-Identifier: Apache-2.0
"""Several reading processes at once over files of content.py, and what they found."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

# More opens than there is time for, those of a dead folder that fail at once included.
UNTIL_STOPPED = 10**9
READER = Path(__file__).resolve().parent / "reader.py"


class Readers:
    def __init__(self, root, files, seed, processes=3, opens=60, dying=False):
        """`files`: name -> base size."""
        self.longest_s = 0
        names = [f"{name}={size}" for name, size in files.items()]
        mode = "dying" if dying else "steady"
        self.processes = [
            subprocess.Popen([sys.executable, str(READER), str(root), str(seed + number), str(opens),
                              mode, *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for number in range(processes)]

    def running(self):
        return any(process.poll() is None for process in self.processes)

    def stop(self):
        """Asks the readers to end after the file that they are at."""
        for process in self.processes:
            process.terminate()

    def finish(self, timeout_s=240):
        """Counts of all readers; fails on any broken promise."""
        counts, violations = Counter(), []
        try:
            for process in self.processes:
                output, errors = process.communicate(timeout=timeout_s)
                assert process.returncode == 0, errors
                result = json.loads(output)
                counts.update(result["counts"])
                self.longest_s = max(self.longest_s, result["longest_s"])
                violations += result["violations"]
        finally:
            self.kill()
        print("readers:", dict(counts), f"longest {self.longest_s:.3f} s")
        assert not violations, "\n".join(violations)
        return counts

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
