// SPDX-License-Identifier: Apache-2.0
// A thread with long scheduling delays is a normal one for a while, and longer each time.
#include "doors/fuse/thread_turns.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace leat {
namespace {

using std::chrono::seconds;

constexpr uint64_t kQuickNs = 10'000, kSlowNs = 5'000'000;

class TurnPolicyTest : public ::testing::Test {
 protected:
  // One check after `turns` more turns that each waited `ns`.
  bool look(uint64_t ns, uint64_t turns = TurnPolicy::kTurns) {
    waited_.turns += turns;
    waited_.nanoseconds += ns * turns;
    return policy_.batch(waited_, now_);
  }

  TurnPolicy policy_;
  TurnPolicy::Waited waited_{};
  Clock::time_point now_ = Clock::time_point(seconds(1000));
};

TEST_F(TurnPolicyTest, ShortWaitsAreBatched) {
  EXPECT_TRUE(look(0));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(look(kQuickNs));
}

TEST_F(TurnPolicyTest, FewLongWaitsAmongManyShortOnesAreSeen) {
  EXPECT_TRUE(look(kQuickNs));
  waited_.nanoseconds += kSlowNs;
  EXPECT_TRUE(look(kQuickNs)) << "one";
  waited_.nanoseconds += 6 * kSlowNs;
  EXPECT_FALSE(look(kQuickNs));
}

TEST_F(TurnPolicyTest, FewTurnsAreNoMeasure) {
  EXPECT_TRUE(look(kSlowNs, 1));
  EXPECT_TRUE(look(kQuickNs, 0));
}

TEST_F(TurnPolicyTest, AfterLongWaitsItIsTriedAgainEachTimeLater) {
  Clock::duration hold = TurnPolicy::kHoldMin;
  for (int round = 0; round < 8; ++round) {
    EXPECT_FALSE(look(kSlowNs)) << round;
    now_ += hold - std::chrono::milliseconds(1);
    EXPECT_FALSE(look(kQuickNs)) << round;
    now_ += std::chrono::milliseconds(1);
    EXPECT_TRUE(look(kQuickNs)) << round;
    hold = std::min(hold * 2, TurnPolicy::kHoldMax);
  }
  // After a calm period of that length it is as at the beginning.
  now_ += TurnPolicy::kHoldMax;
  EXPECT_FALSE(look(kSlowNs));
  now_ += TurnPolicy::kHoldMin;
  EXPECT_TRUE(look(kQuickNs));
}

TEST(ThreadTurns, TheThreadIsWhatItSays) {
  std::thread([] {
    ThreadTurns turns;
    for (int i = 0; i < 4000; ++i) {
      turns.served();
      ASSERT_EQ(::sched_getscheduler(0), turns.batch() ? SCHED_BATCH : SCHED_OTHER);
    }
  }).join();
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "only that thread's";
}

}  // namespace
}  // namespace leat
