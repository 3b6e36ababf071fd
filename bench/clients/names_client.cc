// SPDX-License-Identifier: Apache-2.0
// Cost of a snapshot: leat_bench_names FILE NAMES
//
// Builds one of so many names, ten thousand to a directory, in an order that is not theirs; opens
// it; looks names up at random, and lists all directories, on one thread: by itself, and through a
// catalog in which it is mounted. Prints one JSON line.
//
// leat_bench_names FOLDER NAMES --directory: one directory of so many names, listed by a store that
// answers from memory, in a catalog with FOLDER for large listings.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>

#include "catalog/catalog.h"
#include "catalog/snapshot/snapshot.h"
#include "catalog/snapshot/snapshot_writer.h"
#include "plan.h"
#include "runtime/executor.h"

namespace leat {
namespace {

constexpr uint64_t kInDirectory = 10'000;
constexpr uint64_t kLookups = 2'000'000;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "leat_bench_names: %s\n", why.c_str());
  std::exit(1);
}

std::string name_of(uint64_t number) {
  return fmt::format("train/part-{:05}/sample-{:010}.jpg", number / kInDirectory, number);
}

Version version_of(uint64_t number) {
  const uint64_t mixed = number * 0x9e3779b97f4a7c15ull;
  return Version::etag(fmt::format("\"{:016x}{:016x}\"", mixed, ~mixed));
}

// Every number below `count` once, neighbours far apart.
uint64_t shuffled(uint64_t number, uint64_t count) {
  uint64_t step = count / 3 * 2 + 1;
  while (std::gcd(step, count) != 1) ++step;
  return static_cast<uint64_t>(static_cast<unsigned __int128>(number) * step % count);
}

uint64_t heap_bytes() {
  struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

double build(const std::string& path, uint64_t names, uint64_t* heap_most) {
  const Watch watch;
  const uint64_t before = heap_bytes();
  SnapshotHead head;
  head.source = "names://bucket/";
  SnapshotWriter writer({.path = path}, head);
  SnapshotEntry entry;
  for (uint64_t i = 0; i < names; ++i) {
    const uint64_t number = shuffled(i, names);
    entry.path = name_of(number);
    entry.size = 100'000 + number % 1000;
    entry.mtime_ns = (1'700'000'000 + static_cast<int64_t>(number % 86'400)) * 1'000'000'000;
    entry.version = version_of(number);
    if (Result<> added = writer.add(entry); !added) fail(added.error().to_string());
    if (i % 100'000 == 0) *heap_most = std::max(*heap_most, heap_bytes() - before);
  }
  if (auto finished = writer.finish(); !finished) fail(finished.error().to_string());
  return watch.seconds();
}

// One directory of names as name_of() has them, a thousand to a page; with none, a store that
// gets no request.
class EndlessSource : public Source {
 public:
  explicit EndlessSource(uint64_t names) : names_(names) {}
  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  Task<Result<SourceObject>> stat(Context, StatRequest request) override {
    co_return error(StatusCode::kNotFound, request.key);
  }
  Task<Result<ListPage>> list(Context, ListRequest request) override {
    ListPage page;
    uint64_t at = request.token.empty() ? 0 : std::strtoull(request.token.c_str(), nullptr, 10);
    for (; at < names_ && page.objects.size() < 1000; ++at) {
      SourceObject object;
      object.key = fmt::format("{}sample-with-a-long-name-{:012}.jpg", request.prefix, at);
      object.size = at;
      object.version = version_of(at);
      object.mtime = WallTime(std::chrono::seconds(1'700'000'000 + at % 86'400));
      page.objects.push_back(std::move(object));
    }
    if (at < names_) page.next_token = std::to_string(at);
    co_return page;
  }
  Task<Result<>> read(Context, ReadRequest, std::span<std::byte>) override {
    co_return error(StatusCode::kNotFound, "there are only names");
  }

 private:
  const uint64_t names_;
  const StoreId id_;
  const std::string name_ = "names://bucket";
  const SourceCapabilities capabilities_{};
};

struct Mounted {
  Executor executor{{.threads = 2}};
  SourceTable sources;
  std::unique_ptr<Catalog> catalog;

  Mounted(CatalogOptions options, uint64_t names, SnapshotPtr snapshot)
      : catalog(Catalog::create(std::move(options), sources, executor)) {
    MountEntry entry;
    entry.path = "/data";
    entry.policy.freshness.mode = Freshness::Mode::kImmutable;
    auto source = std::make_shared<EndlessSource>(names);
    if (auto added = catalog->mount(std::move(entry), source, std::move(snapshot)); !added) {
      fail(added.error().to_string());
    }
  }
  ListingPtr list(std::string path) {
    auto listing = executor.block_on(catalog->list(Context::background(), std::move(path)));
    if (!listing) fail(listing.error().to_string());
    return *listing;
  }
};

uint64_t walk(const Listing& listing) {
  uint64_t listed = 0;
  for (Listing::Cursor cursor = listing.from(0); cursor.next();) {
    listed += cursor.entry().ref != nullptr;
  }
  return listed;
}

struct ThroughCatalog {
  double lookups_per_s, listed_per_s, heap_bytes;
};

ThroughCatalog run_catalog(const SnapshotPtr& snapshot, uint64_t names) {
  std::vector<std::string> wanted;
  for (uint64_t i = 0; i < kLookups; ++i) {
    wanted.push_back("/data/" + name_of(shuffled(i, names) % names));
  }
  const uint64_t before = heap_bytes();
  Mounted mounted({}, 0, snapshot);
  const Watch looking;
  uint64_t found = 0;
  for (const std::string& path : wanted) {
    found += (*mounted.catalog->try_lookup(path))->ref->size > 0;
  }
  const double lookups_s = looking.seconds();
  const Watch listing;
  uint64_t listed = 0;
  for (uint64_t i = 0; i * kInDirectory < names; ++i) {
    listed += walk(*mounted.list(fmt::format("/data/train/part-{:05}", i)));
  }
  const double listed_s = listing.seconds();
  if (found != kLookups || listed != names) fail("names are missing");
  return {double(kLookups) / lookups_s, double(listed) / listed_s, double(heap_bytes() - before)};
}

uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib << 10;
  }
  return 0;
}

