// SPDX-License-Identifier: Apache-2.0
// Tests RetryingSource with an io_timeout, in virtual time: requests without a deadline wait for a
// store that does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stop_token>
#include <vector>

#include "source/retry/retrying_source.h"
#include "source/retry/scripted_source_test.h"
#include "source/retry/store_health.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::ScriptedSource;
using testing::VirtualClock;

// A store that returns `code` until `until`, and then succeeds after `latency`.
struct Outage {
  std::shared_ptr<VirtualClock> clock;
  StatusCode code = StatusCode::kUnavailable;
  Clock::time_point until = Clock::time_point::max();
  Clock::duration refuses_after = 2ms;
  Clock::duration latency = 20ms;
  double failing = 0;  // afterwards, share of failing requests
  bool hangs = false;  // it does not answer before `until`
  std::mt19937 random{5};

  static Task<Result<>> answer(Outage* store, ScriptedSource::Attempt attempt) {
    const bool down = store->clock->now() < store->until;
    Clock::duration needed = store->latency;
    if (down) needed = store->hangs ? store->until - store->clock->now() : store->refuses_after;
    const Clock::duration bound = attempt.timeouts.first_byte_timeout;
    Result<> paused = co_await store->clock->pause(attempt.context, std::min(needed, bound));
    if (!paused) co_return paused;
    if (needed > bound) co_return error(StatusCode::kUnavailable, "timed out");
    attempt.report(needed);
    if (down && !store->hangs) co_return testing::scripted_failure(store->code);
    const bool fails = std::uniform_real_distribution<>(0, 1)(store->random) < store->failing;
    co_return testing::scripted_failure(fails ? StatusCode::kUnavailable : StatusCode{});
  }
};

class RetryingWaitTest : public ::testing::Test {
 protected:
  RetryingWaitTest() {
    options_.timer = clock_;
    options_.seed = 7;
    options_.io_timeout = 5min;
  }
  void open() {
    inner_ = std::make_shared<ScriptedSource>([this](ScriptedSource::Attempt attempt) {
      return Outage::answer(&store_, std::move(attempt));
    });
    retrying_ = RetryingSource::make(inner_, options_);
  }
  void down_for(Clock::duration time, StatusCode code = StatusCode::kUnavailable) {
    store_.code = code;
    store_.until = clock_->now() + time;
  }

  Result<> read(Context context = {}) {
    ReadRequest request{.key = "k", .range = {0, buffer_.size()}, .if_version = {}};
    return clock_->value_of(
        retrying_->read(context, request, std::as_writable_bytes(std::span(buffer_))));
  }
  Context within(Clock::duration time) const {
    Context context;
    context.deadline = clock_->now() + time;
    return context;
  }

  struct Ended {
    double at, took;
    Result<> result;
  };
  // Sends sequential reads until `end`.
  static Task<> reader(RetryingWaitTest* test, Clock::time_point end, Context context = {}) {
    while (test->clock_->now() < end) {
      const double began = test->clock_->seconds();
      std::byte byte;
      ReadRequest request{.key = "k", .range = {0, 1}, .if_version = {}};
      Result<> done = co_await test->retrying_->read(context, request, std::span(&byte, 1));
      const double now = test->clock_->seconds();
      test->ended_.push_back({now, now - began, std::move(done)});
      (void)co_await test->clock_->pause({}, 10ms);
    }
  }
  void readers(int count, Clock::duration time) {
    const Clock::time_point end = clock_->now() + time;
    for (int i = 0; i < count; ++i) clock_->spawn(reader(this, end));
    clock_->run();
  }
  size_t failures() const {
    return static_cast<size_t>(std::ranges::count_if(
        ended_, [](const Ended& ended) { return !ended.result.has_value(); }));
  }
  // The first response after `time`.
  double first_after(double time) const {
    double first = 1e9;
    for (const Ended& ended : ended_) {
      if (ended.at > time) first = std::min(first, ended.at);
    }
    return first;
  }

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  Outage store_{clock_};
  RetryOptions options_;
  std::shared_ptr<ScriptedSource> inner_;
  std::shared_ptr<RetryingSource> retrying_;
  std::string buffer_ = std::string(10, '.');
  std::vector<Ended> ended_;
};

