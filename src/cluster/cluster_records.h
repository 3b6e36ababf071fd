// SPDX-License-Identifier: Apache-2.0
// What the registry's entries of a cluster hold: JSON with a version, `v`. Members that a reader
// does not know are passed over, so N and N + 1 work together; an entry of a later version than
// kRecordVersion is an error, and is left alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/cluster_view.h"

namespace leat {

inline constexpr int kRecordVersion = 1;

// Keys, below the cluster's own prefix.
inline constexpr std::string_view kClusterKeys = "cluster/";
inline constexpr std::string_view kWorkerKeys = "cluster/workers/";  // and the id in hexadecimal
inline constexpr std::string_view kMountKeys = "cluster/mounts";     // and the path
inline constexpr std::string_view kRingKey = "cluster/ring";
inline constexpr std::string_view kLeaderKey = "cluster/leader";

std::string worker_key(const WorkerId& id);
std::string mount_key(std::string_view path);

// The ring's entry. Its epoch is the revision of the entry.
struct RingRecord {
  struct Member {
    WorkerId worker{};
    uint64_t capacity_bytes = 0;
    std::string address{};  // where it was last; empty: a program wrote it that did not say
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members{};  // by worker
  // Of weights (ring_weights); programs that know none read and write kCoarseRingUnit.
  uint64_t unit = kCoarseRingUnit;
  // No weight is above it; 0, of a program that knew none: four times the median.
  uint32_t bound = 0;
  // What it was before, and its epoch; 0: nothing was.
  std::vector<Member> previous{};
  RegistryRevision previous_epoch = 0;
  uint64_t previous_unit = kCoarseRingUnit;
  uint32_t previous_bound = 0;

  friend bool operator==(const RingRecord&, const RingRecord&) = default;
};

// `bound` and `unit` as in the record.
Ring make_ring(RegistryRevision epoch, const std::vector<RingRecord::Member>& members,
               uint32_t bound = 0, uint64_t unit = kCoarseRingUnit);

std::string encode_worker(const WorkerInfo& worker);
Result<WorkerInfo> decode_worker(std::string_view text);
std::string encode_mount(const ClusterMount& mount);
Result<ClusterMount> decode_mount(std::string_view text);
std::string encode_ring(const RingRecord& ring);
Result<RingRecord> decode_ring(std::string_view text);

// The view of what is below kClusterKeys. An entry that cannot be read is left out and logged.
ClusterView view_of(const RegistryView& entries, std::string cluster);

}  // namespace leat
