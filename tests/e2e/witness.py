# SPDX-License-Identifier: Apache-2.0
"""One reading process that reads whole files at random and writes down what it saw, and when.

Usage: witness.py ROOT GATE SEED NAME=BASE_SIZE…   Until SIGTERM. A JSON line for each open on standard
output: name, begin and opened (monotonic clock of the host), and version, or error and where; wrong:
what no error excuses. While GATE is there nothing is opened, and during each open GATE.lock is locked.
"""

import errno
import fcntl
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from e2e.content import UNIT_BYTES, content, size_of, version_of  # noqa: E402
from e2e.reader import read_range  # noqa: E402

READ_BYTES_MAX = 512 * 1024


def pieces(size, random_source):
    """In order from the first byte to the last, of any length."""
    offset = 0
    while offset < size:
        length = min(random_source.randrange(UNIT_BYTES, READ_BYTES_MAX), size - offset)
        yield offset, length
        offset += length


def read_whole(fd, name, base_size, random_source):
    """The one version that all of its bytes are of."""
    size = os.fstat(fd).st_size
    version = None
    for offset, length in pieces(size, random_source):
        data = read_range(fd, offset, length)
        if version is None:
            version = version_of(name, data, 0)
            if version is None or size_of(base_size, version) != size:
                raise ValueError(f"{name}: size {size} is not that of version {version}")
        if data != content(name, version, offset, length):
            raise ValueError(f"{name}: [{offset}, {offset + length}) of {size} is not of version "
                             f"{version}, as its beginning is; {len(data)} bytes came")
    return version


def watch(root, name, base_size, random_source):
    seen = {"name": name, "begin": time.monotonic()}
    try:
        fd = os.open(os.path.join(root, name), os.O_RDONLY)
    except OSError as error:
        return seen | {"opened": time.monotonic(), "error": errno.errorcode[error.errno], "at": "open"}
    seen["opened"] = time.monotonic()
    try:
        seen["version"] = read_whole(fd, name, base_size, random_source)
    except OSError as error:
        seen |= {"error": errno.errorcode[error.errno], "at": "read"}
    except ValueError as error:
        seen["wrong"] = str(error)
    finally:
        try:
            os.close(fd)
        except OSError:
            pass  # of a daemon that has died
    return seen | {"end": time.monotonic()}


def main():
    root, gate, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    files = [argument.rsplit("=", 1) for argument in sys.argv[4:]]
    random_source, ended = random.Random(seed), []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    with open(f"{gate}.lock", "w") as lock:
        while not ended:
            if os.path.exists(gate):
                time.sleep(0.01)
                continue
            fcntl.flock(lock, fcntl.LOCK_SH)
            name, base_size = random_source.choice(files)
            print(json.dumps(watch(root, name, int(base_size), random_source)))
            fcntl.flock(lock, fcntl.LOCK_UN)
            if random_source.random() < 0.2:
                time.sleep(random_source.random() * 0.05)


if __name__ == "__main__":
    main()
