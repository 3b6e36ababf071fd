// SPDX-License-Identifier: Apache-2.0
// ProgramStart: a program that finds descriptors where sd_listen_fds(3) says, in a process of its
// own or in place of this one.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/supervisor/descriptor_store.h"
#include "base/status.h"

namespace leat {

struct ProgramStart {
  std::string executable;              // path
  std::vector<std::string> arguments;  // argv, [0] included
  // Beside what this process has, less the variables of the protocol. The program gets LISTEN_PID,
  // LISTEN_FDS and LISTEN_FDNAMES too.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::span<const StoredDescriptor> descriptors = {};  // will be 3, 4, …
  int alive = -1;      // its place is LEAT_ALIVE_FD; none: no such thing
  int inherited = -1;  // keeps its number; only without `descriptors`, which might want that
  std::optional<rlimit> open_files = {};  // RLIMIT_NOFILE of the program, if it is another

  // Both only while this process has no other thread. What this process has open and is not listed
  // above the program gets where that is not close-on-exec, unless its number is taken.

  // In place of this process. Returns only why that was not possible; everything is as before then.
  Status execute() const;

  // In a child that leads a process group of its own, without blocked or ignored signals. Success
  // says nothing of the executable: a child that cannot execute it writes why to `alive` and ends
  // with 127.
  Result<pid_t> spawn() const;
};

}  // namespace leat
