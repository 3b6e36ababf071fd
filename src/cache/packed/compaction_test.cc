// SPDX-License-Identifier: Apache-2.0
// Compaction moves the live objects of a mostly dead segment and changes nothing else. That holds
// if the disk fails, hangs or loses power meanwhile, and for concurrent drops, evictions and reads.
#include <gtest/gtest.h>

#include <cerrno>
#include <latch>
#include <thread>

#include "cache/directory/directory_store.h"
#include "cache/store_fixture_test.h"
#include "cache/torture/power_cut_disk_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kObjectBytes = 100 * kKiB;
constexpr size_t kOfASegment = 10;

// A disk that can block syncs, fail for some names, and expose what it reads.
class TrickyDisk : public FaultyDisk {
 public:
  using FaultyDisk::FaultyDisk;

  Result<> sync_now(int fd) override {
    if (holds) {
      ++held;
      holds.wait(true);
    }
    return FaultyDisk::sync_now(fd);
  }
  Result<> unlink(const std::string& path) override {
    if (no_unlink != nullptr && path.ends_with(no_unlink.load()))
      return error(StatusCode::kInternal, "unlink");
    return FaultyDisk::unlink(path);
  }
  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override {
    if (unreadable != nullptr && path.ends_with(unreadable.load())) {
      return error(StatusCode::kInternal, "read " + path);
    }
    Result<Buffer> content = FaultyDisk::read_file(path, bytes_max);
    // The opening reads the index first, then compaction.
    if (second_read_of_index && content && path.ends_with("00000001.index") &&
        ++index_reads_ == 2) {
      second_read_of_index(*content);
    }
    return content;
  }

  // Blocks from compaction's first call on, so that the test acts in the middle of its work.
  void hold_compaction() {
    second_read_of_index = [this](Buffer&) { holds = true; };
  }
  void release() {
    holds = false;
    holds.notify_all();
  }

  std::atomic<bool> holds = false;
  std::atomic<int> held = 0;
  std::atomic<const char*> no_unlink = nullptr, unreadable = nullptr;
  std::function<void(Buffer&)> second_read_of_index;  // of the first segment

 private:
  std::atomic<int> index_reads_ = 0;
};

PageStoreOptions options_of(const std::string& directory, bool compacts) {
  PageStoreOptions options = TestStore::options(directory);
  options.compact_interval = compacts ? std::chrono::nanoseconds(1ms) : 0ns;
  return options;
}

FileRefPtr in_pool(const std::string& key, uint64_t size = kObjectBytes) {
  FileRef ref = *object(key, size);
  ref.pool = pool_of_mount("/data");
  return std::make_shared<const FileRef>(std::move(ref));
}

class Compaction : public testing::Test {
 protected:
  // Segments with two live objects of ten, closed cleanly.
  void fill(size_t segments) {
    TestStore store(options_of(directory_.path(), false));
    std::vector<FileRefPtr> all;
    for (size_t i = 0; i < segments * kOfASegment; ++i) {
      all.push_back(in_pool(fmt::format("{}", i)));
      ASSERT_TRUE(store.write_whole(all.back()));
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const bool stays = i % kOfASegment < 2;
      (stays ? kept_ : dropped_).push_back(all[i]);
      if (!stays) store->drop(all[i]->id);
    }
    store.close();
  }

  void expect_kept(TestStore& store, size_t from = 0) {
    for (size_t i = from; i < kept_.size(); ++i) EXPECT_TRUE(store.holds(kept_[i])) << i;
    for (const auto& ref : dropped_) EXPECT_FALSE(store.holds(ref)) << ref->key;
  }
  void expect_kept_at(const std::string& directory, size_t from = 0) {
    TestStore store(options_of(directory, false));
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    expect_kept(store, from);
    EXPECT_EQ(store->stats().corrupt_blocks, 0u);
  }
  std::shared_ptr<TrickyDisk> tricky() {
    return std::make_shared<TrickyDisk>(make_disk(executor_));
  }
  bool is_there(const char* name) const {
    return std::filesystem::exists(directory_.path() + "/segments/" + name);
  }

