// SPDX-License-Identifier: Apache-2.0
// Several cache directories: placement of objects, and the cost of a failing disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "cache/multi_dir/inflight_calls.h"
#include "cache/multi_dir/multi_dir_store.h"
#include "cache/store_fixture_test.h"

namespace leat {
namespace {

using testing::HasSubstr;

constexpr HealthTimes kQuick = {.window = std::chrono::minutes(1),
                                .hang_timeout = std::chrono::minutes(5),
                                .call_hang_timeout = std::chrono::minutes(5),
                                .probe_interval = std::chrono::milliseconds(20),
                                .probe_backoff_min = std::chrono::milliseconds(20),
                                .probe_backoff_max = std::chrono::milliseconds(100)};

PageStoreOptions small(const TempDirectory& directory, uint64_t capacity = 64 * kMiB) {
  PageStoreOptions options = TestStore::options(directory.path());
  options.capacity_bytes = capacity;
  return options;
}

// A HostCache with disks that fail on demand.
class TestMultiDirStore {
 public:
  explicit TestMultiDirStore(std::vector<PageStoreOptions> options,
                             const std::function<void(size_t, FaultyDisk&)>& prepare = {}) {
    auto make = [&] {
      auto disk = std::make_shared<FaultyDisk>(make_disk(executor_));
      if (prepare) prepare(disks.size(), *disk);
      disks.push_back(disk);
      return disk;
    };
    store_ = std::make_unique<MultiDirStore>(std::move(options), executor_, make, kQuick);
    opened = executor_.block_on(store_->start(Context::background()));
  }
  ~TestMultiDirStore() {
    if (opened) executor_.block_on(store_->close());
  }
  MultiDirStore* operator->() { return store_.get(); }

  Result<> write(const FileRefPtr& ref, ByteRange range) {
    return executor_.block_on(
        store_->write(Context::background(), ref, range.offset, content(*ref, range)));
  }
  Result<> write(const FileRefPtr& ref) { return write(ref, {0, ref->size}); }
  bool holds(const FileRefPtr& ref) {
    Result<Bytes> bytes =
        executor_.block_on(store_->read(Context::background(), ref, {0, ref->size}));
    if (bytes) EXPECT_TRUE(same(*bytes, content(ref))) << ref->key;
    return bytes.has_value();
  }
  void flush() { ASSERT_TRUE(executor_.block_on(store_->flush(Context::background()))); }
  bool comes_to(size_t directory, DirectoryState state) {
    for (int i = 0; i < 500; ++i) {
      if (store_->directories()[directory].state == state) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its probes take time
    }
    return false;
  }
  uint64_t objects(size_t directory) {
    const PageStoreStats stats = store_->directories()[directory].stats;
    return stats.files + stats.packed_objects;
  }

 private:
  Executor executor_{{.threads = 2}};

 public:
  std::vector<std::shared_ptr<FaultyDisk>> disks;
  Result<> opened;

