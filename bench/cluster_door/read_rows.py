# SPDX-License-Identifier: Apache-2.0
"""Rows of reading: a cold set by four clients at once, all links full, a cache that holds a part."""

import random
import time

from cluster_door.readers import at_once, read_once
from cluster_door.store_bodies import StoreBodies
from measure import MIB

CLIENTS, WORKERS = 4, 4
LINK_BITS, LINK_READERS = 1_000_000_000, 8
SHARE = 0.5  # of the data, that all caches hold together
ORDERS = ("in_order", "permuted", "resharded")


def fill(scene, name, clients):
    """Each client reads its part of the set, and the caches have it on disk."""
    data = scene.setting.data
    files = list(data.files[name])
    parts = [files[number::len(clients)] for number in range(len(clients))]
    at_once([lambda n=n, folder=folder: read_once(
        folder, data.list_of(name, parts[n], f"fill{n}"), 4)
        for n, (_, folder) in enumerate(clients)])
    scene.wait_until_written(data.bytes_of(name))


def cold(setting):
    """cold: four clients read a cold set at once, each in an order of its own."""
    data, whole = setting.data, setting.data.bytes_of("load")
    with setting.scene("load") as scene:
        clients = scene.clients("/load", CLIENTS)
        bodies = StoreBodies(scene.store, data.keys_of("load")[0])
        told = at_once([lambda n=n, folder=folder: read_once(
            folder, data.list_of("load", label=f"cold{n}", seed=n), 2)
            for n, (_, folder) in enumerate(clients)])
        asked, words = bodies.since()
    if asked < whole * 0.999:
        raise RuntimeError(f"only {asked} bytes of {whole} were counted at the store")
    rate = sum(one["bytes"] / one["seconds"] for one in told)
    return {"cold": {"value": asked / whole,
                     "note": f"{CLIENTS} clients, {rate / MIB:,.0f} MiB/s; {words}"}}


def aggregate_of(setting, name, files):
    """(rate ÷ sum of links, what the worker serves that serves most ÷ the mean, bytes a second)"""
    data = setting.data
    with setting.scene(name) as scene:
        clients = scene.clients(f"/{name}", CLIENTS)
        fill(scene, name, clients)
        for number in range(WORKERS):
            scene.network.host(f"w{number}").limit(LINK_BITS)
        with scene.cycles(clients,
                          lambda number: data.list_of(name, files, f"linked{number}", number),
                          LINK_READERS) as loads:
            time.sleep(2)
            loads.tell()
            begin = served_by(scene)
            time.sleep(setting.sizes.rate_s)
            told = loads.tell()
            each = [end - start for start, end in zip(begin, served_by(scene))]
        if told["failures"] or loads.end["failures"]:
            raise RuntimeError(f"reads failed: {told['messages']}")
    return told["rate"] * 8 / (WORKERS * LINK_BITS), max(each) * WORKERS / sum(each), told["rate"]


def served_by(scene):
    return [worker.counter("leat_peer_served_bytes_total") for worker in scene.workers]


def aggregate(setting):
    """aggregate: by one client per worker, each worker behind 1 Gbit/s: many files, and few."""
    few = [name for name in setting.data.files["load"] if name.startswith("large/")]
    figures = {}
    for figure, name, files in (("aggregate", "share", None), ("aggregate_few", "load", few)):
        value, fullest, rate = aggregate_of(setting, name, files)
        figures[figure] = {"value": value,
                           "note": f"{rate / MIB:,.0f} MiB/s of "
                                   f"{WORKERS * LINK_BITS / 8 / MIB:,.0f}; the worker that serves "
                                   f"most: {fullest:.2f} times the mean"}
    return figures


def epochs_of(order, files, epochs):
    """For each epoch the files of each client."""
    mine = [files[number * len(files) // CLIENTS:(number + 1) * len(files) // CLIENTS]
            for number in range(CLIENTS)]
    for epoch in range(epochs):
        chosen = random.Random(epoch)
        if order == "resharded":
            everything = chosen.sample(files, len(files))
            yield [everything[number::CLIENTS] for number in range(CLIENTS)]
        elif order == "permuted":
            yield [chosen.sample(part, len(part)) for part in mine]
        else:
            yield mine


def hits_of(setting, order):
    """(the share of what is read that the store is not asked for, once the caches are filled; what
    workers served ÷ what was read)."""
    data, whole = setting.data, setting.data.bytes_of("share")
    with setting.scene("share", cache_bytes=int(SHARE * whole / WORKERS), memory="32MiB") as scene:
        clients = scene.clients("/share", CLIENTS)
        # Less than a tenth of the data, with what their daemons have for reads under way.
        groups = [scene.little_memory(max(16 * MIB, whole // 20)) for _ in clients]
        bodies = StoreBodies(scene.store, data.keys_of("share")[0])
        begin, served = None, 0
        for number, parts in enumerate(epochs_of(order, list(data.files["share"]),
                                                 1 + setting.sizes.epochs)):
            if number == 1:
                begin = bodies.moment()
                served = scene.counters("leat_peer_served_bytes_total")
            at_once([lambda n=n, folder=folder, part=part: read_once(
                folder, data.list_of("share", part, f"epoch{n}"), 2, groups[n])
                for n, ((_, folder), part) in enumerate(zip(clients, parts))])
        asked, _ = bodies.since(begin)
        served = scene.counters("leat_peer_served_bytes_total") - served
    read = whole * setting.sizes.epochs
    return 1 - asked / read, served / read


def hit_rate(setting):
    """hit-rate: epochs in three orders by four clients that keep nothing, the caches of all workers
    together hold a half of the data."""
    figures = {}
    for order in ORDERS:
        hits, served = hits_of(setting, order)
        figures[f"hit_rate_{order}"] = {
            "value": abs(hits - SHARE),
            "note": f"{hits:.3f} ({SHARE}); workers served {served:.3f} of what was read"}
    return figures
