# SPDX-License-Identifier: Apache-2.0
"""Whether the machine does anything else: a figure that was taken beside other work is not one.
Looked at while the bench itself waits, from the kernel's accounts of two moments."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from rig import leftovers
from rig.process import TICKS_PER_SECOND, all_pids, name_of, stat_fields

CORE_SHARE_MAX = 0.2  # of one core, by all others together
LOOK_S = 1.0
PATIENCE_S = 60


@dataclass
class Moment:
    """`busy` ticks of all cores, `stolen` by the host; pid -> (start, ticks, name, parent)."""

    seconds: float
    busy: int
    stolen: int
    processes: dict = field(default_factory=dict)


def moment():
    # user nice system idle iowait irq softirq steal; guests are in user already.
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, stolen = map(int, words)
    processes = {}
    for pid in all_pids():
        try:
            fields = stat_fields(pid)
        except OSError:
            continue  # gone meanwhile
        ticks = int(fields[11]) + int(fields[12])
        processes[pid] = (int(fields[19]), ticks, name_of(pid), int(fields[1]))
    return Moment(time.monotonic(), user + nice + system + irq + softirq, stolen, processes)


def family(processes, roots):
    """The processes of `roots` with all below them."""
    own, grown = set(roots), True
    while grown:
        below = {pid for pid, (_, _, _, parent) in processes.items() if parent in own} - own
        own |= below
        grown = bool(below)
    return own


def others(before, after, roots):
    """(cores that others kept busy, in words who that was): also those that came and went."""
    own = family(after.processes, roots)
    seconds = max(after.seconds - before.seconds, 0.01)
    used = {}
    for pid, (start, ticks, name, _) in after.processes.items():
        earlier = before.processes.get(pid)
        same = earlier is not None and earlier[0] == start
        used[pid] = (ticks - earlier[1] if same else ticks, name)
    ours = sum(ticks for pid, (ticks, _) in used.items() if pid in own)
    stolen = after.stolen - before.stolen
    cores = max(0, after.busy - before.busy - ours + stolen) / TICKS_PER_SECOND / seconds
    named = sorted(((ticks, name) for pid, (ticks, name) in used.items() if pid not in own and ticks),
                   reverse=True)
    words = [f"{name} {ticks / TICKS_PER_SECOND / seconds:.2f}" for ticks, name in named[:3]]
    if stolen:
        words.append(f"the host {stolen / TICKS_PER_SECOND / seconds:.2f}")
    return cores, ", ".join(words) or "processes that came and went"


class Watch:
    """Looks at what is not this process, below it, or at work in `folder`."""

    def __init__(self, folder):
        self.folder = folder

    def look(self, look_s=LOOK_S):
        before = moment()
        time.sleep(look_s)
        after = moment()
        return others(before, after, {os.getpid(), *leftovers.pids_of(self.folder)})

    def wait(self, say, patience_s=PATIENCE_S):
        """Empty once the machine is quiet; who was busy where it would not be."""
        deadline, told = time.monotonic() + patience_s, False
        while True:
            cores, who = self.look()
            if cores <= CORE_SHARE_MAX:
                return ""
            if time.monotonic() >= deadline:
                return f"{cores:.2f} cores were busy with other work: {who}"
            if not told:
                say(f"waiting for the machine to be quiet: {cores:.2f} cores are busy ({who})")
                told = True
