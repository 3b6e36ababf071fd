# SPDX-License-Identifier: Apache-2.0
"""Reads the files below a folder again and again, and one that stays open, until SIGTERM; then says as JSON
how often, and what went wrong. Usage: steady_reader.py FOLDER; "reading" is printed after the first round."""

import json
import os
import signal
import sys
from pathlib import Path


def main():
    folder = Path(sys.argv[1])
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    names = sorted(path.name for path in folder.iterdir())
    first = {name: (folder / name).read_bytes() for name in names}
    held = os.open(folder / names[0], os.O_RDONLY)
    rounds, errors = 0, []
    while not stopped:
        rounds += 1
        try:
            for name in names:
                if (folder / name).read_bytes() != first[name]:
                    errors.append(f"{name} is another one")
            if os.pread(held, 1 << 20, 0) != first[names[0]][:1 << 20]:
                errors.append("what is open is another one")
        except OSError as error:
            errors.append(str(error))
        if rounds == 1:
            print("reading", flush=True)
    print(json.dumps({"rounds": rounds, "errors": errors[:10]}), flush=True)


if __name__ == "__main__":
    main()
