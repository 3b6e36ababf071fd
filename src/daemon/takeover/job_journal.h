// SPDX-License-Identifier: Apache-2.0
// JobJournal: the list of running loads in a file of the runtime directory. A daemon that follows
// one that died or prepared a takeover continues them under their numbers. Thread-safe.
//
// The file is one JSON document, {"jobs": [{"id": 3, "kind": "load", …}]}, in the form of POST
// /v1/jobs. It is replaced atomically. Its loss costs only the jobs, so errors here fail no
// operation.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "frontends/admin/daemon_api.h"

namespace leat {

class JobJournal {
 public:
  struct Job {
    uint64_t id;
    JobRequest request;
  };

  // `resume`: a daemon ran before this one, and its jobs must continue; otherwise the file is
  // discarded.
  JobJournal(std::string file, bool resume);

  // Returns the predecessor's jobs. Call once, before all others.
  std::vector<Job> load();
  void add(uint64_t id, const JobRequest& request);
  void remove(uint64_t id);
  // Freezes the list for the successor; later ends of jobs do not change it.
  void close();

 private:
  void write_locked();

  const std::string file_;
  const bool resume_;
  std::mutex mutex_;  // leaf
  std::map<uint64_t, JobRequest> jobs_;
  bool closed_ = false;
};

}  // namespace leat
