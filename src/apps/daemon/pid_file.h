// SPDX-License-Identifier: Apache-2.0
// PidFile: one daemon per runtime directory: a locked file with the process's number in it. The
// lock is the kernel's, so a daemon that was killed leaves nothing that is in the way, unless it
// cannot end (dead_daemon.h).
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

class PidFile {
 public:
  // Waits up to `patience` for a daemon that is just ending. kBusy names the process that has it.
  static Result<PidFile> acquire(const std::string& path, std::chrono::milliseconds patience);

  // The lock goes with it, whoever has it then.
  File take() && { return std::move(file_); }

 private:
  explicit PidFile(File file) : file_(std::move(file)) {}
  File file_;
};

}  // namespace leat
