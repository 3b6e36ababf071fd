// SPDX-License-Identifier: Apache-2.0
// Time to list: from the store, a thousand keys a request, from a worker that has the listing, and
// from a snapshot. Requests to the store are counted, with the latency of Setting; pages between
// workers and clients and snapshots are measured.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "catalog/snapshot/snapshot.h"
#include "catalog/snapshot/snapshot_writer.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/page_cost.h"
#include "scale/parts.h"
#include "scale/placed_keys.h"
#include "scale/synthetic_source.h"

namespace leat::scale {
namespace {

constexpr double kKeysOfPage = 1000;  // of a store's listing; kListResponseObjectsMax is the same

PageCost print_pages(const Setting& setting) {
  begin_part("listing: a page between workers and clients");
  const PageCost cost = measure_page(setting);
  print_number("names in it", double(kListResponseObjectsMax));
  print_bytes("size", cost.bytes);
  print_seconds("written", cost.written);
  print_seconds("read", cost.read);
  return cost;
}

struct Snapshots {
  double bytes_of_name = 0, built_per_s = 0, walked_per_s = 0, opened_per_s = 0;
};

Snapshots print_snapshot(const Setting& setting) {
  begin_part("listing: a snapshot");
  const double names = double(setting.in_snapshot);
  const std::string path = fmt::format("{}/leat_scale_{}.snapshot", setting.folder, getpid());
  Snapshots found;
  {
    const Stopwatch building;
    SnapshotHead head;
    head.source = "s3://bucket/";
    SnapshotWriter writer({.path = path}, head);
    SnapshotEntry entry;
    for (uint64_t i = 0; i < setting.in_snapshot; ++i) {
      entry.path = object_key(i, setting.objects_in_directory);
      entry.size = object_bytes(i);
      entry.mtime_ns = synthetic_time(i).time_since_epoch().count();
      entry.version = synthetic_version(i);
      must(writer.add(entry));
    }
    must(writer.finish());
    found.built_per_s = names / building.cpu_seconds();
  }
  const Stopwatch opening;
  const auto snapshot = must(Snapshot::open(path));
  found.opened_per_s = names / opening.cpu_seconds();
  unlink(path.c_str());
  const Stopwatch walking;
  uint64_t walked = 0;
  for (auto cursor = snapshot->all(); cursor.advance();) ++walked;
  found.walked_per_s = double(walked) / walking.cpu_seconds();
  found.bytes_of_name = double(snapshot->file_bytes()) / names;
  print_number("names in it", names);
  print_number("a name in the file", found.bytes_of_name, "B");
  print_number("written, in the store's order, one core", found.built_per_s, "names/s");
  print_number("opened and verified", found.opened_per_s, "names/s");
  print_number("walked", found.walked_per_s, "names/s");
  return found;
}

void print_directory(const Setting& setting, double names, const PageCost& page,
                     const Snapshots& files) {
  begin_part(fmt::format("listing: one directory of {} names", number_text(names)));
  const double pages = std::ceil(names / kKeysOfPage);
  print_number("requests to the store, by its one owner", pages);
  print_seconds("one after the other", pages * setting.store_latency_s);
  print_seconds("if its range were cut among 16 requests in flight",
                pages * setting.store_latency_s / 16);
  print_seconds("from the owner that has it, to one client (CPU of both, no network)",
                pages * page.both());
  print_bytes("at the owner, in a file without a name", names * files.bytes_of_name);
  print_seconds("CPU of the owner for all clients, one after the other",
                pages * page.written * double(setting.clients));
}

// How evenly the directories of a tree lie over their owners.
void print_tree(const Setting& setting, const PageCost& page, const Snapshots& files) {
  const double directories = double(setting.objects) / double(setting.objects_in_directory);
  begin_part(fmt::format("listing: a tree of {} objects in {} directories",
                         number_text(double(setting.objects)), number_text(directories)));
  const Ring ring =
      make_ring(7, synthetic_members(equal_capacities(setting.workers, setting.capacity_bytes)));
  const MemberIndex places(ring);
  const StoreId store = synthetic_store();
  const auto tried = static_cast<uint64_t>(std::min(directories, double(setting.keys) / 2));
  auto work = [&](uint64_t first, uint64_t end, std::vector<double>& into) {
    for (uint64_t i = first; i < end; ++i) {
      ++into[places.of(ring.owner(PlacementKey::listing(store, synthetic_directory(i) + "/")))];
    }
  };
  std::vector<double> owned(places.size());
  for (const auto& one : on_all_cores(tried, owned, work)) {
    for (size_t i = 0; i < owned.size(); ++i) owned[i] += one[i];
  }
  const double most = *std::ranges::max_element(owned) * double(setting.workers) / double(tried);
  const double mean = directories / double(setting.workers);
  const double pages_of_one = std::ceil(double(setting.objects_in_directory) / kKeysOfPage);
  const double pages = directories * pages_of_one;
  print_number("directories placed", double(tried));
  print_number("most / mean of directories at an owner", most);
  print_number("requests to the store", pages);
  print_number("of them at the owner with most", mean * most * pages_of_one);
  const double in_flight = double(setting.lists_in_flight);
  const double owners_s = mean * most * pages_of_one * setting.store_latency_s / in_flight;
  print_seconds("all owners at once, as fast as they can send", owners_s);
  print_number("requests that the store gets then", pages / owners_s, "/s");
  print_seconds("at the rate that is published of one prefix",
                pages / setting.store_requests_per_s);
  print_number("prefixes with rates of their own that all owners at once need",
               std::ceil(pages / owners_s / setting.store_requests_per_s));
  print_seconds("one client alone, nothing known yet, one directory after the other",
                pages * setting.store_latency_s);
  print_seconds("one client alone, all known at the owners (CPU of both, no network)",
                pages * page.both());
  print_seconds("a snapshot of it as it is made today, one request after the other",
                pages * setting.store_latency_s);
  print_number("names that a snapshot can have (docs/formats/snapshot.md)", double(UINT32_MAX) - 1);
  print_seconds("CPU to write that snapshot, one core",
                double(setting.objects) / files.built_per_s);
  print_bytes("the snapshot", double(setting.objects) * files.bytes_of_name);
  print_seconds("opened and verified, one core", double(setting.objects) / files.opened_per_s);
  print_seconds("walked, one core", double(setting.objects) / files.walked_per_s);
}

}  // namespace

void run_listing(const Setting& setting) {
  const PageCost page = print_pages(setting);
  const Snapshots files = print_snapshot(setting);
  print_directory(setting, 1e6, page, files);
  print_directory(setting, 1e8, page, files);
  print_tree(setting, page, files);
}

}  // namespace leat::scale
