// SPDX-License-Identifier: Apache-2.0
// Tests prefetch() and ensure().
#include <gtest/gtest.h>

#include "fetch/fetcher.h"
#include "fetch/fetcher_rig_test.h"
#include "fetch/flight.h"

namespace leat {
namespace {

using testing::random_content;
using testing::wait_until;

class PrefetchTest : public testing::FetcherRig {};

TEST_F(PrefetchTest, ReaderJoinsFlightOfPrefetch) {
  start();
  std::string content = random_content(4 * kMiB, 1);
  FileRefPtr ref = put("a", content);
  source_->block_reads();
  fetcher_->prefetch(ref, {0, 4 * kMiB});
  fetcher_->prefetch(ref, {kMiB, kMiB});
  wait_until([&] { return source_->blocked_reads() == 1; });
  auto pending = spawn_read(ref, {kMiB, kMiB});
  source_->release_reads();
  pending->done.wait();
  EXPECT_EQ(pending->bytes->to_string(), content.substr(kMiB, kMiB));
  auto hot = fetcher_->try_read(*ref, {3 * kMiB, kMiB});
  ASSERT_TRUE(hot);
  EXPECT_EQ(hot->to_string(), content.substr(3 * kMiB, kMiB));
  // Read slices are views of the request's buffer.
  auto again = fetcher_->try_read(*ref, {3 * kMiB, kMiB});
  EXPECT_EQ(again->slices().front().data, hot->slices().front().data);
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(PrefetchTest, SkipsCachedBytesAndClampsAtTheEnd) {
  start({.memory_bytes_max = 4 * kMiB});
  std::string content = random_content(6 * kBlockBytes + 7, 2);
  FileRefPtr ref = put("a", content);
  ASSERT_TRUE(read(ref, {2 * kBlockBytes, kBlockBytes}));
  wait_cached(ref, {2 * kBlockBytes, kBlockBytes});
  fetcher_->prefetch(ref, {0, 100 * kMiB});
  wait_cached(ref, {0, content.size()});
  fetcher_->prefetch(ref, {0, 100 * kMiB});
  EXPECT_EQ(source_->read_bytes(), content.size());
  EXPECT_EQ(source_->reads(), 3u);
  EXPECT_EQ(text(ref, {0, content.size()}), content);
}

TEST_F(PrefetchTest, LeavesAQuarterOfTheRequestsToDemandReads) {
  start({.requests_max = 4});
  std::string content = random_content(10 * kBlockBytes, 3);
  FileRefPtr ref = put("a", content);
  source_->block_reads();
  for (uint64_t block = 0; block < 8; ++block) {
    EXPECT_EQ(fetcher_->prefetch(ref, {block * kBlockBytes, kBlockBytes}), block < 3);
  }
  wait_until([&] { return source_->blocked_reads() == 3; });
  auto first = spawn_read(ref, {8 * kBlockBytes, 10});
  wait_until([&] { return source_->blocked_reads() == 4; });
  auto second = spawn_read(ref, {9 * kBlockBytes, 10});  // waits for a request to end
  source_->release_reads();
  first->done.wait();
  second->done.wait();
  EXPECT_EQ(first->bytes->to_string(), content.substr(8 * kBlockBytes, 10));
  EXPECT_EQ(second->bytes->to_string(), content.substr(9 * kBlockBytes, 10));
  EXPECT_EQ(source_->reads(), 5u);
}

TEST_F(PrefetchTest, LeavesAQuarterOfTheMemoryToDemandReads) {
  start({.memory_bytes_max = 16 * kMiB});
  FileRefPtr ref = put("a", random_content(12 * kMiB, 13));
  source_->block_reads();
  EXPECT_TRUE(fetcher_->prefetch(ref, {0, 4 * kMiB}));
  EXPECT_TRUE(fetcher_->prefetch(ref, {4 * kMiB, 4 * kMiB}));
  // With its own memory this is a little more than three quarters.
  EXPECT_FALSE(fetcher_->prefetch(ref, {8 * kMiB, 4 * kMiB}));
  auto pending = spawn_read(ref, {8 * kMiB, 10});
  wait_until([&] { return source_->blocked_reads() == 3; });
  source_->release_reads();
  pending->done.wait();
  EXPECT_TRUE(pending->bytes);
}

TEST_F(PrefetchTest, DoesNothingWithoutFreeMemory) {
  start({.memory_bytes_max = held_bytes(2 * kBlockBytes)});
  std::string content = random_content(8 * kBlockBytes, 4);
  FileRefPtr ref = put("a", content);
  EXPECT_FALSE(fetcher_->prefetch(ref, {0, 3 * kBlockBytes}));
  EXPECT_EQ(fetcher_->stats().memory_bytes, 0u);
  source_->block_reads();
  EXPECT_TRUE(fetcher_->prefetch(ref, {0, 2 * kBlockBytes}));
  EXPECT_FALSE(fetcher_->prefetch(ref, {4 * kBlockBytes, kBlockBytes}));
  wait_until([&] { return source_->blocked_reads() == 1; });
  auto pending = spawn_read(ref, {6 * kBlockBytes, 10});
  wait_until([&] { return source_->blocked_reads() == 2; });
  source_->release_reads();
  pending->done.wait();
  EXPECT_EQ(pending->bytes->to_string(), content.substr(6 * kBlockBytes, 10));
  EXPECT_EQ(source_->reads(), 2u);
}

TEST_F(PrefetchTest, StreamsDoNotEvictOthersUnreadBytes) {
  // The fetcher uses the clock until it ends, which is after this function.
  const auto now_s = std::make_shared<std::atomic<int64_t>>(0);
  start({.memory_bytes_max = held_bytes(4 * kBlockBytes),
         .now = [now_s] { return Clock::time_point(std::chrono::seconds(*now_s)); }},
        /*with_store=*/false);
  std::string content = random_content(4 * kBlockBytes, 5);
  FileRefPtr one = put("one", content), two = put("two", content);
  fetcher_->prefetch(one, {0, 4 * kBlockBytes});
  wait_until([&] { return fetcher_->try_read(*one, {0, 10}).has_value(); });
  fetcher_->prefetch(two, {0, kBlockBytes});
  EXPECT_EQ(source_->reads(), 1u);
  // Its reader died: later its bytes make room. Bytes are readable before the flight is stored,
  // so the time may begin only now.
  wait_until([&] {
    *now_s += 60;
    fetcher_->prefetch(two, {0, kBlockBytes});
    return fetcher_->try_read(*two, {0, kBlockBytes}).has_value();
  });
  EXPECT_FALSE(fetcher_->try_read(*one, {0, 10}));
}

TEST_F(PrefetchTest, FullyReadRangesAreEvictedFirst) {
  start({.memory_bytes_max = 2 * held_bytes(2 * kBlockBytes), .unread_ttl = std::chrono::hours(1)},
        /*with_store=*/false);
  std::string content = random_content(4 * kBlockBytes, 6);
  FileRefPtr old = put("old", content), read_out = put("read out", content),
             next = put("n", content);
  fetcher_->prefetch(old, {0, 2 * kBlockBytes});
  wait_until([&] { return fetcher_->try_read(*old, {0, 10}).has_value(); });
  // Out of order, as the kernel's readahead does.
  fetcher_->prefetch(read_out, {0, 2 * kBlockBytes});
  wait_until([&] { return fetcher_->try_read(*read_out, {kBlockBytes, kBlockBytes}).has_value(); });
  EXPECT_TRUE(fetcher_->try_read(*read_out, {0, kBlockBytes}));
  wait_until([&] {
    fetcher_->prefetch(next, {0, 2 * kBlockBytes});
    return fetcher_->try_read(*next, {0, 10}).has_value();
  });
  EXPECT_TRUE(fetcher_->try_read(*old, {0, 10}));
  EXPECT_FALSE(fetcher_->try_read(*read_out, {0, 10}));
}

TEST_F(PrefetchTest, EnsureCachesBytesAndCountsFetchedOnes) {
  start();
  std::string content = random_content(40 * kMiB + 99, 7);
  FileRefPtr ref = put("a", content);
  ASSERT_TRUE(read(ref, {kMiB, 10}));
  uint64_t before = source_->read_bytes();
  EXPECT_EQ(ensure(ref, {0, content.size()}).value(), content.size() - before);
  EXPECT_TRUE(store_->missing(*ref, {0, content.size()}).empty());
  EXPECT_EQ(ensure(ref, {0, content.size()}).value(), 0u);
  EXPECT_EQ(source_->read_bytes(), content.size());
}

TEST_F(PrefetchTest, EnsureReportsNoSpaceRetriesFromMemory) {
  start();
  std::string content = random_content(2 * kBlockBytes, 8);
  FileRefPtr ref = put("a", content);
  store_->set_capacity(0);
  auto full = ensure(ref, {0, content.size()});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), StatusCode::kNoSpace);
  store_->set_capacity(UINT64_MAX);
  EXPECT_EQ(ensure(ref, {0, content.size()}).value(), 0u);  // the bytes were still in memory
  EXPECT_TRUE(store_->missing(*ref, {0, content.size()}).empty());
  store_->drop(ref->id);
  EXPECT_EQ(ensure(ref, {0, content.size()}).value(), 0u);
  EXPECT_TRUE(store_->missing(*ref, {0, content.size()}).empty());
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(PrefetchTest, UnreadStoredRangesAreEvictedAfterTtl) {
  start({.unread_ttl = std::chrono::milliseconds(1)});
  std::string content = random_content(4 * kBlockBytes, 12);
  FileRefPtr ahead = put("ahead", content), begun = put("begun", content);
  fetcher_->prefetch(ahead, {0, content.size()});
  // Also on an idle fetcher.
  wait_until([&] { return fetcher_->stats().files == 0; });
  EXPECT_EQ(text(begun, {0, 10}), content.substr(0, 10));
  wait_until([&] { return fetcher_->stats().files == 0; });
  EXPECT_EQ(fetcher_->stats().memory_bytes, 0u);
  EXPECT_EQ(text(ahead, {0, content.size()}), content);
  EXPECT_EQ(text(begun, {10, 10}), content.substr(10, 10));
  EXPECT_EQ(source_->reads(), 2u);
}

TEST_F(PrefetchTest, EvictedBytesAreFetchedAgain) {
  start();
  std::string content = random_content(3 * kBlockBytes, 9);
  FileRefPtr ref = put("a", content), other = put("b", content);
  for (const FileRefPtr& file : {ref, other}) {
    EXPECT_EQ(text(file, {0, content.size()}), content);
    wait_cached(file, {0, content.size()});
  }
  source_->block_reads();
  store_->drop(ref->id);
  // Bytes are written before they can be evicted.
  uint64_t forgotten = 0;
  wait_until([&] { return (forgotten += fetcher_->evict(ref->id)) == content.size(); });
  EXPECT_EQ(fetcher_->evict(ref->id), 0u);
  auto pending = spawn_read(ref, {0, content.size()});
  wait_until([&] { return source_->blocked_reads() == 1; });
  EXPECT_EQ(fetcher_->evict(ref->id), 0u);  // in flight
  source_->release_reads();
  pending->done.wait();
  EXPECT_EQ(pending->bytes->to_string(), content);
  EXPECT_TRUE(fetcher_->try_read(*other, {0, 10}));
}

TEST_F(PrefetchTest, WaitForWritesCoversArrivedBytes) {
  start();
  FileRefPtr ref = put("a", random_content(kBlockBytes, 14));
  source_->block_reads();
  store_->hold_writes();
  fetcher_->prefetch(ref, {0, kBlockBytes});
  wait_until([&] { return source_->blocked_reads() == 1; });
  executor_.block_on(fetcher_->wait_for_writes({}, ref->id));  // not for bytes in flight
  source_->release_reads();
  wait_until([&] { return store_->held() == 1; });
  const auto stored = std::make_shared<uint64_t>(0);
  const auto done = std::make_shared<std::latch>(1);
  executor_.spawn([](Fetcher* fetcher, testing::MemoryPageStore* store, FileId id,
                     std::shared_ptr<uint64_t> into, std::shared_ptr<std::latch> ended) -> Task<> {
    co_await fetcher->wait_for_writes({}, id);
    *into = store->bytes();
    ended->count_down();
  }(fetcher_.get(), store_.get(), ref->id, stored, done));
  store_->release_writes();
  done->wait();
  EXPECT_EQ(*stored, kBlockBytes);
}

TEST_F(PrefetchTest, EnsureNeedsACacheAndReportsFailures) {
  start({}, /*with_store=*/false);
  FileRefPtr ref = put("a", "text");
  EXPECT_EQ(ensure(ref, {0, 4}).error().code(), StatusCode::kUnsupported);
  executor_.block_on(fetcher_->stop());
  start();
  source_->fail_next(StatusCode::kPermissionDenied, 1);
  EXPECT_EQ(ensure(ref, {0, 4}).error().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ensure(ref, {0, 4}).value(), 4u);
}

}  // namespace
}  // namespace leat
