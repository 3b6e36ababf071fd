// SPDX-License-Identifier: Apache-2.0
// ReplicaHints: for which stripes their first candidates said that several workers are to be asked,
// for as long as they said. Bounded: of more stripes those are forgotten that end first.
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include <boost/unordered/unordered_flat_map.hpp>

#include "cluster/cluster_view.h"
#include "peer/peer_terms.h"

namespace leat {

struct ReplicaHintsOptions {
  size_t stripes_max = 1'024;
  std::function<Clock::time_point()> now = &Clock::now;
};

class ReplicaHints {
 public:
  explicit ReplicaHints(ReplicaHintsOptions options = {}) : options_(std::move(options)) {}

  // At least 1. Without any hints it takes no lock.
  uint32_t replicas(PlacementKey stripe) const;
  // What the first candidate said with an answer; 1: no more than policy says.
  void take(PlacementKey stripe, ReplicaAdvice advice);

 private:
  struct Hint {
    uint32_t replicas;
    Clock::time_point until;
  };

  const ReplicaHintsOptions options_;
  std::atomic<size_t> count_ = 0;
  mutable std::mutex mutex_;  // leaf
  boost::unordered_flat_map<uint64_t, Hint> hints_;
};

}  // namespace leat