 private:
  std::unique_ptr<MultiDirStore> store_;
};

std::vector<FileRefPtr> objects(int count, uint64_t size = 4096) {
  std::vector<FileRefPtr> refs;
  for (int i = 0; i < count; ++i) refs.push_back(object(fmt::format("data/{:05}", i), size));
  return refs;
}

int count_held(TestMultiDirStore& store, const std::vector<FileRefPtr>& refs) {
  int held = 0;
  for (const FileRefPtr& ref : refs) held += store.holds(ref) ? 1 : 0;
  return held;
}

TEST(MultiDirStore, ADirectoryGetsAsMuchAsItIsLarge) {
  TempDirectory a, b;
  TestMultiDirStore store({small(a, 96 * kMiB), small(b, 32 * kMiB)});
  ASSERT_TRUE(store.opened);
  const auto refs = objects(2000);
  for (const FileRefPtr& ref : refs) ASSERT_TRUE(store.write(ref));
  EXPECT_EQ(count_held(store, refs), 2000);
  EXPECT_NEAR(static_cast<double>(store.objects(0)), 1500, 100);
  EXPECT_EQ(store.objects(0) + store.objects(1), 2000);
  EXPECT_EQ(store->stats().packed_objects, 2000);
  EXPECT_EQ(store->stats().capacity_bytes, 128 * kMiB);
}

TEST(MultiDirStore, ReorderedDirectoriesHaveAllObjects) {
  TempDirectory a, b, c;
  auto refs = objects(400);
  for (const FileRefPtr& ref : objects(6, kMiB)) refs.push_back(ref);
  {
    TestMultiDirStore store({small(a), small(b)});
    for (const FileRefPtr& ref : refs) ASSERT_TRUE(store.write(ref));
  }
  TestMultiDirStore store({small(c), small(b), small(a)});
  ASSERT_TRUE(store.opened);
  EXPECT_EQ(count_held(store, refs), 406);
  EXPECT_EQ(store->stats().files, 6);
  EXPECT_EQ(store.objects(0), 0);
  // New objects go to the new directory, too.
  std::vector<FileRefPtr> more;
  for (int i = 0; i < 300; ++i) more.push_back(object(fmt::format("more/{}", i), 4096));
  for (const FileRefPtr& ref : more) ASSERT_TRUE(store.write(ref));
  EXPECT_EQ(count_held(store, more), 300);
  EXPECT_NEAR(static_cast<double>(store.objects(0)), 100, 40);
}

TEST(MultiDirStore, PartialObjectStaysInItsDirectory) {
  TempDirectory a, b;
  auto ref = object("large", 8 * kMiB);
  {
    // The only directory, so it is there.
    TestMultiDirStore store({small(a)});
    ASSERT_TRUE(store.write(ref, {0, kMiB}));
  }
  for (int i = 0; i < 2; ++i) {
    TestMultiDirStore store({small(a), small(b)});
    ASSERT_TRUE(store.write(ref, {kMiB, ref->size - kMiB}));
    EXPECT_TRUE(store.holds(ref));
    EXPECT_EQ(store.objects(0), 1);
    EXPECT_EQ(store.objects(1), 0);
  }
}

TEST(MultiDirStore, FailingDiskIsSkippedAndRejoins) {
  TempDirectory a, b;
  TestMultiDirStore store({small(a), small(b)});
  const auto refs = objects(200);
  for (const FileRefPtr& ref : refs) ASSERT_TRUE(store.write(ref));
  FileRefPtr large;  // a file in the first one
  for (int i = 0; large == nullptr; ++i) {
    auto one = object(fmt::format("large/{}", i), kMiB);
    const uint64_t before = store->directories()[0].stats.files;
    ASSERT_TRUE(store.write(one));
    if (store->directories()[0].stats.files > before) large = one;
  }
  store.flush();
  EXPECT_NE(store->backing(*large), nullptr);
  const uint64_t of_b = store->directories()[1].stats.packed_objects;
  ASSERT_GT(of_b, 50);
  store.disks[0]->fault = [](FaultyDisk::Call, uint64_t) { return EIO; };
  // Writes into it fail until it is found to be down; no read gives wrong bytes meanwhile.
  for (int i = 0; i < 40; ++i) {
    Result<> kept = store.write(object(fmt::format("new/{}", i), kMiB));
    static_cast<void>(kept);
  }
  ASSERT_TRUE(store.comes_to(0, DirectoryState::kDown)) << store->directories()[0].why;
  EXPECT_THAT(store->directories()[0].why, testing::Not(testing::IsEmpty()));
  EXPECT_EQ(store->stats().capacity_bytes, 64 * kMiB);
  const int held = count_held(store, refs);
  EXPECT_GE(held, static_cast<int>(of_b));
  EXPECT_LT(held, 200);
  // Its objects are cached again, elsewhere.
  for (const FileRefPtr& ref : refs) {
    if (!store.holds(ref)) EXPECT_TRUE(store.write(ref));
  }
  EXPECT_EQ(count_held(store, refs), 200);

  store.disks[0]->fault = nullptr;
  ASSERT_TRUE(store.comes_to(0, DirectoryState::kNormal)) << store->directories()[0].why;
  EXPECT_GT(store.objects(0), 0);
  EXPECT_EQ(count_held(store, refs), 200);
  EXPECT_EQ(store->backing(*large), nullptr);  // it may have lost its writes: not trusted
  EXPECT_TRUE(store.holds(large));
  uint64_t dropped = 0;
  for (const FileRefPtr& ref : refs) dropped += store->drop(ref->id) > 0 ? 1 : 0;
  EXPECT_EQ(dropped, 200);
  EXPECT_EQ(count_held(store, refs), 0);
}

TEST(MultiDirStore, DropOnFailingDiskIsAppliedLater) {
  TempDirectory a, b;
  TestMultiDirStore store({small(a), small(b)});
  const auto refs = objects(100);
  for (const FileRefPtr& ref : refs) ASSERT_TRUE(store.write(ref));
  store.flush();
  ASSERT_GT(store.objects(0), 0);
  store.disks[0]->fault = [](FaultyDisk::Call, uint64_t) { return EIO; };
  for (int i = 0; i < 40; ++i) {
    Result<> kept = store.write(object(fmt::format("new/{}", i), kMiB));
    static_cast<void>(kept);
  }
  ASSERT_TRUE(store.comes_to(0, DirectoryState::kDown)) << store->directories()[0].why;
  for (const FileRefPtr& ref : refs) store->drop(ref->id);
  store.disks[0]->fault = nullptr;
  ASSERT_TRUE(store.comes_to(0, DirectoryState::kNormal)) << store->directories()[0].why;
  EXPECT_EQ(count_held(store, refs), 0);
}

TEST(MultiDirStore, OnlyDiskFailsAndNothingIsCached) {
  TempDirectory a;
  TestMultiDirStore store({small(a)});
  auto ref = object("one", 4096);
  store.disks[0]->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kRead ? 0 : EROFS;
  };
  for (int i = 0; i < 8; ++i) {
    Result<> kept = store.write(object(fmt::format("new/{}", i), kMiB));
    EXPECT_FALSE(kept);
  }
  ASSERT_TRUE(store.comes_to(0, DirectoryState::kDown));
  Result<> kept = store.write(ref);
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code(), StatusCode::kNoSpace);
  EXPECT_THAT(kept.error().message(), HasSubstr("leat status"));
  EXPECT_FALSE(store.holds(ref));
  EXPECT_EQ(store->missing(*ref, {0, 4096}), (std::vector<ByteRange>{{0, 4096}}));
  auto large = object("large", 10 * kMiB);
  EXPECT_EQ(store->missing(*large, {kMiB + 5, 10}), (std::vector<ByteRange>{{kMiB, kBlockBytes}}));
  store.disks[0]->fault = nullptr;
  ASSERT_TRUE(store.comes_to(0, DirectoryState::kNormal));
  EXPECT_TRUE(store.write(ref));
  EXPECT_TRUE(store.holds(ref));
}