TEST_F(RetryingWaitTest, ReadersWaitOutAnOutage) {
  for (Clock::duration away : {2s, 3s, 6s, 60s, 290s}) {
    for (bool hangs : {false, true}) {
      SCOPED_TRACE(fmt::format("{} s, hangs: {}", away / 1s, hangs));
      ended_.clear();
      store_.until = Clock::time_point::min();
      store_.hangs = hangs;
      open();
      readers(8, 2s);
      const double healed = clock_->seconds() + std::chrono::duration<double>(away).count();
      down_for(away);
      readers(8, away + 10s);
      EXPECT_EQ(failures(), 0u);
      EXPECT_LE(first_after(healed), healed + 5.2) << "goes on soon after";
      EXPECT_EQ(retrying_->pacer().in_flight(), 0u);
    }
  }
}

TEST_F(RetryingWaitTest, AnOutageCostsTheStoreFewRequests) {
  open();
  down_for(240s);
  readers(8, 240s);
  EXPECT_EQ(failures(), 0u);
  EXPECT_LE(inner_->requests(), 200u) << "one in 5 s, but for the first seconds";
}

TEST_F(RetryingWaitTest, AnOpenCircuitMakesRequestsWait) {
  open();
  down_for(20s);
  clock_->spawn(reader(this, clock_->now() + 1s));
  clock_->run_for(19s);
  const uint64_t before = inner_->requests();
  clock_->spawn(reader(this, clock_->now() + 100ms));  // arrives while the circuit is open
  clock_->run_for(100ms);
  EXPECT_EQ(inner_->requests(), before);
  EXPECT_TRUE(ended_.empty());
  clock_->run();
  ASSERT_EQ(ended_.size(), 2u);
  EXPECT_EQ(failures(), 0u);
}

TEST_F(RetryingWaitTest, AReadFailsWhenIoTimeoutHasPassed) {
  options_.io_timeout = 2s;
  open();
  Result<> done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), StatusCode::kUnavailable);
  EXPECT_NEAR(clock_->seconds(), 2, 0.1);
  EXPECT_THAT(done.error().message(), HasSubstr("cannot read scripted://bucket/k: unavailable ("));
  EXPECT_THAT(done.error().message(), HasSubstr("io_timeout=2s has passed)"));

  options_.io_timeout = 60s;
  open();
  const double began = clock_->seconds();
  done = read();
  ASSERT_FALSE(done);
  EXPECT_NEAR(clock_->seconds() - began, 60, 0.1);
  EXPECT_THAT(done.error().message(), HasSubstr("io_timeout=1m has passed"));
}

// A silence limit longer than io_timeout does not extend it.
TEST_F(RetryingWaitTest, HangingStoreFailsAfterIoTimeout) {
  options_.io_timeout = 2s;
  store_.hangs = true;
  open();
  ASSERT_FALSE(read());
  EXPECT_NEAR(clock_->seconds(), 2, 1.1);
}

TEST_F(RetryingWaitTest, NeverMeansNever) {
  options_.io_timeout = Clock::duration::max();
  open();
  down_for(24h);
  EXPECT_TRUE(read());
}

TEST_F(RetryingWaitTest, WhatIsCertainFailsAtOnce) {
  for (StatusCode code : {StatusCode::kNotFound, StatusCode::kVersionChanged,
                          StatusCode::kPermissionDenied, StatusCode::kInvalidArgument}) {
    open();
    down_for(1h, code);
    const double began = clock_->seconds();
    EXPECT_EQ(read().error().code(), code);
    EXPECT_LE(clock_->seconds() - began, 0.1);
    EXPECT_EQ(inner_->requests(), 1u);
  }
}

