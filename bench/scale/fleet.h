// SPDX-License-Identifier: Apache-2.0
// A synthetic cluster: workers, the content of its registry, and the sizes of the objects that it
// caches.
#pragma once

#include <vector>

#include "cluster/cluster_records.h"
#include "scale/setting.h"

namespace leat::scale {

WorkerInfo synthetic_worker(uint64_t number, uint64_t capacity_bytes);
std::vector<RingRecord::Member> synthetic_members(const std::vector<uint64_t>& capacities);
// Returns the capacities of machines of one generation: all equal.
std::vector<uint64_t> equal_capacities(uint64_t workers, uint64_t bytes);
// Returns mixed capacities: 60 in a hundred have `bytes`, 25 twice, 10 half, 5 eight times that.
std::vector<uint64_t> mixed_capacities(uint64_t workers, uint64_t bytes);

// All entries, as of one revision: workers, the ring and the one before, three mounts, the leader.
RegistryView synthetic_entries(const std::vector<uint64_t>& capacities);

// Of object `number`, always the same: four in five of 16 to 256 KiB (images), 18 % to 8 MiB,
// 1.95 % to 128 MiB, one in two thousand of 0.5 to 8 GiB (shards, checkpoints); within each range
// equally many for each doubling.
uint64_t object_bytes(uint64_t number);

StoreId synthetic_store();
// "train/part-0000012/sample-0000012345.jpg"
std::string object_key(uint64_t number, uint64_t in_directory);

}  // namespace leat::scale
