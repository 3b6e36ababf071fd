// SPDX-License-Identifier: Apache-2.0
// ProbeConnection: a FUSE connection that is there to be asked things, and gone with its object.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"

namespace leat {

struct ProbeOptions {
  std::string device;
  std::string fusermount;  // a name that is looked for in PATH, or a path
  bool by_itself = true;   // false: by fusermount3 only
  std::chrono::milliseconds patience;
};

class ProbeConnection {
 public:
  // With CAP_SYS_ADMIN a file system that is never mounted, so that nobody can see or use it; else
  // by fusermount3, at a folder that only this user may enter. Blocks.
  static Result<std::unique_ptr<ProbeConnection>> open(const ProbeOptions& options);
  // Ends the connection; nothing of it is left, also where the process is killed before.
  virtual ~ProbeConnection() = default;

  // Of the device, which does not block.
  virtual int fd() const = 0;
};

}  // namespace leat
