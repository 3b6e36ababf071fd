// SPDX-License-Identifier: Apache-2.0
// Values of a cluster's registry entries: JSON with a version, `v`. Readers ignore unknown members,
// so versions N and N + 1 work together. An entry with a version above kRecordVersion is an error
// and is left unchanged.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/cluster_view.h"

namespace leat {

inline constexpr int kRecordVersion = 1;

// Keys below the cluster's own prefix.
inline constexpr std::string_view kClusterKeys = "cluster/";
// the id in hexadecimal follows
inline constexpr std::string_view kWorkerKeys = "cluster/workers/";
inline constexpr std::string_view kMountKeys = "cluster/mounts";     // the path follows
inline constexpr std::string_view kStagingKeys = "cluster/staging";  // the path follows
inline constexpr std::string_view kRingKey = "cluster/ring";
inline constexpr std::string_view kLeaderKey = "cluster/leader";

std::string worker_key(const WorkerId& id);
std::string mount_key(std::string_view path);
std::string staging_key(std::string_view path);

// Value of the ring's entry. Its epoch is the revision of the entry.
struct RingRecord {
  struct Member {
    WorkerId worker{};
    uint64_t capacity_bytes = 0;
    std::string address{};  // last known; empty: the writing program did not know it
    friend bool operator==(const Member&, const Member&) = default;
  };
  std::vector<Member> members{};  // sorted by worker
  // Unit of weights (ring_weights); programs without this member read and write kCoarseRingUnit.
  uint64_t unit = kCoarseRingUnit;
  // Upper bound of each weight; 0, from a program without this member: four times the median.
  uint32_t bound = 0;
  // Previous ring and its epoch; 0: there was none.
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
std::string encode_staging(const StagingRecord& record);
Result<StagingRecord> decode_staging(std::string_view text);
std::string encode_ring(const RingRecord& ring);
Result<RingRecord> decode_ring(std::string_view text);

// Builds the view from the entries below kClusterKeys. Skips and logs unreadable entries.
ClusterView view_of(const RegistryView& entries, std::string cluster);

}  // namespace leat
