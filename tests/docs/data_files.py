# SPDX-License-Identifier: Apache-2.0
"""Files of the kinds that training programs read, written without the programs: PNG, npy, safetensors,
TFRecord, Parquet. Each as simple as its format allows."""

import io
import json
import struct
import tarfile
import zlib


def png(width, height, pixels):
    """Grey, 8 bits a pixel."""
    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1))
            + chunk(b"IEND", b""))


def npy(kind, count, content):
    """One axis; `kind` as numpy writes it, such as '<i4'."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({count},), }}"
    head = head.ljust(128 - 10 - 1) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + content


def safetensors(tensors):
    """`tensors`: name -> (shape, content of 4 bytes a number)."""
    head, at = {}, 0
    for name, (shape, content) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(one for _, one in tensors.values())


def tar(members):
    """`members`: name -> content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), 1_700_000_000
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


CRC32C = []
for first in range(256):
    for _ in range(8):
        first = first >> 1 ^ (0x82F63B78 if first & 1 else 0)
    CRC32C.append(first)


def masked_crc(content):
    """As TensorFlow's record format masks a CRC-32C."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def message(*fields):
    """A protocol buffer; its fields are (number, bytes) or (number, whole number)."""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        else:
            out += varint(number << 3) + varint(value)
    return out


def tfrecord(examples):
    """tf.train.Example with the features image (bytes) and label (int64)."""
    out = b""
    for image, label in examples:
        features = [message((1, b"image"), (2, message((1, message((1, image)))))),
                    message((1, b"label"), (2, message((3, message((1, varint(label)))))))]
        body = message((1, message(*[(1, one) for one in features])))
        length = struct.pack("<Q", len(body))
        out += length + masked_crc(length) + body + masked_crc(body)
    return out


I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def thrift(*fields):
    """A struct of Thrift's compact protocol; its fields are (number, type, value)."""
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([(number - last) << 4 | kind]) + thrift_value(kind, value)
        last = number
    return out + b"\0"


def thrift_value(kind, value):
    if kind in (I32, I64):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST:
        of, values = value
        assert len(values) < 15
        return bytes([len(values) << 4 | of]) + b"".join(thrift_value(of, one) for one in values)
    return value  # a struct as it was made


PARQUET_TYPES = {"q": 2, "d": 5}  # INT64, DOUBLE


def parquet(rows, columns):
    """`columns`: name -> (q or d, numbers); one row group, plain and uncompressed, nothing optional."""
    out, chunks = b"PAR1", []
    for name, (kind, numbers) in columns.items():
        content = struct.pack(f"<{rows}{kind}", *numbers)
        page = thrift((1, I32, 0), (2, I32, len(content)), (3, I32, len(content)),
                      (5, STRUCT, thrift((1, I32, rows), (2, I32, 0), (3, I32, 3), (4, I32, 3))))
        at, size = len(out), len(page) + len(content)
        out += page + content
        chunks.append(thrift((2, I64, at), (3, STRUCT, thrift(
            (1, I32, PARQUET_TYPES[kind]), (2, LIST, (I32, [0, 3])),
            (3, LIST, (BINARY, [name.encode()])), (4, I32, 0), (5, I64, rows), (6, I64, size),
            (7, I64, size), (9, I64, at)))))
    schema = [thrift((4, BINARY, b"schema"), (5, I32, len(columns)))]
    schema += [thrift((1, I32, PARQUET_TYPES[kind]), (3, I32, 0), (4, BINARY, name.encode()))
               for name, (kind, _) in columns.items()]
    group = thrift((1, LIST, (STRUCT, chunks)), (2, I64, len(out) - 4), (3, I64, rows))
    foot = thrift((1, I32, 1), (2, LIST, (STRUCT, schema)), (3, I64, rows),
                  (4, LIST, (STRUCT, [group])), (6, BINARY, b"leat tests"))
    return out + foot + struct.pack("<I", len(foot)) + b"PAR1"
