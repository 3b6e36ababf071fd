// SPDX-License-Identifier: Apache-2.0
// StagedFile: the content of a file that programs write, in an unlinked file on a disk of this
// host. It begins with the bytes of a version, which are copied before the first change.
// Thread-safe; concurrent writes of the same bytes leave one of them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "runtime/context.h"
#include "runtime/disk.h"
#include "runtime/executor.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"
#include "vfs/file_system.h"

namespace leat {

class StagedFile {
 public:
  // Creates a file in `directory`, which must exist. `base`: the version to begin with, of `size`
  // bytes; null: nothing. `executor` must outlive the file. Blocks for a short time.
  static Result<std::shared_ptr<StagedFile>> create(const std::string& directory,
                                                    Executor& executor,
                                                    std::shared_ptr<OpenFile> base, uint64_t size);

  StagedFile(File file, Executor& executor, std::shared_ptr<OpenFile> base, uint64_t size)
      : file_(std::move(file)),
        executor_(executor),
        base_(std::move(base)),
        base_size_(size),
        filled_(base_ == nullptr) {}

  uint64_t size() const;
  // Number of changes so far. A caller that saved the content compares it to find later ones.
  uint64_t changes() const { return changes_.load(); }
  // Returns whether the content is in the file, and not in the version it began with.
  bool is_filled() const { return filled_.load(); }

  // Return at most `size` bytes from `offset`; fewer only at the end.
  std::optional<Bytes> try_read(uint64_t offset, uint64_t size);
  Task<Result<Bytes>> read(Context context, uint64_t offset, uint64_t size);

  Task<Result<>> write(Context context, uint64_t offset, Bytes data);
  Task<Result<>> truncate(Context context, uint64_t size);
  // As fallocate(2); kUnsupported for modes that move bytes.
  Task<Result<>> allocate(Context context, int mode, uint64_t offset, uint64_t size);
  // Copies the version it began with, unless that was done.
  Task<Result<>> fill(Context context);

 private:
  std::shared_ptr<OpenFile> base() const;
  Result<Bytes> read_now(uint64_t offset, uint64_t size) const;
  Result<> write_now(uint64_t offset, const Bytes& data);

  const File file_;
  Executor& executor_;
  mutable std::mutex mutex_;        // leaf: base_
  std::shared_ptr<OpenFile> base_;  // null once filled
  const uint64_t base_size_;
  std::atomic<bool> filled_;
  std::atomic<uint64_t> changes_ = 0;
  Semaphore filling_{1};
};

}  // namespace leat
