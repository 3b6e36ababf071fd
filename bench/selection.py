# SPDX-License-Identifier: Apache-2.0
"""Which rows are run: words such as `stores`, `fuse:hot` and `fuse:hot,disk`."""

from catalog import LAYERS


class NoSuchRow(Exception):
    """With what there is."""


def chosen(words, layers=None):
    """layer -> its rows, in the order of the catalog; no words: all."""
    layers = LAYERS if layers is None else layers
    wanted = {}
    for word in words or layers:
        layer, _, rows = word.partition(":")
        if layer not in layers:
            raise NoSuchRow(f"no layer '{layer}'; there are {' '.join(layers)}")
        there = layers[layer].rows
        names = rows.split(",") if rows else list(there)
        for name in names:
            if name not in there:
                raise NoSuchRow(f"no row '{name}' in {layer}; there are {' '.join(there)}")
        wanted.setdefault(layer, set()).update(names)
    return {layer: [name for name in layers[layer].rows if name in wanted[layer]]
            for layer in layers if layer in wanted}


def described(layers=None):
    """For --help: all rows with what they measure."""
    layers = LAYERS if layers is None else layers
    for name, layer in layers.items():
        yield f"{name}: {layer.title}"
        for row, one in layer.rows.items():
            yield f"  {row:14} {one.about}"
