// SPDX-License-Identifier: Apache-2.0
// Pools: quota, age, priority, pin, and the detection of access patterns.
#include "cache/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "cache/store_fixture_test.h"

namespace leat {
namespace {

FileRefPtr in_pool(const std::string& pool, const std::string& key, uint64_t size) {
  auto ref = std::make_shared<FileRef>(*object(pool + key, size));
  ref->pool = pool_of_mount(pool);
  return ref;
}

std::vector<FileRefPtr> objects_of(const std::string& pool, int count, uint64_t size) {
  std::vector<FileRefPtr> objects;
  for (int i = 0; i < count; ++i) objects.push_back(in_pool(pool, fmt::format("/{}", i), size));
  return objects;
}

uint64_t used_by(TestStore& store, const std::string& pool) {
  for (const PoolStats& stats : store->pools()) {
    if (stats.id == pool_of_mount(pool)) return stats.used_bytes;
  }
  return 0;
}

size_t held_of(TestStore& store, const std::vector<FileRefPtr>& objects) {
  return static_cast<size_t>(
      std::ranges::count_if(objects, [&](const auto& ref) { return store.holds(ref); }));
}

// Retries until there is room, as a fetcher does.
void insist(TestStore& store, const FileRefPtr& ref) {
  while (!store.write_whole(ref)) std::this_thread::yield();
}

TEST(Pools, AQuotaIsKeptByEvictionWithinThePool) {
  for (uint64_t size : {300'000ul, 50'000ul}) {
    TempDirectory directory;
    TestStore store(TestStore::options(directory.path()));
    store->set_pool_policy(pool_of_mount("/small"), {.name = "/small", .quota_bytes = 4 * kMiB});
    auto others = objects_of("/other", 20, size);
    for (const auto& ref : others) ASSERT_TRUE(store.write_whole(ref));
    for (const auto& ref : objects_of("/small", 100, size)) {
      insist(store, ref);
      EXPECT_LE(used_by(store, "/small"), 4 * kMiB);
    }
    EXPECT_GT(used_by(store, "/small"), 2 * kMiB);
    EXPECT_EQ(held_of(store, others), others.size());
  }
}

TEST(Pools, AQuotaBelowASegmentIsKept) {
  constexpr uint64_t kQuota = 150'000;
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  store->set_pool_policy(pool_of_mount("/tiny"), {.name = "/tiny", .quota_bytes = kQuota});
  // Two of them fit, in a segment that is not full and gives its bytes nevertheless.
  for (const auto& ref : objects_of("/tiny", 10, 60'000)) {
    until([&] { return store.write_whole(ref).has_value(); });
    EXPECT_LE(used_by(store, "/tiny"), kQuota);
  }
  EXPECT_GT(used_by(store, "/tiny"), 60'000u);
}

TEST(Pools, ALowerQuotaFreesWhatIsBeyondIt) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto objects = objects_of("/a", 60, 300'000);
  for (const auto& ref : objects) ASSERT_TRUE(store.write_whole(ref));
  store->set_pool_policy(pool_of_mount("/a"), {.name = "/a", .quota_bytes = 6 * kMiB});
  while (used_by(store, "/a") > 6 * kMiB) std::this_thread::yield();
  EXPECT_GT(held_of(store, objects), 10u);
}

TEST(Pools, WhatIsTooOldGoes) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto old = objects_of("/scratch", 4, 300'000), small = objects_of("/scratch", 8, 20'000);
  auto others = objects_of("/kept", 4, 300'000);
  for (const auto& group : {old, small, others}) {
    for (const auto& ref : group) ASSERT_TRUE(store.write_whole(ref));
  }
  auto set_age = [&](std::chrono::nanoseconds age) {
    store->set_pool_policy(pool_of_mount("/scratch"), {.name = "/scratch", .ttl = age});
  };
  set_age(std::chrono::hours(1));
  EXPECT_EQ(held_of(store, old), old.size());
  set_age(std::chrono::milliseconds(1));
  while (held_of(store, old) + held_of(store, small) > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(held_of(store, others), others.size());
}

TEST(Pools, LowPriorityIsEvictedBeforeHigh) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 24 * kMiB;
  TestStore store(options);
  store->set_pool_policy(pool_of_mount("/low"), {.name = "/low", .priority = Priority::kLow});
  store->set_pool_policy(pool_of_mount("/high"), {.name = "/high", .priority = Priority::kHigh});
  auto high = objects_of("/high", 25, 300'000), low = objects_of("/low", 25, 300'000);
  for (const auto& ref : high) ASSERT_TRUE(store.write_whole(ref));
  for (const auto& ref : low) ASSERT_TRUE(store.write_whole(ref));
  for (const auto& ref : objects_of("/normal", 80, 300'000)) insist(store, ref);
  EXPECT_EQ(held_of(store, high), high.size());
  EXPECT_EQ(held_of(store, low), 0u);
  // The rest belongs to higher priorities: the low one gets no room.
  for (const auto& ref : low) {
    Result<> kept = store.write_whole(ref);
    static_cast<void>(kept);
  }
  EXPECT_EQ(held_of(store, high), high.size());
  EXPECT_LT(used_by(store, "/low"), 3 * kMiB);
}

TEST(Pools, SmallPinnedAndHighPriorityObjectsStay) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 16 * kMiB;
  TestStore store(options);
  store->set_pool_policy(pool_of_mount("/pinned"), {.name = "/pinned", .pinned = true});
  store->set_pool_policy(pool_of_mount("/high"), {.name = "/high", .priority = Priority::kHigh});
  auto pinned = objects_of("/pinned", 120, 60'000), high = objects_of("/high", 120, 60'000);
  for (const auto& group : {pinned, high}) {
    for (const auto& ref : group) {
      Result<> kept = store.write_whole(ref);
      static_cast<void>(kept);
    }
  }
  const size_t pinned_before = held_of(store, pinned), high_before = held_of(store, high);
  for (const auto& ref : objects_of("/normal", 300, 60'000)) {
    Result<> kept = store.write_whole(ref);
    static_cast<void>(kept);
  }
  EXPECT_EQ(held_of(store, pinned), pinned_before);
  EXPECT_EQ(held_of(store, high), high_before);
  EXPECT_GE(pinned_before + high_before, 230u);
}

TEST(Pools, PinnedObjectsStayUnlessCapacityShrinks) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 16 * kMiB;
  auto pinned = objects_of("/pinned", 30, 300'000);
  {
    TestStore store(options);
    store->set_pool_policy(pool_of_mount("/pinned"), {.name = "/pinned", .pinned = true});
    for (const auto& ref : pinned) ASSERT_TRUE(store.write_whole(ref));
    for (const auto& ref : objects_of("/other", 60, 300'000)) insist(store, ref);
    EXPECT_EQ(held_of(store, pinned), pinned.size());
    store.close();
  }
  options.capacity_bytes = 6 * kMiB;
  TestStore store(options);
  EXPECT_LE(store->stats().used_bytes, options.capacity_bytes);
}

// Reads objects in the order of `trace` and writes missing ones. Returns the hit share of the last
// `measured` reads.
double hit_rate(TestStore& store, const std::vector<FileRefPtr>& objects,
                const std::vector<uint32_t>& trace, size_t measured) {
  size_t hits = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const FileRefPtr& ref = objects[trace[i]];
    const bool hit = store.holds(ref);
    if (hit && i + measured >= trace.size()) ++hits;
    if (hit) continue;
    Result<> kept = store.write_whole(ref);
    static_cast<void>(kept);
  }
  return static_cast<double>(hits) / static_cast<double>(measured);
}

std::vector<uint32_t> epochs(uint32_t objects, int count, bool permuted, uint32_t seed = 1) {
  std::vector<uint32_t> order(objects), trace;
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937 random(seed);
  for (int epoch = 0; epoch < count; ++epoch) {
    if (permuted) std::ranges::shuffle(order, random);
    trace.insert(trace.end(), order.begin(), order.end());
  }
  return trace;
}

TEST(Pools, EpochReadsHitTheCachedShare) {
  for (uint64_t size : {140'000ul, 40'000ul}) {
    for (bool permuted : {true, false}) {
      TempDirectory directory;
      auto options = TestStore::options(directory.path());
      options.capacity_bytes = 16 * kMiB;
      TestStore store(options);
      const auto count = static_cast<uint32_t>(2 * options.capacity_bytes / align_up(size, 4096));
      auto objects = objects_of("/set", static_cast<int>(count), size);
      double rate = hit_rate(store, objects, epochs(count, 4, permuted), count);
      EXPECT_GT(rate, 0.44) << size << (permuted ? " permuted" : " in order");
      EXPECT_TRUE(store->pools().back().cyclic);
    }
  }
}

TEST(Pools, StaleDataSetIsReplacedByTheNext) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 8 * kMiB;
  TestStore store(options);
  auto first = objects_of("/set", 110, 140'000);
  EXPECT_GT(hit_rate(store, first, epochs(110, 4, true), 110), 0.3);
  std::vector<FileRefPtr> second;
  for (int i = 0; i < 110; ++i)
    second.push_back(in_pool("/set", fmt::format("/next{}", i), 140'000));
  EXPECT_GT(hit_rate(store, second, epochs(110, 8, true), 110), 0.3);
}

TEST(Pools, TwoDataSetsReadByEpochsShareTheCache) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 16 * kMiB;
  TestStore store(options);
  auto first = objects_of("/first", 200, 140'000), second = objects_of("/second", 200, 140'000);
  hit_rate(store, first, epochs(200, 3, true), 1);
  std::vector<FileRefPtr> both = first;
  both.insert(both.end(), second.begin(), second.end());
  hit_rate(store, both, epochs(400, 6, true), 1);
  EXPECT_GT(used_by(store, "/second"), 5 * kMiB);
  EXPECT_GT(used_by(store, "/first"), 5 * kMiB);
}

FileId id_of(uint32_t number) {
  return object(std::to_string(number), 1)->id;
}

bool is_cyclic(const std::vector<uint32_t>& trace) {
  AccessPatternMeter meter;
  uint64_t pass = 0;
  for (uint32_t number : trace) meter.note(id_of(number), ++pass);
  return meter.cyclic();
}

TEST(AccessPatternMeter, DistinguishesEpochsFromSkewedUse) {
  constexpr uint32_t kObjects = 3000;
  EXPECT_TRUE(is_cyclic(epochs(kObjects, 3, true)));
  EXPECT_TRUE(is_cyclic(epochs(kObjects, 3, false)));
  std::mt19937 random(1);
  std::vector<uint32_t> shards, uniform;
  for (int epoch = 0; epoch < 12; ++epoch) {  // a fourth of the objects in each
    std::vector<uint32_t> order = epochs(kObjects, 1, true, random());
    shards.insert(shards.end(), order.begin(), order.begin() + kObjects / 4);
  }
  for (uint32_t i = 0; i < 4 * kObjects; ++i) uniform.push_back(random() % kObjects);
  EXPECT_TRUE(is_cyclic(shards));
  EXPECT_TRUE(is_cyclic(uniform));
  for (double skew : {0.8, 1.1}) {
    std::vector<double> weights;
    for (uint32_t i = 1; i <= kObjects; ++i) weights.push_back(std::pow(i, -skew));
    std::discrete_distribution<uint32_t> zipf(weights.begin(), weights.end());
    std::vector<uint32_t> trace;
    for (uint32_t i = 0; i < 4 * kObjects; ++i) trace.push_back(zipf(random));
    EXPECT_FALSE(is_cyclic(trace)) << skew;
  }
}

TEST(AccessPatternMeter, EightRepeatsOfSixteenAreEvidence) {
  std::vector<uint32_t> trace = epochs(16, 1, false);
  for (uint32_t number = 0; number < 7; ++number) trace.push_back(number);
  EXPECT_FALSE(is_cyclic(trace));
  trace.push_back(7);
  EXPECT_TRUE(is_cyclic(trace));
}

TEST(AccessPatternMeter, IsUndecidedBeforeAnyReuse) {
  AccessPatternMeter meter;
  for (uint32_t i = 0; i < 10'000; ++i) meter.note(id_of(i), i + 1);
  EXPECT_FALSE(meter.cyclic());
  EXPECT_EQ(meter.stale_after(), UINT64_MAX);
}

}  // namespace
}  // namespace leat
