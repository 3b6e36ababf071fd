# SPDX-License-Identifier: Apache-2.0
"""What `make bench` measures and what is promised of it: layers, their rows, the figures of a row.
Only declarations, so that the page can be written, and rows chosen, where nothing is installed. How
a layer measures its rows is in layers/NAME.py."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """`target` is the least value, or the most where `at_most`; None: nothing is promised. `tie`: so
    little below a peer counts as above it, where something else than the programs sets the bound.
    unit `ratio`: ÷ the layer's reference, and drawn in its picture. `beside`: another figure, in whose
    line of the table this one stands."""

    title: str
    target: float | None = None
    at_most: bool = False
    tie: float = 0
    unit: str = "ratio"
    beside: str = ""

    def promise(self):
        if self.target is None:
            return "–"
        return f"{'≤' if self.at_most else '≥'} {self.target:,g}"

    def met(self, value):
        if self.target is None:
            return None
        return value <= self.target if self.at_most else value >= self.target

    def is_above(self, ours, theirs):
        return ours < theirs if self.at_most else ours > theirs - self.tie


@dataclass(frozen=True)
class Row:
    """`seconds`: one run, roughly, until one has been measured. `peers`: other programs are measured
    beside it. `root`: it drops page caches or mounts what only root may."""

    about: str
    figures: dict[str, Figure]
    seconds: float
    peers: bool = False
    root: bool = False
    runs_max: int = 100


@dataclass(frozen=True)
class Layer:
    """`reference` is what its ratios are against; `programs` are ninja's targets beside leat."""

    title: str
    reference: str
    rows: dict[str, Row]
    programs: tuple[str, ...] = field(default=())

    def figures(self):
        return {key: figure for row in self.rows.values() for key, figure in row.figures.items()}

    def row_of(self, key):
        return next(name for name, row in self.rows.items() if key in row.figures)


def most(title, target, unit="ratio"):
    return Figure(title, target, at_most=True, unit=unit)


STORES = Layer("The store client alone", "libcurl", {
    "plain": Row("CPU of 4 MiB ranges × 16 in flight ÷ libcurl's", {
        "plain": most("4 MiB ranges × 16 in flight, CPU ÷ libcurl's", 0.95),
        "cpu_plain": most("4 MiB ranges: CPU", None, "s/GiB")}, 12, peers=True),
    "tls": Row("the same with TLS 1.3", {
        "tls": most("the same with TLS 1.3", 1.1),
        "cpu_tls": most("4 MiB ranges with TLS 1.3: CPU", None, "s/GiB")}, 16, peers=True),
    "small": Row("CPU of 100 KB objects × 32 in flight ÷ libcurl's", {
        "small": most("100 KB objects × 32 in flight, CPU ÷ libcurl's", 0.7),
        "cpu_small": most("100 KB objects: CPU", None, "ms each")}, 15, peers=True),
    "list": Row("listing a million keys from a server that answers from memory", {
        "list": Figure("1,000,000 keys listed", 150_000, unit="keys/s")}, 15),
    "throttled": Row("reads from a store that throttles to 200 requests/s", {
        "throttled": Figure("store throttles to 200/s: goodput ÷ 200", 0.9, unit="share"),
        "slowest_throttled": most("store throttles to 200/s: slowest read", None, "s")}, 22),
    "stalls": Row("reads from a store where one connection in ten falls silent", {
        "stalls": most("one connection in ten stalls for 60 s: slowest read", 5, "s")}, 12),
}, ("leat_bench_client", "leat_bench_curl", "leat_bench_list", "leat_bench_bad_store"))


def cpu_beside(name, native, ways):
    """CPU of each way in the line of its speed, that of the reference in the first one's."""
    return {f"cpu_{name}_{native}": Figure(f"CPU of {native}", None, True, 0, "s/GiB",
                                           f"{name}_{next(iter(ways))}"),
            **{f"cpu_{name}_{way}": Figure("CPU", None, True, 0, "s/GiB", f"{name}_{way}")
               for way in ways}}


