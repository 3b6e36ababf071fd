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

TEST(RingPlan, FirstRingHasThePresentWorkers) {
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
  // A small change of free space moves nothing.
  Workers moved = workers({"a", "b"});
  moved[worker("a")].capacity_bytes += kMiB;
  EXPECT_FALSE(plan.next(*ring, 7, moved, kStart));
}

TEST(RingPlan, EmptyClusterGetsAnEmptyRing) {
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
  // An absence counts from its first sighting, not from when a ring may be written.
  EXPECT_FALSE(plan.next(*second, 8, workers({"a", "b", "c", "d"}), kStart + seconds(6)));
  EXPECT_TRUE(
      plan.next(*second, 8, workers({"a", "b", "c", "d"}), kStart + seconds(6) + kPatience));
}

TEST(RingPlan, RestartedWorkerKeepsItsPlace) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart));
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart + kPatience - seconds(1)));
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a", "b"}), kStart + kPatience));
  // The next absence is counted from its own beginning.
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart + kPatience + seconds(1)));
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart + kPatience + kPatience));
}

TEST(RingPlan, AbsentWorkerLosesItsPlace) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  EXPECT_FALSE(plan.next(*ring, 7, workers({"a"}), kStart));
  const auto next = plan.next(*ring, 7, workers({"a"}), kStart + kPatience);
  ASSERT_TRUE(next);
  EXPECT_EQ(ids(*next), std::vector{worker("a")});
  EXPECT_EQ(next->previous, ring->members);
  EXPECT_EQ(next->previous_epoch, 7);
}

TEST(RingPlan, DrainingWorkerLeavesRingAndReturns) {
  RingPlan plan(kPatience);
  const auto ring = plan.next({}, 0, workers({"a", "b"}), kStart);
  Workers draining = workers({"a", "b"});
  draining[worker("b")].state = WorkerState::kDraining;
  const auto without = plan.next(*ring, 7, draining, kStart);
  ASSERT_TRUE(without);
  EXPECT_EQ(ids(*without), std::vector{worker("a")});
  // Now it may leave without a delay.
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

TEST(RingPlan, SmallCachesGetSmallSharesInFineRings) {
  RingPlan plan(kPatience);
  Workers all;
  for (const auto& [name, mib] : {std::pair("a", 1024), {"b", 200}, {"c", 1024}}) {
    all[worker(name)] = {.id = worker(name),
                         .address = std::string(name) + ":7480",
                         .capacity_bytes = uint64_t(mib) * kMiB,
                         .protocol = kFineRingProtocol};
  }
  const RingRecord ring = *plan.next({}, 0, all, kStart);
  const RingRecord read = *decode_ring(encode_ring(ring));
  EXPECT_EQ(read, ring);
  EXPECT_EQ(read.unit, kRingUnit);
  const Ring made = make_ring(1, read.members, read.bound, read.unit);
  for (const RingMember& one : made.members()) {
    EXPECT_EQ(one.weight, one.worker == worker("b") ? 12u : 64u);
  }
  EXPECT_FALSE(plan.next(ring, 7, all, kStart));
  // A worker of an earlier version counts in GiB, and so do all while it is present.
  all[worker("d")] = {.id = worker("d"), .capacity_bytes = kGiB, .protocol = kBatchProtocol};
  const RingRecord mixed = *plan.next(ring, 7, all, kStart);
  EXPECT_EQ(mixed.unit, kCoarseRingUnit);
  EXPECT_EQ(mixed.previous_unit, kRingUnit);
  EXPECT_EQ(mixed.previous_bound, ring.bound);
  for (const RingMember& one : make_ring(1, mixed.members, mixed.bound, mixed.unit).members()) {
    EXPECT_EQ(one.weight, 1u);
  }
}

TEST(RingPlan, AFinerUnitMovesNothingByItself) {
  RingPlan plan(kPatience);
  Workers all = workers({"a", "b"});  // 100 GiB each
  const RingRecord coarse = *plan.next({}, 0, all, kStart);
  for (auto& [id, one] : all) one.protocol = kFineRingProtocol;
  EXPECT_FALSE(plan.next(coarse, 7, all, kStart));
}

// Returns the share of all weights that has another owner afterwards.
double moved(const RingRecord& before, const RingRecord& after) {
  auto shares = [](const RingRecord& record) {
    const Ring ring = make_ring(1, record.members, record.bound);
    double all = 0;
    for (const RingMember& one : ring.members()) all += one.weight;
    std::map<WorkerId, double> of;
    for (const RingMember& one : ring.members()) of[one.worker] = one.weight / all;
    return of;
  };
  const auto had = shares(before), has = shares(after);
  double gained = 0;
  for (const auto& [id, share] : has) {
    const auto found = had.find(id);
    gained += std::max(0.0, share - (found == had.end() ? 0 : found->second));
  }
  return gained;
}

TEST(RingPlan, JoinMovesItsShareIfTheMedianTips) {
  constexpr int kWorkers = 100;
  RingPlan plan(kPatience);
  Workers all;
  const auto add = [&](int number, uint64_t gib) {
    const WorkerId id = worker(std::to_string(number));
    all[id] = {.id = id, .capacity_bytes = gib * kGiB};
  };
  for (int i = 0; i < kWorkers; ++i) add(i, i < 49 ? 100 : i < 95 ? 400 : 10'000);
  RingRecord ring = *plan.next({}, 0, all, kStart);
  EXPECT_EQ(ring.bound, 1600u);
  // Past the threshold and back.
  for (int i = 0; i < 4; ++i) {
    add(kWorkers + i, 100);
    const RingRecord more = *plan.next(ring, 7 + i, all, kStart);
    EXPECT_EQ(more.previous_bound, ring.bound);
    double weights = 0;
    for (const RingMember& one : make_ring(1, more.members, more.bound).members()) {
      weights += one.weight;
    }
    EXPECT_NEAR(moved(ring, more) / (100 / weights), 1, 0.1) << i;
    ring = more;
  }
  all.erase(worker(std::to_string(kWorkers)));
  EXPECT_FALSE(plan.next(ring, 12, all, kStart));
  const RingRecord fewer = *plan.next(ring, 12, all, kStart + kPatience);
  EXPECT_NEAR(moved(ring, fewer) / (100.0 / 31'700), 1, 0.1);
}

TEST(RingPlan, RingWithoutBoundKeepsItsComputedBound) {
  RingPlan plan(kPatience);
  Workers all;
  for (const auto& [name, gib] : {std::pair("a", 100), {"b", 400}, {"c", 10'000}}) {
    all[worker(name)] = {.id = worker(name), .capacity_bytes = uint64_t(gib) * kGiB};
  }
  RingRecord old = *plan.next({}, 0, all, kStart);
  old.bound = 0;
  EXPECT_FALSE(plan.next(old, 7, all, kStart)) << "its places are the same";
  EXPECT_EQ(decode_ring(R"({"v": 1, "members": [], "new": 1})")->bound, 0u);
}

}  // namespace
}  // namespace leat
