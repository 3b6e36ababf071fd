// SPDX-License-Identifier: Apache-2.0
// Memory: of a worker with its share of all names and a full cache, and of a client that knows all
// workers. By malloc's own count, of the modules' real tables.
#include <fmt/format.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <random>

#include "cache/eviction.h"
#include "cache/files/cached_file.h"
#include "cache/packed/packed_index.h"
#include "catalog/catalog.h"
#include "peer/client/peer_client.h"
#include "peer/peer_table.h"
#include "runtime/executor.h"
#include "scale/figures.h"
#include "scale/fleet.h"
#include "scale/one_worker.h"
#include "scale/parts.h"
#include "scale/synthetic_source.h"

namespace leat::scale {
namespace {

// A catalog that has listed directories until it has so many names; bytes a name.
double catalog_bytes(const Setting& setting, uint64_t names, double* names_per_s) {
  Executor executor({.threads = 1});
  SourceTable sources;
  const uint64_t before = heap_bytes();
  const auto catalog = Catalog::create({}, sources, executor);
  MountEntry entry;
  entry.path = "/data";
  entry.policy.freshness.mode = Freshness::Mode::kImmutable;
  must(catalog->mount(std::move(entry),
                      std::make_shared<SyntheticSource>(setting.objects_in_directory)));
  const Stopwatch watch;
  for (uint64_t i = 0; i < names / setting.objects_in_directory; ++i) {
    must(
        executor.block_on(catalog->list(Context::background(), "/data/" + synthetic_directory(i))));
  }
  *names_per_s = double(names) / watch.cpu_seconds();
  const double bytes = double(heap_bytes() - before) / double(names);
  executor.block_on(catalog->stop());
  return bytes;
}

double packed_bytes(uint64_t objects) {
  std::mt19937_64 random(1);
  PackedIndex index;
  for (uint64_t i = 0; i < objects; ++i) {
    FileId id;
    for (uint64_t half = 0; half < 2; ++half) {
      const uint64_t bits = random();
      std::memcpy(id.bytes.data() + 8 * half, &bits, sizeof bits);
    }
    index.put(id, {.segment = 1, .page = 1, .crc = 1, .size = 100'000, .verified = 1, .read = 1});
  }
  return double(index.heap_bytes()) / double(objects);
}

// Of objects from 1 MiB, as the file store has them: in its table and in the queues of eviction.
double file_bytes(const Setting& setting, uint64_t objects) {
  std::atomic<uint64_t> clock = 0;
  const auto pool =
      std::make_shared<Pool>(PoolId::kNone, std::make_shared<Capacity>(UINT64_MAX, nullptr), clock);
  const uint64_t before = heap_bytes();
  {
    boost::unordered_flat_map<FileId, std::shared_ptr<CachedFile>, IdHash> files;
    S3Fifo queues;
    uint64_t made = 0;
    for (uint64_t i = 0; made < objects; ++i) {
      const uint64_t size = object_bytes(i);
      if (size < kMiB) continue;
      ++made;
      const FileRef ref =
          FileRef::make(synthetic_store(), object_key(i, setting.objects_in_directory),
                        synthetic_version(i), size);
      const auto file = std::make_shared<CachedFile>(ref, 1, pool);
      files.emplace(ref.id, file);
      queues.insert(ref.id, file, size, 1);
    }
    return double(heap_bytes() - before) / double(objects);
  }
}

void print_worker(const Setting& setting) {
  begin_part("memory: a worker");
  const double share = double(setting.objects) / double(setting.workers);
  double names_per_s = 0, of_name = 0;
  for (const uint64_t names : {setting.names / 10, setting.names}) {
    of_name = catalog_bytes(setting, names, &names_per_s);
    print_figure(fmt::format("catalog with {} names, a name", number_text(double(names))),
                 fmt::format("{} B", number_text(of_name)));
  }
  print_number("names taken in, from a store in memory, one core", names_per_s, "/s");
  print_number("names at a worker, where each is known at its owner", share);
  print_bytes("catalog of these", share * of_name);
  print_number("names a worker keeps (CatalogOptions::names_max)",
               double(CatalogOptions().names_max));
  print_number("objects of a cluster with which that is reached",
               double(CatalogOptions().names_max) * double(setting.workers));

  double bytes = 0, small = 0;
  constexpr uint64_t kSampled = 200'000;
  for (uint64_t i = 0; i < kSampled; ++i) {
    bytes += double(object_bytes(i));
    small += object_bytes(i) < kMiB;
  }
  const double cached = double(setting.capacity_bytes) / (bytes / kSampled);
  const double packed = packed_bytes(setting.names);
  const double file = file_bytes(setting, std::max<uint64_t>(setting.names / 50, 100));
  print_number("objects in its full cache", cached);
  print_share("of them packed (below 1 MiB)", small / kSampled);
  print_number("index of packed objects, an object", packed, "B");
  print_number("index of objects with a file, an object", file, "B");
  print_bytes("page store's index",
              cached * (small * packed + (kSampled - small) * file) / kSampled);
}

void print_client(const Setting& setting) {
  begin_part("memory: a client");
  const auto entries = synthetic_entries(equal_capacities(setting.workers, setting.capacity_bytes));
  const uint64_t before_view = heap_bytes();
  const ClusterView view = view_of(entries, "train");
  const double of_view = double(heap_bytes() - before_view);
  print_bytes("view and rings", of_view);
  Executor executor({.threads = 1});
  const auto signer = std::make_shared<RequestSigner>(must(
      issue(OneWorker::secrets()->signing(), TokenClaims::of_worker(synthetic_worker(1, 0).id))));
  const uint64_t before_table = heap_bytes();
  PeerTable table([&](const WorkerInfo& info) -> PeerPtr {
    PeerClientOptions options{.address = info.address, .worker = info.id};
    return must(PeerClient::make(options, signer, executor));
  });
  table.update(view);
  const double of_table = double(heap_bytes() - before_table);
  print_bytes("peer table of all workers, without connections", of_table);
  print_bytes("a worker in it", of_table / double(setting.workers));
}

}  // namespace

void run_memory(const Setting& setting) {
  print_worker(setting);
  print_client(setting);
}

}  // namespace leat::scale