TEST(MultiDirStore, FailedDirectoryJoinsLater) {
  TempDirectory a, b;
  TestMultiDirStore store({small(a), small(b)}, [](size_t number, FaultyDisk& disk) {
    if (number == 1) disk.fault = [](FaultyDisk::Call, uint64_t) { return EIO; };
  });
  ASSERT_TRUE(store.opened) << store.opened.error().to_string();
  EXPECT_EQ(store->directories()[1].state, DirectoryState::kDown);
  const auto refs = objects(100);
  for (const FileRefPtr& ref : refs) ASSERT_TRUE(store.write(ref));
  EXPECT_EQ(store.objects(0), 100);
  store->set_pool_policy(PoolId{7}, {.quota_bytes = 8 * kMiB});
  store.disks[1]->fault = nullptr;
  ASSERT_TRUE(store.comes_to(1, DirectoryState::kNormal));
  EXPECT_EQ(count_held(store, refs), 100);
  EXPECT_EQ(store->stats().capacity_bytes, 128 * kMiB);
  for (const PoolStats& pool : store->pools()) {
    if (pool.id == PoolId{7}) EXPECT_EQ(pool.policy.quota_bytes, 8 * kMiB);
  }
}

TEST(MultiDirStore, MisusedDirectoryFailsTheStart) {
  TempDirectory a, b;
  std::ofstream(b.path() + "/holiday.jpg") << "not a cache";
  TestMultiDirStore store({small(a), small(b)});
  ASSERT_FALSE(store.opened);
  EXPECT_THAT(store.opened.error().message(), HasSubstr("holiday.jpg"));
  Executor executor({.threads = 2});
  auto twice = executor.block_on(HostCache::open(Context::background(), {small(a), small(a)},
                                                 executor, [&] { return make_disk(executor); }));
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message(), HasSubstr("named twice"));
  auto none = executor.block_on(
      HostCache::open(Context::background(), {}, executor, [&] { return make_disk(executor); }));
  EXPECT_FALSE(none);
}

