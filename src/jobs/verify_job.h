// SPDX-License-Identifier: Apache-2.0
// VerifyJob: compares everything in the cache with its checksums. Its path has no meaning. Corrupt
// data is an error of the job, although it is dropped and will be fetched again.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "jobs/cache_target.h"
#include "jobs/job.h"

namespace leat {

using Verified = std::function<Task<>()>;

class VerifyJob : public Job {
 public:
  // `run` as in JobOrder. `verified` returns when the kernel caches nothing of the dropped data; it
  // may be empty.
  VerifyJob(uint64_t id, std::string path, CacheTarget& target, uint64_t run, Verified verified)
      : Job(id, JobKind::kVerify, std::move(path)),
        target_(target),
        run_(run != 0 ? run : id),
        verified_(std::move(verified)) {}

 private:
  Task<> work(Context context) override;

  CacheTarget& target_;
  const uint64_t run_;
  const Verified verified_;
};

}  // namespace leat
