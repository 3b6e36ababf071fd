// SPDX-License-Identifier: Apache-2.0
// ReuseMeter: whether what is read of a pool says anything about what will be read next.
//
// Of a data set that is read epoch by epoch every object is used as often as any other, in whatever
// order: then no eviction policy beats keeping any subset, and exchanging what is kept loses (LRU
// gets c + (1 - c) ln(1 - c) of the share c). Of most other work some objects are used far more
// often than others. The two are told apart by the index of dispersion of the use counts, variance
// over mean, of a sample of the objects: below 1 for epochs and for shards drawn anew, about 1 for
// uniform draws, far above for skewed work.
//
// Thread-safe; an object outside the sample costs one comparison.
#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>

#include "base/adaptive_mutex.h"
#include "model/file_ref.h"

namespace leat {

class ReuseMeter {
 public:
  // A pass over an object began, whether it was here or not; `pass` is its number among all.
  void note(const FileId& id, uint64_t pass);

  // Objects are used again, and all alike: what is here is best kept as it is.
  bool even() const { return even_.load(std::memory_order_relaxed); }
  // What was used no more for so many passes is used no more at all; max() while that is not known.
  uint64_t stale_after() const { return stale_after_.load(std::memory_order_relaxed); }

 private:
  struct Sample {
    uint32_t uses = 0;
    uint64_t last = 0;  // pass
  };

  void note_sampled(uint64_t hash, uint64_t pass);
  void halve_sample();
  void begin_window();

  std::atomic<uint64_t> hash_max_ = UINT64_MAX;  // the sample: hashes up to this
  std::atomic<bool> even_ = false;
  std::atomic<uint64_t> stale_after_ = UINT64_MAX;

  AdaptiveMutex mutex_;  // leaf
  boost::unordered_flat_map<uint64_t, Sample> samples_;
  uint64_t uses_ = 0, squares_ = 0;  // sums over the samples
  uint64_t repeats_ = 0;             // uses beyond the first, in this window
  uint64_t longest_ = 0,
           longest_before_ = 0;  // passes between two uses, in this window and the last
};

}  // namespace leat
