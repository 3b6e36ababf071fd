# SPDX-License-Identifier: Apache-2.0
"""What a store's server sent of objects themselves, without a word of who asked: what the kernel saw it
write, less its log, its listings (by that log) and the heads of its answers, which are as long as those
of one GET and one HEAD that are made to see."""

import re
from dataclasses import dataclass

from cluster_door.data_sets import BUCKET, s3_client

LISTED = re.compile(r" s3_ListObjectsV2 \S+ \S+ \d{3} \S+ (\d+) ")
PROBED_BYTES = 100_000


@dataclass
class Moment:
    bytes: int
    gets: int
    heads: int
    listings: int
    listing_bytes: int


class StoreBodies:
    """`key`: of an object of PROBED_BYTES or more."""

    def __init__(self, store, key):
        self.store, s3 = store, s3_client(store)
        self.get_head = self.cost(lambda: s3.get_object(
            Bucket=BUCKET, Key=key, Range=f"bytes=0-{PROBED_BYTES - 1}")["Body"].read())
        self.get_head -= PROBED_BYTES
        self.head_head = self.cost(lambda: s3.head_object(Bucket=BUCKET, Key=key))
        self.begin = self.moment()

    def cost(self, ask):
        """Bytes that one request makes the server send; the first one makes the connection."""
        ask()
        before = self.store.counters()["bytes"]
        ask()
        return self.store.counters()["bytes"] - before

    def moment(self):
        counted = [operation for operation, *_ in self.store.requests()]
        listings = LISTED.findall(self.store.log.read_text(errors="replace"))
        return Moment(self.store.counters()["bytes"], counted.count("GetObject"),
                      counted.count("HeadObject"), len(listings), sum(map(int, listings)))

    def since(self, begin=None):
        """(bytes of bodies, in words what else was asked) since then, else since the beginning."""
        begin, end = begin or self.begin, self.moment()
        gets, heads = end.gets - begin.gets, end.heads - begin.heads
        listings = end.listings - begin.listings
        # The head of a listing is about as long as that of a HEAD.
        beside = (gets * self.get_head + (heads + listings) * self.head_head
                  + end.listing_bytes - begin.listing_bytes)
        words = f"{gets} GETs, {heads} HEADs, {listings} listings, {beside / 1e6:.2f} MB beside bodies"
        return end.bytes - begin.bytes - beside, words
