// SPDX-License-Identifier: Apache-2.0
// KeptJobs: the list of running loads in a file of the runtime directory. A daemon that follows one
// that died or handed over continues them under their numbers. Thread-safe.
//
// The file is one JSON document, {"jobs": [{"id": 3, "kind": "load", …}]}, in the form of POST
// /v1/jobs. It is replaced atomically. Its loss costs only the jobs, so errors here fail no
// operation.
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

  // `follows`: a daemon ran before this one, and its jobs must continue; otherwise the file is
  // discarded.
  KeptJobs(std::string file, bool follows);

  // Returns the predecessor's jobs. Call once, before all others.
  std::vector<Job> left();
  void remember(uint64_t id, const JobRequest& request);
  void forget(uint64_t id);
  // Freezes the list for the successor; later ends of jobs do not change it.
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
