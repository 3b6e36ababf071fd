// SPDX-License-Identifier: Apache-2.0
// Pool: the cached bytes of one mount or snapshot, with their quota, TTL, priority and use.
// PoolTable: the pools of one cache directory. Thread-safe.
#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "cache/access_pattern_meter.h"
#include "cache/capacity.h"
#include "cache/page_store.h"

namespace leat {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(PoolId number, std::shared_ptr<Capacity> of_directory, std::atomic<uint64_t>& clock)
      : id(number),
        capacity(std::make_shared<Capacity>(UINT64_MAX, std::move(of_directory))),
        clock_(clock) {}

  const PoolId id;
  const std::shared_ptr<Capacity> capacity;  // limited by the quota
  AccessPatternMeter meter;

  PoolPolicy policy() const;
  void set_policy(const PoolPolicy& policy);

  // Counts a pass over an object; returns the number of the pass.
  uint64_t note_pass(const FileId& object);
  uint64_t now() const { return clock_.load(std::memory_order_relaxed); }
  // Returns true if an object last used in that pass is not used any more.
  bool stale(uint64_t last_pass) const;

  // A write found little or no room since the last eviction.
  std::atomic<bool> needs_room = false;

 private:
  std::atomic<uint64_t>& clock_;
  mutable std::mutex mutex_;  // leaf
  PoolPolicy policy_;
};
using PoolPtr = std::shared_ptr<Pool>;

class PoolTable {
 public:
  explicit PoolTable(std::shared_ptr<Capacity> of_directory) : capacity_(std::move(of_directory)) {}

  // Created on first use; never removed.
  Pool& at(PoolId id);
  PoolPtr get(PoolId id) { return at(id).shared_from_this(); }
  std::vector<PoolPtr> all() const;

 private:
  const std::shared_ptr<Capacity> capacity_;
  std::atomic<uint64_t> passes_ = 0;     // over all pools
  std::atomic<Pool*> recent_ = nullptr;  // pool of the last lookup, likely the next one
  mutable std::shared_mutex mutex_;      // leaf
  boost::unordered_flat_map<uint64_t, PoolPtr> pools_;
};

}  // namespace leat
