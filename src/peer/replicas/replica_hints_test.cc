// SPDX-License-Identifier: Apache-2.0
#include "peer/replicas/replica_hints.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using std::chrono::seconds;

class ReplicaHintsTest : public ::testing::Test {
 protected:
  Clock::time_point now_{seconds(1'000)};
  ReplicaHints hints_{{.stripes_max = 3, .now = [this] { return now_; }}};
};

TEST_F(ReplicaHintsTest, AreBelievedForAsLongAsWasSaid) {
  EXPECT_EQ(hints_.replicas({1}), 1u);
  hints_.take({1}, {.replicas = 3, .lasts = seconds(10)});
  EXPECT_EQ(hints_.replicas({1}), 3u);
  EXPECT_EQ(hints_.replicas({2}), 1u);
  now_ += seconds(9);
  EXPECT_EQ(hints_.replicas({1}), 3u);
  now_ += seconds(1);
  EXPECT_EQ(hints_.replicas({1}), 1u);
}

TEST_F(ReplicaHintsTest, AreForgottenWhenTheFirstCandidateSaysNoMore) {
  hints_.take({1}, {.replicas = 3, .lasts = seconds(10)});
  hints_.take({1}, {.replicas = 2, .lasts = seconds(10)});
  EXPECT_EQ(hints_.replicas({1}), 2u);
  hints_.take({1}, {});
  EXPECT_EQ(hints_.replicas({1}), 1u);
}

TEST_F(ReplicaHintsTest, MoreThanThereMayBeAreCut) {
  hints_.take({1}, {.replicas = 400, .lasts = seconds(10)});
  EXPECT_EQ(hints_.replicas({1}), kReplicasMax);
  hints_.take({2}, {.replicas = 2, .lasts = seconds(0)});
  EXPECT_EQ(hints_.replicas({2}), 1u);
}

TEST_F(ReplicaHintsTest, OfTooManyThoseGoThatEndFirst) {
  for (uint64_t i = 1; i <= 3; ++i) {
    hints_.take({i}, {.replicas = 2, .lasts = seconds(static_cast<int64_t>(10 * i))});
  }
  hints_.take({4}, {.replicas = 2, .lasts = seconds(60)});
  EXPECT_EQ(hints_.replicas({1}), 1u);
  for (uint64_t i = 2; i <= 4; ++i) EXPECT_EQ(hints_.replicas({i}), 2u) << i;
  // An update of a known stripe evicts nothing.
  hints_.take({2}, {.replicas = 3, .lasts = seconds(60)});
  EXPECT_EQ(hints_.replicas({3}), 2u);
  // Expired hints are evicted first.
  now_ += seconds(40);
  hints_.take({5}, {.replicas = 2, .lasts = seconds(1)});
  for (uint64_t i : {2, 4, 5}) EXPECT_GT(hints_.replicas({i}), 1u) << i;
}

}  // namespace
}  // namespace leat