  TempDirectory directory_;
  Executor executor_{{.threads = 1}};
  std::vector<FileRefPtr> kept_, dropped_;
};

TEST_F(Compaction, LiveObjectsMoveAndSpaceIsFreed) {
  fill(6);
  const uint64_t before = disk_bytes(directory_.path());
  {
    TestStore store(options_of(directory_.path(), true));
    until([&] { return store->stats().segments <= 2; });
    expect_kept(store);
    EXPECT_EQ(store->stats().evicted_bytes, 0u);
    EXPECT_EQ(store->stats().corrupt_blocks, 0u);
    EXPECT_LT(store->stats().used_bytes, before / 2);
    for (const PoolStats& pool : store->pools()) {
      if (pool.id == pool_of_mount("/data"))
        EXPECT_GT(pool.used_bytes, kept_.size() * kObjectBytes);
    }
    store.close();
  }
  EXPECT_LT(disk_bytes(directory_.path()), before / 2);
  expect_kept_at(directory_.path());
}

TEST_F(Compaction, HalfLiveSegmentsAreNotCompacted) {
  std::vector<FileRefPtr> all;
  {
    TestStore store(options_of(directory_.path(), false));
    for (size_t i = 0; i < kOfASegment; ++i) {
      all.push_back(in_pool(fmt::format("{}", i)));
      ASSERT_TRUE(store.write_whole(all.back()));
    }
    for (size_t i = 0; i < kOfASegment / 2; ++i) store->drop(all[i]->id);
    store.close();
  }
  TestStore store(options_of(directory_.path(), true));
  ASSERT_TRUE(store.write_whole(in_pool("other")));
  std::this_thread::sleep_for(50ms);  // there is no event to wait for
  EXPECT_TRUE(is_there("00000001.data"));
  store->drop(all[5]->id);
  until([&] { return !is_there("00000001.data"); });
  for (size_t i = 6; i < kOfASegment; ++i) EXPECT_TRUE(store.holds(all[i]));
}

// Writes, syncs, names: each fails in turn. Pinned objects stay, too.
TEST_F(Compaction, AFailureAtAnyCallLosesNothing) {
  fill(1);
  for (int failure : {EIO, ENOSPC}) {
    uint64_t calls = 1;
    for (uint64_t n = 1; n <= calls && !HasFailure(); ++n) {  // more are counted until all is done
      SCOPED_TRACE(testing::Message() << "errno " << failure << " at call " << n);
      auto copy = crash_copy(directory_.path());
      auto disk = tricky();
      std::atomic<uint64_t> seen = 0;
      std::atomic<bool> over = false;
      std::latch ready(1);  // compaction waits for it
      disk->second_read_of_index = [&](Buffer&) { ready.wait(); };
      {
        TestStore store(options_of(copy->path(), true), disk);
        ASSERT_TRUE(store.ok());
        store->set_pool_policy(pool_of_mount("/data"), {.name = "/data", .pinned = true});
        disk->fault = [&seen, &over, n, failure](FaultyDisk::Call call, uint64_t) {
          return call != FaultyDisk::Call::kRead && !over && ++seen == n ? failure : 0;
        };
        ready.count_down();
        until([&] {
          return seen >= n || !std::filesystem::exists(copy->path() + "/segments/00000001.data");
        });
        over = true;  // if fewer calls did all, the next call is not the comparison's
        // A reader that shares the failing call fails with it, once.
        for (const auto& ref : kept_) static_cast<void>(store.holds(ref));
        expect_kept(store);
        calls = seen < n ? n - 1 : n + 1;
        store.close();
        disk->fault = nullptr;
      }
      expect_kept_at(copy->path());
    }
    EXPECT_GT(calls, 6u);
  }
}

