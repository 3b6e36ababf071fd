// SPDX-License-Identifier: Apache-2.0
// StripeHeat: what of a worker's load is reads of one stripe, and how many workers should answer
// for that one therefore. Bounded: the stripes that are read most are known (space-saving, Metwally
// and others 2005, with weights that halve as time goes). Thread-safe.
//
// A stripe gets more workers where this one alone serves more of it than `hot_bytes_s` and it is a
// quarter of all it serves, and loses them one by one where one fewer would have no more than half
// of that each. The others' part is not seen here: it is taken as that of this worker.
#pragma once

#include <functional>
#include <mutex>

#include <boost/unordered/unordered_flat_map.hpp>

#include "cluster/ring.h"
#include "runtime/context.h"

namespace leat {

struct StripeHeatOptions {
  // Of one stripe a second; 0: nothing is ever hot.
  uint64_t hot_bytes_s = 256 << 20;
  // What a read costs beside its bytes, in bytes.
  uint64_t read_bytes = 64 << 10;
  uint32_t replicas_max = 4;
  size_t stripes_max = 64;
  Clock::duration half_life = std::chrono::seconds(2);
  // Between two changes of one stripe: readers have to hear of the last one first.
  Clock::duration settle = std::chrono::seconds(2);
  std::function<Clock::time_point()> now = &Clock::now;
};

class StripeHeat {
 public:
  explicit StripeHeat(StripeHeatOptions options = {}) : options_(std::move(options)) {}

  // A read that was answered here, by the stripe's first candidate. How many workers are to answer
  // for that stripe from now on, this one counted; `least` of them do so in any case.
  uint32_t note(PlacementKey stripe, uint64_t bytes, uint32_t least = 1);

  // Stripes for which there is more than policy says.
  size_t hot() const;

 private:
  struct Stripe {
    double bytes = 0;  // that halve with time
    double over = 0;   // of these, so many may be of others that were forgotten
    Clock::time_point at{};
    uint32_t replicas = 1;
    Clock::time_point settled{};
  };

  void age(Stripe& stripe, Clock::time_point now) const;
  Stripe& find(uint64_t hash, Clock::time_point now);
  void settle(Stripe& stripe, uint32_t least, Clock::time_point now) const;
  double rate(double bytes) const;

  const StripeHeatOptions options_;
  mutable std::mutex mutex_;  // leaf
  boost::unordered_flat_map<uint64_t, Stripe> stripes_;
  Stripe all_;
};

}  // namespace leat