def source_row(name, title, about, seconds):
    ways = {"pool": "pool", "source": "source", "file": "open file"}
    figures = {f"{name}_{way}": Figure(f"{title}: {word} ÷ pread") for way, word in ways.items()}
    figures |= cpu_beside(name, "pread", ways)
    return Row(about, figures, seconds, root=True)


def local_mount_row(name, title, about, seconds):
    ways = ("cached", "default", "immutable")
    figures = {f"{name}_{way}": Figure(f"{title}: {way} ÷ the folder itself") for way in ways}
    figures |= cpu_beside(name, "native", ways)
    return Row(about, figures, seconds, root=True)


FILES = Layer("Local files", "", {
    "cold": source_row("cold", "1 GiB, page cache cold, 1 MiB × 4 in flight",
                       "1 GiB by module source alone, page cache cold", 12),
    "hot": source_row("hot", "the same, hot", "the same, hot", 4),
    "random": source_row("random", "4 KiB at random, cold, 32 in flight",
                         "4 KiB at random, 32 in flight, cold", 16),
    "mount_cold": local_mount_row("mount_cold", "a mounted folder, 1 GiB, page cache cold",
                                  "a mounted local folder, 1 GiB, page cache cold", 40),
    "mount_hot": local_mount_row("mount_hot", "a mounted folder, 1 GiB hot", "the same, hot", 30),
    "mount_small": local_mount_row("mount_small", "a mounted folder, 5,000 × 110 KB hot, 4 threads",
                                   "5,000 files of 110 KB, hot, 4 threads", 30),
}, ("leat_bench_file",))


def hit_figures():
    """The largest difference from what can be had, over caches of a quarter, half, three quarters."""
    works = {"permuted": ("permuted epochs", 0.02), "in_order": ("epochs in order", 0.02),
             "resharded": ("re-sharded epochs", 0.02), "zipf0.8": ("Zipf 0.8", 0.03),
             "zipf1.1": ("Zipf 1.1", 0.03), "scan+zipf": ("scan+zipf", 0.03)}
    return {f"hits_{kind}_{work}": most(f"hit rate, {title}, {kind}: most beside the best", within,
                                        "share")
            for kind in ("files", "packed") for work, (title, within) in works.items()}


CACHE = Layer("The page store", "one file of as many bytes", {
    "restart": Row("a store of a million objects of 4 KiB is opened, and one is read", {
        "restart": most("1,000,000 objects: open to the first hit", 3, "s"),
        "heap": most("heap of it, bytes an object", 64, "bytes")}, 5),
    "write": Row("objects into a new store until they are durable ÷ one file, synced", {
        "write_4k": Figure("first write of 100,000 × 4 KiB, durable ÷ one file, synced", 0.7),
        "write_110k": Figure("first write of 20,000 × 110 KB, durable ÷ one file, synced", 0.7)},
        20),
    "hits": Row("share of traces that is served, beside what can be had", hit_figures(), 240,
                runs_max=1),
}, ("leat_bench_cache", "leat_bench_hits"))

NAMES = Layer("Snapshots and names", "", {
    "snapshot": Row("a snapshot of a million names is built, opened, looked into and listed", {
        "heap": most("heap of a snapshot, bytes a name", 32, "bytes"),
        "catalog_heap": most("heap of a catalog in which it is mounted, bytes a name", 32, "bytes"),
        "lookups": Figure("looked up at random in a snapshot", 1, unit="M/s"),
        "listed": Figure("listed in a snapshot", 1, unit="M/s"),
        "catalog_lookups": Figure("looked up at random through the catalog", 1, unit="M/s"),
        "catalog_listed": Figure("listed through the catalog", 1, unit="M/s"),
        "build": most("built", None, "s")}, 15),
    "daemon": Row("memory of a daemon with a mount that goes by such a snapshot", {
        "daemon": most("daemon with a snapshot of a million names, resident", 250, "MB"),
        "daemon_walked": most("the same after all of them were walked through the folder", None,
                              "MB")}, 60, runs_max=1, root=True),
    "folder": Row("ten million names in one folder, listed twice", {
        "folder_first": most("a folder of ten million names: first listing", None, "s"),
        "folder_again": most("the next listing", None, "s"),
        "folder_memory": most("the daemon's own memory meanwhile, at most", None, "MB")}, 140,
        runs_max=1, root=True),
}, ("leat_bench_names",))

