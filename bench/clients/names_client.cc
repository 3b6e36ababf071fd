// SPDX-License-Identifier: Apache-2.0
// What a snapshot costs: leat_bench_names FILE NAMES
//
// Builds one of so many names, ten thousand to a directory, in an order that is not theirs; opens
// it; looks names up at random, and lists all directories, on one thread. Prints one JSON line.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>

#include "catalog/snapshot/snapshot.h"
#include "catalog/snapshot/snapshot_writer.h"
#include "plan.h"

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
  head.source = "s3://bucket/";
  SnapshotWriter writer({.path = path}, head);
  SnapshotEntry entry;
  for (uint64_t i = 0; i < names; ++i) {
    const uint64_t number = shuffled(i, names);
    entry.path = name_of(number);
    entry.size = 100'000 + number % 1000;
    entry.mtime_ns = (1'700'000'000 + static_cast<int64_t>(number % 86'400)) * 1'000'000'000;
    const uint64_t mixed = number * 0x9e3779b97f4a7c15ull;
    entry.version = Version::etag(fmt::format("\"{:016x}{:016x}\"", mixed, ~mixed));
    if (Result<> added = writer.add(entry); !added) fail(added.error().to_string());
    if (i % 100'000 == 0) *heap_most = std::max(*heap_most, heap_bytes() - before);
  }
  if (auto finished = writer.finish(); !finished) fail(finished.error().to_string());
  return watch.seconds();
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
  std::printf(
      "{\"names\": %lu, \"build_s\": %.2f, \"build_heap_bytes\": %lu, \"file_bytes\": %lu, "
      "\"open_s\": %.3f, \"heap_bytes\": %lu, \"lookups_per_s\": %.0f, \"listed_per_s\": %.0f}\n",
      names, built_s, build_heap, snapshot.file_bytes(), opened_s, heap,
      double(kLookups) / lookups_s, double(listed) / listed_s);
}

}  // namespace
}  // namespace leat

int main(int count, char** words) {
  if (count != 3) leat::fail("usage: FILE NAMES");
  leat::run(words[1], std::strtoull(words[2], nullptr, 10));
}