TEST(MultiDirStore, AllOfThemFailAndSoDoesTheStart) {
  TempDirectory a, b;
  TestMultiDirStore store({small(a), small(b)}, [](size_t, FaultyDisk& disk) {
    disk.fault = [](FaultyDisk::Call, uint64_t) { return EIO; };
  });
  EXPECT_FALSE(store.opened);
}

TEST(MultiDirStore, APackedRangeIsFoundInItsDirectory) {
  TempDirectory a, b;
  TestMultiDirStore store({small(a), small(b)});
  const auto refs = objects(100);
  for (const FileRefPtr& ref : refs) ASSERT_TRUE(store.write(ref));
  store.flush();
  ASSERT_EQ(count_held(store, refs), 100) << "from then on they are verified";
  ASSERT_GT(store.objects(0), 0);
  ASSERT_GT(store.objects(1), 0);
  for (const FileRefPtr& ref : refs) {
    const ByteRange range{100, 1000};
    const std::optional<SendfileRange> stored = store->sendfile_range(*ref, range);
    ASSERT_TRUE(stored) << ref->key;
    std::string bytes(range.size, '\0');
    EXPECT_EQ(::pread(stored->fd, bytes.data(), bytes.size(), static_cast<off_t>(stored->offset)),
              static_cast<ssize_t>(range.size));
    EXPECT_EQ(bytes, content(*ref, range).to_string());
  }
  EXPECT_FALSE(store->sendfile_range(*object("other", 4096), {0, 10}));
}

TEST(MultiDirStore, AQuotaIsSharedOutByCapacity) {
  TempDirectory a, b;
  TestMultiDirStore store({small(a, 96 * kMiB), small(b, 32 * kMiB)});
  store->set_pool_policy(PoolId::kNone, {.quota_bytes = 16 * kMiB});
  for (const FileRefPtr& ref : objects(3000, 16 * kKiB)) {
    Result<> kept = store.write(ref);
    static_cast<void>(kept);  // beyond the quota some are rejected
  }
  const auto pools = store->pools();
  ASSERT_EQ(pools.size(), 1);
  EXPECT_EQ(pools[0].policy.quota_bytes, 16 * kMiB);
  EXPECT_LE(pools[0].used_bytes, 16 * kMiB);
  EXPECT_GT(pools[0].used_bytes, 8 * kMiB);
  EXPECT_LE(store->directories()[1].stats.used_bytes, 5 * kMiB);
}

