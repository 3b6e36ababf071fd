// SPDX-License-Identifier: Apache-2.0
#include "daemon/takeover/job_journal.h"

#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/read_file.h"
#include "frontends/admin/codec.h"
#include "telemetry/log.h"

namespace leat {

JobJournal::JobJournal(std::string file, bool resume) : file_(std::move(file)), resume_(resume) {
  if (!resume_) ::unlink(file_.c_str());
}

std::vector<JobJournal::Job> JobJournal::load() {
  std::vector<Job> jobs;
  if (!resume_) return jobs;
  Result<std::string> text = read_file(file_);
  if (!text) return jobs;
  Result<Json> json = parse_json(*text, file_.c_str());
  if (!json || !json->is_object()) return jobs;
  for (const Json& item : json->value("jobs", Json::array())) {
    Result<JobRequest> request = from_json<JobRequest>(item);
    const uint64_t id = item.is_object() ? item.value("id", uint64_t{0}) : 0;
    if (request && id > 0) jobs.push_back({id, *std::move(request)});
  }
  ::unlink(file_.c_str());
  return jobs;
}

void JobJournal::add(uint64_t id, const JobRequest& request) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  jobs_[id] = request;
  write_locked();
}

void JobJournal::remove(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (closed_ || jobs_.erase(id) == 0) return;
  write_locked();
}

void JobJournal::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void JobJournal::write_locked() {
  if (jobs_.empty()) {
    ::unlink(file_.c_str());
    return;
  }
  Json list = Json::array();
  for (const auto& [id, request] : jobs_) {
    Json item = to_json(request);
    item["id"] = id;
    list.push_back(std::move(item));
  }
  const std::string next = file_ + ".new";
  std::ofstream file(next, std::ios::binary | std::ios::trunc);
  file << dump_json({{"jobs", list}});
  file.close();
  if (file && ::rename(next.c_str(), file_.c_str()) == 0) return;
  log::warning("the next daemon would not resume running loads: {}",
               status_from_errno(errno, "cannot write " + file_).to_string());
  ::unlink(next.c_str());
}

}  // namespace leat
