// SPDX-License-Identifier: Apache-2.0
// Job: a long operation over a path of the namespace, with progress, errors per file and
// cancellation. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "model/file_info.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

enum class JobKind : uint8_t { kLoad, kFree, kVerify, kSnapshot, kRefresh, kCopy };
enum class JobState : uint8_t { kRunning, kDone, kFailed, kCancelled };

// "load", "free", "verify", "snapshot", "refresh", "copy"; "running", "done", "failed",
// "cancelled".
std::string_view to_string(JobKind kind);
std::string_view to_string(JobState state);
Result<JobKind> parse_job_kind(std::string_view text);

struct JobError {
  std::string path;
  Status status;
};

// Keys of a directory that cannot be names of files.
struct SkippedNames {
  std::string directory;
  uint64_t names = 0;
  std::string example;  // one of them, as the store has it; may be empty

  bool operator==(const SkippedNames&) const = default;
};

// A change of a name that a refresh found.
struct JobChange {
  std::string path;
  NamedChange::Kind kind;
};

struct JobProgress {
  bool planned = false;  // the totals are final; refresh: directories count as files
  uint64_t files_total = 0;
  uint64_t files_done = 0;
  uint64_t bytes_total = 0;  // load: of the files; free: equals bytes_done; verify: estimate
  // load: known to be cached; free: dropped; verify: compared; copy: at the destination.
  uint64_t bytes_done = 0;
  uint64_t bytes_fetched = 0;   // part of these, read from the store; copy: written to it
  uint64_t bytes_verified = 0;  // load with verification: read back
  uint64_t files_failed = 0;
  // Failed files and directories, and errors of the job itself.
  uint64_t errors = 0;
  uint64_t names_skipped = 0;  // keys that cannot be names of files; not errors
  // load: files of mounts that do not cache them on disk; not in any other number.
  uint64_t files_uncached = 0;
  uint64_t bytes_uncached = 0;
  bool background = false;             // load: behind the readers of an epoch; nobody requested it
  uint64_t files_already_present = 0;  // copy: part of files_done that already existed
  // refresh: numbers of names.
  uint64_t added = 0, changed = 0, removed = 0;
};

struct JobInfo {
  uint64_t id = 0;
  JobKind kind = JobKind::kLoad;
  std::string path;
  JobState state = JobState::kRunning;
  JobProgress progress;
  WallTime started;                   // for people
  std::chrono::nanoseconds duration;  // until now, or until its end
  std::vector<JobError> errors;       // the first kErrorsMax
  std::vector<JobChange> changes;     // the first kChangesMax
  std::vector<SkippedNames> skipped;  // the first kSkippedMax directories
};

class Job {
 public:
  static constexpr size_t kErrorsMax = 100;
  static constexpr size_t kChangesMax = 1000;
  static constexpr size_t kSkippedMax = 10;

  Job(uint64_t id, JobKind kind, std::string path);
  virtual ~Job() = default;
  Job(const Job&) = delete;

  uint64_t id() const { return id_; }
  JobInfo info() const;
  // run() ends soon after this. Completed work stays.
  void cancel() { stop_.request_stop(); }
  // Call once. The job must live until it has ended.
  Task<> run();

 protected:
  // Does all the work. Returns when nothing of it is in flight any more.
  virtual Task<> work(Context context) = 0;

  const std::string& path() const { return path_; }
  template <class Change>
  void update(Change change) {
    std::lock_guard lock(mutex_);
    change(progress_);
  }
  // Counts an error, except the cancellation of the job itself. Keeps equal errors of one path
  // once.
  void note_error(std::string path, Status status) { add_error(std::move(path), status, 0); }
  // The same for a file of files_total.
  void note_failed_file(std::string path, Status status) { add_error(std::move(path), status, 1); }
  void note_skipped(SkippedNames skipped);
  // Clears errors and skipped names, for a job that walks over all directories again.
  void clear_findings();
  // Records changes of names in `directory`.
  void note_changes(std::string_view directory, const RefreshResult& result);

 private:
  void add_error(std::string path, const Status& status, uint64_t files);

  const uint64_t id_;
  const JobKind kind_;
  const std::string path_;
  const WallTime started_;
  const Clock::time_point started_at_;
  std::stop_source stop_;

  mutable std::mutex mutex_;  // leaf
  JobState state_ = JobState::kRunning;
  JobProgress progress_;
  std::vector<JobError> errors_;
  std::vector<JobChange> changes_;
  std::vector<SkippedNames> skipped_;
  Clock::time_point ended_at_;
};

}  // namespace leat
