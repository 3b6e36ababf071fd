// SPDX-License-Identifier: Apache-2.0
#include "source/steady/circuit.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using namespace std::chrono_literals;

class CircuitTest : public ::testing::Test {
 protected:
  bool fail() {
    auto pass = circuit_.admit(now_);
    EXPECT_TRUE(pass.has_value());
    return pass->failed(now_, Status(StatusCode::kUnavailable, "down"));
  }
  void open() {
    for (int i = 0; i < 10; ++i) fail();
    now_ += 2s;
    EXPECT_TRUE(fail());
  }

  Clock::time_point now_{1000h};
  Circuit circuit_{CircuitOptions{}};
};

TEST_F(CircuitTest, OpensAfterTenFailuresOverTwoSeconds) {
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(fail());
  now_ += 1900ms;
  EXPECT_FALSE(fail()) << "ten, but in less than 2 s";
  now_ += 100ms;
  EXPECT_TRUE(fail());
  auto refused = circuit_.admit(now_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().asked_again_in, 1s);
  EXPECT_EQ(refused.error().failing_for, 2s);
  EXPECT_EQ(refused.error().last.message(), "down");
}

TEST_F(CircuitTest, OneAnswerKeepsItClosed) {
  for (int i = 0; i < 9; ++i) fail();
  now_ += 10s;
  circuit_.admit(now_)->answered();
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(fail());
  EXPECT_FALSE(circuit_.refusal(now_));
}

TEST_F(CircuitTest, OneRequestFindsOutForAll) {
  open();
  now_ += 1s;
  auto refused = circuit_.refusal(now_);
  EXPECT_FALSE(refused);
  auto probe = circuit_.admit(now_);
  ASSERT_TRUE(probe);
  EXPECT_TRUE(probe->is_probe());
  auto other = circuit_.admit(now_);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().asked_again_in, 5s);
  EXPECT_FALSE(other.error().changed->ready());
  EXPECT_TRUE(probe->answered());
  EXPECT_TRUE(other.error().changed->ready()) << "those who wait are woken";
  EXPECT_FALSE(circuit_.admit(now_)->is_probe());
  EXPECT_FALSE(circuit_.admit(now_)->answered()) << "it was closed";
}

TEST_F(CircuitTest, AProbeThatHangsDoesNotHoldUpTheNext) {
  open();
  now_ += 1s;
  auto hangs = circuit_.admit(now_);
  now_ += 5s;
  auto next = circuit_.admit(now_);
  ASSERT_TRUE(next);
  EXPECT_FALSE(circuit_.admit(now_));
  now_ += 5s;
  EXPECT_FALSE(hangs->failed(now_, Status(StatusCode::kUnavailable, "silent")));
  EXPECT_TRUE(circuit_.admit(now_)) << "an older probe that fails postpones nothing";
  next->answered();
  EXPECT_FALSE(circuit_.refusal(now_));
}

TEST_F(CircuitTest, StaysOpenTwiceAsLongAfterEachProbeThatFails) {
  open();
  for (auto open_for : {1s, 2s, 4s, 5s, 5s}) {
    EXPECT_EQ(circuit_.refusal(now_)->asked_again_in, open_for);
    now_ += open_for;
    EXPECT_FALSE(fail()) << "it was open already";
  }
  now_ += 5s;
  circuit_.admit(now_)->answered();
  open();
  EXPECT_EQ(circuit_.refusal(now_)->asked_again_in, 1s) << "begins anew";
}

TEST_F(CircuitTest, AProbeWhoseCallerGaveUpIsFollowedByAnother) {
  open();
  now_ += 1s;
  Circuit::Event changed;
  {
    auto probe = circuit_.admit(now_);
    ASSERT_TRUE(probe);
    auto refused = circuit_.admit(now_);
    ASSERT_FALSE(refused);
    changed = refused.error().changed;
  }
  EXPECT_TRUE(changed->ready());
  EXPECT_TRUE(circuit_.admit(now_));
}

TEST_F(CircuitTest, WhatWasSentBeforeItOpenedIsHeardToo) {
  auto early = circuit_.admit(now_), late = circuit_.admit(now_);
  open();
  EXPECT_FALSE(early->failed(now_, Status(StatusCode::kUnavailable, "down")));
  EXPECT_EQ(circuit_.refusal(now_)->asked_again_in, 1s) << "no news";
  late->answered();
  EXPECT_FALSE(circuit_.refusal(now_)) << "good news";
}

}  // namespace
}  // namespace leat
