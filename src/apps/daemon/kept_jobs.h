// SPDX-License-Identifier: Apache-2.0
// KeptJobs: which loads run, in a file of the runtime directory, so that the daemon that follows
// one that died or made way goes on with them under their numbers. Thread-safe.
//
// The file is one JSON document, {"jobs": [{"id": 3, "kind": "load", …}]}, as POST /v1/jobs takes
// them; it is replaced as a whole. Losing it costs the jobs, so nothing here fails anything.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "doors/admin/host.h"

namespace leat {

class KeptJobs {
 public:
  struct Job {
    uint64_t id;
    JobRequest request;
  };

  // `follows`: there was a daemon before this one whose jobs are to go on; else what lies there is
  // forgotten.
  KeptJobs(std::string file, bool follows);

  // Of the predecessor. Once, before anything else.
  std::vector<Job> left();
  void remember(uint64_t id, const JobRequest& request);
  void forget(uint64_t id);
  // What is remembered now stays for the successor, whatever ends from here on.
  void close();

 private:
  void write_locked();

  const std::string file_;
  const bool follows_;
  std::mutex mutex_;  // leaf
  std::map<uint64_t, JobRequest> jobs_;
  bool closed_ = false;
};

}  // namespace leat