// Both copies are on disk; a drop meanwhile removes both.
TEST_F(Compaction, DropDuringMoveRemovesBothCopies) {
  fill(1);
  auto disk = tricky();
  disk->hold_compaction();
  TestStore store(options_of(directory_.path(), true), disk);
  until([&] { return disk->held > 0; });
  EXPECT_TRUE(store.holds(kept_[0]));
  EXPECT_TRUE(store.holds(kept_[1]));
  EXPECT_EQ(store->drop(kept_[0]->id), kObjectBytes);
  EXPECT_FALSE(store.holds(kept_[0]));
  dropped_.push_back(kept_[0]);
  {
    auto killed = crash_copy(directory_.path());  // in the middle of the move
    TestStore after(options_of(killed->path(), false));
    EXPECT_TRUE(after.holds(kept_[1]));
  }
  disk->release();
  ASSERT_TRUE(store.flush());
  auto killed = crash_copy(directory_.path());
  expect_kept_at(killed->path(), 1);
  until([&] { return !is_there("00000001.data"); });
  expect_kept(store, 1);
  // Written again.
  ASSERT_TRUE(store.write_whole(kept_[0]));
  dropped_.pop_back();
  store.close();
  expect_kept_at(directory_.path());
}

// Full segments keep memory until their copies are durable.
TEST_F(Compaction, LargeSegmentMovesIntoSmallerOnes) {
  constexpr size_t kObjects = 210, kLeft = 100;
  auto options = [&](bool compacts) {
    PageStoreOptions options = options_of(directory_.path(), compacts);
    options.capacity_bytes = 1 * kGiB;
    options.segment_bytes = 256 * kMiB;  // at most a 32nd of the capacity, or a quota
    return options;
  };
  {
    TestStore store(options(false));
    for (size_t i = 0; i < kObjects; ++i) {
      const auto ref = in_pool(fmt::format("{}", i));
      ASSERT_TRUE(store.write_whole(ref));
      (i < kLeft ? kept_ : dropped_).push_back(ref);
    }
    for (const auto& ref : dropped_) store->drop(ref->id);
    store->set_pool_policy(pool_of_mount("/data"), {.name = "/data", .quota_bytes = 32 * kMiB});
    store.close();
  }
  TestStore store(options(true));
  until([&] { return !is_there("00000001.data"); });
  EXPECT_GT(store->stats().segments, 8u);
  expect_kept(store);
}

// A copy outranks its source, so no record may name it before its bytes are durable.
TEST_F(Compaction, TornCopyDoesNotReplaceTheObject) {
  fill(1);
  auto disk = tricky();
  disk->hold_compaction();
  TestStore store(options_of(directory_.path(), true), disk);
  until([&] { return disk->held > 0; });
  auto cut = crash_copy(directory_.path());
  // Everything written is there, except the bytes of the copies.
  const std::string data = cut->path() + "/segments/00000002.data";
  const uint64_t bytes = std::filesystem::file_size(data);
  EXPECT_GE(bytes, kObjectBytes);
  std::filesystem::resize_file(data, 0);
  std::filesystem::resize_file(data, bytes);
  expect_kept_at(cut->path());
  disk->release();
}

TEST_F(Compaction, SourceIsUnlinkedAfterNamesAreDurable) {
  {
    TestStore store(options_of(directory_.path(), false));
    for (size_t i = 0; i < kOfASegment; ++i) {
      (i < 2 ? kept_ : dropped_).push_back(in_pool(fmt::format("{}", i)));
      ASSERT_TRUE(store.write_whole(i < 2 ? kept_.back() : dropped_.back()));
    }
    store.close();
  }
  {
    TestStore store(options_of(directory_.path(), false));
    // The tombstones are in another segment, which stays.
    for (const auto& ref : dropped_) store->drop(ref->id);
    kept_.push_back(in_pool("beside the tombstones"));
    ASSERT_TRUE(store.write_whole(kept_.back()));
    store.close();
  }
  auto disk = std::make_shared<PowerCutDisk>(make_disk(executor_), directory_.path());
  TestStore store(options_of(directory_.path(), true), disk);
  until([&] { return !is_there("00000001.data"); });
  Chance chance(1);
  for (int i = 0; i < 30; ++i) {
    TempDirectory after;
    disk->cut(after.path(), chance);
    expect_kept_at(after.path());
  }
}

