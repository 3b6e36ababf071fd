# SPDX-License-Identifier: Apache-2.0
"""Files that say what they are: any 512 aligned bytes tell the file, its version and their place.

So one read of any range proves which version it came from, and that no other was mixed into it.
"""

import hashlib
import struct

UNIT_BYTES = 512
# name (16), version (8), index (8), then 15 times 32 bytes that no other unit has.
HEAD = struct.Struct("<16sQQ")


def name_mark(name):
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def unit(mark, version, index):
    head = HEAD.pack(mark, version, index)
    return head + hashlib.blake2b(head, digest_size=32).digest() * 15


def content(name, version, offset, size):
    """`size` bytes from `offset` of the file `name` at `version`."""
    mark = name_mark(name)
    first, last = offset // UNIT_BYTES, (offset + size + UNIT_BYTES - 1) // UNIT_BYTES
    whole = b"".join(unit(mark, version, index) for index in range(first, last))
    begin = offset - first * UNIT_BYTES
    return whole[begin:begin + size]


def version_of(name, data, offset):
    """The version that `data`, read at `offset` of `name`, claims; None if no unit is whole."""
    skip = -offset % UNIT_BYTES
    if len(data) < skip + UNIT_BYTES:
        return None
    mark, version, index = HEAD.unpack_from(data, skip)
    if mark != name_mark(name) or index != (offset + skip) // UNIT_BYTES:
        raise ValueError(f"{name} at {offset}: holds {data[skip:skip + HEAD.size].hex()}, "
                         "which is another file or another place")
    return version


def size_of(base_size, version):
    """Each version has a size of its own, so that size and bytes of two versions cannot be mixed."""
    return base_size + version * UNIT_BYTES
