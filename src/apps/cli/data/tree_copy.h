// SPDX-License-Identifier: Apache-2.0
// TreeCopy: copies files from a tree to a target, several at a time. A failed file is reported and
// does not stop the others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/cli/client/path_tree.h"
#include "apps/cli/command/progress.h"
#include "apps/cli/data/copy_target.h"
#include "model/file_filter.h"
#include "runtime/bandwidth_limiter.h"
#include "runtime/context.h"

namespace leat {

struct CopyOptions {
  bool force = false;      // replace existing files
  bool update = false;     // skip equal existing files, replace others
  bool dry_run = false;    // only print the actions
  unsigned files_max = 8;  // concurrent
  uint64_t bandwidth = 0;  // bytes a second, over all files; 0: no limit
  FileFilter filter{};     // for names below the copied path
};

struct CopyReport {
  uint64_t files = 0, bytes = 0;            // copied
  uint64_t skipped = 0;                     // exist already
  uint64_t failed = 0;                      // files and directories
  uint64_t unsupported = 0;                 // not files, or not possible at the target
  uint64_t empty_directories = 0;           // not created, since the target has none
  std::string empty_directory{};            // the first of them
  std::vector<std::string> errors{};        // the first kErrorsKept
  StatusCode code = StatusCode::kInternal;  // of the first failure
  int signal = 0;                           // that interrupted the copy; 0: none
};

class TreeCopy {
 public:
  static constexpr size_t kErrorsMax = 100;

  TreeCopy(PathTree& from, CopyTarget& to, CopyOptions options)
      : from_(from), to_(to), options_(std::move(options)), limiter_(options_.bandwidth) {}

  // Copies one file, or all below a directory. Call once. SIGINT or SIGTERM ends it after partial
  // files are removed; a second one ends the process.
  CopyReport copy_file(const EntryView& entry, const std::string& from, const std::string& to);
  CopyReport copy_directory(const std::string& from, const std::string& to);

 private:
  struct Work {
    EntryView entry;
    std::string from, to;
  };

  CopyReport run(auto plan);
  // Walks a directory; `below` is its name within the copied path.
  void walk(const std::string& from, const std::string& to, const std::string& below);
  void plan(Work work);
  void work();
  void copy(const Work& work);
  CommandResult<bool> should_copy(const Work& work, bool& replace);
  CommandResult<> transfer(const Work& work, bool replace);
  Result<> wait_for_bandwidth(uint64_t bytes);
  void show_progress();  // the caller holds mutex_
  void refresh_progress(const std::stop_token& ended);
  void record_failure(const std::string& what, const Failure& why);
  void record_empty(const std::string& directory);
  void skip_unsupported(uint64_t count, const std::string& why);

  PathTree& from_;
  CopyTarget& to_;
  const CopyOptions options_;
  BandwidthLimiter limiter_;

  std::mutex mutex_;  // leaf
  std::condition_variable changed_;
  std::condition_variable_any ticks_;
  std::deque<Work> queue_;
  bool planned_ = false;  // the walk has ended
  // Planned, minus failed and existing files.
  uint64_t files_found_ = 0, bytes_found_ = 0;
  CopyReport report_;
  ProgressState state_;
  Progress progress_;
};

}  // namespace leat