FUSE = Layer("The mounted folder", "ext4", {
    "hot": Row("sequential 4 GiB, page cache hot", {
        "hot": Figure("4 GiB sequential, page cache hot ÷ ext4", 0.95)}, 25, root=True),
    "disk": Row("the same with the page cache dropped", {
        "disk": Figure("4 GiB sequential, page cache dropped ÷ ext4", 0.95)}, 20, root=True),
    "random": Row("preads of 4 KiB at random in the 4 GiB file, 1 and 4 threads, hot and cold", {
        f"random_{state}_{threads}": Figure(
            f"4 KiB random, {state}, {threads} thread{'s' * (threads > 1)} ÷ ext4",
            0.9 if state == "hot" else 0.8)
        for state in ("hot", "cold") for threads in (1, 4)}, 60, root=True),
    "small": Row("12,000 files of 110 KB opened, read, closed, hot, 4 threads, by mount mode", {
        "small_default": Figure("12,000 × 110 KB hot, 4 threads, default ÷ ext4", 0.55),
        "small_io_uring": Figure("12,000 × 110 KB hot, 4 threads, io_uring ÷ ext4", 0.58),
        "small_no_open": Figure("12,000 × 110 KB hot, 4 threads, no_open ÷ ext4", 0.88)},
        75, root=True),
    "small_cold": Row("the same files, page cache dropped, shuffled and by name", {
        "small_cold_random": Figure("the same, page cache dropped, shuffled ÷ ext4", 0.7),
        "small_cold_name": Figure("the same, page cache dropped, by name ÷ ext4", 0.9)},
        25, root=True),
    "restart": Row("large and small files, page cache dropped, right after a restart ÷ verified", {
        "restart_large": Figure("4 GiB sequential, page cache dropped, first read after a restart ÷ "
                                "once verified", 0.9, unit="share"),
        "restart_small": Figure("12,000 × 110 KB by name, page cache dropped, first read after a "
                                "restart ÷ once verified", 0.85, unit="share")}, 60, root=True),
    "names": Row("readdir and stat of a million names that a snapshot holds, warm", {
        "names": Figure("readdir and stat of 1 M names ÷ ext4, warm", 0.5)}, 60, root=True),
    "streams200": Row("200 descriptors of the 4 GiB file read in turn, daemon in 512 MiB", {
        "streams200": most("200 streams in 512 MiB: ended for want of memory", 0, "times")},
        30, root=True),
}, ("leat_bench_curl",))

