// SPDX-License-Identifier: Apache-2.0
// ProbeConnection: a temporary FUSE connection for queries; ends with its object.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"

namespace leat {

struct ProbeOptions {
  std::string device;
  std::string fusermount;        // a name in PATH, or a path
  bool try_direct_mount = true;  // false: by fusermount3 only
  std::chrono::milliseconds timeout;
};

class ProbeConnection {
 public:
  // With CAP_SYS_ADMIN, creates a file system that is never mounted, so that no program can see or
  // use it. Otherwise fusermount3 mounts it at a directory that only this user may enter. Blocks.
  static Result<std::unique_ptr<ProbeConnection>> open(const ProbeOptions& options);
  // Ends the connection. It leaves nothing behind, even if the process is killed before.
  virtual ~ProbeConnection() = default;

  // Returns the non-blocking descriptor of the device.
  virtual int fd() const = 0;
};

}  // namespace leat
