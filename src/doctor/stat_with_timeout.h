// SPDX-License-Identifier: Apache-2.0
// stat(2) with a timeout, for a path on a file system that may hang (a dead server, a hanging
// daemon).
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace leat {

// Returns the errno of stat(2), or 0; nothing after `timeout`. A child process makes the call,
// since a process with a thread that hangs in such a file system cannot exit. On a timeout the
// child is left behind.
std::optional<int> stat_with_timeout(const std::string& path, std::chrono::milliseconds timeout);

}  // namespace leat
