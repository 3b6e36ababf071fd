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
  // `run` as in JobOrder.
  VerifyJob(uint64_t id, std::string path, CacheTarget& target, uint64_t run)
      : Job(id, JobKind::kVerify, std::move(path)), target_(target), run_(run != 0 ? run : id) {}

 private:
  Task<> work(Context context) override;

  CacheTarget& target_;
  const uint64_t run_;
};

}  // namespace leat
