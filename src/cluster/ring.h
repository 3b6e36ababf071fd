// SPDX-License-Identifier: Apache-2.0
// Ring: placement; maps a key to workers in order of preference, by weighted rendezvous hashing
// (Thaler and Ravishankar 1998; weights as Schindelhauer and Schomaker 2005). The same members give
// the same order on every machine: integers only, our own hash.
//
// Guarantees: a worker's share is its weight ÷ all weights. Adding or removing a worker moves only
// its own share. The order without a worker is the order with it, minus that worker.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "model/file_ref.h"
#include "model/worker_id.h"

namespace leat {

// Key of a placement: one stripe of an object, whatever its version, or a directory's listing.
struct PlacementKey {
  uint64_t hash;

  static PlacementKey stripe(const StoreId& store, std::string_view key, uint32_t stripe);
  static PlacementKey listing(const StoreId& store, std::string_view directory);
};

struct RingMember {
  WorkerId worker;
  // Any unit, the same for all; 0: receives no new data. At most kRingWeightMax.
  uint32_t weight = 0;

  friend bool operator==(const RingMember&, const RingMember&) = default;
};

inline constexpr uint32_t kRingWeightMax = 1u << 24;

class Ring {
 public:
  Ring() = default;  // empty, epoch 0
  // `epoch` is the registry revision of the members' record. Members in any order, none twice.
  Ring(int64_t epoch, std::vector<RingMember> members);

  int64_t epoch() const { return epoch_; }
  const std::vector<RingMember>& members() const { return members_; }  // sorted by id

  // Returns up to `count` workers with a weight, best first. O(members).
  std::vector<WorkerId> candidates(PlacementKey key, size_t count) const;
  // Returns the first candidate; a zero id if there is none.
  WorkerId owner(PlacementKey key) const;

 private:
  struct Node {
    uint64_t seed;
    uint64_t inverse;  // 2^40 ÷ weight
    WorkerId worker;
  };
  int64_t epoch_ = 0;
  std::vector<RingMember> members_;
  std::vector<Node> nodes_;  // members with a weight, by id
};

// Bytes of one unit of weight. Programs before kFineRingProtocol use kCoarseRingUnit.
inline constexpr uint64_t kRingUnit = 16 * kMiB;
inline constexpr uint64_t kCoarseRingUnit = kGiB;

// Upper bound of weights: four times the median, because a larger disk has no faster network. One
// worker can move the median, and with it all bounded weights. So `now` (0: none) stays while it
// belongs to a median between two fifths and three fifths of the workers. It moves when a tenth of
// them have changed.
uint32_t ring_bound(const std::vector<uint64_t>& capacities_bytes, uint32_t now,
                    uint64_t unit = kCoarseRingUnit);

// Computes weights from capacities in bytes, in `unit` (a power of two up to 1 GiB). Each is at
// most `bound`, and at least 1 unless the capacity is 0. Capacities are rounded down to a sixteenth
// of themselves, at least to a unit and at most to a GiB. Rounding hides the small changes of a
// disk's free space.
std::vector<uint32_t> ring_weights(const std::vector<uint64_t>& capacities_bytes, uint32_t bound,
                                   uint64_t unit = kCoarseRingUnit);

}  // namespace leat
