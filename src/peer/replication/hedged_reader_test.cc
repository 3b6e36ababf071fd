// SPDX-License-Identifier: Apache-2.0
// When a second worker receives a read, and which answer counts.
#include "peer/replication/hedged_reader.h"

#include <gtest/gtest.h>

#include <future>

#include "peer/fake_cluster_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeCluster;
using testing::FakePeer;

constexpr uint64_t kBytes = 4;

class HedgedReaderTest : public ::testing::Test {
 protected:
  HedgedReaderTest() : cluster_(2) {
    file_ = std::make_shared<const FileRef>(
        FileRef::make(cluster_.store().id(), "a", cluster_.store().put("a", "abcd"), kBytes));
    candidates_ = cluster_.views().view()->ring.candidates(
        PlacementKey::stripe(cluster_.store().id(), "a", 0), 2);
  }

  // Records enough reads for the plan to have a delay.
  void learn(Clock::duration took = milliseconds(1)) {
    for (int i = 0; i < 1'000; ++i) hedged_reader_->plan().record(kBytes, took);
  }
  std::shared_ptr<FakePeer> made(size_t at) {
    return std::dynamic_pointer_cast<FakePeer>(cluster_.table().find(candidates_[at]));
  }
  Task<HedgedReply> begin(Context context = Context::background(), ReadProgress progress = {}) {
    text_.assign(kBytes, '\0');
    PeerRead request{.mount = "/", .file = file_, .range = {0, kBytes}, .progress = progress};
    request.route.replicas = 2;
    // The second is found after all bytes of the first have arrived.
    SecondPeer find = [second = made(1), progress, comes = made(0)->breaks_after.load()] {
      while (progress.bytes() < comes) std::this_thread::yield();
      return second;
    };
    return hedged_reader_->read(std::move(context), made(0), std::move(find), request,
                                std::as_writable_bytes(std::span(text_)));
  }
  PeerReply<void> read(Context context = Context::background()) {
    return executor_.block_on(begin(std::move(context))).reply;
  }
  // The caller gives up after the second request was sent.
  PeerReply<void> read_until_second_is_asked() {
    std::stop_source gives_up;
    auto reading = boost::asio::co_spawn(
        executor_.any(), begin(Context::background().with_cancel(gives_up.get_token())),
        boost::asio::use_future);
    while (made(1)->requests == 0) std::this_thread::yield();
    gives_up.request_stop();
    return reading.get().reply;
  }

  Executor executor_;
  FakeCluster cluster_;
  FileRefPtr file_;
  std::vector<WorkerId> candidates_;
  const std::shared_ptr<HedgedReader> hedged_reader_ = HedgedReader::make();
  std::string text_;
};

TEST_F(HedgedReaderTest, ReadInTimeIsNotHedged) {
  learn(seconds(60));
  EXPECT_TRUE(read().result);
  EXPECT_EQ(text_, "abcd");
  EXPECT_EQ(made(1)->requests, 0);
}

TEST_F(HedgedReaderTest, SlowReadIsAbandonedForTheHedge) {
  learn();
  made(0)->hangs = true;
  auto reply = read();
  EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
  EXPECT_TRUE(reply.result);
  EXPECT_EQ(text_, "abcd");
  EXPECT_EQ(made(0)->requests, 1);
  EXPECT_EQ(made(1)->requests, 1);
  EXPECT_EQ(made(1)->only_if_cached, 1) << "it asks no store for it";
}

// Reported bytes are final: readers already have them.
class Progress : public ProgressListener {
 public:
  void on_bytes(uint64_t bytes) override {
    reported.push_back(bytes);
    bytes_ = bytes;
  }
  uint64_t bytes() const override { return bytes_; }

  std::vector<uint64_t> reported;