// Killed between the move and the end of the segment, or the segment could not be removed: each
// object has two copies.
TEST_F(Compaction, DropAfterMoveRemovesBothCopies) {
  fill(1);
  auto disk = tricky();
  std::unique_ptr<TempDirectory> killed;
  {
    // .index is removed first; restored, both files are there.
    std::filesystem::copy_file(directory_.path() + "/segments/00000001.index",
                               directory_.path() + "/index");
    disk->no_unlink = "00000001.data";
    TestStore store(options_of(directory_.path(), true), disk);
    until([&] { return !is_there("00000001.index"); });
    until([&] { return store->stats().segments == 1; });
    std::filesystem::rename(directory_.path() + "/index",
                            directory_.path() + "/segments/00000001.index");
    ASSERT_TRUE(store.flush());
    killed = crash_copy(directory_.path());
    // In this run, and all of the new segment.
    for (const auto& ref : kept_) store->drop(ref->id);
    ASSERT_TRUE(store.flush());
    auto after = crash_copy(directory_.path());
    TestStore later(options_of(after->path(), false));
    for (const auto& ref : kept_) EXPECT_FALSE(later.holds(ref)) << ref->key;
  }
  {
    TestStore store(options_of(killed->path(), false));
    expect_kept(store);
    store->drop(kept_[0]->id);  // in the next one
    store.close();
  }
  dropped_.push_back(kept_[0]);
  expect_kept_at(killed->path(), 1);
  {
    TestStore store(options_of(killed->path(), true));
    store->drop(kept_[1]->id);
    store.close();
  }
  TestStore store(options_of(killed->path(), true));
  for (const auto& ref : kept_) EXPECT_FALSE(store.holds(ref)) << ref->key;
}

// One object cannot be read now, though it is not lost, so the segment stays. The old copy of the
// other object does not count, in this run and in the next.
TEST_F(Compaction, MovedObjectIsNotRestoredFromOldSegment) {
  fill(1);
  auto disk = tricky();
  std::atomic<int> reads = 0;
  disk->fault = [&](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kRead && ++reads > 1 ? ENOSPC : 0;
  };
  TestStore store(options_of(directory_.path(), true), disk);
  until([&] { return reads > 2; });  // in the next round: the one before moved what it could
  auto killed = crash_copy(directory_.path());
  auto expect_gone_at = [&](const std::string& directory) {
    TestStore later(options_of(directory, false));
    EXPECT_FALSE(later.holds(kept_[0]));
    EXPECT_TRUE(later.holds(kept_[1]));
  };
  EXPECT_EQ(store->drop(kept_[0]->id), kObjectBytes);
  ASSERT_TRUE(store.flush());
  expect_gone_at(crash_copy(directory_.path())->path());
  {
    TestStore next(options_of(killed->path(), false));
    EXPECT_EQ(next->stats().segments, 2u) << "both copies are on disk";
    EXPECT_EQ(next->drop(kept_[0]->id), kObjectBytes);
    ASSERT_TRUE(next.flush());
    expect_gone_at(crash_copy(killed->path())->path());
  }
  expect_gone_at(killed->path());
}

// The segment that a tombstone names may be unreadable only at this start.
TEST_F(Compaction, TombstonesOfUnloadedSegmentsStay) {
  fill(2);
  {
    auto disk = tricky();
    disk->unreadable = "00000001.index";
    TestStore store(options_of(directory_.path(), true), disk);
    ASSERT_TRUE(store.ok());
    for (const auto& ref : kept_) store->drop(ref->id);
    ASSERT_TRUE(store.flush());
    until([&] { return !is_there("00000002.data"); });
    store.close();
  }
  TestStore store(options_of(directory_.path(), false));
  for (const auto& ref : dropped_) EXPECT_FALSE(store.holds(ref)) << ref->key;
  EXPECT_TRUE(store.holds(kept_[0]));
  EXPECT_TRUE(store.holds(kept_[1]));
}

