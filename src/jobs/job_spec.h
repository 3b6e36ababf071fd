// SPDX-License-Identifier: Apache-2.0
// JobSpec: the parameters of a job.
#pragma once

#include <cstdint>
#include <string>

#include "jobs/job.h"
#include "model/file_filter.h"
#include "wire/copy_request.h"

namespace leat {

struct JobSpec {
  JobKind kind = JobKind::kLoad;
  std::string path{};
  std::string output{};  // snapshot: the file to write; copy: the destination, as in CopyJobOptions
  // load, free, copy: selected files, by their names below the path.
  FileSelection selection{};
  // load: read all back at the end, and fetch corrupt bytes again.
  bool verify = false;
  uint64_t bandwidth = 0;  // load, copy: requested from stores, bytes a second; 0: no limit
  unsigned requests = 0;   // load, copy: concurrent requests; 0: as configured
  OverwriteMode overwrite = OverwriteMode::kNever;
  // load: behind the readers of an epoch. Loads what the cache has room for; see LoadOptions. In a
  // cluster it ends when no client reports readers any more.
  bool background = false;
  // verify: number of the run for JobCache::verify(); 0: the job's number.
  uint64_t run = 0;

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

}  // namespace leat
