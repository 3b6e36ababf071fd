// SPDX-License-Identifier: Apache-2.0
// VerifyJob: everything that the cache holds, compared with its checksums. Its path says nothing.
// What was wrong is an error of the job, although it has gone and will be fetched again.
#pragma once

#include <string>

#include "jobs/cache_target.h"
#include "jobs/job.h"

namespace leat {

class VerifyJob : public Job {
 public:
  VerifyJob(uint64_t id, std::string path, CacheTarget& target)
      : Job(id, JobKind::kVerify, std::move(path)), target_(target) {}

 private:
  Task<> work(Context context) override;

  CacheTarget& target_;
};

}  // namespace leat
