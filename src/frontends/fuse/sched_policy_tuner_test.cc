// SPDX-License-Identifier: Apache-2.0
// A thread with long scheduling delays is a normal one for a while, and longer each time.
#include "frontends/fuse/sched_policy_tuner.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace leat {
namespace {

using std::chrono::seconds;

constexpr uint64_t kShortNs = 10'000, kLongNs = 5'000'000;

class BatchPolicyTest : public ::testing::Test {
 protected:
  // One check after `timeslices` more timeslices with a delay of `ns` each.
  bool check(uint64_t ns, uint64_t timeslices = BatchPolicy::kTimeslices) {
    delay_.timeslices += timeslices;
    delay_.nanoseconds += ns * timeslices;
    return policy_.use_batch(delay_, now_);
  }

  BatchPolicy policy_;
  BatchPolicy::RunDelay delay_{};
  Clock::time_point now_ = Clock::time_point(seconds(1000));
};

TEST_F(BatchPolicyTest, ShortDelaysAreBatched) {
  EXPECT_TRUE(check(0));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(check(kShortNs));
}

TEST_F(BatchPolicyTest, FewLongDelaysAmongManyShortAreSeen) {
  EXPECT_TRUE(check(kShortNs));
  delay_.nanoseconds += kLongNs;
  EXPECT_TRUE(check(kShortNs)) << "one";
  delay_.nanoseconds += 6 * kLongNs;
  EXPECT_FALSE(check(kShortNs));
}

TEST_F(BatchPolicyTest, FewTimeslicesAreIgnored) {
  EXPECT_TRUE(check(kLongNs, 1));
  EXPECT_TRUE(check(kShortNs, 0));
}

TEST_F(BatchPolicyTest, LongDelaysDoubleTheBackoff) {
  Clock::duration backoff = BatchPolicy::kBackoffMin;
  for (int round = 0; round < 8; ++round) {
    EXPECT_FALSE(check(kLongNs)) << round;
    now_ += backoff - std::chrono::milliseconds(1);
    EXPECT_FALSE(check(kShortNs)) << round;
    now_ += std::chrono::milliseconds(1);
    EXPECT_TRUE(check(kShortNs)) << round;
    backoff = std::min(backoff * 2, BatchPolicy::kBackoffMax);
  }
  // After a calm period of that length it is as at the beginning.
  now_ += BatchPolicy::kBackoffMax;
  EXPECT_FALSE(check(kLongNs));
  now_ += BatchPolicy::kBackoffMin;
  EXPECT_TRUE(check(kShortNs));
}

TEST(SchedPolicyTuner, ThreadHasTheReportedPolicy) {
  std::thread([] {
    SchedPolicyTuner tuner;
    for (int i = 0; i < 4000; ++i) {
      tuner.request_done();
      ASSERT_EQ(::sched_getscheduler(0), tuner.batch() ? SCHED_BATCH : SCHED_OTHER);
    }
  }).join();
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "only that thread's";
}

}  // namespace
}  // namespace leat
