// SPDX-License-Identifier: Apache-2.0
// Starts the host's daemon from the command line, and reports whether it came up.
#pragma once

#include <map>
#include <string>

#include "apps/cli/command/command.h"

namespace leat {

struct DaemonStart {
  std::string runtime;
  std::string config;                           // file; empty: the default ones
  std::map<std::string, std::string> settings;  // option of the daemon → value
};

// Starts `leat daemon` in a session of its own, with its log in the runtime directory. Returns when
// it serves its control socket, or the error of its start.
CommandResult<> start_daemon(const DaemonStart& start);

// The daemon's side: reports the outcome to the process that started it through `fd`, and closes
// that. Does nothing for fd < 0.
void report_ready(int fd, const Result<>& outcome);

}  // namespace leat
