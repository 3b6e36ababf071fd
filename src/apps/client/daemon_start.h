// SPDX-License-Identifier: Apache-2.0
// Starting the host's daemon from the command line, and hearing from it whether it came up.
#pragma once

#include <map>
#include <string>

#include "apps/command.h"

namespace leat {

struct DaemonStart {
  std::string runtime;
  std::string config;                           // file; empty: the default ones
  std::map<std::string, std::string> settings;  // option of the daemon → value
};

// Starts `leat daemon` in a session of its own, its log in the runtime directory, and returns when
// it serves its control socket. What it failed with otherwise.
Attempt<> start_daemon(const DaemonStart& start);

// The daemon's side: tells the process that started it, through the descriptor that it was given,
// and closes that. Does nothing for fd < 0.
void report_ready(int fd, const Result<>& outcome);

}  // namespace leat
