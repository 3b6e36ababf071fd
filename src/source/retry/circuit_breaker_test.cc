// SPDX-License-Identifier: Apache-2.0
#include "source/retry/circuit_breaker.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

class CircuitBreakerTest : public ::testing::Test {
 protected:
  bool fail() {
    auto permit = breaker_.admit(now_);
    EXPECT_TRUE(permit.has_value());
    return permit->failed(now_, Status(StatusCode::kUnavailable, "down"));
  }
  void open() {
    for (int i = 0; i < 10; ++i) fail();
    now_ += 2s;
    EXPECT_TRUE(fail());
  }

  Clock::time_point now_{1000h};
  CircuitBreaker breaker_{CircuitBreakerOptions{}};
};

TEST_F(CircuitBreakerTest, OpensAfterTenFailuresOverTwoSeconds) {
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(fail());
  now_ += 1900ms;
  EXPECT_FALSE(fail()) << "ten, but in less than 2 s";
  now_ += 100ms;
  EXPECT_TRUE(fail());
  auto rejected = breaker_.admit(now_);
  ASSERT_FALSE(rejected);
  EXPECT_EQ(rejected.error().next_probe_in, 1s);
  EXPECT_EQ(rejected.error().failing_for, 2s);
  EXPECT_EQ(rejected.error().last.message(), "down");
}

TEST_F(CircuitBreakerTest, OneResponseKeepsItClosed) {
  for (int i = 0; i < 9; ++i) fail();
  now_ += 10s;
  breaker_.admit(now_)->responded();
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(fail());
  EXPECT_FALSE(breaker_.open_state(now_));
}

TEST_F(CircuitBreakerTest, OneProbeDecidesForAll) {
  open();
  now_ += 1s;
  auto rejected = breaker_.open_state(now_);
  EXPECT_FALSE(rejected);
  auto probe = breaker_.admit(now_);
  ASSERT_TRUE(probe);
  EXPECT_TRUE(probe->is_probe());
  auto other = breaker_.admit(now_);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().next_probe_in, 5s);
  EXPECT_FALSE(other.error().changed->ready());
  EXPECT_TRUE(probe->responded());
  EXPECT_TRUE(other.error().changed->ready()) << "those who wait are woken";
  EXPECT_FALSE(breaker_.admit(now_)->is_probe());
  EXPECT_FALSE(breaker_.admit(now_)->responded()) << "it was closed";
}

TEST_F(CircuitBreakerTest, AProbeThatHangsDoesNotHoldUpTheNext) {
  open();
  now_ += 1s;
  auto hangs = breaker_.admit(now_);
  now_ += 5s;
  auto next = breaker_.admit(now_);
  ASSERT_TRUE(next);
  EXPECT_FALSE(breaker_.admit(now_));
  now_ += 5s;
  EXPECT_FALSE(hangs->failed(now_, Status(StatusCode::kUnavailable, "silent")));
  EXPECT_TRUE(breaker_.admit(now_)) << "an older probe that fails postpones nothing";
  next->responded();
  EXPECT_FALSE(breaker_.open_state(now_));
}

TEST_F(CircuitBreakerTest, OpenTimeDoublesWithEachFailedProbe) {
  open();
  for (auto open_for : {1s, 2s, 4s, 5s, 5s}) {
    EXPECT_EQ(breaker_.open_state(now_)->next_probe_in, open_for);
    now_ += open_for;
    EXPECT_FALSE(fail()) << "it was open already";
  }
  now_ += 5s;
  breaker_.admit(now_)->responded();
  open();
  EXPECT_EQ(breaker_.open_state(now_)->next_probe_in, 1s) << "begins anew";
}

TEST_F(CircuitBreakerTest, AbandonedProbeIsFollowedByAnother) {
  open();
  now_ += 1s;
  CircuitBreaker::Event changed;
  {
    auto probe = breaker_.admit(now_);
    ASSERT_TRUE(probe);
    auto rejected = breaker_.admit(now_);
    ASSERT_FALSE(rejected);
    changed = rejected.error().changed;
  }
  EXPECT_TRUE(changed->ready());
  EXPECT_TRUE(breaker_.admit(now_));
}

TEST_F(CircuitBreakerTest, EarlierRequestsCountToo) {
  auto early = breaker_.admit(now_), late = breaker_.admit(now_);
  open();
  EXPECT_FALSE(early->failed(now_, Status(StatusCode::kUnavailable, "down")));
  EXPECT_EQ(breaker_.open_state(now_)->next_probe_in, 1s) << "no news";
  late->responded();
  EXPECT_FALSE(breaker_.open_state(now_)) << "good news";
}

}  // namespace
}  // namespace leat
