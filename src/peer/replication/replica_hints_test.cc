// SPDX-License-Identifier: Apache-2.0
#include "peer/replication/replica_hints.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using std::chrono::seconds;

class ReplicaHintsTest : public ::testing::Test {
 protected:
  Clock::time_point now_{seconds(1'000)};
  ReplicaHints hints_{{.stripes_max = 3, .now = [this] { return now_; }}};
};

TEST_F(ReplicaHintsTest, HintIsUsedUntilItExpires) {
  EXPECT_EQ(hints_.replicas({1}), 1u);
  hints_.store({1}, {.replicas = 3, .ttl = seconds(10)});
  EXPECT_EQ(hints_.replicas({1}), 3u);
  EXPECT_EQ(hints_.replicas({2}), 1u);
  now_ += seconds(9);
  EXPECT_EQ(hints_.replicas({1}), 3u);
  now_ += seconds(1);
  EXPECT_EQ(hints_.replicas({1}), 1u);
}

TEST_F(ReplicaHintsTest, HintIsRemovedWhenOwnerStopsSendingIt) {
  hints_.store({1}, {.replicas = 3, .ttl = seconds(10)});
  hints_.store({1}, {.replicas = 2, .ttl = seconds(10)});
  EXPECT_EQ(hints_.replicas({1}), 2u);
  hints_.store({1}, {});
  EXPECT_EQ(hints_.replicas({1}), 1u);
}

TEST_F(ReplicaHintsTest, MoreThanThereMayBeAreCut) {
  hints_.store({1}, {.replicas = 400, .ttl = seconds(10)});
  EXPECT_EQ(hints_.replicas({1}), kReplicasMax);
  hints_.store({2}, {.replicas = 2, .ttl = seconds(0)});
  EXPECT_EQ(hints_.replicas({2}), 1u);
}

TEST_F(ReplicaHintsTest, OfTooManyThoseGoThatEndFirst) {
  for (uint64_t i = 1; i <= 3; ++i) {
    hints_.store({i}, {.replicas = 2, .ttl = seconds(static_cast<int64_t>(10 * i))});
  }
  hints_.store({4}, {.replicas = 2, .ttl = seconds(60)});
  EXPECT_EQ(hints_.replicas({1}), 1u);
  for (uint64_t i = 2; i <= 4; ++i) EXPECT_EQ(hints_.replicas({i}), 2u) << i;
  // An update of a known stripe evicts nothing.
  hints_.store({2}, {.replicas = 3, .ttl = seconds(60)});
  EXPECT_EQ(hints_.replicas({3}), 2u);
  // Expired hints are evicted first.
  now_ += seconds(40);
  hints_.store({5}, {.replicas = 2, .ttl = seconds(1)});
  for (uint64_t i : {2, 4, 5}) EXPECT_GT(hints_.replicas({i}), 1u) << i;
}

}  // namespace
}  // namespace leat
