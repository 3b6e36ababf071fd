// SPDX-License-Identifier: Apache-2.0
// ChildProcess: a program that lives no longer than this process. It writes to a log and leads a
// process group of its own, so that a terminal's Ctrl-C does not reach it; it gets SIGTERM when
// this process dies, however that comes (PR_SET_PDEATHSIG).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace leat {

struct ChildStart {
  std::string name{};                      // for messages: "worker 2"
  std::string executable{};                // path
  std::vector<std::string> arguments{};    // argv, [0] included
  std::vector<std::string> environment{};  // all of it, "NAME=value" each
  std::string log{};                       // appended to
};

// From the main thread only: the kernel goes by the life of the thread that started the child.
class ChildProcess {
 public:
  static Result<std::unique_ptr<ChildProcess>> start(const ChildStart& start);
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }
  pid_t pid() const { return pid_; }

  // Takes it in when it has ended.
  bool running();
  // "ended with 1", "was killed by signal 9"; of one that has ended.
  std::string how() const;
  // Its log's, without control characters; empty where there is none.
  std::string last_line() const;
  // Wakes one that is stopped, too. Nothing to one that has ended.
  void signal(int number);
  // Whether it ended within `patience`.
  bool ends_within(std::chrono::milliseconds patience);

 private:
  ChildProcess(const ChildStart& start, pid_t pid)
      : name_(start.name), log_(start.log), pid_(pid) {}

  const std::string name_, log_;
  const pid_t pid_;
  bool ended_ = false;
  int status_ = 0;  // as of waitpid(2)
};

// This process's variables for a child that is nobody's service, without those whose names begin
// with one of `without`.
std::vector<std::string> child_environment(const std::vector<std::string>& without);

}  // namespace leat
