# SPDX-License-Identifier: Apache-2.0
"""One reading process: opens files at random and reads random ranges, proving every byte.

Usage: reader.py ROOT SEED OPENS steady|dying NAME=BASE_SIZE…   Prints a JSON line with counts, the
longest that one open with its reads took in seconds, and, if a promise was broken, the violations;
SIGTERM ends it early. `dying`: the daemon is killed meanwhile.
"""

import errno
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from e2e.content import content, size_of, version_of  # noqa: E402

READS_PER_OPEN = 6
READ_BYTES_MAX = 256 * 1024
# What a reader may meet while objects are deleted and overwritten …
ALLOWED_AT_OPEN = {errno.ENOENT, errno.ESTALE}
ALLOWED_AT_READ = {errno.ESTALE}
# … and, besides, while the daemon behind the folder dies.
WHILE_DYING = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO, errno.ENOENT, errno.EINTR}


def read_range(fd, offset, length):
    """pread(2) may stop early, above all where a daemon died inside of a read; then it is asked on."""
    data = b""
    while len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def read_one(fd, name, base_size, size, random_source, versions):
    offset = random_source.randrange(size)
    length = min(random_source.randrange(1, READ_BYTES_MAX), size - offset)
    data = read_range(fd, offset, length)
    if len(data) != length:
        raise ValueError(f"{name}: {len(data)} bytes at {offset} where {length} of {size} were asked")
    version = version_of(name, data, offset)
    if version is None:
        version = next(iter(versions), None)
        if version is None:
            return
    versions.add(version)
    if len(versions) > 1:
        raise ValueError(f"{name}: one open file gave the versions {sorted(versions)}")
    if size_of(base_size, version) != size:
        raise ValueError(f"{name}: size {size} is not that of version {version}, whose bytes it has")
    if data != content(name, version, offset, length):
        raise ValueError(f"{name}: wrong bytes in [{offset}, {offset + length}) of version {version}")


def close(fd):
    try:
        os.close(fd)
    except OSError as error:
        if error.errno not in WHILE_DYING:
            raise


def open_one(root, name, base_size, random_source, counts, besides):
    try:
        fd = os.open(os.path.join(root, name), os.O_RDONLY)
    except OSError as error:
        counts[f"open {errno.errorcode[error.errno]}"] += 1
        if error.errno not in ALLOWED_AT_OPEN | besides:
            raise ValueError(f"{name}: open answered {error}") from error
        return
    versions = set()
    try:
        size = os.fstat(fd).st_size
        for _ in range(READS_PER_OPEN):
            read_one(fd, name, base_size, size, random_source, versions)
            counts["reads"] += 1
    except OSError as error:
        counts[f"read {errno.errorcode[error.errno]}"] += 1
        if error.errno not in ALLOWED_AT_READ | besides:
            raise ValueError(f"{name}: read answered {error}") from error
    finally:
        close(fd)
    counts["opens"] += 1


def main():
    root, seed, opens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    files = [argument.rsplit("=", 1) for argument in sys.argv[5:]]
    besides = WHILE_DYING if sys.argv[4] == "dying" else set()
    random_source = random.Random(seed)
    counts, violations, ended, longest_s = Counter(), [], [], 0
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    for _ in range(opens):
        if ended:
            break
        name, base_size = random_source.choice(files)
        begin = time.monotonic()
        try:
            open_one(root, name, int(base_size), random_source, counts, besides)
        except ValueError as error:
            violations.append(str(error))
        longest_s = max(longest_s, time.monotonic() - begin)
    print(json.dumps({"counts": counts, "longest_s": longest_s, "violations": violations[:20]}))


if __name__ == "__main__":
    main()