WHOLE = Layer("The whole: a bucket as programs see it", "", {
    "first": Row("a file of 2 GiB read for the first time ÷ 8 signed raw streams; CPU", {
        "first": Figure("first read of 2 GiB ÷ 8 signed streams", 0.5),
        "cpu_first": most("first read of 2 GiB: CPU", 1.1, "s/GiB")}, 25, peers=True, root=True),
    "first_shaped": Row("the same behind a link of 2 Gbit/s ÷ raw streams", {
        "first_shaped": Figure("first read of 2 GiB behind 2 Gbit/s ÷ the link", 0.95, tie=0.03)},
        40, peers=True, root=True),
    "first_small": Row("10,000 files of 100 KB for the first time, shuffled, 8 readers; CPU", {
        "first_small": Figure("first read of 10,000 × 100 KB, 8 readers ÷ signed GETs", 0.5),
        "cpu_first_small": most("first read of 10,000 × 100 KB: CPU", 0.35, "ms each")},
        25, peers=True, root=True),
    "again": Row("the file of 2 GiB again at once, once more, and with the page cache dropped", {
        "second": Figure("the same 2 GiB a second time, at once ÷ ext4, page cache hot", None),
        "again": Figure("the same 2 GiB again, page cache hot ÷ ext4", 0.9),
        "again_cold": Figure("the same 2 GiB again, page cache dropped ÷ ext4", 0.85)},
        30, peers=True, root=True),
    "small_again": Row("the 10,000 files again, 4 readers", {
        "small_again": Figure("the 10,000 × 100 KB again, hot, 4 readers ÷ ext4", 0.5)},
        30, peers=True, root=True),
    "amplification": Row("bytes from the store ÷ bytes asked, random reads of a file of 4 GiB", {
        "amplification_pread": most("bytes from the store ÷ asked, random 128 KiB preads", 1.1,
                                    "times"),
        "amplification_mmap": most("bytes from the store ÷ asked, random 4 KiB by mmap", 20,
                                   "times")}, 30, peers=True, root=True),
    "interactive": Row("150 files one by one beside a scan, behind 2 Gbit/s ÷ raw GETs", {
        "interactive": Figure("files of 100 KB for the first time beside 8 streams, behind 2 Gbit/s "
                              "÷ raw GETs beside raw streams")}, 60, root=True),
    "safetensors": Row("4 GiB in order by 16 threads in preads of 2 MiB, behind 2 Gbit/s", {
        "safetensors": Figure("4 GiB in 16 × 2 MiB preads behind 2 Gbit/s ÷ the link", 0.95)},
        70, root=True),
    "capacity": Row("3 GiB go through a cache of 512 MiB, twice: most above its size", {
        "capacity": most("capacity: most above the configured size", 8, "MiB")}, 40, root=True),
}, ("leat_bench_curl",))



def fault_row(name, about, title, stall_s, seconds, promised=True):
    """What readers see of it; only stated where nothing is promised, and a load is under way."""
    name = name.replace("-", "_")
    figures = {
        f"{name}_failed": most(f"{title}: failed reads", 0 if promised else None, "reads"),
        f"{name}_stall": most(f"{title}: longest stall of a read", stall_s, "s"),
        f"{name}_rate": Figure(f"{title}: rate after 10 s ÷ rate before",
                               0.7 if promised else None, unit="share")}
    if not promised:
        figures[f"{name}_load"] = most(f"{title}: files that a load under way leaves out", 0, "files")
    return Row(about, figures, seconds, root=True, runs_max=3)


def link_row(name, gigabits, seconds, targets=(None, None, None)):
    load, epoch, sequential = targets
    title = f"{gigabits} Gbit/s"
    return Row(f"behind a link of {title}, 30 ms away: the same load, and the file of 2 GiB", {
        f"{name}_load": Figure(f"`leat load` behind {title}, 30 ms away ÷ the link", load,
                               unit="times"),
        f"{name}_epoch": Figure("first epoch at random there, 8 readers ÷ the link", epoch,
                                unit="times"),
        f"{name}_sequential": Figure("first read of 2 GiB there ÷ the link", sequential,
                                     unit="times")}, seconds, peers=True, root=True)


