// SPDX-License-Identifier: Apache-2.0
// ClusterJob: a job of a whole cluster, as its registry keeps it: what is asked for, who runs it
// and how far it is; never its files. JSON with a version, as in cluster/cluster_records.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cluster/registry.h"
#include "jobs/job.h"
#include "jobs/job_order.h"

namespace leat {

inline constexpr std::string_view kClusterJobKeys = "jobs/";  // and the number, 20 digits

// When a job is begun again after its end. A job with any of them stands until it is cancelled.
struct JobRepeat {
  std::chrono::seconds every{0};  // from beginning to beginning; 0: not by time
  bool on_change = false;         // of a name at or below its path
  bool on_mount = false;          // of something at, above or below its path

  bool any() const { return every.count() > 0 || on_change || on_mount; }
  friend bool operator==(const JobRepeat&, const JobRepeat&) = default;
};

struct ClusterJob {
  uint64_t id = 0;
  JobOrder order{};
  JobRepeat repeat{};
  std::string principal{};  // who asked for it
  std::string ticket{};     // drawn by who asked, so that asking twice makes one job; or empty
  bool cancel = false;      // somebody wants it to end
  // The worker that runs it, or brought it to its end, in hexadecimal; empty: nobody has begun.
  std::string worker{};
  unsigned begun = 0;  // times in its present run: more than one where who ran it was lost
  uint64_t runs = 0;   // that came to their end
  JobInfo info{};      // of the present or the last run, as its worker last wrote it
  RegistryRevision changed = 0;  // of its entry; not in the text

  // Its run has; a standing one may be begun again.
  bool ended() const { return info.state != JobState::kRunning; }
  bool stands() const { return repeat.any() && !cancel && info.state != JobState::kCancelled; }
};

std::string cluster_job_key(uint64_t id);
// Nothing for what is no such key.
std::optional<uint64_t> cluster_job_number(std::string_view key);

// Errors are cut to what a registry takes.
std::string encode_cluster_job(const ClusterJob& job);
Result<ClusterJob> decode_cluster_job(std::string_view text);

}  // namespace leat
