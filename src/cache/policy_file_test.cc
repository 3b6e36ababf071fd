// SPDX-License-Identifier: Apache-2.0
// Policies outlive the process that set them, however it ends, so a pinned object stays before its
// mount is back.
#include "cache/policy_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "base/read_file.h"
#include "cache/store_fixture_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

const PoolId kPinned = pool_of_mount("/pinned"), kScratch = pool_of_mount("/scratch");
const PoolPolicy kPinnedPolicy = {.name = "/pinned", .pinned = true};
const PoolPolicy kScratchPolicy = {
    .name = "/scratch", .quota_bytes = 9 * kMiB, .ttl = 100h, .priority = Priority::kLow};

FileRefPtr in_pool(PoolId pool, const std::string& key, uint64_t size) {
  auto ref = std::make_shared<FileRef>(*object(key, size));
  ref->pool = pool;
  return ref;
}

// Small and large ones.
std::vector<FileRefPtr> objects_of(PoolId pool, const std::string& name, int count) {
  std::vector<FileRefPtr> objects;
  for (int i = 0; i < count; ++i) {
    objects.push_back(in_pool(pool, fmt::format("{} {}", name, i), i % 2 == 0 ? 300'000 : 60'000));
  }
  return objects;
}

PoolPolicy policy_of(TestStore& store, PoolId id) {
  for (const PoolStats& pool : store->pools()) {
    if (pool.id == id) return pool.policy;
  }
  return {};
}

std::optional<PoolPolicies> written(const std::string& directory) {
  const std::string bytes = read_file(directory + "/pools").value_or("");
  return decode_policies(std::as_bytes(std::span(bytes)));
}

bool says(const std::string& directory, PoolId id, const PoolPolicy& policy) {
  auto policies = written(directory);
  return policies && policies->contains(id) && policies->at(id) == policy;
}

class Policies : public testing::Test {
 protected:
  // One object in each pool, so that the policies are not omitted.
  void set_both(TestStore& store) {
    store->set_pool_policy(kPinned, kPinnedPolicy);
    store->set_pool_policy(kScratch, kScratchPolicy);
    ASSERT_TRUE(store.write_whole(in_pool(kPinned, "p", 5000)));
    ASSERT_TRUE(store.write_whole(in_pool(kScratch, "s", 5000)));
  }
  PageStoreOptions options() const { return TestStore::options(directory_.path()); }

  TempDirectory directory_;
};

TEST_F(Policies, OutliveARestartAndWhatIsSetAfterItWins) {
  {
    TestStore store(options());
    set_both(store);
    store.close();
  }
  TestStore store(options());
  EXPECT_EQ(policy_of(store, kPinned), kPinnedPolicy);
  EXPECT_EQ(policy_of(store, kScratch), kScratchPolicy);
  store->set_pool_policy(kPinned, {});
  EXPECT_EQ(policy_of(store, kPinned), PoolPolicy{});
  store.close();
  TestStore again(options());
  EXPECT_EQ(policy_of(again, kPinned), PoolPolicy{});
  EXPECT_EQ(policy_of(again, kScratch), kScratchPolicy);
}

TEST_F(Policies, OutliveAKill) {
  TestStore killed(options());
  set_both(killed);
  ASSERT_TRUE(killed.flush());
  until([&] {
    return says(directory_.path(), kPinned, kPinnedPolicy) &&
           says(directory_.path(), kScratch, kScratchPolicy);
  });
  auto copy = crash_copy(directory_.path());
  std::ofstream(copy->path() + "/pools.new") << "half of the nex";
  TestStore store(TestStore::options(copy->path()));
  EXPECT_EQ(policy_of(store, kPinned), kPinnedPolicy);
  EXPECT_EQ(policy_of(store, kScratch), kScratchPolicy);
}

TEST_F(Policies, TheirFileIsChargedAfterARestartToo) {
  uint64_t without = 0;
  {
    TestStore store(options());
    without = store->stats().used_bytes;
    store->set_pool_policy(kPinned, kPinnedPolicy);
    until([&] { return says(directory_.path(), kPinned, kPinnedPolicy); });
    EXPECT_EQ(store->stats().used_bytes, without + 2 * kPageBytes) << "and its successor";
    store.close();
  }
  TestStore store(options());
  EXPECT_EQ(store->stats().used_bytes, without + 2 * kPageBytes);
}

TEST_F(Policies, SmallerCapacityAtStartKeepsPinnedObjects) {
  auto pinned = objects_of(kPinned, "pinned", 30), others = objects_of(PoolId{5}, "other", 60);
  {
    TestStore store(options());
    store->set_pool_policy(kPinned, kPinnedPolicy);
    // First in: without the policy they would be first out.
    for (const auto& group : {pinned, others}) {
      for (const auto& ref : group) ASSERT_TRUE(store.write_whole(ref));
    }
    store.close();
  }
  PageStoreOptions smaller = options();
  smaller.capacity_bytes = 8 * kMiB;
  TestStore store(smaller);
  EXPECT_GT(store->stats().evicted_bytes, 0u);
  EXPECT_LE(store->stats().used_bytes, smaller.capacity_bytes);
  for (const auto& ref : pinned) EXPECT_TRUE(store.holds(ref)) << ref->key;
}

TEST_F(Policies, WhatIsTooOldGoesBeforeItsMountIsBack) {
  auto old = in_pool(kScratch, "old", 5000);
  {
    TestStore store(options());
    ASSERT_TRUE(store.write_whole(old));
    store.close();
  }
  std::ofstream(directory_.path() + "/pools", std::ios::binary)
      << encode_policies({{kScratch, {.name = "/scratch", .ttl = 1ms}}});
  TestStore store(options());
  until([&] { return store->cached_bytes(*old) == 0; });
}