class HealthTest : public testing::Test {
 protected:
  void fail(int times, StatusCode code = StatusCode::kInternal) {
    const Status failure(code, "read: Input/output error");
    for (int i = 0; i < times; ++i) {
      health_.call_failed(now_, failure);
    }
  }
  void pass(Clock::duration time) { now_ += time; }

  Clock::time_point now_ = Clock::now();
  DirectoryHealth health_;
};

TEST_F(HealthTest, DiskFailuresMakeItUnstable) {
  fail(50, StatusCode::kNoSpace);
  fail(50, StatusCode::kNotFound);
  fail(2);
  EXPECT_EQ(health_.state(), DirectoryState::kNormal);
  pass(std::chrono::seconds(61));
  fail(2);
  EXPECT_EQ(health_.state(), DirectoryState::kNormal);
  fail(1);
  EXPECT_EQ(health_.state(), DirectoryState::kUnstable);
  EXPECT_THAT(health_.why(), HasSubstr("Input/output error"));
  fail(97);
  EXPECT_EQ(health_.state(), DirectoryState::kDown);
}

TEST_F(HealthTest, ProbesDecideBetweenNormalAndDown) {
  fail(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(health_.state(), DirectoryState::kUnstable);
    EXPECT_FALSE(health_.probe_is_due(now_));
    pass(std::chrono::seconds(5));
    EXPECT_TRUE(health_.probe_is_due(now_));
    EXPECT_FALSE(health_.probe_is_due(now_));  // one at a time
    health_.note_probe(now_, {});
  }
  EXPECT_EQ(health_.state(), DirectoryState::kNormal);
  fail(3);
  pass(std::chrono::seconds(5));
  ASSERT_TRUE(health_.probe_is_due(now_));
  health_.note_probe(now_, error(StatusCode::kInternal, "no"));
  EXPECT_EQ(health_.state(), DirectoryState::kDown);
}

TEST_F(HealthTest, DownDirectoryIsProbedWithBackoff) {
  health_.note_open_failed(now_, Status(StatusCode::kInternal, "no"));
  for (int seconds : {10, 20, 40, 80, 160, 320, 600, 600}) {
    pass(std::chrono::seconds(seconds) - std::chrono::milliseconds(1));
    EXPECT_FALSE(health_.probe_is_due(now_)) << seconds;
    pass(std::chrono::milliseconds(1));
    EXPECT_TRUE(health_.probe_is_due(now_)) << seconds;
    health_.note_probe(now_, error(StatusCode::kInternal, "no"));
  }
  pass(std::chrono::seconds(600));
  ASSERT_TRUE(health_.probe_is_due(now_));
  health_.note_probe(now_, {});
  EXPECT_EQ(health_.state(), DirectoryState::kDown);
  EXPECT_TRUE(health_.opening_is_due());
  EXPECT_FALSE(health_.opening_is_due());
  health_.note_opened();
  EXPECT_EQ(health_.state(), DirectoryState::kNormal);
  EXPECT_EQ(health_.why(), "");
}

TEST_F(HealthTest, HangingCallsAreDetected) {
  InflightCalls calls(now_);
  pass(std::chrono::hours(1));
  EXPECT_FALSE(health_.hangs(calls, now_));
  const auto first = calls.begin(now_), second = calls.begin(now_);
  pass(std::chrono::seconds(9));
  calls.end(first, now_);  // slow, but one returned
  pass(std::chrono::seconds(9));
  EXPECT_FALSE(health_.hangs(calls, now_));
  pass(std::chrono::seconds(2));
  EXPECT_TRUE(health_.hangs(calls, now_));
  calls.end(second, now_);
  EXPECT_FALSE(health_.hangs(calls, now_));
  health_.note_given_up(now_);
  EXPECT_EQ(health_.state(), DirectoryState::kDown);
  EXPECT_THAT(health_.why(), HasSubstr("not responded"));
}

