// SPDX-License-Identifier: Apache-2.0
// ClusterJob: a job of a whole cluster, as its registry keeps it: what is asked for, who runs it
// and how far it is; never its files. JSON with a version, as in cluster/cluster_records.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "cluster/registry.h"
#include "jobs/job.h"
#include "jobs/job_order.h"

namespace leat {

inline constexpr std::string_view kClusterJobKeys = "jobs/";  // and the number, 20 digits

struct ClusterJob {
  uint64_t id = 0;
  JobOrder order{};
  std::string principal{};  // who asked for it
  bool cancel = false;      // somebody wants it to end
  // The worker that runs it, or brought it to its end, in hexadecimal; empty: nobody has begun.
  std::string worker{};
  unsigned begun = 0;            // times: more than one where who ran it was lost
  JobInfo info{};                // as that worker last wrote it
  RegistryRevision changed = 0;  // of its entry; not in the text

  bool ended() const { return info.state != JobState::kRunning; }
};

std::string cluster_job_key(uint64_t id);

// Errors are cut to what a registry takes.
std::string encode_cluster_job(const ClusterJob& job);
Result<ClusterJob> decode_cluster_job(std::string_view text);

}  // namespace leat