TEST_F(Policies, ADamagedFileIsSetAsideAndTheStartGoesOn) {
  {
    TestStore store(options());
    set_both(store);
    store.close();
  }
  const std::string file = directory_.path() + "/pools";
  const auto bytes = fs::file_size(file);
  for (int how = 0; how < 4; ++how) {
    SCOPED_TRACE(how);
    auto copy = crash_copy(directory_.path());
    const std::string damaged = copy->path() + "/pools";
    if (how == 0) flip_bit(damaged, 40);
    if (how == 1) fs::resize_file(damaged, bytes - 9);
    if (how == 2) fs::resize_file(damaged, 0);
    if (how == 3) fs::resize_file(damaged, bytes + 9);
    TestStore store(TestStore::options(copy->path()));
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    EXPECT_TRUE(fs::exists(damaged + ".bad"));
    EXPECT_EQ(policy_of(store, kPinned), PoolPolicy{});
    EXPECT_TRUE(store.holds(in_pool(kPinned, "p", 5000)));
    store->set_pool_policy(kPinned, kPinnedPolicy);
    store.close();
    EXPECT_TRUE(says(copy->path(), kPinned, kPinnedPolicy));
  }
}

TEST_F(Policies, FailedSaveIsRetriedOnChangeAndClose) {
  Executor executor({.threads = 1});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  std::atomic<int> refused = 0;
  auto fill = [&] {
    disk->fault = [&](FaultyDisk::Call call, uint64_t) {
      return call == FaultyDisk::Call::kWrite && ++refused > 0 ? ENOSPC : 0;
    };
  };
  TestStore store(options(), disk);
  fill();
  store->set_pool_policy(kPinned, kPinnedPolicy);
  until([&] { return refused > 0; });
  EXPECT_FALSE(fs::exists(directory_.path() + "/pools"));
  disk->fault = nullptr;
  store->set_pool_policy(kScratch, kScratchPolicy);
  until([&] { return says(directory_.path(), kPinned, kPinnedPolicy); });
  const int before = refused;
  fill();
  store->set_pool_policy(kPinned, {.name = "/pinned", .quota_bytes = 7 * kMiB});
  until([&] { return refused > before; });
  EXPECT_TRUE(says(directory_.path(), kPinned, kPinnedPolicy)) << "the one before is whole";
  disk->fault = nullptr;
  store.close();
  EXPECT_TRUE(says(directory_.path(), kPinned, {.name = "/pinned", .quota_bytes = 7 * kMiB}));
}

TEST_F(Policies, AreWrittenByNobodyAfterTheClose) {
  Executor executor({.threads = 2});
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  std::unique_ptr<PageStore> store =
      *executor.block_on(PageStore::open(Context::background(), options(), executor, disk));
  executor.block_on(store->close());
  const uint64_t calls = disk->calls;
  store->set_pool_policy(kPinned, kPinnedPolicy);
  store.reset();
  EXPECT_EQ(disk->calls, calls);
  EXPECT_FALSE(fs::exists(directory_.path() + "/pools"));
}

TEST_F(Policies, UnusedPoolPoliciesAreRemoved) {
  {
    TestStore store(options());
    store->set_pool_policy(kPinned, kPinnedPolicy);
    store->set_pool_policy(kScratch, kScratchPolicy);
    ASSERT_TRUE(store.write_whole(in_pool(kScratch, "s", 5000)));
    store.close();
  }
  EXPECT_EQ(written(directory_.path())->size(), 2u);
  TestStore store(options());
  store->set_pool_policy(PoolId{7}, {.name = "/new", .pinned = true});
  store.close();
  auto policies = written(directory_.path());
  ASSERT_TRUE(policies);
  EXPECT_EQ(policies->size(), 2u);
  EXPECT_FALSE(policies->contains(kPinned));
  EXPECT_TRUE(policies->contains(kScratch));
}

TEST_F(Policies, AreBoundedInNumberAndLength) {
  PoolPolicies policies;
  for (uint64_t i = 0; i < kPolicyPoolsMax; ++i) {
    policies[PoolId{i}] = {.name = std::string(kPolicyNameBytesMax + 9, 'n'), .pinned = true};
  }
  const std::string bytes = encode_policies(policies);
  auto decoded = decode_policies(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->size(), kPolicyPoolsMax);
  EXPECT_EQ(decoded->begin()->second.name.size(), kPolicyNameBytesMax);
  policies[PoolId{kPolicyPoolsMax}] = {.pinned = true};
  const std::string more = encode_policies(policies);
  EXPECT_FALSE(decode_policies(std::as_bytes(std::span(more))));
}

// Byte by byte as in docs/formats/cache.md.
TEST(PolicyFormat, IsWhatTheDocumentSays) {
  const std::string bytes = encode_policies(
      {{PoolId{0x0102}, {.name = "/a", .quota_bytes = 3, .ttl = 4ns, .priority = Priority::kLow}}});
  std::string expected = "LEATPOL1";
  expected += std::string("\x01\0\0\0\x01\0\0\0", 8);
  expected += std::string("\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0", 24);
  expected += std::string("\xff\0\0\0\x02\0\0\0/a\0\0\0\0\0\0", 16);
  ASSERT_EQ(bytes.size(), expected.size() + 4);
  EXPECT_EQ(bytes.substr(0, expected.size()), expected);
}

}  // namespace
}  // namespace leat
