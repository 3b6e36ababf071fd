// SPDX-License-Identifier: Apache-2.0
#include "source/retry/concurrency_limit.h"

#include <sys/resource.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <queue>

namespace leat {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

// A store that answers after `latency` and serves `rate` requests a second, in turn.
struct Store {
  Clock::duration latency;
  double rate;
};

class ConcurrencyLimitTest : public ::testing::Test {
 protected:
  // Keeps as many requests in flight as the limit allows, at most `wanted`.
  void serve(Store store, Clock::duration time, unsigned wanted = 10'000) {
    const Clock::time_point end = now_ + time;
    const auto service = std::chrono::duration_cast<Clock::duration>(Seconds(1 / store.rate));
    Clock::time_point free_at = now_;
    responses_ = 0;
    while (now_ < end) {
      while (in_flight_.size() < std::min(limit_.limit(now_), wanted)) {
        free_at = std::max(free_at, now_) + service;
        in_flight_.push({free_at + store.latency, now_});
      }
      const Request first = in_flight_.top();
      now_ = std::max(now_, first.done);
      limit_.responded(now_, now_ - first.sent, now_ - first.sent,
                       static_cast<unsigned>(in_flight_.size()));
      in_flight_.pop();
      ++responses_;
    }
  }
  double rate_over(Clock::duration time) const {
    return static_cast<double>(responses_) / Seconds(time).count();
  }
  void seconds(int count, Clock::duration first_byte) {
    for (int i = 0; i < count * 10; ++i, now_ += 100ms)
      limit_.responded(now_, first_byte, first_byte, 4);
  }

  struct Request {
    Clock::time_point done, sent;
    bool operator<(const Request& other) const { return done > other.done; }
  };
  Clock::time_point now_{1000h};
  ConcurrencyLimit limit_{{.min = 4, .start = 32, .max = 1024}};
  std::priority_queue<Request> in_flight_;
  uint64_t responses_ = 0;
};

TEST_F(ConcurrencyLimitTest, GrowsToTheProductOfRateAndLatency) {
  serve({30ms, 4000}, 2s);
  EXPECT_GE(rate_over(2s), 0.85 * 4000) << "the first two seconds, with the growth";
  serve({30ms, 4000}, 10s);
  EXPECT_GE(rate_over(10s), 0.98 * 4000);
  EXPECT_LE(limit_.limit(now_), 2 * 120u) << "no long queue at the store";
}

TEST_F(ConcurrencyLimitTest, GrowsToTheMaximumWhereTheStoreTakesIt) {
  serve({100ms, 1e6}, 4s);
  EXPECT_EQ(limit_.limit(now_), 1024u);
}

TEST_F(ConcurrencyLimitTest, AFarStoreHasManyAfterAFewRoundTrips) {
  serve({100ms, 1e6}, 500ms);
  EXPECT_GE(limit_.limit(now_), 256u);
}

TEST_F(ConcurrencyLimitTest, AFirstStepTooFarIsUndone) {
  serve({100ms, 400}, 10s);
  EXPECT_LE(limit_.limit(now_), 3 * 40u);
  EXPECT_GE(rate_over(10s), 0.9 * 400);
}

TEST_F(ConcurrencyLimitTest, ANearStoreIsLeftAlone) {
  for (int i = 0; i < 60; ++i) {
    serve({500us, 4000}, 1s, i % 2 == 0 ? 4 : 100);
    EXPECT_EQ(limit_.limit(now_), 32u) << i;
  }
  limit_ = ConcurrencyLimit({.min = 4, .start = 32, .max = 1024});
  serve({500us, 4000}, 60s);
  EXPECT_LE(limit_.limit(now_), 36u) << "also if it was never seen without a queue";
}

TEST_F(ConcurrencyLimitTest, DoesNotGrowUnused) {
  serve({30ms, 1e6}, 10s, 16);
  EXPECT_EQ(limit_.limit(now_), 32u);
}

// The lowest latency of the last minute is that of a full queue then.
TEST_F(ConcurrencyLimitTest, DoesNotCreepUpAfterHours) {
  serve({30ms, 2000}, 2h);
  EXPECT_LE(limit_.limit(now_), 4 * 60u);
  EXPECT_GE(rate_over(2h), 0.98 * 2000);
}

TEST_F(ConcurrencyLimitTest, DoesNotGrowWhileTheStoreThrottles) {
  for (int i = 0; i < 40; ++i) {
    serve({30ms, 1e6}, 100ms);
    limit_.throttled(now_);
  }
  EXPECT_LE(limit_.limit(now_), 3 * 32u) << "one step, before the first refusal";
}

TEST_F(ConcurrencyLimitTest, FollowsAStoreThatBecomesSlow) {
  serve({30ms, 4000}, 10s);
  const unsigned before = limit_.limit(now_);
  serve({30ms, 400}, 20s);
  EXPECT_LE(limit_.limit(now_), before / 3);
  EXPECT_GE(rate_over(20s), 0.98 * 400);
  serve({30ms, 4000}, 100s);
  serve({30ms, 4000}, 10s);
  EXPECT_GE(rate_over(10s), 0.95 * 4000);
}

TEST_F(ConcurrencyLimitTest, ShrinksWhileFirstBytesAreSlow) {
  seconds(5, 50ms);
  seconds(6, 500ms);
  EXPECT_LE(limit_.limit(now_), 24u);
  EXPECT_GE(limit_.limit(now_), 14u);
  seconds(40, 500ms);
  EXPECT_EQ(limit_.limit(now_), 4u) << "the least";
}

TEST_F(ConcurrencyLimitTest, ReturnsToItsStartByOneASecond) {
  seconds(5, 50ms);
  seconds(20, 500ms);
  seconds(10, 50ms);
  const unsigned shrunk = limit_.limit(now_);
  seconds(10, 50ms);
  EXPECT_NEAR(limit_.limit(now_), shrunk + 10, 2);
  now_ += 1h;
  EXPECT_EQ(limit_.limit(now_), 32u) << "quiet as well";
}

TEST_F(ConcurrencyLimitTest, ATwofoldOrAFewMillisecondsAreNothing) {
  seconds(5, 50ms);
  seconds(30, 95ms);
  EXPECT_EQ(limit_.limit(now_), 32u);
  ConcurrencyLimit local({.min = 4, .start = 32, .max = 64});
  for (int i = 0; i < 300; ++i, now_ += 100ms) {
    local.responded(now_, i < 50 ? 1ms : 15ms, 15ms, 4);
  }
  EXPECT_EQ(local.limit(now_), 32u);
}

TEST_F(ConcurrencyLimitTest, WhatWasFastAMinuteAgoIsForgotten) {
  seconds(5, 50ms);
  seconds(70, 500ms);
  const unsigned shrunk = limit_.limit(now_);
  seconds(10, 500ms);
  EXPECT_NEAR(limit_.limit(now_), shrunk + 10, 2);
}

TEST(DefaultConcurrency, FewFilesMeanFewRequests) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto with = [&](rlim_t files) {
    const rlimit limit{.rlim_cur = files, .rlim_max = before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const ConcurrencyOptions options = default_concurrency();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    return std::pair(options.start, options.max);
  };
  EXPECT_EQ(with(before.rlim_max), std::pair(64u, 1024u)) << before.rlim_max;
  EXPECT_EQ(with(256), std::pair(16u, 16u));
  EXPECT_EQ(with(32), std::pair(4u, 4u));
}

}  // namespace
}  // namespace leat