TEST_F(HealthTest, OneHangingCallIsDetectedAmongOthers) {
  InflightCalls calls(now_);
  const auto hangs = calls.begin(now_);
  for (int seconds = 0; seconds < 60; ++seconds) {
    const auto good = calls.begin(now_);
    pass(std::chrono::seconds(1));
    calls.end(good, now_);
    EXPECT_FALSE(health_.hangs(calls, now_)) << seconds;
  }
  pass(std::chrono::seconds(1));
  EXPECT_TRUE(health_.hangs(calls, now_));
  calls.end(hangs, now_);
  EXPECT_FALSE(health_.hangs(calls, now_));
}

// More calls than slots.
TEST_F(HealthTest, CallsWithoutASlotCountToo) {
  InflightCalls calls(now_);
  std::vector<InflightCalls::Slot> slots;
  for (size_t i = 0; i < 2 * InflightCalls::kSlots; ++i) slots.push_back(calls.begin(now_));
  pass(std::chrono::seconds(1));
  for (const auto slot : slots) {
    EXPECT_TRUE(calls.any());
    calls.end(slot, now_);
  }
  EXPECT_FALSE(calls.any());
  pass(std::chrono::minutes(2));
  EXPECT_FALSE(health_.hangs(calls, now_));
}

TEST_F(HealthTest, ZeroTimeoutsAreRaisedToTheMinimum) {
  const DirectoryHealth hasty({.hang_timeout = {},
                               .call_hang_timeout = {},
                               .probe_interval = {},
                               .probe_backoff_min = {},
                               .probe_backoff_max = {}});
  EXPECT_GT(hasty.times().hang_timeout, Clock::duration());
  EXPECT_GT(hasty.times().call_hang_timeout, Clock::duration());
  EXPECT_GT(hasty.times().probe_interval, Clock::duration());
  EXPECT_GT(hasty.times().probe_backoff_max, Clock::duration());
  InflightCalls calls(now_);
  const auto one = calls.begin(now_);
  EXPECT_FALSE(hasty.hangs(calls, now_));
  pass(std::chrono::milliseconds(500));
  EXPECT_FALSE(hasty.hangs(calls, now_));
  pass(std::chrono::seconds(1));
  EXPECT_TRUE(hasty.hangs(calls, now_));
  calls.end(one, now_);
}

TEST_F(HealthTest, ProbeFromBeforeTheGiveUpIsIgnored) {
  fail(3);
  ASSERT_EQ(health_.state(), DirectoryState::kUnstable);
  pass(std::chrono::seconds(6));
  ASSERT_TRUE(health_.probe_is_due(now_));
  const uint64_t before = health_.probe_number();  // this probe hangs
  health_.note_given_up(now_);
  pass(std::chrono::seconds(11));
  EXPECT_TRUE(health_.probe_is_due(now_));
  EXPECT_NE(health_.probe_number(), before);
  health_.note_probe(now_, {});
  ASSERT_TRUE(health_.opening_is_due());
  health_.note_given_up(now_);  // during the opening, which reports its own result
  pass(std::chrono::seconds(11));
  EXPECT_FALSE(health_.probe_is_due(now_));
  health_.note_open_failed(now_, Status(StatusCode::kUnavailable, "no"));
  pass(std::chrono::minutes(1));
  EXPECT_TRUE(health_.probe_is_due(now_));
}

TEST_F(HealthTest, FlappingDirectoryStaysDown) {
  for (int i = 1; i <= 8; ++i) {
    fail(100);
    ASSERT_EQ(health_.state(), DirectoryState::kDown);
    pass(std::chrono::minutes(11));
    ASSERT_TRUE(health_.probe_is_due(now_));
    health_.note_probe(now_, {});
    ASSERT_TRUE(health_.opening_is_due());
    health_.note_opened();
  }
  EXPECT_EQ(health_.state(), DirectoryState::kDown);
  pass(std::chrono::hours(1));
  EXPECT_FALSE(health_.probe_is_due(now_));
}

}  // namespace
}  // namespace leat