void run_directory(const std::string& folder, uint64_t names) {
  CatalogOptions options;
  options.scratch_directory = folder;
  const uint64_t before = heap_bytes();
  Mounted mounted(std::move(options), names, nullptr);
  const Watch first;
  ListingPtr listing = mounted.list("/data");
  const double first_s = first.seconds();
  malloc_trim(0);
  const uint64_t heap = heap_bytes() - before, anonymous = anonymous_bytes();
  const Watch walking;
  if (walk(*listing) != names) fail("names are missing");
  const double walked_s = walking.seconds();
  std::vector<std::string> wanted;
  for (uint64_t i = 0; i < kLookups; ++i) {
    wanted.push_back(
        fmt::format("/data/sample-with-a-long-name-{:012}.jpg", shuffled(i, names) % names));
  }
  const Watch looking;
  uint64_t found = 0;
  for (const std::string& path : wanted) {
    if (auto entry = mounted.catalog->try_lookup(path)) found += (*entry)->ref != nullptr;
  }
  const double lookups_s = looking.seconds();
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf(
      "{\"names\": %lu, \"first_listing_s\": %.2f, \"heap_bytes\": %lu, "
      "\"anonymous_bytes\": %lu, \"rss_most_bytes\": %ld, \"listed_per_s\": %.0f, "
      "\"lookups\": %lu, \"lookups_per_s\": %.0f}\n",
      names, first_s, heap, anonymous, used.ru_maxrss << 10, double(names) / walked_s, found,
      double(kLookups) / lookups_s);
}

void run(const std::string& path, uint64_t names) {
  uint64_t build_heap = 0;
  const double built_s = build(path, names, &build_heap);
  const uint64_t before = heap_bytes();
  const Watch opening;
  auto opened = Snapshot::open(path);
  if (!opened) fail(opened.error().to_string());
  const double opened_s = opening.seconds();
  const Snapshot& snapshot = **opened;
  const uint64_t heap = heap_bytes() - before;

  std::vector<std::string> wanted;
  for (uint64_t i = 0; i < kLookups; ++i) wanted.push_back(name_of(shuffled(i, names) % names));
  const Watch looking;
  uint64_t found = 0;
  for (const std::string& name : wanted) found += snapshot.find(name)->size > 0;
  const double lookups_s = looking.seconds();
  const Watch listing;
  uint64_t listed = 0;
  for (uint64_t i = 0; i * kInDirectory < names; ++i) {
    auto below = snapshot.below(fmt::format("train/part-{:05}", i));
    while (below->next()) ++listed;
  }
  const double listed_s = listing.seconds();
  if (found != kLookups || listed != names) fail("names are missing");
  const ThroughCatalog catalog = run_catalog(*opened, names);
  std::printf(
      "{\"names\": %lu, \"build_s\": %.2f, \"build_heap_bytes\": %lu, \"file_bytes\": %lu, "
      "\"open_s\": %.3f, \"heap_bytes\": %lu, \"lookups_per_s\": %.0f, \"listed_per_s\": %.0f, "
      "\"catalog_lookups_per_s\": %.0f, \"catalog_listed_per_s\": %.0f, "
      "\"catalog_heap_bytes\": %.0f}\n",
      names, built_s, build_heap, snapshot.file_bytes(), opened_s, heap,
      double(kLookups) / lookups_s, double(listed) / listed_s, catalog.lookups_per_s,
      catalog.listed_per_s, catalog.heap_bytes);
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  if (count != 3 && count != 4) leat::fail("usage: FILE NAMES | FOLDER NAMES --directory");
  const uint64_t names = std::strtoull(words[2], nullptr, 10);
  if (count == 3) {
    leat::run(words[1], names);
  } else {
    leat::run_directory(words[1], names);
  }
}
