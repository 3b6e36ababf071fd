// SPDX-License-Identifier: Apache-2.0
#include "source/retry/request_pacer.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stop_token>

#include "source/retry/virtual_clock_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::VirtualClock;

class RequestPacerTest : public ::testing::Test {
 protected:
  void open(PacerOptions options) { pacer_ = std::make_unique<RequestPacer>(options, clock_); }

  // One caller: waits for its permit, keeps it for `hold`, records the order and the times.
  static Task<> call(RequestPacerTest* test, int who, Context context, uint64_t bytes,
                     Clock::duration hold) {
    Result<RequestPacer::Permit> permit =
        co_await test->pacer_->acquire(context, bytes, "a permit");
    test->came_.emplace_back(who, test->clock_->now() - test->clock_->start());
    if (!permit) {
      test->rejected_[who] = permit.error().code();
      co_return;
    }
    test->sent_bytes_ += bytes;
    (void)co_await test->clock_->pause(Context::background(), hold);
  }
  void spawn(int who, Clock::duration hold, uint64_t bytes = 0, Context context = {}) {
    clock_->spawn(call(this, who, context, bytes, hold));
  }
  static Task<> stop_after(std::shared_ptr<VirtualClock> clock, Clock::duration delay,
                           std::stop_source stop) {
    (void)co_await clock->pause(Context::background(), delay);
    stop.request_stop();
  }
  std::vector<int> order() const {
    std::vector<int> order;
    for (const auto& [who, when] : came_) order.push_back(who);
    return order;
  }
  size_t count() const { return came_.size(); }
  // Serves the remaining callers.
  void expect_empty() {
    clock_->run();
    EXPECT_EQ(pacer_->in_flight(), 0u);
    EXPECT_EQ(pacer_->waiting(), 0u);
  }

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  std::unique_ptr<RequestPacer> pacer_;
  std::vector<std::pair<int, Clock::duration>> came_;
  std::map<int, StatusCode> rejected_;
  uint64_t sent_bytes_ = 0;
};

TEST_F(RequestPacerTest, ConcurrencyLimitIsNeverExceeded) {
  open({.concurrency = {.min = 1, .start = 3, .max = 3}});
  for (int i = 0; i < 9; ++i) spawn(i, 100ms);
  clock_->run_for(50ms);
  EXPECT_EQ(pacer_->in_flight(), 3u);
  EXPECT_EQ(pacer_->waiting(), 6u);
  EXPECT_EQ(pacer_->concurrency_hint(0), 3u);
  clock_->run();
  EXPECT_EQ(came_.back().second, 200ms);
  expect_empty();
}

TEST_F(RequestPacerTest, FirstComeFirstServed) {
  open({.concurrency = {.min = 1, .start = 2, .max = 2}, .requests_per_second = 100});
  std::vector<int> expected;
  for (int i = 0; i < 200; ++i) {
    expected.push_back(i);
    spawn(i, std::chrono::milliseconds(i % 7 * 10));
  }
  clock_->run();
  EXPECT_EQ(order(), expected);
  expect_empty();
}

