// SPDX-License-Identifier: Apache-2.0
// JobOrder: the parameters of a job.
#pragma once

#include <cstdint>
#include <string>

#include "jobs/job.h"
#include "model/file_filter.h"
#include "peer/copy_request.h"

namespace leat {

struct JobOrder {
  JobKind kind = JobKind::kLoad;
  std::string path{};
  std::string output{};  // snapshot: the file to write; copy: the destination, as in CopyJobOptions
  // load, free, copy: selected files, by their names below the path.
  FileSelection selection{};
  // load: read all back at the end, and fetch corrupt bytes again.
  bool verify = false;
  uint64_t bandwidth = 0;  // load, copy: requested from stores, bytes a second; 0: no limit
  unsigned requests = 0;   // load, copy: concurrent requests; 0: as configured
  CopyOver over = CopyOver::kNothing;
  // verify: number of the run for CacheTarget::verify(); 0: the job's number.
  uint64_t run = 0;

  friend bool operator==(const JobOrder&, const JobOrder&) = default;
};

}  // namespace leat
