// SPDX-License-Identifier: Apache-2.0
// ProgramStart: starts a program that receives descriptors in the protocol of sd_listen_fds(3), in
// a child process or in place of this one.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "supervisor/fd_store_server.h"

namespace leat {

struct ProgramStart {
  std::string executable;              // path
  std::vector<std::string> arguments;  // argv, including [0]
  // Added to the environment of this process without the protocol's variables. The program also
  // gets LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::span<const StoredFd> descriptors = {};  // become 3, 4, …
  int alive = -1;                              // passed as LEAT_ALIVE_FD; -1: none
  int inherited = -1;  // keeps its number; only without `descriptors`, which might need that number
  std::optional<rlimit> open_files = {};  // RLIMIT_NOFILE of the program, if it differs

  // Call both only while this process has no other thread. The program inherits other open
  // descriptors of this process unless they are close-on-exec or their number is taken.

  // Replaces this process. Returns only on failure, with the reason; the process is unchanged then.
  Status execute() const;

  // Starts a child that leads its own process group, without blocked or ignored signals. Success
  // does not cover execve: a child that fails there writes the reason to `alive` and exits with
  // 127.
  Result<pid_t> spawn() const;
};

}  // namespace leat