FAR = Layer("A far store", "", {
    "load": Row("`leat load` of 10,000 files of 100 KB, 0, 30 and 100 ms away", {
        "load_0": Figure("`leat load` of 10,000 × 100 KB, 0 ms away", None, unit="files/s"),
        "load_30": Figure("the same, 30 ms away ÷ 0 ms", 0.8, unit="times"),
        "load_100": Figure("the same, 100 ms away ÷ 0 ms", 0.6, unit="times"),
        "load_memory": most("the daemon's memory in these loads, at most", None, "MiB")}, 40, root=True),
    "epoch": Row("the files of 100 KB once, 8 readers, at random and in name order, 30 ms away", {
        "epoch_random": Figure("10,000 × 100 KB at random, 8 readers, 30 ms away", 1500,
                               unit="files/s"),
        "epoch_ordered": Figure("the same in name order", None, unit="files/s"),
        "epoch_many": Figure("the same at random, 64 readers, 30 ms away ÷ 0 ms", 0.6,
                             unit="times")}, 90, peers=True, root=True),
    "jitter": Row("the load and the 8 readers at random with jitter, 30 ± 10 ms away", {
        "jitter_load": Figure("`leat load` of 10,000 × 100 KB, 30 ± 10 ms away ÷ 0 ms", None,
                              unit="times"),
        "jitter_epoch": Figure("first epoch at random there, 8 readers", None, unit="files/s")}, 40,
        peers=True, root=True),
    "sequential": Row("a file of 2 GiB for the first time, 0 and 30 ms away", {
        "sequential_0": Figure("first read of 2 GiB, 0 ms away", None, unit="MiB/s"),
        "sequential_30": Figure("the same, 30 ms away ÷ 0 ms", 0.9, unit="times"),
        "first_byte": most("its first 128 KiB, name known ÷ a round trip", 1.2, "times")},
        20, peers=True, root=True),
    "link": link_row("link", 1, 80, (0.95, 0.9, 0.95)),
    "link-2": link_row("link2", 2, 50),
    "link-5": link_row("link5", 5, 40),
    "mounts": Row("two mounts of one daemon share a store, 8 readers each at random, 30 ms away", {
        "mounts_fair": Figure("two mounts of a store at once, 8 readers each: files of one ÷ the other's",
                              0.8, unit="times"),
        "mounts_sum": Figure("files/s of both ÷ of one alone", None, unit="times")}, 60, root=True),
    "beside": Row("64 of the files one by one while the others are loaded, 30 ms away", {
        "beside": most("p99 of a file of 100 KB beside a load, 30 ms away ÷ without", 1.3, "times")},
        20, root=True),
    "random": Row("preads at random in the file of 4 GiB, at multiples of 4 KiB", {
        "random_large": most("bytes of the store ÷ read, random 128 KiB at 4 KiB offsets", 1.1,
                             "times"),
        "random_small": most("the same, random 4 KiB", 4, "times"),
        "random_deep": Figure("128 threads, random 4 KiB, 30 ms away ÷ 128 in a round trip", None,
                              unit="times")}, 60, root=True),
    "ranks": Row("two clients of two workers read half of the files each, at random", {
        "ranks": Figure("two ranks in a cluster, 8 readers each, 30 ms away ÷ 0 ms", 0.6,
                        unit="times"),
        "ranks_bytes": most("bytes of the store ÷ the set", 1.02, "times")}, 60, root=True),
    "name": Row("one name in a directory of 300,000 that is not listed yet, 30 ms away", {
        "one_name": most("`cat` of one name among 300,000 ÷ a round trip", 3, "times")}, 60,
        root=True),
    "snapshot": Row("a snapshot of 1,000,000 names, 30 ms away", {
        "snapshot_folders": most("snapshot of 1,000,000 names in 1,000 directories", 6, "s"),
        "snapshot_flat": most("the same in one directory", 15, "s")}, 60, root=True),
    "no_etag": Row("the files by 8 readers from a web server, without ETags ÷ with, 30 ms away", {
        "no_etag": Figure("first read of 10,000 × 100 KB, no ETags ÷ ETags, 30 ms away", 0.95,
                          unit="times")}, 120, root=True),
    "throttle": Row("a store that takes 1,000 requests a second, 30 ms away, 256 readers", {
        "throttle": Figure("store that takes 1,000 requests/s: goodput ÷ that", 0.95, unit="times"),
        "throttle_refused": most("requests of it that were refused", 0.03, "share")}, 20),
}, ("leat_bench_delay", "leat_bench_bad_store", "leat_bench_client"))

