// SPDX-License-Identifier: Apache-2.0
// The guarantees of page_store.h on a healthy disk.
#include "cache/page_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <random>
#include <thread>

#include "cache/store_fixture_test.h"

namespace leat {
namespace {

using Ranges = std::vector<ByteRange>;

TEST(PageStore, AFileIsReadInAnyRangeOfWhatWasWritten) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto file = object("large", 5 * kBlockBytes + 123);
  EXPECT_EQ(store->missing(*file, {0, file->size}), (Ranges{{0, file->size}}));
  EXPECT_EQ(store.read_fails(file, {0, 10}), StatusCode::kNotFound);
  EXPECT_EQ(store->try_read(*file, {0, 10}), std::nullopt);

  ASSERT_TRUE(store.write_range(file, {2 * kBlockBytes, 2 * kBlockBytes}));
  EXPECT_EQ(store->missing(*file, {0, file->size}),
            (Ranges{{0, 2 * kBlockBytes}, {4 * kBlockBytes, kBlockBytes + 123}}));
  EXPECT_EQ(store->missing(*file, {2 * kBlockBytes + 7, 1000}), Ranges{});
  EXPECT_EQ(store->cached_bytes(*file), 2 * kBlockBytes);
  EXPECT_EQ(store.read_fails(file, {2 * kBlockBytes + 5, kBlockBytes}), std::nullopt);
  EXPECT_EQ(store.read_fails(file, {4 * kBlockBytes - 5, 10}), StatusCode::kNotFound);

