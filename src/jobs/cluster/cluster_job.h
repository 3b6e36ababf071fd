// SPDX-License-Identifier: Apache-2.0
// ClusterJob: a job of a whole cluster, as a record of the registry: its spec, its worker and its
// progress, but never its files. JSON with a version, as in cluster/cluster_records.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cluster/registry.h"
#include "jobs/job.h"
#include "jobs/job_spec.h"

namespace leat {

inline constexpr std::string_view kClusterJobKeys = "jobs/";  // followed by the number, 20 digits

// When a job runs again after its end. A job with any of these recurs until it is cancelled.
struct JobSchedule {
  std::chrono::seconds every{0};  // from start to start; 0: not by time
  bool on_change = false;         // when a name at or below its path changes
  bool on_mount = false;          // when a mount at, above or below its path appears

  bool any() const { return every.count() > 0 || on_change || on_mount; }
  friend bool operator==(const JobSchedule&, const JobSchedule&) = default;
};

struct ClusterJob {
  uint64_t id = 0;
  JobSpec spec{};
  JobSchedule schedule{};
  std::string principal{};        // the principal that started it
  std::string idempotency_key{};  // from the client, or empty
  bool cancel = false;            // cancellation is requested
  // The worker that runs it, or ran it to its end, in hexadecimal; empty: not started.
  std::string worker{};
  unsigned starts = 0;            // starts of the present run; more than one if a worker was lost
  uint64_t runs = 0;              // completed runs
  uint64_t reports = 0;           // background: of readers, that they are there
  JobInfo info{};                 // of the present or last run, as its worker last wrote it
  RegistryRevision revision = 0;  // revision of its entry; not part of the JSON

  // Whether the present run has ended; a recurring job may run again.
  bool ended() const { return info.state != JobState::kRunning; }
  bool is_recurring() const {
    return schedule.any() && !cancel && info.state != JobState::kCancelled;
  }
};

std::string cluster_job_key(uint64_t id);
// Returns nothing if `key` is no such key.
std::optional<uint64_t> cluster_job_number(std::string_view key);

// Truncates errors to what a registry accepts.
std::string encode_cluster_job(const ClusterJob& job);
Result<ClusterJob> decode_cluster_job(std::string_view text);

}  // namespace leat
