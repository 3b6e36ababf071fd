// SPDX-License-Identifier: Apache-2.0
// Ring: which workers hold what, in order of preference: weighted rendezvous hashing (Thaler and
// Ravishankar 1998; weights as Schindelhauer and Schomaker 2005). Everybody who has the same
// members comes to the same order, on every machine: integers only, our own hash.
//
// Guarantees: a worker's share is its weight ÷ all weights; one worker more or less moves what it
// holds and nothing else; the order without a worker is the order with it, that worker left out.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "model/file_ref.h"
#include "model/worker_id.h"

namespace leat {

// What is placed: one stripe of one object, whatever its version, or a directory's listing.
struct PlacementKey {
  uint64_t hash;

  static PlacementKey stripe(const StoreId& store, std::string_view key, uint32_t stripe);
  static PlacementKey listing(const StoreId& store, std::string_view directory);
};

struct RingMember {
  WorkerId worker;
  // Any unit, the same for all; 0: holds nothing new. At most kRingWeightMax.
  uint32_t weight = 0;

  friend bool operator==(const RingMember&, const RingMember&) = default;
};

inline constexpr uint32_t kRingWeightMax = 1u << 24;

class Ring {
 public:
  Ring() = default;  // of nobody, epoch 0
  // `epoch`: the registry's revision of the record that the members are from. Members in any order,
  // none twice.
  Ring(int64_t epoch, std::vector<RingMember> members);

  int64_t epoch() const { return epoch_; }
  const std::vector<RingMember>& members() const { return members_; }  // by id

  // The first `count` for this key, best first; fewer where fewer have a weight. O(members).
  std::vector<WorkerId> candidates(PlacementKey key, size_t count) const;
  // The first one; a zero id where there is none.
  WorkerId owner(PlacementKey key) const;

 private:
  struct Place {
    uint64_t seed;
    uint64_t inverse;  // 2^40 ÷ weight
    WorkerId worker;
  };
  int64_t epoch_ = 0;
  std::vector<RingMember> members_;
  std::vector<Place> places_;  // of those with a weight, by id
};

// Bytes of one unit of weight. Programs before kFineRingProtocol count in kCoarseRingUnit.
inline constexpr uint64_t kRingUnit = 16 * kMiB;
inline constexpr uint64_t kCoarseRingUnit = kGiB;

// What nobody's weight is to be above: four times the median, since a larger disk brings no faster
// network. One worker more or less may make the median another size, and with it all weights that
// are bounded; so `now` (0: there is none) stays for as long as it is that of a median which two
// fifths and three fifths of the workers enclose: it moves when a tenth of them have changed.
uint32_t ring_bound(const std::vector<uint64_t>& capacities_bytes, uint32_t now,
                    uint64_t unit = kCoarseRingUnit);

// Weights from capacities in bytes, in `unit` (a power of two up to 1 GiB), at least 1 for whoever
// has any, and at most `bound`. A capacity is rounded down to a sixteenth of itself, to a unit at
// the finest and a GiB at the coarsest, since the free space of a disk moves a little all the time.
std::vector<uint32_t> ring_weights(const std::vector<uint64_t>& capacities_bytes, uint32_t bound,
                                   uint64_t unit = kCoarseRingUnit);

}  // namespace leat
