// SPDX-License-Identifier: Apache-2.0
// SourceFile: an object that is a file on this host's own disks, opened in one version. The file is
// either where its store has it, or in the cache of another process. A read costs what a read of
// the own cache costs, so the object need not be cached again. Thread-safe.
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

  // Opened O_RDONLY in one version. Other processes may still change the file in place.
  virtual int fd() const = 0;
  virtual uint64_t size() const = 0;
  // Whether no process changes the file in place: the kernel may read it by itself (passthrough).
  virtual bool immutable() const { return false; }

  // Fills `into` from `offset` on without ever waiting. Returns whether all bytes were in memory
  // and still of the opened version. On false the content of `into` is undefined.
  virtual bool try_read(uint64_t offset, std::span<std::byte> into) = 0;
  // Like try_read(), but reads from the disk. Returns kVersionChanged if the file no longer has the
  // opened version, kOutOfRange beyond its end. `into` is not written after the task ended.
  virtual Task<Result<>> read(Context context, uint64_t offset, std::span<std::byte> into) = 0;
};

using SourceFilePtr = std::shared_ptr<SourceFile>;

}  // namespace leat
