# SPDX-License-Identifier: Apache-2.0
"""A layer's ratios as an SVG picture: a bar for Leat and for each peer, whiskers from the least to the
most, a tick for what is promised. Colours change with the reader's background, as in the other
pictures of docs/pictures. Why no plotting library: docs/dependencies.md."""

import textwrap
from xml.sax.saxutils import escape

WIDTH, LABELS, RIGHT = 760, 330, 20
TOP, BOTTOM, BAR, GAP = 46, 34, 13, 12
LINE = 15  # of a label that takes several
LABEL_CHARACTERS = 46
STEPS = (0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100)
TICKS_MAX, RATIO_SHOWN_MAX = 8, 100
COLOURS = [("#2f7d55", "#63c195"), ("#a5791b", "#dfb65a"), ("#4a6278", "#8fa9c0"),
           ("#8c5a8f", "#c795ca"), ("#a34d3f", "#dd8a7c"), ("#5f6b1f", "#b3c25a"),
           ("#6b6b6b", "#a5a5a5"), ("#1f6b6b", "#5fc2c2"), ("#3f3f8f", "#9a9ae0")]


def style(names):
    light = " ".join(f".s{n} {{ fill: {COLOURS[n % len(COLOURS)][0]}; }}" for n in range(len(names)))
    dark = " ".join(f".s{n} {{ fill: {COLOURS[n % len(COLOURS)][1]}; }}" for n in range(len(names)))
    return f"""  <style>
    .ground {{ fill: #fcfcfa; stroke: #d0d4d8; }} .grid {{ stroke: #d0d4d8; }}
    .whisker {{ stroke: #1d2730; }} .one {{ stroke: #4a6278; stroke-dasharray: 4 3; }}
    .promise {{ stroke: #1d2730; stroke-width: 2.5; }}
    text {{ font: 12px sans-serif; fill: #1d2730; }}
    .head {{ font-size: 14px; font-weight: bold; }} .end {{ text-anchor: end; }}
    .mid {{ text-anchor: middle; }}
    {light}
    @media (prefers-color-scheme: dark) {{
      .ground {{ fill: #14191e; stroke: #3a434c; }} .grid {{ stroke: #3a434c; }}
      .whisker, .promise {{ stroke: #e8edf1; }} .one {{ stroke: #8fa9c0; }}
      text {{ fill: #e8edf1; }}
      {dark}
    }}
  </style>"""


def step_for(most):
    return next((step for step in STEPS if most / step <= TICKS_MAX), STEPS[-1])


def broken(text):
    """A label in lines that are as wide as its room."""
    return textwrap.wrap(text, LABEL_CHARACTERS, max_lines=3, placeholder=" …")


class Canvas:
    def __init__(self, most):
        self.step = step_for(most)
        self.most = self.step * -(-most // self.step)
        self.parts = []

    def x(self, value):
        share = min(value, self.most) / self.most
        return round(LABELS + share * (WIDTH - LABELS - RIGHT), 1)

    def line(self, kind, x1, y1, x2, y2):
        self.parts.append(f'  <line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')

    def text(self, kind, x, y, words):
        self.parts.append(f'  <text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>')

    def bar(self, index, y, one, title):
        length = round(self.x(one["median"]) - LABELS, 1)
        self.parts.append(f'  <rect class="s{index}" x="{LABELS}" y="{y}" width="{length}" '
                          f'height="{BAR - 2}"><title>{escape(title)}</title></rect>')
        if one["max"] > one["min"]:
            low, high, middle = self.x(one["min"]), self.x(one["max"]), y + (BAR - 2) / 2
            self.line("whisker", low, middle, high, middle)
            for end in (low, high):
                self.line("whisker", end, middle - 3, end, middle + 3)

    def grid(self, bottom):
        ticks = round(self.most / self.step)
        for number in range(ticks + 1):
            value = number * self.step
            self.line("one" if value == 1 else "grid", self.x(value), TOP, self.x(value), bottom)
            self.text("mid", self.x(value), bottom + 14, f"{value:g}")


def legend(canvas, names):
    x = LABELS
    for index, name in enumerate(names):
        canvas.parts.append(f'  <rect class="s{index}" x="{x}" y="28" width="10" height="10"/>')
        canvas.text("", x + 14, 37, name)
        x += 26 + 7 * len(name)


def drawn(title, groups):
    """SVG of `groups`: (label, promise or None, {name: {median, min, max}}) each."""
    names = list(dict.fromkeys(name for _, _, bars in groups for name in bars))
    most = max([1, *(one["max"] for _, _, bars in groups for one in bars.values())])
    canvas = Canvas(min(most, RATIO_SHOWN_MAX))
    y = TOP + GAP
    for label, promise, bars in groups:
        lines = broken(label)
        height = max(len(bars) * BAR, len(lines) * LINE)
        first = y + (height - len(lines) * LINE) / 2 + 11
        for number, words in enumerate(lines):
            canvas.text("end", LABELS - 8, round(first + number * LINE, 1), words)
        for name, one in bars.items():
            words = f"{name}: {one['median']:.2f} ({one['min']:.2f} to {one['max']:.2f})"
            canvas.bar(names.index(name), y, one, words)
            if promise is not None and name == "leat":
                canvas.line("promise", canvas.x(promise), y - 2, canvas.x(promise), y + BAR)
            y += BAR
        y += max(0, height - len(bars) * BAR) + GAP
    bars_drawn, canvas.parts = canvas.parts, []
    canvas.grid(y)
    legend(canvas, names)
    canvas.text("head", 14, 22, title)
    height = y + BOTTOM
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-labelledby="title">',
        "  <!-- SPDX-License-Identifier: Apache-2.0; written by bench/report -->",
        f'  <title id="title">{escape(title)}</title>', style(names),
        f'  <rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        *canvas.parts, *bars_drawn, "</svg>", ""])


def groups_of(name, layer, records):
    """The ratios of the layer of that name, in the order of the catalog."""
    for key, figure in layer.figures().items():
        record = records.get(f"{name}:{key}")
        if figure.unit != "ratio" or record is None:
            continue
        bars = {"leat": record["leat"], **record["peers"]}
        yield figure.title, figure.target, {who: one for who, one in bars.items() if "median" in one}
