// SPDX-License-Identifier: Apache-2.0
#include "fetch/fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/fetcher_rig_test.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using testing::metric;
using testing::random_content;
using testing::wait_until;

class FetcherTest : public testing::FetcherRig {
 protected:
  // Waits until memory is empty: cached ranges are evicted a moment later.
  void wait_forgotten() {
    wait_until([&] { return fetcher_->stats().files == 0; });
  }
};

TEST_F(FetcherTest, ReadsExactRangeFromStoreThenCache) {
  start({.memory_bytes_max = 0});  // nothing stays in memory
  std::string content = random_content(200'000, 1);
  FileRefPtr ref = put("a", content);
  for (ByteRange range : {ByteRange{0, 200'000}, ByteRange{199'999, 1}, ByteRange{65'535, 2},
                          ByteRange{131'072, 68'928}, ByteRange{200'000, 0}, ByteRange{7, 0}}) {
    EXPECT_EQ(text(ref, range), content.substr(range.offset, range.size));
    wait_cached(ref, range);
  }
  EXPECT_EQ(source_->read_bytes(), 200'000u);
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(FetcherTest, FetchesOnlyMissingBlocksWhole) {
  start();
  std::string content = random_content(5 * kBlockBytes + 10, 2);
  FileRefPtr ref = put("a", content);
  EXPECT_EQ(text(ref, {kBlockBytes + 5, 10}), content.substr(kBlockBytes + 5, 10));
  EXPECT_EQ(source_->read_bytes(), kBlockBytes);
  EXPECT_EQ(text(ref, {5 * kBlockBytes + 9, 1}), content.substr(5 * kBlockBytes + 9));
  EXPECT_EQ(source_->read_bytes(), kBlockBytes + 10);
  EXPECT_EQ(text(ref, {0, content.size()}), content);
  EXPECT_EQ(source_->read_bytes(), content.size());
  EXPECT_EQ(source_->reads(), 4u);  // two gaps beside the cached blocks
}

TEST_F(FetcherTest, AnEmptyFileHasNoBytesAndNeedsNoRequest) {
  start();
  FileRefPtr ref = put("empty", "");
  EXPECT_EQ(text(ref, {0, 0}), "");
  EXPECT_EQ(fetcher_->try_read(*ref, {0, 0})->size(), 0u);
  EXPECT_EQ(ensure(ref, {0, 0}).value(), 0u);
  fetcher_->prefetch(ref, {0, 100});
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(FetcherTest, RangePastTheEndIsRejected) {
  start();
  FileRefPtr ref = put("a", "0123456789");
  for (ByteRange range : {ByteRange{5, 6}, ByteRange{11, 0}, ByteRange{1, UINT64_MAX}}) {
    Result<Bytes> bytes = read(ref, range);
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code(), StatusCode::kOutOfRange);
    EXPECT_THAT(bytes.error().message(), HasSubstr("'a'"));
    EXPECT_FALSE(fetcher_->try_read(*ref, range));
  }
  EXPECT_EQ(source_->reads(), 0u);
}

TEST_F(FetcherTest, OverlappingReadersFetchEachByteOnce) {
  for (bool with_store : {true, false}) {
    uint64_t bytes_before = source_->read_bytes();
    start({}, with_store);
    std::string content = random_content(20 * kMiB + 12'345, 3);
    FileRefPtr ref = put(with_store ? "stored" : "not stored", content);
    source_->block_reads();
    std::mt19937_64 random(4);
    std::vector<std::pair<ByteRange, std::shared_ptr<testing::PendingRead>>> reads;
    reads.push_back({{0, content.size()}, spawn_read(ref, {0, content.size()})});
    for (int i = 0; i < 99; ++i) {
      uint64_t offset = random() % content.size();
      ByteRange range = ByteRange{offset, 1 + random() % (3 * kMiB)}.clamp(content.size());
      reads.push_back({range, spawn_read(ref, range)});
    }
    wait_until([&] { return source_->blocked_reads() > 0; });
    source_->release_reads();
    for (auto& [range, pending] : reads) {
      pending->done.wait();
      ASSERT_TRUE(pending->bytes) << pending->bytes.error().to_string();
      EXPECT_EQ(pending->bytes->to_string(), content.substr(range.offset, range.size));
    }
    EXPECT_EQ(source_->read_bytes() - bytes_before, content.size());
    executor_.block_on(fetcher_->stop());
  }
}

TEST_F(FetcherTest, ALargeReadIsSplitIntoRequestsOf8MiB) {
  start();
  std::string content = random_content(17 * kMiB, 5);
  FileRefPtr ref = put("a", content);
  source_->block_reads();
  auto pending = spawn_read(ref, {0, content.size()});
  wait_until([&] { return source_->blocked_reads() == 3; });  // concurrently
  source_->release_reads();
  pending->done.wait();
  EXPECT_EQ(pending->bytes->to_string(), content);
  EXPECT_EQ(source_->reads(), 3u);
}

TEST_F(FetcherTest, ReadersHaveTheirBytesBeforeTheDiskDoes) {
  start();
  std::string content = random_content(3 * kBlockBytes, 6);
  FileRefPtr ref = put("a", content);
  store_->hold_writes();
  EXPECT_EQ(text(ref, {10, kBlockBytes}), content.substr(10, kBlockBytes));
  wait_until([&] { return store_->held() == 1; });
  auto hot = fetcher_->try_read(*ref, {0, 2 * kBlockBytes});
  ASSERT_TRUE(hot);
  EXPECT_EQ(hot->to_string(), content.substr(0, 2 * kBlockBytes));
  EXPECT_FALSE(fetcher_->try_read(*ref, {0, 3 * kBlockBytes}));
  EXPECT_EQ(store_->bytes(), 0u);
  store_->release_writes();
  wait_cached(ref, {0, 2 * kBlockBytes});
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(FetcherTest, TryReadJoinsMemoryAndPageCacheInOneRope) {
  start({.memory_bytes_max = 0});
  std::string content = random_content(3 * kBlockBytes, 7);
  FileRefPtr ref = put("a", content);
  EXPECT_EQ(text(ref, {0, kBlockBytes}), content.substr(0, kBlockBytes));
  wait_cached(ref, {0, kBlockBytes});
  wait_forgotten();
  store_->hold_writes();  // these stay in memory until written
  EXPECT_EQ(text(ref, {kBlockBytes, kBlockBytes}), content.substr(kBlockBytes, kBlockBytes));
  wait_until([&] { return store_->held() == 1; });
  EXPECT_FALSE(fetcher_->try_read(*ref, {5, 2 * kBlockBytes - 5}));  // cold on disk
  store_->set_hot(true);
  auto hot = fetcher_->try_read(*ref, {5, 2 * kBlockBytes - 5});
  ASSERT_TRUE(hot);
  EXPECT_EQ(hot->to_string(), content.substr(5, 2 * kBlockBytes - 5));
  EXPECT_FALSE(fetcher_->try_read(*ref, {5, 2 * kBlockBytes}));
  EXPECT_EQ(text(ref, {5, 2 * kBlockBytes - 5}), content.substr(5, 2 * kBlockBytes - 5));
  EXPECT_EQ(source_->reads(), 2u);
}

TEST_F(FetcherTest, CancelledReaderEndsItsWaitNotTheRequest) {
  start();
  std::string content = random_content(kBlockBytes, 8);
  FileRefPtr ref = put("a", content);
  source_->block_reads();
  std::stop_source stop;
  auto gone = spawn_read(ref, {0, 100}, Context::background().with_cancel(stop.get_token()));
  wait_until([&] { return source_->blocked_reads() == 1; });
  auto stays = spawn_read(ref, {50, 100});
  stop.request_stop();
  gone->done.wait();
  EXPECT_EQ(gone->bytes.error().code(), StatusCode::kCancelled);
  EXPECT_EQ(source_->blocked_reads(), 1u);
  source_->release_reads();
  stays->done.wait();
  EXPECT_EQ(stays->bytes->to_string(), content.substr(50, 100));
  wait_cached(ref, {0, kBlockBytes});
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(FetcherTest, FailureReachesAllWaitersNextReadRetries) {
  start();
  std::string content = random_content(1000, 9);
  FileRefPtr ref = put("dir/a", content);
  source_->block_reads();
  std::vector<std::shared_ptr<testing::PendingRead>> reads;
  for (int i = 0; i < 5; ++i) reads.push_back(spawn_read(ref, {0, 1000}));
  wait_until([&] { return source_->blocked_reads() == 1; });
  source_->fail_next(StatusCode::kThrottled, 1);
  source_->release_reads();
  size_t failed = 0;
  for (auto& pending : reads) {
    pending->done.wait();
    if (pending->bytes) continue;  // arrived after the failure
    ++failed;
    EXPECT_EQ(pending->bytes.error().code(), StatusCode::kThrottled);
    EXPECT_THAT(pending->bytes.error().to_string(), HasSubstr("'dir/a'"));
  }
  EXPECT_GE(failed, 1u) << "the one that sent the request";
  EXPECT_EQ(text(ref, {0, 1000}), content);
}

TEST_F(FetcherTest, RemovedVersionServesCachedBytesOnly) {
  start({.memory_bytes_max = 0});
  std::string content = random_content(2 * kBlockBytes, 10);
  FileRefPtr ref = put("a", content);
  EXPECT_EQ(text(ref, {0, 10}), content.substr(0, 10));
  wait_cached(ref, {0, 10});
  put("a", random_content(2 * kBlockBytes, 11));
  EXPECT_EQ(read(ref, {kBlockBytes, 10}).error().code(), StatusCode::kVersionChanged);
  source_->remove("a");
  EXPECT_EQ(read(ref, {kBlockBytes, 10}).error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(text(ref, {0, 10}), content.substr(0, 10));
}

TEST_F(FetcherTest, UnmountedStoreIsNamedInTheError) {
  start();
  FileRefPtr ref = put("a", "text");
  sources_.remove(source_);
  Result<Bytes> bytes = read(ref, {0, 4});
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(bytes.error().to_string(), HasSubstr("mount it again"));
}

TEST_F(FetcherTest, CorruptCacheIsFetchedAgainSilently) {
  start({.memory_bytes_max = 0});
  std::string content = random_content(3 * kBlockBytes, 12);
  FileRefPtr ref = put("a", content);
  ByteRange whole{0, content.size()};
  EXPECT_EQ(text(ref, whole), content);
  wait_cached(ref, whole);
  wait_forgotten();
  store_->corrupt_reads(1);
  EXPECT_EQ(text(ref, whole), content);
  wait_cached(ref, whole);
  wait_forgotten();
  EXPECT_EQ(source_->reads(), 2u);
  store_->fail_reads(2);  // on each try
  EXPECT_EQ(text(ref, whole), content);
  EXPECT_EQ(source_->reads(), 3u);
}

TEST_F(FetcherTest, AFullCacheCostsNoRead) {
  start();
  store_->set_capacity(kBlockBytes);
  std::string content = random_content(10 * kBlockBytes, 13);
  FileRefPtr ref = put("a", content);
  EXPECT_EQ(text(ref, {0, content.size()}), content);
  EXPECT_EQ(text(ref, {0, content.size()}), content);  // from memory
  EXPECT_EQ(source_->read_bytes(), content.size());
}

TEST_F(FetcherTest, PackedObjectsAreFetchedWhole) {
  start({}, true, kMiB);
  std::string content = random_content(300'000, 14);
  FileRefPtr ref = put("a", content);
  EXPECT_EQ(text(ref, {150'000, 10}), content.substr(150'000, 10));
  wait_cached(ref, {0, content.size()});
  EXPECT_EQ(text(ref, {0, content.size()}), content);
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(FetcherTest, AnUnreadablePackedObjectIsFetchedWhole) {
  start({.memory_bytes_max = 0}, true, kMiB);
  std::string content = random_content(300'000, 18);
  FileRefPtr ref = put("a", content);
  EXPECT_EQ(text(ref, {150'000, 10}), content.substr(150'000, 10));
  wait_cached(ref, {0, content.size()});
  wait_forgotten();
  store_->fail_reads(2);  // as often as it is read
  EXPECT_EQ(text(ref, {0, 10}), content.substr(0, 10));
  EXPECT_EQ(source_->read_bytes(), 2 * content.size());
}

TEST_F(FetcherTest, BytesCountByTheirOrigin) {
  start({.memory_bytes_max = 0});
  const auto origin = [](const std::string& name) {
    return metric("leat_fetch_bytes_total", "origin=\"" + name + "\"");
  };
  const double source = origin("source"), cache = origin("cache"), memory = origin("memory");
  const double fetched = metric("leat_fetch_source_bytes_total");
  FileRefPtr ref = put("a", random_content(2 * kBlockBytes, 19));
  ASSERT_TRUE(read(ref, {0, 100}));
  wait_cached(ref, {0, kBlockBytes});
  wait_forgotten();
  EXPECT_EQ(origin("source") - source, 100);
  EXPECT_EQ(metric("leat_fetch_source_bytes_total") - fetched, kBlockBytes);
  ASSERT_TRUE(read(ref, {0, 200}));
  EXPECT_EQ(origin("cache") - cache, 200);
  EXPECT_EQ(origin("memory") - memory, 0);
  store_->hold_writes();  // the second block stays in memory until it is written
  ASSERT_TRUE(read(ref, {kBlockBytes, 10}));
  wait_until([&] { return store_->held() == 1; });
  store_->set_hot(true);
  ASSERT_TRUE(fetcher_->try_read(*ref, {kBlockBytes - 50, 80}));
  EXPECT_EQ(origin("cache") - cache, 250);
  EXPECT_EQ(origin("memory") - memory, 30);
  EXPECT_EQ(origin("source") - source, 110);
}

// One store has at most three quarters of that.
TEST_F(FetcherTest, ReadsTogetherTakeHalfOfTheMemory) {
  start({.memory_bytes_max = 32 * kMiB});
  constexpr uint64_t kSize = 4 * kMiB;
  FileRefPtr ref = put("a", random_content(kSize, 20));
  source_->block_reads();
  std::vector<std::shared_ptr<testing::PendingRead>> reads;
  for (int i = 0; i < 4; ++i) reads.push_back(spawn_read(ref, {0, kSize}));
  wait_until([&] {
    return metric("leat_fetch_reads_waiting") + metric("leat_fetch_read_bytes") / kSize == 4;
  });
  EXPECT_EQ(metric("leat_fetch_reads_waiting"), 1);
  source_->release_reads();
  for (auto& pending : reads) {
    pending->done.wait();
    EXPECT_TRUE(pending->bytes);
  }
}

TEST_F(FetcherTest, UnversionedBytesAreSharedNeverCached) {
  start();
  source_->put("a", "first");
  auto ref = std::make_shared<FileRef>(FileRef::make(source_->id(), "a", Version{}, 5));
  EXPECT_EQ(text(ref, {0, 5}), "first");
  wait_forgotten();
  source_->put("a", "other");
  fetcher_->prefetch(ref, {0, 5});
  EXPECT_EQ(text(ref, {0, 5}), "other");
  EXPECT_EQ(store_->writes(), 0u);
  EXPECT_FALSE(fetcher_->has_local_file(*ref));
  EXPECT_EQ(ensure(ref, {0, 5}).error().code(), StatusCode::kUnsupported);
}

TEST_F(FetcherTest, MemoryStaysInBudgetOldRangesAreEvicted) {
  start({.memory_bytes_max = 4 * kBlockBytes});
  std::string content = random_content(64 * kBlockBytes, 15);
  FileRefPtr ref = put("a", content);
  for (uint64_t block = 0; block < 64; ++block) {
    ByteRange range{block * kBlockBytes, kBlockBytes};
    ASSERT_EQ(text(ref, range), content.substr(range.offset, range.size));
    wait_cached(ref, range);
    // One demand read may exceed it.
    EXPECT_LE(fetcher_->stats().memory_bytes, 5 * kBlockBytes);
  }
  wait_until([&] { return fetcher_->stats().memory_bytes <= 4 * kBlockBytes; });
  EXPECT_FALSE(fetcher_->try_read(*ref, {0, kBlockBytes}));
  EXPECT_TRUE(fetcher_->try_read(*ref, {63 * kBlockBytes, kBlockBytes}));
}

TEST_F(FetcherTest, StopRejectsNewReadsAndWaitsForTheDisk) {
  start();
  FileRefPtr ref = put("a", random_content(kBlockBytes, 16));
  store_->hold_writes();
  ASSERT_TRUE(read(ref, {0, 10}));
  wait_until([&] { return store_->held() == 1; });
  std::atomic<bool> stopped = false;
  std::thread stopping([&] {
    executor_.block_on(fetcher_->stop());
    stopped = true;
  });
  wait_until([&] {
    Result<Bytes> bytes = read(ref, {0, 10});
    return !bytes && bytes.error().code() == StatusCode::kCancelled;
  });
  EXPECT_FALSE(stopped);
  EXPECT_EQ(ensure(ref, {0, 10}).error().code(), StatusCode::kCancelled);
  store_->release_writes();
  stopping.join();
  EXPECT_TRUE(store_->missing(*ref, {0, kBlockBytes}).empty());
}

TEST_F(FetcherTest, StopCancelsOnlyRequestsWithoutWaiters) {
  start();
  std::string content = random_content(kBlockBytes, 17);
  FileRefPtr ahead = put("ahead", content), wanted = put("wanted", content);
  source_->block_reads();
  fetcher_->prefetch(ahead, {0, kBlockBytes});
  auto pending = spawn_read(wanted, {0, 100});
  wait_until([&] { return source_->blocked_reads() == 2; });
  std::thread stopping([&] { executor_.block_on(fetcher_->stop()); });
  wait_until([&] { return source_->blocked_reads() == 1; });
  source_->release_reads();
  stopping.join();
  pending->done.wait();
  ASSERT_TRUE(pending->bytes);
  EXPECT_EQ(pending->bytes->to_string(), content.substr(0, 100));
}

}  // namespace
}  // namespace leat
