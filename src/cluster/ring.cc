// SPDX-License-Identifier: Apache-2.0
// Each worker draws a number for the key, distributed exponentially with its weight as rate; the
// smallest draw wins. The minimum is a worker's with the probability of its share, and a draw
// depends on no other worker. These two facts give all guarantees.
#include "cluster/ring.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "base/hash.h"
#include "base/units.h"

namespace leat {
namespace {

constexpr unsigned kFractionBits = 42;
constexpr unsigned kTableBits = 8;
constexpr uint64_t kWeightBoundMedians = 4;

// Fractional bits of log2(mantissa), mantissa in [1, 2) with 31 bits behind the point, by squaring.
constexpr uint64_t log2_of_mantissa(uint64_t mantissa) {
  uint64_t result = 0;
  for (unsigned bit = 0; bit < 32; ++bit) {
    mantissa = mantissa * mantissa >> 31;
    result <<= 1;
    if (mantissa >> 32 != 0) {
      mantissa >>= 1;
      result |= 1;
    }
  }
  return result << (kFractionBits - 32);
}

constexpr auto kLog2Table = [] {
  std::array<uint64_t, (1u << kTableBits) + 1> table{};
  for (uint64_t i = 0; i < 1u << kTableBits; ++i) {
    table[i] = log2_of_mantissa((1ull << 31) + (i << (31 - kTableBits)));
  }
  table[1u << kTableBits] = 1ull << kFractionBits;
  return table;
}();

// Returns −log2((hash + 1) ÷ 2^64) with 42 fractional bits. Interpolates linearly between the
// table's entries, with an error of at most 3e-6. Never grows as `hash` grows.
constexpr uint64_t negative_log2(uint64_t hash) {
  if (hash == ~0ull) return 0;
  const uint64_t value = hash + 1;
  const int zeros = std::countl_zero(value);
  const uint64_t fraction = value << zeros << 1;  // without the leading one
  const uint64_t index = fraction >> (64 - kTableBits);
  const uint64_t rest = fraction << kTableBits >> 32;
  const uint64_t low = kLog2Table[index];
  const uint64_t log2 = low + ((kLog2Table[index + 1] - low) >> 8) * rest / (1ull << 24);
  return (static_cast<uint64_t>(zeros + 1) << kFractionBits) - log2;
}

struct Draw {
  uint64_t value;
  size_t node;
  friend auto operator<=>(const Draw&, const Draw&) = default;
};

}  // namespace

PlacementKey PlacementKey::stripe(const StoreId& store, std::string_view key, uint32_t stripe) {
  return {hash_mix(hash_bytes(key, store.hash64()) + stripe * 0x9e3779b97f4a7c15ull)};
}

PlacementKey PlacementKey::listing(const StoreId& store, std::string_view directory) {
  return {hash_mix(~hash_bytes(directory, store.hash64()))};
}

Ring::Ring(int64_t epoch, std::vector<RingMember> members)
    : epoch_(epoch), members_(std::move(members)) {
  std::ranges::sort(members_, {}, &RingMember::worker);
  for (const RingMember& member : members_) {
    LEAT_CHECK(member.weight <= kRingWeightMax);
    if (member.weight == 0) continue;
    nodes_.push_back(
        {hash_mix(member.worker.hash64()), (1ull << 40) / member.weight, member.worker});
  }
}

std::vector<WorkerId> Ring::candidates(PlacementKey key, size_t count) const {
  std::vector<Draw> draws(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const uint64_t exponential = negative_log2(hash_mix(key.hash ^ node.seed));
    const auto drawn = static_cast<unsigned __int128>(exponential) * node.inverse >> 25;
    draws[i] = {static_cast<uint64_t>(drawn), i};
  }
  count = std::min(count, draws.size());
  std::ranges::partial_sort(draws, draws.begin() + static_cast<ptrdiff_t>(count));
  std::vector<WorkerId> order;
  order.reserve(count);
  for (size_t i = 0; i < count; ++i) order.push_back(nodes_[draws[i].node].worker);
  return order;
}

WorkerId Ring::owner(PlacementKey key) const {
  const auto first = candidates(key, 1);
  return first.empty() ? WorkerId() : first.front();
}

namespace {

// Returns 0 for a capacity of 0.
uint64_t units_of(uint64_t bytes, uint64_t unit) {
  if (bytes == 0) return 0;
  const uint64_t step = std::clamp(std::bit_floor(bytes) / 16, unit, kGiB);
  return std::max<uint64_t>(bytes / step * (step / unit), 1);
}

}  // namespace

uint32_t ring_bound(const std::vector<uint64_t>& capacities_bytes, uint32_t now, uint64_t unit) {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes : capacities_bytes) {
    if (bytes != 0) sizes.push_back(units_of(bytes, unit));
  }
  if (sizes.empty()) return now;
  std::ranges::sort(sizes);
  const auto bound_at = [&](size_t tenths) {
    const uint64_t size = sizes[sizes.size() * tenths / 10];
    return static_cast<uint32_t>(std::min<uint64_t>(size * kWeightBoundMedians, kRingWeightMax));
  };
  return now >= bound_at(4) && now <= bound_at(6) ? now : bound_at(5);
}

std::vector<uint32_t> ring_weights(const std::vector<uint64_t>& capacities_bytes, uint32_t bound,
                                   uint64_t unit) {
  std::vector<uint32_t> weights;
  for (uint64_t bytes : capacities_bytes) {
    weights.push_back(static_cast<uint32_t>(std::min<uint64_t>(units_of(bytes, unit), bound)));
  }
  return weights;
}

}  // namespace leat
