# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/performance.md, between `<!-- measured: NAME -->` and `<!-- end -->`. NAME is a
layer; what stands between is written anew from the records, all else is left alone."""

import re

from catalog import LAYERS
from results.records import above_all

MARKED = re.compile(r"(<!-- measured: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
PEER_TITLES = {"rclone-cached": "rclone, cached", "alluxio": "Alluxio", "stock": "stock transport"}
UNITLESS = ("ratio", "share", "times")


class WrongPage(Exception):
    """A page whose marks are not those of the layers."""


def number(value):
    size = abs(value)
    if value == 0:
        return "0"
    if size < 0.1:
        return f"{value:.2g}"
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:,.0f}"


def with_unit(value, unit):
    if unit in UNITLESS:
        return number(value)
    return f"{value:.3g} {unit}" if abs(value) < 1 else f"{number(value)} {unit}"


def cell(text):
    return " ".join(str(text).split()).replace("|", "/")


def spread_of(one):
    """The least and the most of several runs, and how many they were."""
    count = sum("value" in run for run in one["runs"])
    if "median_of" in one:  # carried over: the single runs are not known
        return f"{one['median_of']} runs"
    if count < 2:
        return "one run"
    return f"{number(one['min'])} to {number(one['max'])}, {count} runs"


def verdict(figure, one):
    met = figure.met(one["median"])
    if met is None:
        return ""
    if not met:
        return "**no**"
    values = [run["value"] for run in one["runs"] if "value" in run]
    return "yes" if all(map(figure.met, values)) else "yes, not in each run"


def remarks(layer, key, records):
    """What stands beside a figure: its speed, figures that have no line of their own, drift."""
    record = records[f"{layer}:{key}"]
    reference = record.get("reference")
    words = [record["leat"].get("note", "")]
    for other, figure in LAYERS[layer].figures().items():
        if figure.beside == key and f"{layer}:{other}" in records:
            value = records[f"{layer}:{other}"]["leat"]["median"]
            words.append(f"{figure.title} {with_unit(value, figure.unit)}")
    if reference and reference["drifted"]:
        words.append(f"the reference drifted by up to {reference['drift']:.0%} within a run")
    words.append(record.get("remark", ""))
    return "; ".join(filter(None, words))


def leat_table(layer, records):
    """One line a figure, in the order of the catalog."""
    yield "| work | promised | measured | spread | met | notes | day |"
    yield "|---|---|---|---|---|---|---|"
    for key, figure in LAYERS[layer].figures().items():
        record = records.get(f"{layer}:{key}")
        if figure.beside:
            continue
        if record is None:
            cells = [figure.title, figure.promise(), "not measured yet", "", "", "", ""]
        else:
            ours = record["leat"]
            cells = [figure.title, figure.promise(), with_unit(ours["median"], figure.unit),
                     spread_of(ours), verdict(figure, ours), remarks(layer, key, records),
                     record["date"]]
        yield f"| {' | '.join(map(cell, cells))} |"


def peer_cell(peer, unit, day):
    if peer is None or "median" not in peer:
        return cell(peer["reason"]) if peer and peer.get("reason") else "–"
    earlier = f" ({peer['date']})" if peer.get("date") not in (None, day) else ""
    return with_unit(peer["median"], unit) + earlier


def peer_table(layer, records):
    """One line a figure that others were measured for, one column for each of them."""
    wanted = {key: records[f"{layer}:{key}"] for key in LAYERS[layer].figures()
              if records.get(f"{layer}:{key}", {}).get("peers")}
    names = list(dict.fromkeys(name for record in wanted.values()
                               for name, peer in record["peers"].items() if "median" in peer))
    if not names:
        return
    yield ""
    yield "Others beside it, medians:"
    yield ""
    titles = [PEER_TITLES.get(name, name) for name in names]
    yield f"| work | leat | {' | '.join(titles)} | leat above all |"
    yield "|---" * (len(names) + 3) + "|"
    for key, record in wanted.items():
        figure = LAYERS[layer].figures()[key]
        cells = [figure.title, with_unit(record["leat"]["median"], figure.unit),
                 *(peer_cell(record["peers"].get(name), figure.unit, record["date"])
                   for name in names),
                 {True: "yes", False: "**no**", None: "–"}[above_all(figure, record)]]
        yield f"| {' | '.join(cells)} |"


def machines(layer, records):
    """On what, one line for each kind of machine and set of versions."""
    found = {}
    for key in LAYERS[layer].figures():
        record = records.get(f"{layer}:{key}")
        if record:
            one = record["machine"]
            words = f"{one['cores']} cores, {one['memory_gib']} GiB, kernel {one['kernel']}"
            versions = ", ".join(f"{name} {which}" for name, which in record["versions"].items())
            with_versions = f". With {versions}" if versions else ""
            found.setdefault(f"{words}{with_versions}", set()).add(record["date"])
    if found:
        yield ""
    for words, days in sorted(found.items(), key=lambda item: max(item[1]), reverse=True):
        yield f"{' and '.join(filter(None, [min(days), max(days) * (len(days) > 1)]))}: {words}.  "


def block(layer, records, picture):
    lines = [*leat_table(layer, records), *peer_table(layer, records), *machines(layer, records)]
    if picture:
        lines += ["", f"![{LAYERS[layer].title}: measured ÷ reference]({picture})"]
    return "\n".join(lines) + "\n"


def written(text, records, pictures):
    """The page with its tables of these records; `pictures`: layer -> address from the page."""
    marks = [name for _, name, _ in MARKED.findall(text)]
    if sorted(marks) != sorted(LAYERS):
        raise WrongPage(f"the page has marks for {' '.join(marks) or 'nothing'}; there must be one "
                        f"'<!-- measured: NAME -->' … '<!-- end -->' for each of {' '.join(LAYERS)}")
    return MARKED.sub(lambda found: found[1] + block(found[2], records, pictures.get(found[2]))
                      + found[3], text)