// Tombstones in a compacted segment name one that is not compacted.
TEST_F(Compaction, NeededTombstonesAreRewritten) {
  {
    TestStore store(options_of(directory_.path(), false));
    for (size_t i = 0; i < 2 * kOfASegment; ++i) {
      kept_.push_back(in_pool(fmt::format("{}", i)));
      ASSERT_TRUE(store.write_whole(kept_.back()));
    }
    for (size_t i : {3ul, 11ul, 12ul, 13ul, 14ul, 15ul, 16ul, 17ul}) {
      store->drop(kept_[i]->id);
      dropped_.push_back(kept_[i]);
    }
    store.close();
    std::erase_if(kept_, [&](const auto& ref) { return std::ranges::count(dropped_, ref) > 0; });
  }
  {
    TestStore store(options_of(directory_.path(), true));
    until([&] { return !is_there("00000002.data"); });
    EXPECT_TRUE(is_there("00000001.data"));
    expect_kept(store);
    auto killed = crash_copy(directory_.path());  // durable, not only recorded
    expect_kept_at(killed->path());
    store.close();
  }
  expect_kept_at(directory_.path());
}

TEST_F(Compaction, SegmentWithDamagedIndexIsSkipped) {
  fill(1);
  auto disk = tricky();
  std::atomic<bool> read_wrong = false;
  disk->second_read_of_index = [&](Buffer& index) {
    index.data()[index.size() / 2] ^= std::byte{1};
    read_wrong = true;
  };
  {
    TestStore store(options_of(directory_.path(), true), disk);
    until([&] { return read_wrong.load(); });
    expect_kept(store);
    store.close();
  }
  EXPECT_TRUE(is_there("00000001.data"));
  expect_kept_at(directory_.path());
}

TEST_F(Compaction, DamagedObjectIsDroppedAndRestMoves) {
  fill(1);
  flip_bit(directory_.path() + "/segments/00000001.data", 17);  // of the first
  TestStore store(options_of(directory_.path(), true));
  until([&] { return !is_there("00000001.data"); });
  EXPECT_EQ(store->stats().corrupt_blocks, 1u);
  EXPECT_FALSE(store.holds(kept_[0]));
  EXPECT_TRUE(store.holds(kept_[1]));
}

TEST_F(Compaction, EvictionDuringMoveFreesTheBytes) {
  fill(1);
  auto disk = tricky();
  disk->hold_compaction();
  TestStore store(options_of(directory_.path(), true), disk);
  auto* directory = dynamic_cast<DirectoryStore*>(store.operator->());
  ASSERT_NE(directory, nullptr);
  until([&] { return disk->held > 0; });
  store.executor().block_on(directory->evict(pool_of_mount("/data"), 64 * kMiB));
  EXPECT_EQ(store->stats().packed_objects, 0u);
  disk->release();
  ASSERT_TRUE(store.flush());
  for (const auto& ref : kept_) EXPECT_FALSE(store.holds(ref));
  // The rest has tombstones at most.
  until([&] { return store->stats().used_bytes <= 9 * kPageBytes; });
  ASSERT_TRUE(store.write_whole(kept_[0]));
  EXPECT_TRUE(store.holds(kept_[0]));
}

TEST_F(Compaction, PoolWithTtlIsNotCompacted) {
  fill(1);
  auto disk = tricky();
  disk->hold_compaction();
  TestStore store(options_of(directory_.path(), true), disk);
  until([&] { return disk->held > 0; });
  store->set_pool_policy(pool_of_mount("/data"), {.name = "/data", .ttl = 1ms});
  disk->release();
  until([&] { return store->stats().packed_objects == 0; });
}

