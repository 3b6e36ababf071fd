// SPDX-License-Identifier: Apache-2.0
// TreeCopy: files from a tree to a target, several at a time. What fails is said and does not stop
// the others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/client/path_tree.h"
#include "apps/data/copy_target.h"
#include "apps/progress.h"
#include "model/file_filter.h"
#include "runtime/bandwidth_line.h"
#include "runtime/context.h"

namespace leat {

struct CopyOptions {
  bool force = false;      // what is there is replaced
  bool update = false;     // what is there and the same is left; what is another is replaced
  bool dry_run = false;    // says what it would do
  unsigned files_max = 8;  // at once
  uint64_t bandwidth = 0;  // bytes a second over all of them; 0: no limit
  FileFilter filter{};     // of names below what is copied
};

struct CopyReport {
  uint64_t files = 0, bytes = 0;            // copied
  uint64_t skipped = 0;                     // there already
  uint64_t failed = 0;                      // files and directories
  uint64_t left_out = 0;                    // that are no files, or cannot be on the other side
  uint64_t empty_directories = 0;           // that the other side does not have, having none
  std::string empty_directory{};            // the first of them
  std::vector<std::string> errors{};        // the first kErrorsKept
  StatusCode code = StatusCode::kInternal;  // of the first failure
  int signal = 0;                           // that ended it; 0: none
};

class TreeCopy {
 public:
  static constexpr size_t kErrorsKept = 100;

  TreeCopy(PathTree& from, CopyTarget& to, CopyOptions options)
      : from_(from), to_(to), options_(std::move(options)), line_(options_.bandwidth) {}

  // One file, or all below a directory. Once. SIGINT and SIGTERM end it after what is under way was
  // taken back; a second one ends the process.
  CopyReport copy_file(const EntryView& entry, const std::string& from, const std::string& to);
  CopyReport copy_directory(const std::string& from, const std::string& to);

 private:
  struct Work {
    EntryView entry;
    std::string from, to;
  };

  CopyReport run(auto plan);
  // Walks a directory, `below` being its name within what is copied.
  void walk(const std::string& from, const std::string& to, const std::string& below);
  void plan(Work work);
  void work();
  void copy(const Work& work);
  Attempt<bool> wanted(const Work& work, bool& replace);
  Attempt<> transfer(const Work& work, bool replace);
  Result<> wait_for_turn(uint64_t bytes);
  void show_progress();  // with mutex_ held
  void keep_showing(const std::stop_token& ended);
  void note_failure(const std::string& what, const Failure& why);
  void note_empty(const std::string& directory);
  void leave_out(uint64_t count, const std::string& why);

  PathTree& from_;
  CopyTarget& to_;
  const CopyOptions options_;
  BandwidthLine line_;

  std::mutex mutex_;  // leaf
  std::condition_variable changed_;
  std::condition_variable_any ticks_;
  std::deque<Work> queue_;
  bool planned_ = false;  // nothing more comes
  // Planned, but what was given up or is there already.
  uint64_t files_found_ = 0, bytes_found_ = 0;
  CopyReport report_;
  ProgressState state_;
  Progress progress_;
};

}  // namespace leat
