// SPDX-License-Identifier: Apache-2.0
// SourceFile: an object that is a file on this host's own disks, open in one version: where its
// store has it, or in the cache of another process. Reading it costs what reading our cache costs,
// so nobody has to copy it there first. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class SourceFile {
 public:
  virtual ~SourceFile() = default;

  // Opened O_RDONLY, the version it was opened in; others may change the file in place meanwhile.
  virtual int fd() const = 0;
  virtual uint64_t size() const = 0;
  // That nobody does: the kernel may read it by itself.
  virtual bool immutable() const { return false; }

  // All of `into` from `offset` on, without ever waiting: whether it was in memory and is still the
  // version that was opened. What `into` holds otherwise means nothing.
  virtual bool try_read(uint64_t offset, std::span<std::byte> into) = 0;
  // The same from the disk. kChanged when the file is not the version any more that was opened,
  // kOutOfRange beyond its end. `into` is not touched any more once the task has ended.
  virtual Task<Result<>> read(Context context, uint64_t offset, std::span<std::byte> into) = 0;
};

using SourceFilePtr = std::shared_ptr<SourceFile>;

}  // namespace leat