WRITING = Layer("Writing", "", {
    "sequential": Row("a file of 4 GiB, `through` ÷ a parallel multipart upload; CPU", {
        "sequential": Figure("4 GiB written, `through` ÷ parallel multipart upload", 0.9),
        "cpu_sequential": most("4 GiB written, `through`: CPU", 1.0, "s/GiB")}, 100, root=True),
    "back_sequential": Row("the same, synchronised, `back` ÷ ext4", {
        "back_sequential": Figure("4 GiB written and synchronised, `back` ÷ ext4", 0.9)},
        60, root=True),
    "small": Row("10,000 files of 16 KB created by 4 threads, also synchronised ÷ ext4", {
        "small_through": Figure("10,000 × 16 KB created, `through` ÷ ext4", None),
        "small_through_synced": Figure("10,000 × 16 KB with fsync, `through` ÷ ext4 with fsync", None),
        "small_back": Figure("10,000 × 16 KB created, `back` ÷ ext4", 0.5),
        "small_back_synced": Figure("10,000 × 16 KB with fsync, `back` ÷ ext4 with fsync", None)},
        150, peers=True, root=True),
    "random": Row("4 KiB written at random into an open file of 1 GiB ÷ ext4", {
        f"random_{mode}": Figure(f"4 KiB at random into a staged file of 1 GiB, `{mode}` ÷ ext4", 0.8)
        for mode in ("through", "back")}, 80, root=True),
    "checkpoint": Row("1 GiB written, synchronised, renamed; the store takes 50 MiB/s", {
        "checkpoint_through": most("checkpoint of 1 GiB, store at 50 MiB/s, `through`: time ÷ ext4's",
                                   None),
        "checkpoint_back": most("checkpoint of 1 GiB, store at 50 MiB/s, `back`: time ÷ ext4's", 1.2)},
        100, root=True),
    "beside": Row("10,000 files of 100 KB read for the first time beside a writer ÷ without", {
        f"beside_{mode}": most(f"first epoch beside a writer of 200 MiB/s, `{mode}`: time ÷ without",
                               1.15, "times") for mode in ("through", "back")}, 60, root=True),
    "far": Row("4 GiB and 2,000 files of 16 KB, `through`, 30 ms away ÷ 0 ms", {
        "far_sequential": Figure("4 GiB written, `through`, 30 ms away ÷ 0 ms", None, unit="times"),
        "far_small": Figure("2,000 × 16 KB created, `through`, 30 ms away ÷ 0 ms", None,
                            unit="times")}, 150, root=True),
}, ("leat_bench_curl", "leat_bench_delay"))

