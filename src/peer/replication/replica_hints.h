// SPDX-License-Identifier: Apache-2.0
// ReplicaHints: number of replicas for hot stripes, as hinted by their owners, until the
// hint expires. Bounded: the hint that expires first is dropped. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include <boost/unordered/unordered_flat_map.hpp>

#include "cluster/cluster_view.h"
#include "wire/peer_request_header.h"

namespace leat {

struct ReplicaHintsOptions {
  size_t stripes_max = 1'024;
  std::function<Clock::time_point()> now = &Clock::now;
};

class ReplicaHints {
 public:
  explicit ReplicaHints(ReplicaHintsOptions options = {}) : options_(std::move(options)) {}

  // Returns at least 1. Takes no lock while there are no hints.
  uint32_t replicas(PlacementKey stripe) const;
  // Stores the hint of the owner's answer; 1: no more than the policy says.
  void store(PlacementKey stripe, ReplicaHint hint);

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
