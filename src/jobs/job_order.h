// SPDX-License-Identifier: Apache-2.0
// JobOrder: what a job is asked to do.
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
  std::string output{};  // snapshot: the file to be; copy: where to, as CopyJobOptions has it
  // load, free, copy: which files below the path, by their names below it.
  FileSelection selection{};
  // load: when all is there everything is read back, and what does not pass is fetched again.
  bool verify = false;
  uint64_t bandwidth = 0;  // load, copy: bytes a second asked of stores; 0: no limit
  unsigned requests = 0;   // load, copy: at once; 0: as the options say
  CopyOver over = CopyOver::kNothing;
  // verify: by which the target knows it, CacheTarget::verify(); 0: the job's number.
  uint64_t run = 0;

  friend bool operator==(const JobOrder&, const JobOrder&) = default;
};

}  // namespace leat