// An object that is moved without a read keeps its age, so FIFO eviction reaches it. The age of a
// read object starts again.
TEST_F(Compaction, MovedUnreadObjectKeepsItsAge) {
  PageStoreOptions options = options_of(directory_.path(), true);
  options.capacity_bytes = 32 * kMiB;
  auto number = [](const char* what, int i) { return in_pool(fmt::format("{} {}", what, i)); };
  TestStore store(options);
  auto unread = in_pool("unread"), read = in_pool("read");
  ASSERT_TRUE(store.write_whole(unread));
  ASSERT_TRUE(store.write_whole(read));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(store.write_whole(number("first", i)));
  // Other segments after theirs.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(store.write_whole(number("others", i)));
  EXPECT_TRUE(store.holds(read));
  for (int i = 0; i < 8; ++i) store->drop(number("first", i)->id);
  until([&] { return !is_there("00000001.data"); });
  EXPECT_EQ(store->cached_bytes(*unread), kObjectBytes);
  EXPECT_EQ(store->cached_bytes(*read), kObjectBytes);
  // Objects beside them now.
  int beside = 0;
  while (store->stats().evicted_bytes == 0) {
    Result<> kept = store.write_whole(number("beside", beside++));
    static_cast<void>(kept);
  }
  EXPECT_EQ(store->cached_bytes(*unread), kObjectBytes);
  for (int i = 0; i < 30; ++i) store->drop(number("beside", i)->id);
  until([&] { return store->cached_bytes(*unread) == 0; });
  EXPECT_TRUE(store.holds(read));
  for (int i = 30; i < beside; ++i) store->drop(number("beside", i)->id);
}

// Concurrent writes, reads, verification and drops are not affected while segment after segment is
// compacted.
TEST_F(Compaction, RunsBesideEverythingElse) {
  std::vector<FileRefPtr> stay, come_and_go;
  for (int i = 0; i < 40; ++i) stay.push_back(in_pool(fmt::format("stay {}", i), 9000));
  for (int i = 0; i < 300; ++i) come_and_go.push_back(in_pool(fmt::format("go {}", i), 60'000));
  {
    TestStore store(options_of(directory_.path(), true));
    auto* directory = dynamic_cast<DirectoryStore*>(store.operator->());
    ASSERT_NE(directory, nullptr);
    std::atomic<bool> stop = false;
    std::thread reader([&] {
      while (!stop) {
        for (const auto& ref : stay) {
          if (store->cached_bytes(*ref) > 0) EXPECT_TRUE(store.holds(ref)) << ref->key;
        }
        Result<> verified = store.executor().block_on(
            directory->verify(Context::background(), [](const VerifyStep&) {}));
        EXPECT_TRUE(verified);
      }
    });
    for (int round = 0; round < 4; ++round) {
      for (size_t i = 0; i < come_and_go.size(); ++i) {
        ASSERT_TRUE(store.write_whole(come_and_go[i]));
        if (i % 30 == 0) {
          ASSERT_TRUE(store.write_whole(stay[static_cast<size_t>(round) * 10 + i / 30]));
        }
      }
      for (const auto& ref : come_and_go) store->drop(ref->id);
      until([&] { return store->stats().segments <= 3; });
    }
    stop = true;
    reader.join();
    for (const auto& ref : stay) EXPECT_TRUE(store.holds(ref)) << ref->key;
    EXPECT_EQ(store->stats().corrupt_blocks, 0u);
    EXPECT_EQ(store->stats().evicted_bytes, 0u);
    store.close();
  }
  TestStore store(options_of(directory_.path(), true));
  for (const auto& ref : stay) EXPECT_TRUE(store.holds(ref)) << ref->key;
  for (const auto& ref : come_and_go) EXPECT_FALSE(store.holds(ref)) << ref->key;
}

}  // namespace
}  // namespace leat
