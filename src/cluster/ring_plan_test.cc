// SPDX-License-Identifier: Apache-2.0
#include "cluster/ring_plan.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace leat {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr auto kPatience = minutes(10);
const Clock::time_point kStart{};

WorkerId worker(const std::string& name) {
  const std::string_view part = name;
  return WorkerId(Id128::digest({&part, 1}));
}

using Workers = std::map<WorkerId, WorkerInfo>;

Workers workers(const std::vector<std::string>& names) {
  Workers all;
  for (const std::string& name : names) {
    const WorkerId id = worker(name);
    all[id] = {.id = id, .capacity_bytes = 100 * kGiB};
  }
  return all;
}

std::vector<WorkerId> ids(const RingRecord& ring) {
  std::vector<WorkerId> members;
  for (const auto& member : ring.members) members.push_back(member.worker);
  return members;
}

std::vector<WorkerId> sorted(std::vector<WorkerId> all) {
  std::ranges::sort(all);
  return all;
}

TEST(RingPlan, TheFirstRingIsOfThoseWhoAreThere) {
  RingPlan plan(kPatience);
  auto next = plan.next({}, 0, workers({"a", "b"}), kStart);
  ASSERT_TRUE(next);
  EXPECT_EQ(ids(*next), sorted({worker("a"), worker("b")}));
  EXPECT_EQ(next->previous_epoch, 0);
}

TEST(RingPlan, NothingIsWrittenWhereNothingHasChanged) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a", "b"}), kStart));
  // A few bytes more or less of free space move nothing.
  Workers moved = workers({"a", "b"});
  moved[worker("a")].capacity_bytes += kMiB;
  EXPECT_FALSE(plan.next(*ring, 7, moved, kStart));
}

TEST(RingPlan, AnEmptyClusterGetsARingWithNobody) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, {}, kStart);
  ASSERT_TRUE(ring);
  EXPECT_TRUE(ring->members.empty());
  EXPECT_FALSE(plan.next(*ring, 3, {}, kStart));
}

TEST(RingPlan, RingsOfManyComeMoreSeldom) {
  RingPlan plan(kPatience, seconds(1));
  const auto first = plan.next({}, 0, workers({"a", "b", "c"}), kStart);
  ASSERT_TRUE(first);
  EXPECT_FALSE(plan.next(*first, 7, workers({"a", "b", "c", "d"}), kStart + seconds(2)));
  const Workers five = workers({"a", "b", "c", "d", "e"});
  const auto second = plan.next(*first, 7, five, kStart + seconds(3));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->members.size(), 5u) << "all who came meanwhile are in one";
  EXPECT_FALSE(plan.next(*second, 8, workers({"a"}), kStart + seconds(4)));
  EXPECT_FALSE(plan.next(*second, 8, five, kStart + seconds(5)));
  // An absence counts from when it was seen, and not from when a ring may be written.
  EXPECT_FALSE(plan.next(*second, 8, workers({"a", "b", "c", "d"}), kStart + seconds(6)));
  EXPECT_TRUE(
      plan.next(*second, 8, workers({"a", "b", "c", "d"}), kStart + seconds(6) + kPatience));
}

TEST(RingPlan, WhoRestartsKeepsItsPlace) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart));
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart + kPatience - seconds(1)));
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a", "b"}), kStart + kPatience));
  // Its next absence is counted from its beginning.
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart + kPatience + seconds(1)));
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart + kPatience + kPatience));
}

TEST(RingPlan, WhoStaysAwayLosesItsPlace) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart));
  const auto next = plan.next(*ring, 7, workers({"a"}), kStart + kPatience);
  ASSERT_TRUE(next);
  EXPECT_EQ(ids(*next), std::vector{worker("a")});
  EXPECT_EQ(next->previous, ring->members);
  EXPECT_EQ(next->previous_epoch, 7);
}

TEST(RingPlan, WhoDrainsGivesItsPlaceAwayAtOnceAndTakesItBack) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  Workers draining = workers({"a", "b"});
  draining[worker("b")].state = WorkerState::kDraining;
  const auto without = plan.next(*ring, 7, draining, kStart);
  ASSERT_TRUE(without);
  EXPECT_EQ(ids(*without), std::vector{worker("a")});
  // And it may go then, without anybody waiting for it.
  EXPECT_FALSE(plan.next(*without, 8, workers({"a"}), kStart));
  const auto again = plan.next(*without, 8, workers({"a", "b"}), kStart);
  ASSERT_TRUE(again);
  EXPECT_EQ(ids(*again), sorted({worker("a"), worker("b")}));
}

TEST(RingPlan, ADiskThatGrewCountsMore) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  Workers grown = workers({"a", "b"});
  grown[worker("a")].capacity_bytes = 200 * kGiB;
  const auto next = plan.next(*ring, 7, grown, kStart);
  ASSERT_TRUE(next);
  EXPECT_NE(make_ring(0, next->members).members(), make_ring(0, ring->members).members());
}

}  // namespace
}  // namespace leat