CLUSTER = Layer("A cluster", "", {
    "cold": Row("four clients read a cold set at once: bytes asked of the store ÷ the set", {
        "cold": most("4 clients read a cold set: bodies asked of the store ÷ the set", 1.01,
                     "times")}, 60, root=True),
    "door": Row("100 KB objects from a worker's cache, signed ÷ a bare Beast server", {
        "door": Figure("peer server, 100 KB objects, per core ÷ a bare Beast server", 0.6)},
        60, root=True),
    "ranges": Row("4 MiB ranges from a worker's cache ÷ raw TCP with sendfile", {
        "ranges": Figure("peer server, 4 MiB ranges, per core ÷ raw TCP with sendfile", 0.8)},
        60, root=True),
    "ranges-tls": Row("the same with mutual TLS", {
        "ranges_tls": Figure("the same with mutual TLS ÷ raw TCP in clear", None)}, 60, root=True),
    "remote-latency": Row("4 KiB at depth 1 through a folder, in a worker's cache ÷ a ping-pong", {
        "remote_latency": most("4 KiB remote hit through the folder, depth 1 ÷ TCP ping-pong", 4),
        "remote_bytes": most("bytes moved for each of them", 5120, "bytes")}, 40, root=True),
    "small-reads": Row("4 KiB reads by a client, several in a request ÷ each in its own", {
        f"small_reads_{depth}": Figure(f"4 KiB reads, {depth} under way, together ÷ each alone",
                                       None) for depth in (1, 16, 64)}, 70, root=True),
    "hedges": Row("parts of what two workers have, a second one asked where the first is late ÷ not", {
        "hedges_even": most("400 reads/s of what two workers have, p99 with hedges ÷ without", None),
        "hedges_hiccups": most("the same while workers stop for 30 ms now and then", None),
        "hedges_busy": Figure("as many reads as there can be: bytes/s with hedges ÷ without", None)},
        120, root=True),
    "aggregate": Row("four workers behind 1 Gbit/s each, one client per worker ÷ sum of links", {
        "aggregate": Figure("4 workers behind 1 Gbit/s, 4 clients ÷ sum of links", 0.9),
        "aggregate_few": Figure("the same of 90 large files, which no ring shares out evenly",
                                None)},
        120, root=True),
    "kill": fault_row("kill", "one of four workers is killed while two clients read",
                      "a worker is killed", 2, 70),
    "stop": fault_row("stop", "one of four workers is stopped (SIGSTOP), and goes on later",
                      "a worker hangs", 5, 70),
    "cut": fault_row("cut", "one of four workers is cut off without a reset, and is back later",
                     "a worker is cut off", 5, 70),
    "leader": fault_row("leader", "the worker that leads is killed", "the leader is killed", None,
                        70, promised=False),
    "leader-stop": fault_row("leader-stop", "the worker that leads is stopped, and goes on later",
                             "the leader hangs", None, 80, promised=False),
    "leader-cut": fault_row("leader-cut", "the worker that leads is cut off, and is back later",
                            "the leader is cut off", None, 80, promised=False),
    "etcd": fault_row("etcd", "etcd is away for a minute", "etcd is away for 60 s", None, 110,
                      promised=False),
    "etcd-stop": fault_row("etcd-stop", "etcd is stopped for a minute, and goes on",
                           "etcd hangs for 60 s", None, 110, promised=False),
    "etcd-cut": fault_row("etcd-cut", "etcd is cut off for a minute", "etcd is cut off for 60 s",
                          None, 110, promised=False),
    "halves": fault_row("halves", "two workers and etcd are cut from two workers for 30 s",
                        "a cut between halves", None, 80, promised=False),
    "hit-rate": Row("epochs over a set of which all caches together hold a half, three orders", {
        f"hit_rate_{order}": most(f"half of the set cached, epochs {title}: hit rate beside 0.5",
                                  0.02, "share")
        for order, title in (("in_order", "in order"), ("permuted", "permuted"),
                             ("resharded", "re-sharded"))}, 240, root=True, runs_max=1),
    "joins": Row("twenty workers come and go while two clients read", {
        "joins_failed": most("20 joins and leaves in a row: failed reads", 0, "reads"),
        "joins_stall": most("20 joins and leaves in a row: longest stall of a read", None, "s"),
        "joins_lost": most("20 joins and leaves in a row: bodies asked of the store ÷ the set", 0.01,
                           "times")},
        160, root=True, runs_max=1),
    "soak": Row("an hour of reads, listings, changes, joins and kills (--soak-minutes)", {
        "soak_failed": most("soak: failed reads and listings", 0, "reads"),
        "soak_stall": most("soak: longest stall of a read", None, "s"),
        "soak_resident": most("soak: memory of a process in the last quarter ÷ in the second, the most", 1.1,
                              "times"),
        "soak_open": most("soak: the same of descriptors", 1.1, "times")},
        3700, root=True, runs_max=1),
}, ("leat_bench_bare", "leat_bench_peer", "leat_bench_cluster_reader"))

# From the lowest to what programs see, which is the order in which they are run.
LAYERS = {"stores": STORES, "files": FILES, "cache": CACHE, "names": NAMES, "fuse": FUSE,
          "whole": WHOLE, "far": FAR, "writing": WRITING, "cluster": CLUSTER}


def figure_of(record_id):
    """Of `LAYER:FIGURE`; None where there is none any more."""
    layer, _, key = record_id.partition(":")
    return LAYERS[layer].figures().get(key) if layer in LAYERS else None


def programs_of(chosen):
    """What ninja has to build for the chosen rows."""
    return sorted({"leat", *(name for layer in chosen for name in LAYERS[layer].programs)})
