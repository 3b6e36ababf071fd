// SPDX-License-Identifier: Apache-2.0
// Tests readers of a flight that arrives in pieces: each gets its part when that has arrived.
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "fetch/fetcher_rig_test.h"
#include "fetch/streaming_buffer.h"
#include "source/piecewise_source_test.h"
#include "source/retry/retrying_source.h"

namespace leat {
namespace {

using testing::random_content;
using testing::wait_until;

constexpr uint64_t kFileBytes = 4 * kMiB;

class StreamingTest : public testing::FetcherRig {
 protected:
  void SetUp() override {
    source_ = pieces_;
    content_ = random_content(kFileBytes, 1);
  }
  // Starts one flight of the whole file, without any arrived byte.
  void begin(FetcherOptions options = {}) {
    pieces_->allow(0);
    start(options);
    ref_ = put("a", content_);
    ASSERT_TRUE(fetcher_->prefetch(ref_, {0, kFileBytes}));
    wait_until([&] { return pieces_->offsets().size() == 1; });
  }
  void TearDown() override {
    pieces_->allow(UINT64_MAX);
    FetcherRig::TearDown();
  }
  // A source that retries.
  SourcePtr retrying_source() const {
    RetryOptions options;
    options.backoff_min = std::chrono::milliseconds(1);
    return RetryingSource::make(pieces_, options);
  }
  // The read may begin only now, with a flight of its own.
  template <class Read>
  void break_off_until(const Read& read_ended, StatusCode code) {
    while (!read_ended->done.try_wait()) {
      pieces_->break_off(code);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::string part(uint64_t offset, uint64_t size) const { return content_.substr(offset, size); }

  std::shared_ptr<testing::PiecewiseSource> pieces_ = std::make_shared<testing::PiecewiseSource>();
  std::string content_;
  FileRefPtr ref_;
};

TEST_F(StreamingTest, ReaderGetsItsPartBeforeFlightCompletes) {
  begin();
  auto first = spawn_read(ref_, {0, 4096});
  auto later = spawn_read(ref_, {kMiB, 4096});
  pieces_->allow(64 * kKiB);
  first->done.wait();
  ASSERT_TRUE(first->bytes);
  EXPECT_EQ(first->bytes->to_string(), part(0, 4096));
  EXPECT_FALSE(later->done.try_wait());
  EXPECT_EQ(fetcher_->stats().requests_in_flight, 1u);
  // A later reader does not wait either.
  EXPECT_EQ(text(ref_, {100, 60'000}), part(100, 60'000));
  auto hot = fetcher_->try_read(*ref_, {4096, 4096});
  ASSERT_TRUE(hot);
  EXPECT_EQ(hot->to_string(), part(4096, 4096));
  EXPECT_FALSE(fetcher_->try_read(*ref_, {60'000, 10'000}));
  pieces_->allow(kMiB + 4096);
  later->done.wait();
  EXPECT_EQ(later->bytes->to_string(), part(kMiB, 4096));
  EXPECT_EQ(fetcher_->stats().requests_in_flight, 1u);
  pieces_->allow(UINT64_MAX);
  wait_cached(ref_, {0, kFileBytes});
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(StreamingTest, LastBytesArriveWhenSourceCompletes) {
  begin();
  // The whole file, so that a separate flight would not end earlier.
  auto last = spawn_read(ref_, {0, kFileBytes});
  pieces_->allow(kFileBytes - 1);
  EXPECT_EQ(text(ref_, {kFileBytes - 1000, 999}), part(kFileBytes - 1000, 999));
  break_off_until(last, StatusCode::kVersionChanged);
  ASSERT_FALSE(last->bytes);
  EXPECT_EQ(last->bytes.error().code(), StatusCode::kVersionChanged);
}

TEST_F(StreamingTest, StoreFailureInFlightFailsItsWaitersOnly) {
  begin();
  auto first = spawn_read(ref_, {0, 64 * kKiB});
  auto whole = spawn_read(ref_, {0, kFileBytes});
  pieces_->allow(kMiB);
  first->done.wait();
  break_off_until(whole, StatusCode::kUnavailable);
  const size_t failed = source_->reads();
  ASSERT_TRUE(first->bytes);
  EXPECT_EQ(first->bytes->to_string(), part(0, 64 * kKiB));
  ASSERT_FALSE(whole->bytes);
  EXPECT_EQ(whole->bytes.error().code(), StatusCode::kUnavailable);
  // Nothing of the failed flight is left: the next one is complete.
  pieces_->allow(UINT64_MAX);
  EXPECT_EQ(text(ref_, {0, kFileBytes}), content_);
  wait_cached(ref_, {0, kFileBytes});
  EXPECT_EQ(source_->reads(), failed + 1);
}

TEST_F(StreamingTest, RetryContinuesWhereTheFirstAttemptEnded) {
  sources_.add(retrying_source());
  pieces_->allow(0);
  store_ = std::make_unique<testing::MemoryPageStore>(0);
  fetcher_ = Fetcher::create({}, store_.get(), sources_, executor_);
  ref_ = put("a", content_);
  auto whole = spawn_read(ref_, {0, kFileBytes});
  wait_until([&] { return !pieces_->offsets().empty(); });
  auto first = spawn_read(ref_, {0, kMiB});
  pieces_->allow(kMiB);
  first->done.wait();
  pieces_->break_off(StatusCode::kUnavailable);
  wait_until([&] { return pieces_->offsets().size() == 2; });
  pieces_->allow(UINT64_MAX);
  whole->done.wait();
  ASSERT_TRUE(whole->bytes) << whole->bytes.error().to_string();
  EXPECT_TRUE(whole->bytes->to_string() == content_);
  EXPECT_EQ(first->bytes->to_string(), part(0, kMiB));
  EXPECT_EQ(pieces_->offsets(), (std::vector<uint64_t>{0, kMiB}));
}

TEST_F(StreamingTest, VersionChangeFailsBytesNotYetArrived) {
  sources_.add(retrying_source());
  pieces_->allow(0);
  fetcher_ = Fetcher::create({}, nullptr, sources_, executor_);
  ref_ = put("a", content_);
  auto whole = spawn_read(ref_, {0, kFileBytes});
  wait_until([&] { return !pieces_->offsets().empty(); });
  pieces_->allow(kMiB);
  put("a", random_content(kFileBytes, 2));
  pieces_->break_off(StatusCode::kUnavailable);
  whole->done.wait();
  ASSERT_FALSE(whole->bytes);
  EXPECT_EQ(whole->bytes.error().code(), StatusCode::kVersionChanged);
}

TEST_F(StreamingTest, UnknownVersionIsDeliveredWhole) {
  pieces_->allow(0);
  start({}, false);
  put("a", content_);
  ref_ = std::make_shared<FileRef>(FileRef::make(source_->id(), "a", Version(), kFileBytes));
  auto whole = spawn_read(ref_, {0, kFileBytes});
  wait_until([&] { return !pieces_->offsets().empty(); });
  pieces_->allow(kFileBytes - 1);
  EXPECT_FALSE(fetcher_->try_read(*ref_, {0, 4096}));
  pieces_->allow(UINT64_MAX);
  whole->done.wait();
  EXPECT_TRUE(whole->bytes);
}

TEST_F(StreamingTest, CancelledReaderLeavesFlightToOthers) {
  begin();
  std::stop_source killed;
  auto leaves = spawn_read(ref_, {0, kMiB}, Context().with_cancel(killed.get_token()));
  auto stays = spawn_read(ref_, {0, kMiB});
  pieces_->allow(4096);
  killed.request_stop();
  leaves->done.wait();
  EXPECT_EQ(leaves->bytes.error().code(), StatusCode::kCancelled);
  pieces_->allow(kMiB);
  stays->done.wait();
  ASSERT_TRUE(stays->bytes);
  EXPECT_TRUE(stays->bytes->to_string() == part(0, kMiB));
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(StreamingTest, ManyReadersShareOneArrivingRequest) {
  begin();
  std::mt19937_64 random(7);
  std::deque<std::pair<ByteRange, std::shared_ptr<testing::PendingRead>>> reads;
  for (uint64_t given = 0; given < kFileBytes; given += 37'777) {
    const uint64_t offset = random() % kFileBytes;
    const ByteRange range = ByteRange{offset, random() % (256 * kKiB) + 1}.clamp(kFileBytes);
    reads.emplace_back(range, spawn_read(ref_, range));
    pieces_->allow(given);
  }
  pieces_->allow(UINT64_MAX);
  for (const auto& [range, read] : reads) {
    read->done.wait();
    ASSERT_TRUE(read->bytes);
    EXPECT_TRUE(read->bytes->to_string() == part(range.offset, range.size));
  }
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(StreamingTest, StreamedReadReturnsArrivedBytes) {
  begin();
  StreamedReadPtr stream = fetcher_->stream(ref_, {0, kFileBytes});
  pieces_->allow(100'000);
  Result<Bytes> got = executor_.block_on(stream->next({}));
  ASSERT_TRUE(got);
  EXPECT_GE(got->size(), kBlockBytes);
  std::string all = got->to_string();
  EXPECT_EQ(fetcher_->stats().requests_in_flight, 1u);
  pieces_->allow(UINT64_MAX);
  while (got && !got->empty()) {
    got = executor_.block_on(stream->next({}));
    ASSERT_TRUE(got);
    EXPECT_LE(got->size(), kStreamedBytesMax);
    all += got->to_string();
  }
  EXPECT_TRUE(all == content_);
  EXPECT_EQ(source_->reads(), 1u);
}

TEST_F(StreamingTest, StreamedReadFailsAfterValidBytes) {
  begin();
  StreamedReadPtr stream = fetcher_->stream(ref_, {0, kFileBytes});
  pieces_->allow(kBlockBytes);
  Result<Bytes> got = executor_.block_on(stream->next({}));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->to_string(), part(0, kBlockBytes));
  pieces_->break_off(StatusCode::kUnavailable);
  EXPECT_EQ(executor_.block_on(stream->next({})).error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(executor_.block_on(stream->next({})).error().code(), StatusCode::kUnavailable);
}

// Parts of the range are in memory, in the page store and nowhere. Bytes that the page store drops
// meanwhile are fetched again.
TEST_F(StreamingTest, StreamedReadJoinsPartsOfAllOrigins) {
  start({.memory_bytes_max = 1});
  ref_ = put("a", content_);
  ASSERT_TRUE(read(ref_, {kMiB, kMiB}));
  ASSERT_TRUE(read(ref_, {3 * kMiB, kMiB}));
  wait_cached(ref_, {kMiB, kMiB});
  wait_cached(ref_, {3 * kMiB, kMiB});
  StreamedReadPtr stream = fetcher_->stream(ref_, {1000, kFileBytes - 1000});
  std::string all;
  for (Result<Bytes> got = executor_.block_on(stream->next({}));;
       got = executor_.block_on(stream->next({}))) {
    ASSERT_TRUE(got) << got.error().to_string();
    if (got->empty()) break;
    if (all.empty()) store_->drop(ref_->id);
    all += got->to_string();
  }
  EXPECT_TRUE(all == part(1000, kFileBytes - 1000));
}

// A stream that is not consumed occupies neither the store's requests nor the permits of other
// readers.
TEST_F(StreamingTest, UnconsumedStreamBlocksNoOther) {
  start({.memory_bytes_max = 16 * kMiB, .requests_max = 2});
  ref_ = put("a", content_);
  std::vector<StreamedReadPtr> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(fetcher_->stream(ref_, {0, kFileBytes}));
    ASSERT_TRUE(executor_.block_on(idle.back()->next({})));
  }
  FileRefPtr other = put("b", content_);
  EXPECT_TRUE(text(other, {0, kFileBytes}) == content_);
  executor_.block_on(fetcher_->stop());  // nor this
  EXPECT_EQ(executor_.block_on(idle.back()->next({})).error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace leat
