// SPDX-License-Identifier: Apache-2.0
// HotStripeTracker: finds hot stripes among a worker's reads and decides how many workers serve
// each. Bounded: tracks the most-read stripes (space-saving, Metwally et al. 2005, with weights
// that decay exponentially). Thread-safe.
//
// A stripe gains replicas if this worker alone serves more than `hot_stripe_bandwidth` of it and it
// is a quarter of the worker's load. It loses one at a time, if one fewer would serve at most half
// of that each. The other replicas' load is not visible here; it is taken to equal this worker's.
#pragma once

#include <functional>
#include <mutex>

#include <boost/unordered/unordered_flat_map.hpp>

#include "cluster/ring.h"
#include "runtime/context.h"

namespace leat {

struct HotStripeTrackerOptions {
  // Bytes a second of one stripe; 0 disables the detection.
  uint64_t hot_stripe_bandwidth = 256 << 20;
  // Cost of a read besides its bytes, in bytes.
  uint64_t read_bytes = 64 << 10;
  uint32_t replicas_max = 4;
  size_t stripes_max = 64;
  Clock::duration half_life = std::chrono::seconds(2);
  // Minimum time between two changes of one stripe: readers must receive the last one first.
  Clock::duration change_interval = std::chrono::seconds(2);
  std::function<Clock::time_point()> now = &Clock::now;
};

class HotStripeTracker {
 public:
  explicit HotStripeTracker(HotStripeTrackerOptions options = {}) : options_(std::move(options)) {}

  // Records a read served here by the stripe's owner. Returns how many workers serve that
  // stripe from now on, including this one; at least `least`.
  uint32_t record(PlacementKey stripe, uint64_t bytes, uint32_t least = 1);

  // Number of stripes with more replicas than the policy says.
  size_t hot_stripes() const;

 private:
  struct Stripe {
    double bytes = 0;         // decays with time
    double overestimate = 0;  // upper bound of the part inherited from evicted stripes
    Clock::time_point at{};
    uint32_t replicas = 1;
    Clock::time_point changed_at{};
  };

  void decay(Stripe& stripe, Clock::time_point now) const;
  Stripe& find(uint64_t hash, Clock::time_point now);
  void update_replicas(Stripe& stripe, uint32_t least, Clock::time_point now) const;
  double rate(double bytes) const;

  const HotStripeTrackerOptions options_;
  mutable std::mutex mutex_;  // leaf
  boost::unordered_flat_map<uint64_t, Stripe> stripes_;
  Stripe all_;
};

}  // namespace leat