TEST_F(RequestPacerTest, ALargeRequestIsNotOvertaken) {
  open({.bytes_per_second = 1'000'000});
  spawn(0, 0ms, 100'000);
  spawn(1, 0ms, 5'000'000);
  spawn(2, 0ms, 1);
  clock_->run();
  EXPECT_EQ(order(), (std::vector<int>{0, 1, 2}));
  EXPECT_GE(came_[1].second, 4900ms);
}

TEST_F(RequestPacerTest, RequestCeilingHoldsFromTheFirstMoment) {
  open({.requests_per_second = 200});
  for (int i = 0; i < 4000; ++i) spawn(i, 5ms);
  clock_->run_for(1ms);
  EXPECT_LE(count(), 20u + 1);
  clock_->run(clock_->start() + 10s);
  EXPECT_NEAR(static_cast<double>(count()), 2000, 40);
  expect_empty();
}

TEST_F(RequestPacerTest, ByteCeilingHoldsFromTheFirstMoment) {
  open({.bytes_per_second = 10'000'000});
  for (int i = 0; i < 1000; ++i) spawn(i, 5ms, i % 2 == 0 ? 400'000 : 1'000);
  clock_->run_for(1ms);
  EXPECT_LE(sent_bytes_, 1'010'000u);
  clock_->run(clock_->start() + 10s);
  EXPECT_NEAR(static_cast<double>(sent_bytes_), 100e6, 2e6);
  // No period of a second gets more than 1.1 seconds' worth.
  for (size_t from = 0; from < came_.size(); ++from) {
    uint64_t bytes = 0;
    for (size_t to = from; to < came_.size() && came_[to].second < came_[from].second + 1s; ++to) {
      bytes += came_[to].first % 2 == 0 ? 400'000u : 1'000u;
    }
    ASSERT_LE(bytes, 11'410'000u) << "from request " << from;
  }
  expect_empty();
}

TEST_F(RequestPacerTest, IdleSecondsAreNotSavedUp) {
  open({.requests_per_second = 100});
  clock_->run_for(1h);
  for (int i = 0; i < 100; ++i) spawn(i, 0ms);
  clock_->run_for(1ms);
  EXPECT_LE(count(), 11u);
  expect_empty();
}

TEST_F(RequestPacerTest, NoTokensGatherWhileTheLimitIsReached) {
  open({.concurrency = {.min = 1, .start = 1, .max = 1}, .requests_per_second = 100});
  spawn(0, 10s);
  for (int i = 1; i < 100; ++i) spawn(i, 0ms);
  clock_->run_for(10s + 1ms);
  EXPECT_LE(count(), 12u);
  clock_->run();
  EXPECT_EQ(count(), 100u);
  expect_empty();
}

TEST_F(RequestPacerTest, PauseBlocksAllForAtMost30Seconds) {
  open({});
  pacer_->pause(2s);
  pacer_->pause(1s);
  for (int i = 0; i < 5; ++i) spawn(i, 0ms);
  EXPECT_EQ(pacer_->concurrency_hint(0), 1u);
  clock_->run();
  for (const auto& [who, when] : came_) EXPECT_EQ(when, 2s) << who;
  pacer_->pause(1h);
  EXPECT_EQ(pacer_->paused_until(), clock_->now() + 30s);
}

TEST_F(RequestPacerTest, PauseBlocksAWaiterToo) {
  open({.requests_per_second = 10});
  for (int i = 0; i < 3; ++i) spawn(i, 0ms);
  clock_->run_for(50ms);
  ASSERT_EQ(count(), 1u);
  pacer_->pause(5s);
  clock_->run();
  EXPECT_EQ(came_[1].second, 5050ms);
}

TEST_F(RequestPacerTest, CancelledWaitersLeaveNoPermitTaken) {
  open({.concurrency = {.min = 1, .start = 2, .max = 2}, .requests_per_second = 10});
  std::map<int, std::stop_source> stops;
  Context late;
  late.deadline = clock_->start() + 300ms;
  for (int i = 0; i < 10; ++i) {
    spawn(i, 1s, 0, i == 4 ? late : Context().with_cancel(stops[i].get_token()));
  }
  clock_->run_for(200ms);
  ASSERT_EQ(count(), 2u);
  stops[2].request_stop();  // the first of the queue
  stops[9].request_stop();  // the last
  stops[0].request_stop();  // already has its permit
  clock_->run_for(0ms);
  EXPECT_EQ(count(), 4u) << "at once";
  clock_->run();
  EXPECT_EQ(order(), (std::vector<int>{0, 1, 2, 9, 4, 3, 5, 6, 7, 8}));
  EXPECT_EQ(rejected_, (std::map<int, StatusCode>{{2, StatusCode::kCancelled},
                                                  {4, StatusCode::kTimedOut},
                                                  {9, StatusCode::kCancelled}}));
  expect_empty();
}

TEST_F(RequestPacerTest, PermitOfACancelledWaiterIsPassedOn) {
  open({.concurrency = {.min = 1, .start = 1, .max = 1}});
  std::stop_source stop;
  spawn(0, 1s);
  spawn(1, 1s, 0, Context().with_cancel(stop.get_token()));
  spawn(2, 1s);
  clock_->run_for(999ms);
  clock_->spawn(stop_after(clock_, 1ms, stop));
  clock_->run();
  EXPECT_EQ(count(), 3u);
  expect_empty();
}

TEST_F(RequestPacerTest, SmallAndLargeRequestsHaveOwnLimits) {
  constexpr uint64_t kLarge = kSmallRequestBytes + 1;
  open({.concurrency = {.min = 1, .start = 2, .max = 2}});
  for (int i = 0; i < 4; ++i) spawn(i, 100ms, kLarge);
  for (int i = 4; i < 8; ++i) spawn(i, 100ms, kSmallRequestBytes);
  clock_->run_for(50ms);
  EXPECT_EQ(order(), (std::vector<int>{0, 1, 4, 5})) << "small ones pass large ones that wait";
  EXPECT_EQ(pacer_->in_flight(), 4u);
  EXPECT_EQ(pacer_->waiting(), 4u);
  pacer_->responded(50ms, 100ms, kLarge);
  EXPECT_EQ(pacer_->concurrency_hint(kLarge), 2u);
  EXPECT_EQ(pacer_->concurrency_hint(0), 2u);
  clock_->run();
  EXPECT_EQ(came_.back().second, 100ms);
  expect_empty();
}

TEST_F(RequestPacerTest, ARateOrdersBothSizesByArrival) {
  open({.requests_per_second = 100});
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back(i);
    spawn(i, 1ms, i % 3 == 0 ? 2 * kSmallRequestBytes : 0);
  }
  clock_->run();
  EXPECT_EQ(order(), expected);
  expect_empty();
}

TEST_F(RequestPacerTest, HintFollowsTheRate) {
  open({.requests_per_second = 100});
  EXPECT_EQ(pacer_->concurrency_hint(0), 64u) << "nothing known yet";
  pacer_->responded(50ms, 100ms, 0);
  EXPECT_EQ(pacer_->concurrency_hint(0), 11u);
}

}  // namespace
}  // namespace leat