  ASSERT_TRUE(store.write_range(file, {4 * kBlockBytes, kBlockBytes + 123}));
  ASSERT_TRUE(store.write_range(file, {0, 3 * kBlockBytes}));
  EXPECT_TRUE(store.holds(file));
  EXPECT_EQ(store.read_fails(file, {file->size - 1, 1}), std::nullopt);
  auto hot = store->try_read(*file, {kBlockBytes - 3, 1000});
  ASSERT_TRUE(hot);
  EXPECT_TRUE(same(*hot, content(*file, {kBlockBytes - 3, 1000})));
  EXPECT_EQ(store->stats().files, 1u);
}

TEST(PageStore, ASmallObjectIsKeptWhole) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto small = object("small", 100'000);
  EXPECT_TRUE(store->packed(*small));
  EXPECT_EQ(store->missing(*small, {5, 10}), (Ranges{{0, small->size}}));
  ASSERT_TRUE(store.write_whole(small));
  EXPECT_EQ(store->missing(*small, {5, 10}), Ranges{});
  EXPECT_EQ(store->cached_bytes(*small), small->size);
  EXPECT_TRUE(store.holds(small));
  EXPECT_EQ(store.read_fails(small, {70'000, 30'000}), std::nullopt);
  auto hot = store->try_read(*small, {99'999, 1});
  ASSERT_TRUE(hot);
  EXPECT_TRUE(same(*hot, content(*small, {99'999, 1})));
  EXPECT_EQ(store->backing(*small), nullptr);
  EXPECT_EQ(store->stats().packed_objects, 1u);
  EXPECT_EQ(store->stats().segments, 1u);
}

TEST(PageStore, AnEmptyObjectIsAlwaysThere) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto empty = object("empty", 0);
  EXPECT_TRUE(store.holds(empty));
  EXPECT_EQ(store->missing(*empty, {0, 10}), Ranges{});
  EXPECT_TRUE(store.write_whole(empty));
  EXPECT_EQ(store->try_read(*empty, {0, 0})->size(), 0u);
  EXPECT_EQ(store->backing(*empty), nullptr);
  EXPECT_EQ(store->drop(empty->id), 0u);
}

TEST(PageStore, AnotherVersionIsAnotherObject) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  for (uint64_t size : {uint64_t{1000}, 3 * kBlockBytes}) {
    auto before = object("key", size, "v1"), after = object("key", size, "v2");
    ASSERT_TRUE(store.write_whole(before));
    EXPECT_EQ(store.read_fails(after, {0, 10}), StatusCode::kNotFound);
    ASSERT_TRUE(store.write_whole(after));
    EXPECT_TRUE(store.holds(before));
    EXPECT_TRUE(store.holds(after));
  }
}

TEST(PageStore, WritesThatCannotBeKeptSayWhy) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto file = object("large", 4 * kBlockBytes), small = object("small", 70'000);
  auto code = [](const Result<>& result) { return result.error().code(); };
  EXPECT_EQ(code(store.write_range(file, {1, kBlockBytes})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(store.write_range(file, {0, 1000})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(store.write_range(file, {0, 5 * kBlockBytes})), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(store.write_range(small, {0, kBlockBytes})), StatusCode::kInvalidArgument);
  auto unversioned =
      std::make_shared<const FileRef>(FileRef::make(file->store, "key", Version{}, kBlockBytes));
  EXPECT_EQ(code(store.write_whole(unversioned)), StatusCode::kUnsupported);
  EXPECT_EQ(code(store.write_whole(object(std::string(20'000, 'k'), 10))),
            StatusCode::kUnsupported);
}

TEST(PageStore, DroppedObjectsAreGoneAlsoAfterARestart) {
  TempDirectory directory;
  auto file = object("large", 3 * kBlockBytes), small = object("small", 5000),
       other = object("other", 5000);
  {
    TestStore store(TestStore::options(directory.path()));
    for (const auto& ref : {file, small, other}) ASSERT_TRUE(store.write_whole(ref));
    EXPECT_EQ(store->drop(file->id), file->size);
    EXPECT_EQ(store->drop(small->id), small->size);
    EXPECT_EQ(store->drop(small->id), 0u);
    EXPECT_EQ(store.read_fails(file, {0, 1}), StatusCode::kNotFound);
    EXPECT_EQ(store.read_fails(small, {0, 1}), StatusCode::kNotFound);
    store.close();
  }
  TestStore store(TestStore::options(directory.path()));
  EXPECT_EQ(store->cached_bytes(*file), 0u);
  EXPECT_EQ(store->cached_bytes(*small), 0u);
  EXPECT_TRUE(store.holds(other));
  for (const auto& ref : {file, small}) {
    ASSERT_TRUE(store.write_whole(ref));
    EXPECT_TRUE(store.holds(ref));
  }
}

TEST(PageStore, ASegmentGoesWithItsLastObject) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  uint64_t before = store->stats().used_bytes;
  std::vector<FileRefPtr> objects;
  for (int i = 0; i < 40; ++i) objects.push_back(object("small" + std::to_string(i), 100'000));
  for (const auto& ref : objects) ASSERT_TRUE(store.write_whole(ref));
  EXPECT_GE(store->stats().segments, 3u);
  for (const auto& ref : objects) EXPECT_EQ(store->drop(ref->id), ref->size);
  store.close();
  TestStore again(TestStore::options(directory.path()));
  EXPECT_EQ(again->stats().packed_objects, 0u);
  // At most the segment with the last tombstones.
  EXPECT_LE(again->stats().segments, 1u);
  EXPECT_LE(again->stats().used_bytes, before + 16 * kKiB);
}

TEST(PageStore, ACompleteFileCanBeHandedToTheKernel) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto file = object("large", 3 * kBlockBytes + 5);
  ASSERT_TRUE(store.write_range(file, {0, kBlockBytes}));
  ASSERT_TRUE(store.flush());
  EXPECT_EQ(store->backing(*file), nullptr) << "incomplete";
  ASSERT_TRUE(store.write_whole(file));
  ASSERT_TRUE(store.flush());
  auto backing = store->backing(*file);
  ASSERT_NE(backing, nullptr);
  EXPECT_EQ(store->backing(*file), backing) << "one descriptor an object";
  EXPECT_EQ(backing->size(), file->size);
  std::string bytes(file->size + 10, '\0');
  EXPECT_EQ(::pread(backing->fd(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(file->size));
  bytes.resize(file->size);
  EXPECT_EQ(bytes, content(file).to_string());
  EXPECT_LT(::pwrite(backing->fd(), "x", 1, 0), 0) << "read only";
}

TEST(PageStore, PackedObjectHasASendfileRange) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto small = object("small", 100'000), beside = object("beside", 50'000);
  ASSERT_TRUE(store.write_whole(beside));
  ASSERT_TRUE(store.write_whole(small));
  EXPECT_FALSE(store->sendfile_range(*small, {0, 100'000})) << "in memory still, or not durable";
  ASSERT_TRUE(store.flush());
  EXPECT_TRUE(store.holds(small)) << "from then on it is verified";
  const ByteRange range{70'000, 30'000};
  auto stored = store->sendfile_range(*small, range);
  ASSERT_TRUE(stored);
  std::string bytes(range.size, '\0');
  auto read_it = [&] {
    return ::pread(stored->fd, bytes.data(), bytes.size(), static_cast<off_t>(stored->offset));
  };
  EXPECT_EQ(read_it(), static_cast<ssize_t>(range.size));
  EXPECT_EQ(bytes, content(*small, range).to_string());
  EXPECT_FALSE(store->sendfile_range(*small, {70'000, 30'001}))
      << "beyond its end lies another one";
  EXPECT_FALSE(store->sendfile_range(*object("other", 100'000), range));
  store->drop(small->id);
  EXPECT_FALSE(store->sendfile_range(*small, range));
  bytes.assign(bytes.size(), '\0');
  EXPECT_EQ(read_it(), static_cast<ssize_t>(range.size)) << "who has it may go on";
  EXPECT_EQ(bytes, content(*small, range).to_string());
}

TEST(PageStore, AReadSmallObjectIsSyncedWithoutAFlush) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 4096 * kMiB;
  options.segment_bytes = 16 * kMiB;
  TestStore store(options);
  auto first = object("small/first", 60'000);
  ASSERT_TRUE(store.write_whole(first));
  // Fills the first piece of the segment, which is written then, and does not seal the segment.
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(store.write_whole(object(fmt::format("small/{}", i), 60'000)));
  }
  EXPECT_FALSE(store->sendfile_range(*first, {0, 100}));
  until([&] { return store.holds(first) && store->sendfile_range(*first, {0, 100}); });
}

TEST(PageStore, HeldBytesCountUntilTheLastHolderIsGone) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  uint64_t empty = store->stats().used_bytes;
  auto file = object("large", 20 * kBlockBytes);
  ASSERT_TRUE(store.write_whole(file));
  ASSERT_TRUE(store.flush());
  auto backing = store->backing(*file);
  ASSERT_NE(backing, nullptr);
  uint64_t full = store->stats().used_bytes;
  EXPECT_EQ(store->drop(file->id), file->size);
  ASSERT_TRUE(store.write_whole(file));  // waits until the old one is unlinked
  EXPECT_EQ(store->stats().unlinked_bytes, full - empty);
  EXPECT_GE(store->stats().used_bytes, full + file->size);
  std::string byte(1, '\0');
  EXPECT_EQ(::pread(backing->fd(), byte.data(), 1, 100), 1);
  EXPECT_EQ(byte, content(*file, {100, 1}).to_string());
  backing = nullptr;
  until([&] { return store->stats().unlinked_bytes == 0; });
  until([&] { return store->stats().used_bytes == full; });
}

TEST(PageStore, TheBorderBetweenTheKindsMayMove) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  auto file = object("f", 200'000), small = object("s", 100'000);
  {
    TestStore store(options);
    ASSERT_TRUE(store.write_whole(file));
    ASSERT_TRUE(store.write_whole(small));
    store.close();
  }
  options.packed_bytes_max = 1 * kMiB;
  {
    TestStore store(options);
    EXPECT_FALSE(store->packed(*file));
    EXPECT_TRUE(store.holds(file));
    store.close();
  }
  options.packed_bytes_max = 64 * kKiB;
  TestStore store(options);
  EXPECT_TRUE(store->packed(*small));
  EXPECT_TRUE(store.holds(small));
  EXPECT_TRUE(store.holds(file));
}

TEST(PageStore, ManyWritersOfOneObjectAgree) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  auto file = object("large", 64 * kBlockBytes + 99), small = object("small", 99'999);
  std::vector<std::thread> writers;
  for (unsigned seed = 0; seed < 8; ++seed) {
    writers.emplace_back([&, seed] {
      std::mt19937 random(seed);
      EXPECT_TRUE(store.write_whole(small));
      for (int i = 0; i < 20; ++i) {
        uint64_t first = random() % 65, count = 1 + random() % 16;
        ByteRange range = ByteRange{first * kBlockBytes, count * kBlockBytes}.clamp(file->size);
        EXPECT_TRUE(store.write_range(file, range));
        EXPECT_EQ(store.read_fails(file, {range.offset, 1}).value_or(StatusCode::kNotFound),
                  StatusCode::kNotFound);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  ASSERT_TRUE(store.write_whole(file));
  EXPECT_TRUE(store.holds(file));
  EXPECT_TRUE(store.holds(small));
  EXPECT_EQ(store->stats().packed_objects, 1u);
  EXPECT_LE(disk_bytes(directory.path()), store->stats().used_bytes);
}

TEST(PageStore, EightWritersNeverPassTheCapacity) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 24 * kMiB;
  TestStore store(options);
  std::atomic<uint64_t> most = 0;
  // At each pause no writer runs, so the bytes on disk can be summed.
  std::barrier pause(8, [&]() noexcept {
    most = std::max(most.load(), disk_bytes(directory.path()));
    EXPECT_LE(store->stats().used_bytes, options.capacity_bytes);
  });
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 8; ++writer) {
    writers.emplace_back([&, writer] {
      for (int round = 0; round < 12; ++round) {
        for (int i = 0; i < 6; ++i) {
          std::string key = fmt::format("{}/{}/{}", writer, round, i);
          auto ref = object(key, i % 2 == 0 ? 90'000 : 700'000);
          Result<> kept = store.write_whole(ref);
          static_cast<void>(kept);
          EXPECT_LE(store->stats().used_bytes, options.capacity_bytes);
        }
        pause.arrive_and_wait();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_LE(most, options.capacity_bytes);
  EXPECT_GT(most, options.capacity_bytes / 2);
  // More than the capacity: a retrying writer finds that eviction makes room.
  for (int i = 0; i < 40; ++i) {
    auto ref = object(fmt::format("after/{}", i), 700'000);
    ASSERT_NO_FATAL_FAILURE(until([&] { return store.write_whole(ref).has_value(); })) << i;
    EXPECT_LE(store->stats().used_bytes, options.capacity_bytes);
  }
  EXPECT_GT(store->stats().evicted_bytes, 0u);
  EXPECT_LE(disk_bytes(directory.path()), options.capacity_bytes);
}

TEST(PageStore, ReadObjectsOutliveUnreadOnes) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 16 * kMiB;
  // Above this mark, with the pages of a new segment, eviction begins. A faster writer would take
  // the room needed for moved objects.
  const uint64_t high = options.capacity_bytes - options.capacity_bytes / 50 + 8 * kKiB;
  TestStore store(options);
  std::vector<FileRefPtr> used;
  for (int i = 0; i < 3; ++i) used.push_back(object(fmt::format("used/{}", i), 50'000));
  for (const auto& ref : used) ASSERT_TRUE(store.write_whole(ref));
  for (int i = 0; i < 600; ++i) {
    for (const auto& ref : used) EXPECT_TRUE(store.holds(ref)) << i;
    auto passing = object(fmt::format("passing/{}", i), 60'000);
    until([&] { return store.write_whole(passing).has_value(); });
    for (int looks = 0; looks < 10'000 && store->stats().used_bytes > high; ++looks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_GT(store->stats().evicted_bytes, options.capacity_bytes / 2);
}

TEST(PageStore, ObjectWithTooManyRecordsIsRejected) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  uint64_t used = store->stats().used_bytes;
  for (uint64_t size : {uint64_t{64} << 30, uint64_t{1} << 50, UINT64_MAX - 5}) {
    auto huge = object("huge", size);
    Result<> refused = store.write_range(huge, {0, kBlockBytes});
    ASSERT_FALSE(refused) << size;
    EXPECT_EQ(refused.error().code(), StatusCode::kNoSpace);
    EXPECT_EQ(store.read_fails(huge, {0, 1}), StatusCode::kNotFound);
  }
  EXPECT_EQ(store->stats().used_bytes, used);
  auto sparse = object("sparse", uint64_t{4} << 30);
  ASSERT_TRUE(store.write_range(sparse, {2 * kMiB, kBlockBytes}));
  EXPECT_EQ(store.read_fails(sparse, {2 * kMiB, 1}), std::nullopt);
  EXPECT_LE(disk_bytes(directory.path()), used + 256 * kKiB);
}

TEST(PageStore, FileLargerThanTheCapacityIsRejected) {
  TempDirectory directory;
  auto options = TestStore::options(directory.path());
  options.capacity_bytes = 2 * kMiB;
  TestStore store(options);
  auto file = object("large", 4 * kMiB);
  Result<> refused = store.write_whole(file);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kNoSpace);
  EXPECT_NE(refused.error().message().find(directory.path()), std::string::npos);
  EXPECT_GE(store->stats().rejected_bytes, file->size);
  EXPECT_TRUE(store.write_range(file, {0, kBlockBytes}));
  EXPECT_EQ(store.read_fails(file, {0, kBlockBytes}), std::nullopt);
}

}  // namespace
}  // namespace leat
