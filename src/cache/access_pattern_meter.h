// SPDX-License-Identifier: Apache-2.0
// AccessPatternMeter: detects whether past reads of a pool predict its next reads.
//
// A data set read epoch by epoch uses all objects equally often, in whatever order. Then no
// eviction policy beats keeping any subset, and exchanging objects loses: LRU gets c + (1 - c) ln(1
// - c) of the share c. Most other work uses some objects far more often than others. The index of
// dispersion of the use counts (variance over mean) of sampled objects separates the two. It is
// below 1 for epochs and for reshuffled shards, about 1 for uniform draws, and far above for skewed
// work.
//
// Thread-safe; an object outside the sample costs one comparison.
#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>

#include "base/adaptive_mutex.h"
#include "model/file_ref.h"

namespace leat {

class AccessPatternMeter {
 public:
  // A pass over an object began, cached or not; `pass` is its number among all passes.
  void note(const FileId& id, uint64_t pass);

  // Returns true if objects are used again, all equally often: the cached subset should stay.
  bool cyclic() const { return cyclic_.load(std::memory_order_relaxed); }
  // Returns the number of passes without use after which an object counts as stale; max() while
  // unknown.
  uint64_t stale_after() const { return stale_after_.load(std::memory_order_relaxed); }

 private:
  struct Sample {
    uint32_t uses = 0;
    uint64_t last = 0;  // number of the pass
  };

  void note_sampled(uint64_t hash, uint64_t pass);
  void halve_sample();
  void begin_window();

  std::atomic<uint64_t> hash_max_ = UINT64_MAX;  // the sample: hashes up to this
  std::atomic<bool> cyclic_ = false;
  std::atomic<uint64_t> stale_after_ = UINT64_MAX;

  AdaptiveMutex mutex_;  // leaf
  boost::unordered_flat_map<uint64_t, Sample> samples_;
  uint64_t uses_ = 0, squares_ = 0;  // sums over the samples
  uint64_t repeats_ = 0;             // uses beyond the first, in this window
  uint64_t longest_ = 0,
           longest_before_ = 0;  // passes between two uses, in this window and the last
};

}  // namespace leat
