// SPDX-License-Identifier: Apache-2.0
// VerifyJob: compares everything in the cache with its checksums. Its path has no meaning. Corrupt
// data is an error of the job, although it is dropped and will be fetched again.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "jobs/job.h"
#include "jobs/job_cache.h"

namespace leat {

using VerifyHook = std::function<Task<>()>;

class VerifyJob : public Job {
 public:
  // `run` as in JobSpec. `on_verified` returns when the kernel caches nothing of the dropped data;
  // it may be empty.
  VerifyJob(uint64_t id, std::string path, JobCache& cache, uint64_t run, VerifyHook on_verified)
      : Job(id, JobKind::kVerify, std::move(path)),
        cache_(cache),
        run_(run != 0 ? run : id),
        on_verified_(std::move(on_verified)) {}

 private:
  Task<> work(Context context) override;

  JobCache& cache_;
  const uint64_t run_;
  const VerifyHook on_verified_;
};

}  // namespace leat
