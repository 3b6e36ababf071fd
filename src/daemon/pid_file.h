// SPDX-License-Identifier: Apache-2.0
// PidFile: ensures one daemon per runtime directory: a locked file with the process's number. The
// kernel releases the lock of a killed daemon, unless that cannot end (hung_daemon.h).
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

class PidFile {
 public:
  // Waits up to `timeout` for a daemon that is about to end. kBusy names the process that holds
  // the lock.
  static Result<PidFile> acquire(const std::string& path, std::chrono::milliseconds timeout);

  // Transfers the file with the lock.
  File take() && { return std::move(file_); }

 private:
  explicit PidFile(File file) : file_(std::move(file)) {}
  File file_;
};

}  // namespace leat
