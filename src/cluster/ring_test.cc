// SPDX-License-Identifier: Apache-2.0
// Guarantees of a ring, over a million made-up file names.
#include "cluster/ring.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/units.h"

namespace leat {
namespace {

constexpr uint32_t kFiles = 1'000'000;

WorkerId worker(uint64_t number) {
  const std::string text = std::to_string(number);
  const std::string_view part = text;
  return WorkerId(Id128::digest({&part, 1}));
}

const StoreId kStore = make_store_id("s3", "http://127.0.0.1:7070", "", "train");

PlacementKey file(uint32_t number) {
  return PlacementKey::stripe(kStore, fmt::format("train/n{:08}/img_{}.jpg", number % 1000, number),
                              0);
}

std::vector<RingMember> equal_members(size_t count) {
  std::vector<RingMember> members;
  for (size_t i = 0; i < count; ++i) members.push_back({worker(i), 100});
  return members;
}

std::map<WorkerId, uint32_t> shares(const Ring& ring) {
  std::map<WorkerId, uint32_t> counts;
  for (uint32_t i = 0; i < kFiles; ++i) ++counts[ring.owner(file(i))];
  return counts;
}

TEST(Ring, SixteenWorkersHaveEquallyMuch) {
  const auto counts = shares(Ring(1, equal_members(16)));
  ASSERT_EQ(counts.size(), 16u);
  uint32_t most = 0;
  for (const auto& [id, count] : counts) most = std::max(most, count);
  EXPECT_LE(most / (kFiles / 16.0), 1.1);
}

TEST(Ring, AWorkersShareIsItsWeight) {
  const Ring ring(1, {{worker(0), 100}, {worker(1), 300}, {worker(2), 1}, {worker(3), 599}});
  auto counts = shares(ring);
  EXPECT_NEAR(counts[worker(0)], kFiles * 0.1, kFiles * 0.002);
  EXPECT_NEAR(counts[worker(1)], kFiles * 0.3, kFiles * 0.002);
  EXPECT_NEAR(counts[worker(2)], kFiles * 0.001, kFiles * 0.0003);
  EXPECT_NEAR(counts[worker(3)], kFiles * 0.599, kFiles * 0.002);
}

TEST(Ring, OneWorkerMoreMovesItsShareAndNothingElse) {
  const Ring before(1, equal_members(16));
  const Ring after(2, equal_members(17));
  uint32_t moved = 0;
  for (uint32_t i = 0; i < kFiles; ++i) {
    const WorkerId was = before.owner(file(i));
    const WorkerId is = after.owner(file(i));
    if (was == is) continue;
    ++moved;
    ASSERT_EQ(is, worker(16));
  }
  EXPECT_NEAR(moved, kFiles / 17.0, kFiles / 17.0 * 0.1);
}

TEST(Ring, LeavingWorkerMovesOnlyItsOwnShare) {
  const Ring before(1, equal_members(16));
  auto members = equal_members(16);
  members.erase(members.begin() + 5);
  const Ring after(2, members);
  uint32_t moved = 0;
  std::map<WorkerId, uint32_t> heirs;
  for (uint32_t i = 0; i < kFiles; ++i) {
    const auto order = before.candidates(file(i), 2);
    const WorkerId is = after.owner(file(i));
    if (order[0] != worker(5)) {
      ASSERT_EQ(is, order[0]);
      continue;
    }
    ++moved;
    ++heirs[is];
    ASSERT_EQ(is, order[1]);
  }
  EXPECT_NEAR(moved, kFiles / 16.0, kFiles / 16.0 * 0.1);
  EXPECT_EQ(heirs.size(), 15u) << "all others take a part each";
}

TEST(Ring, OrderWithoutAWorkerOmitsOnlyThatWorker) {
  const Ring all(1, equal_members(40));
  for (uint32_t gone = 0; gone < 40; ++gone) {
    auto members = equal_members(40);
    members[gone].weight = 0;
    const Ring without(2, members);
    for (uint32_t i = 0; i < 200; ++i) {
      auto order = all.candidates(file(i), 40);
      std::erase(order, worker(gone));
      ASSERT_EQ(without.candidates(file(i), 40), order);
    }
  }
}

TEST(Ring, TheOrderOfMembersDoesNotCount) {
  auto members = equal_members(9);
  const Ring one(1, members);
  std::ranges::reverse(members);
  const Ring other(1, members);
  for (uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(one.candidates(file(i), 3), other.candidates(file(i), 3));
  }
}

TEST(Ring, StripesOfOneFileAreSpread) {
  const Ring ring(1, equal_members(16));
  std::map<WorkerId, uint32_t> counts;
  for (uint32_t i = 0; i < 16'000; ++i) {
    ++counts[ring.owner(PlacementKey::stripe(kStore, "model/weights.safetensors", i))];
  }
  ASSERT_EQ(counts.size(), 16u);
  for (const auto& [id, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Ring, DirectoryAndFileOfOneNameDiffer) {
  EXPECT_NE(PlacementKey::listing(kStore, "a").hash, PlacementKey::stripe(kStore, "a", 0).hash);
}

TEST(Ring, EmptyRingHasNoOwner) {
  EXPECT_TRUE(Ring().owner(file(1)).is_zero());
  EXPECT_TRUE(Ring(3, {{worker(1), 0}}).owner(file(1)).is_zero());
  EXPECT_EQ(Ring(3, equal_members(2)).candidates(file(1), 5).size(), 2u);
}

// Returns the number of each file's owner.
std::string owners(const Ring& ring, uint32_t files) {
  std::string numbers;
  for (uint32_t i = 0; i < files; ++i) {
    for (uint64_t number = 0; number < ring.members().size(); ++number) {
      if (ring.owner(file(i)) == worker(number)) numbers += std::to_string(number);
    }
  }
  return numbers;
}

// Placement is stable between versions: these values must never change.
TEST(Ring, GoldenOwners) {
  const Ring weighted(1, {{worker(0), 100}, {worker(1), 200}, {worker(2), 50}, {worker(3), 400}});
  EXPECT_EQ(owners(Ring(1, equal_members(5)), 40), "2414403301241222102330020242421231334043");
  EXPECT_EQ(owners(weighted, 40), "0311333331231333103333030132301231333313");
  EXPECT_EQ(PlacementKey::stripe(kStore, "a/b", 7).hash, 6802213214870278837u);
  EXPECT_EQ(PlacementKey::listing(kStore, "a/b").hash, 7096489252312732626u);
}

std::vector<uint32_t> weights_of(const std::vector<uint64_t>& capacities_bytes) {
  return ring_weights(capacities_bytes, ring_bound(capacities_bytes, 0));
}

TEST(RingWeights, AreGibibytesAndBounded) {
  EXPECT_EQ(weights_of({100 * kGiB, 200 * kGiB, 100 * kGiB, 9000 * kGiB}),
            (std::vector<uint32_t>{100, 200, 100, 800}));
  EXPECT_EQ(weights_of({kMiB, 0, 5 * kGiB}), (std::vector<uint32_t>{1, 0, 5}));
  EXPECT_EQ(weights_of({0, 0}), (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(weights_of({}), std::vector<uint32_t>{});
}

TEST(RingWeights, FollowCapacitiesBelowAGibibyte) {
  const auto fine = [](const std::vector<uint64_t>& capacities) {
    return ring_weights(capacities, kRingWeightMax, kRingUnit);
  };
  EXPECT_EQ(fine({200 * kMiB, kGiB, 64 * kMiB, kMiB, 0}), (std::vector<uint32_t>{12, 64, 4, 1, 0}));
  // Steps of a sixteenth, at most a GiB: small changes of free space do not change the weight.
  EXPECT_EQ(fine({1536 * kMiB, 1599 * kMiB, 1600 * kMiB}), (std::vector<uint32_t>{96, 96, 100}));
  EXPECT_EQ(fine({100 * kGiB, 101 * kGiB - 1}), (std::vector<uint32_t>{6400, 6400}));
  // Whole numbers of GiB keep their shares.
  const std::vector<uint64_t> whole{100 * kGiB, 3 * kGiB, 17 * kGiB};
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(fine(whole)[i], 64 * ring_weights(whole, kRingWeightMax)[i]);
  }
  EXPECT_EQ(ring_bound({200 * kMiB, 200 * kMiB, kGiB}, 0, kRingUnit), 48u);
}

// Returns `small` capacities of 1 GiB, `large` of 4 GiB and `huge` of 100 GiB.
std::vector<uint64_t> sizes(size_t small, size_t large, size_t huge) {
  std::vector<uint64_t> capacities(small, kGiB);
  capacities.insert(capacities.end(), large, 4 * kGiB);
  capacities.insert(capacities.end(), huge, 100 * kGiB);
  return capacities;
}

TEST(RingWeights, TheirBoundStaysWhereTheMedianTips) {
  EXPECT_EQ(ring_bound(sizes(49, 46, 5), 0), 16u);
  EXPECT_EQ(ring_bound(sizes(51, 44, 5), 0), 4u) << "the median alone has tipped";
  EXPECT_EQ(ring_bound(sizes(51, 44, 5), 16), 16u);
  EXPECT_EQ(ring_bound(sizes(49, 46, 5), 4), 4u);
  // Fewer than a tenth of all workers do not move the bound.
  EXPECT_EQ(ring_bound(sizes(60, 35, 5), 16), 16u);
  EXPECT_EQ(ring_bound(sizes(61, 34, 5), 16), 4u);
  EXPECT_EQ(ring_bound(sizes(41, 54, 5), 4), 4u);
  EXPECT_EQ(ring_bound(sizes(40, 55, 5), 4), 16u);
  // A few workers have no tenth.
  EXPECT_EQ(ring_bound(sizes(1, 2, 0), 4), 16u);
  EXPECT_EQ(ring_bound({0, 0}, 16), 16u) << "of nobody nothing follows";
}

}  // namespace
}  // namespace leat
