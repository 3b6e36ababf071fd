// SPDX-License-Identifier: Apache-2.0
// ChildProcess: a program that lives no longer than this process. It writes to a log and leads a
// process group of its own, so that a terminal's Ctrl-C does not reach it. It gets SIGTERM when
// this process dies for any reason (PR_SET_PDEATHSIG).
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
  std::vector<std::string> arguments{};    // argv, including [0]
  std::vector<std::string> environment{};  // complete, "NAME=value" each
  std::string log{};                       // opened for append
};

// Use it from the main thread only: PR_SET_PDEATHSIG follows the thread that started the child.
class ChildProcess {
 public:
  static Result<std::unique_ptr<ChildProcess>> start(const ChildStart& start);
  // Kills the child if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  const std::string& log() const { return log_; }
  pid_t pid() const { return pid_; }

  // Returns whether it runs; reaps it if it has ended.
  bool running();
  // Returns "ended with 1", "was killed by signal 9"; only after its end.
  std::string exit_description() const;
  // Returns the last line of its log, without control characters; empty if there is none.
  std::string last_line() const;
  // Sends a signal, and wakes a stopped child, too. No effect after its end.
  void signal(int number);
  // Returns whether it ended within `timeout`.
  bool ends_within(std::chrono::milliseconds timeout);

 private:
  ChildProcess(const ChildStart& start, pid_t pid)
      : name_(start.name), log_(start.log), pid_(pid) {}

  const std::string name_, log_;
  const pid_t pid_;
  bool ended_ = false;
  int status_ = 0;  // from waitpid(2)
};

// Returns this process's variables for a child that is not a service, without those that begin with
// one of `without`.
std::vector<std::string> child_environment(const std::vector<std::string>& without);

}  // namespace leat