 private:
  std::atomic<uint64_t> bytes_ = 0;
};

TEST_F(HedgedReaderTest, HedgeReadsOnlyMissingBytes) {
  learn();
  made(0)->hangs = true;
  made(0)->breaks_after = 3;
  Progress progress;
  const uint64_t before = cluster_.store().read_bytes();
  auto got = executor_.block_on(begin(Context::background(), ReadProgress(progress)));
  EXPECT_TRUE(got.reply.result);
  EXPECT_TRUE(got.from_second);
  EXPECT_EQ(text_, "abcd");
  EXPECT_EQ(progress.reported, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(cluster_.store().read_bytes() - before, kBytes);
}

TEST_F(HedgedReaderTest, AnAnswerOfTheFirstEndsTheSecond) {
  learn();
  made(1)->hangs = true;
  cluster_.store().block_reads();
  auto reading = boost::asio::co_spawn(executor_.any(), begin(), boost::asio::use_future);
  while (made(1)->requests == 0) std::this_thread::yield();
  cluster_.store().release_reads();
  const HedgedReply got = reading.get();
  EXPECT_TRUE(got.reply.result);
  EXPECT_FALSE(got.from_second);
  EXPECT_EQ(text_, "abcd");
}

TEST_F(HedgedReaderTest, NoHedgeWithoutLatencyHistory) {
  made(0)->hangs = true;
  EXPECT_FALSE(read(Context::background().with_timeout(milliseconds(20))).result);
  EXPECT_EQ(made(1)->requests, 0);
}

TEST_F(HedgedReaderTest, OneInTwentyAtMost) {
  for (int i = 0; i < 100; ++i) hedged_reader_->plan().record(kBytes, milliseconds(1));
  made(0)->hangs = true;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(read(Context::background().with_timeout(seconds(60))).result) << i;
  }
  for (int i = 5; i < 20; ++i) {
    EXPECT_FALSE(read(Context::background().with_timeout(milliseconds(50))).result) << i;
  }
  EXPECT_EQ(made(1)->requests, 5);
}

TEST_F(HedgedReaderTest, AnAnswerOfTheSecondThatIsNoneEndsNothing) {
  learn();
  made(0)->hangs = true;
  made(1)->up = false;
  EXPECT_FALSE(read_until_second_is_asked().result);
  EXPECT_EQ(made(1)->requests, 1);
}

TEST_F(HedgedReaderTest, WhatTheFirstAnswersBadlyIsItsAnswer) {
  learn(seconds(60));
  cluster_.store().fail_next(StatusCode::kPermissionDenied, 1);
  auto reply = read();
  EXPECT_EQ(reply.outcome, PeerOutcome::kAnswered);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(made(1)->requests, 0);
}

TEST_F(HedgedReaderTest, CancellationEndsBothRequests) {
  learn();
  made(0)->hangs = made(1)->hangs = true;
  EXPECT_FALSE(read_until_second_is_asked().result);
}

TEST(HedgePlan, WaitsForAsLongAsNineteenOfTwentyTake) {
  HedgePlan plan;
  // 18 of 20 reads take 4 ms, one 10 ms and one 1 s.
  for (int i = 0; i < 20'000; ++i) {
    plan.record(100'000, i % 20 == 7 ? seconds(1) : milliseconds(i % 20 == 3 ? 10 : 4));
  }
  const auto delay = plan.delay(100'000);
  ASSERT_TRUE(delay);
  EXPECT_GE(*delay, milliseconds(4));
  EXPECT_LE(*delay, milliseconds(15));
  EXPECT_FALSE(plan.delay(10'000)) << "of another size nothing is known";
  EXPECT_TRUE(plan.delay(120'000)) << "about as large";
}

TEST(HedgePlan, NeverAtOnce) {
  HedgePlan plan;
  for (int i = 0; i < 1'000; ++i) plan.record(1, std::chrono::microseconds(10));
  EXPECT_EQ(plan.delay(1), milliseconds(2));
}

}  // namespace
}  // namespace leat