TEST_F(RetryingWaitTest, ARequestWithADeadlineDoesNotWait) {
  open();
  ASSERT_FALSE(read(within(1min)));
  EXPECT_EQ(inner_->requests(), options_.attempts_max);
  EXPECT_LE(clock_->seconds(), 15);
  clock_->spawn(reader(this, clock_->now()));
  for (int i = 0; i < 8; ++i) clock_->spawn(reader(this, clock_->now() + 1s));
  clock_->run_for(4s);  // the circuit is open then
  down_for(1min);
  const uint64_t before = inner_->requests();
  clock_->spawn(reader(this, clock_->now() + 1ms, within(30s)));
  clock_->run_for(1ms);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_THAT(ended_[0].result.error().message(), HasSubstr("the store has failed every"));
  EXPECT_EQ(inner_->requests(), before);
  clock_->run();
}

TEST_F(RetryingWaitTest, ACallerThatGivesUpReturnsAtOnce) {
  open();
  std::stop_source stop;
  down_for(1min);
  clock_->spawn(reader(this, clock_->now() + 1s, Context().with_cancel(stop.get_token())));
  clock_->run_for(30s);
  EXPECT_TRUE(ended_.empty());
  stop.request_stop();
  clock_->run_for(0s);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0].result.error().code(), StatusCode::kCancelled);
  EXPECT_EQ(retrying_->pacer().in_flight(), 0u);
  clock_->run();
}

// A store that needs longer for a success than for an error response is not "dead" after 6 s of
// errors.
TEST_F(RetryingWaitTest, SlowRecoveryIsFoundAtTheFirstProbe) {
  store_.latency = 1500ms;
  for (Clock::duration before : {0s, 30s}) {
    ended_.clear();
    store_.until = Clock::time_point::min();
    open();
    if (before > 0s) {
      store_.latency = 20ms;
      readers(8, before);
      store_.latency = 1500ms;
    }
    const double healed = clock_->seconds() + 6;
    down_for(6s);
    readers(8, 30s);
    EXPECT_EQ(failures(), 0u);
    EXPECT_LE(first_after(healed), healed + 4 + 1.6);
    double slowest = 0;
    for (const Ended& ended : ended_) {
      if (ended.at - ended.took > healed + 6) slowest = std::max(slowest, ended.took);
    }
    EXPECT_LE(slowest, 1.6) << "no answer is cut off any more";
  }
}

TEST_F(RetryingWaitTest, AStoreThatFailsHalfOfAllIsReadAllTheSame) {
  open();
  down_for(0s);
  store_.failing = 0.5;
  readers(16, 60s);
  EXPECT_EQ(failures(), 0u);
  EXPECT_GE(ended_.size(), 100u);
}

TEST_F(RetryingWaitTest, ThrottlingStoreIsWaitedForAsLong) {
  options_.io_timeout = 20s;
  open();
  down_for(1h, StatusCode::kThrottled);
  Result<> done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), StatusCode::kThrottled);
  EXPECT_NEAR(clock_->seconds(), 20, 1.5);
  EXPECT_THAT(done.error().message(), HasSubstr("io_timeout=20s has passed"));
  down_for(10s, StatusCode::kThrottled);
  EXPECT_TRUE(read());
}

TEST_F(RetryingWaitTest, OutageIsSeenWithin3Seconds) {
  for (StatusCode code : {StatusCode::kUnavailable, StatusCode::kThrottled}) {
    open();
    down_for(20s, code);
    EXPECT_TRUE(store_outages(clock_->now()).empty());
    for (int i = 0; i < 8; ++i) clock_->spawn(reader(this, clock_->now() + 1s));
    clock_->run_for(1s);
    EXPECT_TRUE(store_outages(clock_->now()).empty()) << "a second is no outage";
    clock_->run_for(2s);
    const std::vector<StoreOutage> outages = store_outages(clock_->now());
    ASSERT_EQ(outages.size(), 1u);
    EXPECT_EQ(outages[0].store, "scripted://bucket");
    EXPECT_EQ(outages[0].lasting, 3s);
    EXPECT_GE(outages[0].waiting, 7u) << "the last may just be asking";
    EXPECT_THAT(outages[0].reason, HasSubstr(to_string(code)));
    EXPECT_THAT(metrics_text(), HasSubstr("leat_source_unavailable{store=\"scripted://bucket\""));
    clock_->run();
    EXPECT_TRUE(store_outages(clock_->now()).empty());
  }
}

}  // namespace
}  // namespace leat
