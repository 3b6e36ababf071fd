# SPDX-License-Identifier: Apache-2.0
"""One record a figure: its runs, what they come to, and against what. A run is a dictionary with
`value` and `note`, and `reference` [at the beginning, at the end] where there is one; or with
`not_run` or `failed` and the reason."""

import statistics

DRIFT_MAX = 0.2


def measured(runs):
    return [run for run in runs if "value" in run]


def spread(runs):
    """Median, least and most of what was measured; empty where nothing was."""
    values = [run["value"] for run in measured(runs)]
    if not values:
        return {}
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def reason(runs):
    """Why there is no figure, or not of all runs; empty where there is."""
    for run in runs:
        for kind in ("failed", "not_run"):
            if kind in run:
                return f"{kind.replace('_', ' ')}: {' '.join(str(run[kind]).split())[:200]}"
    return "" if runs else "not run"


def reference_of(runs):
    """Medians of the reference at both ends, and the worst drift between the two of one run, as a
    share of the smaller."""
    ends = [run["reference"] for run in measured(runs) if run.get("reference")]
    if not ends:
        return None
    drift = max(abs(first - last) / min(first, last) if min(first, last) > 0 else 0
                for first, last in ends)
    return {"begin": statistics.median(first for first, _ in ends),
            "end": statistics.median(last for _, last in ends),
            "drift": round(drift, 3), "drifted": drift > DRIFT_MAX}


def middle_note(runs):
    """What the run in the middle says beside its value."""
    ordered = sorted(measured(runs), key=lambda run: run["value"])
    return ordered[len(ordered) // 2].get("note", "") if ordered else ""


def subject(runs, **more):
    """Of Leat or of a peer."""
    return {**spread(runs), "note": middle_note(runs), "reason": reason(runs), "runs": runs, **more}


def record(layer, row, key, figure, runs, peers, **about):
    """`peers`: name -> runs. `about`: date, machine, versions, busy, digests. A run that failed
    spoils the figure: what is left is no sample."""
    ours = subject(runs)
    failed = any("failed" in run for run in runs)
    met = figure.met(ours["median"]) if "median" in ours and not failed else None
    return {"layer": layer, "row": row, "figure": key, "title": figure.title, "unit": figure.unit,
            "promise": figure.promise(), "met": met, "failed": failed, "leat": ours,
            "reference": reference_of(runs),
            "peers": {name: subject(those, date=about.get("date")) for name, those in peers.items()},
            **about}


def above_all(figure, ours):
    """Whether Leat is above every peer of the record: True, False, or None where there is nothing to
    compare."""
    theirs = [peer["median"] for peer in ours["peers"].values() if "median" in peer]
    if "median" not in ours["leat"] or not theirs:
        return None
    return all(figure.is_above(ours["leat"]["median"], one) for one in theirs)
