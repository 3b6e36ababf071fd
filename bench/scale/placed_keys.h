// SPDX-License-Identifier: Apache-2.0
// Places many keys on a ring, on all cores.
#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "cluster/ring.h"

namespace leat::scale {

// `work(first, end, its own Result)` for equal parts of [0, count), one to a core; the results.
template <class T, class Work>
std::vector<T> on_all_cores(uint64_t count, T empty, Work work) {
  const uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<T> results(cores, empty);
  std::vector<std::jthread> threads;
  for (uint64_t core = 0; core < cores; ++core) {
    threads.emplace_back([&results, &work, count, cores, core] {
      work(count * core / cores, count * (core + 1) / cores, results[core]);
    });
  }
  threads.clear();
  return results;
}

// Returns a key like those of PlacementKey, for callers that need no names.
inline PlacementKey any_key(uint64_t number) {
  return {hash_mix(number * 0x9e3779b97f4a7c15ull + 1)};
}

// MemberIndex: the index of each worker in a ring's members().
class MemberIndex {
 public:
  explicit MemberIndex(const Ring& ring) {
    for (const RingMember& member : ring.members()) {
      const size_t place = indexes_.size();
      indexes_[member.worker] = place;
    }
  }
  size_t of(const WorkerId& id) const { return indexes_.at(id); }
  bool contains(const WorkerId& id) const { return indexes_.contains(id); }
  size_t size() const { return indexes_.size(); }

 private:
  boost::unordered_flat_map<WorkerId, size_t, IdHash> indexes_;
};

}  // namespace leat::scale
