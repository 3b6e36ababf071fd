// SPDX-License-Identifier: Apache-2.0
// StagedFile: the content of a file that programs write, in an unlinked file on a disk of this
// host. It begins with the bytes of a version, which are copied before the first change. A sealed
// one changes no more, and is durable under a name until it is in the store.
// Thread-safe; concurrent writes of the same bytes leave one of them.
#pragma once

#include <atomic>
#include <functional>
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

  // Opens a sealed content; blocks.
  using Reopen = std::function<Result<File>()>;
  // Returns a sealed content of `size` bytes, which `reopen` opens when it is read.
  static std::shared_ptr<StagedFile> sealed(Executor& executor, uint64_t size, Reopen reopen);
  // Returns a file without a name in `directory`.
  static Result<File> create_unlinked(const std::string& directory);

  StagedFile(File file, Executor& executor, std::shared_ptr<OpenFile> base, uint64_t size)
      : executor_(executor),
        file_(file ? std::make_shared<const File>(std::move(file)) : nullptr),
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

  // Changes. They return false, and do nothing, if the content is sealed.
  Task<Result<bool>> write(Context context, uint64_t offset, Bytes data);
  Task<Result<bool>> truncate(Context context, uint64_t size);
  // As fallocate(2); kUnsupported for modes that move bytes.
  Task<Result<bool>> allocate(Context context, int mode, uint64_t offset, uint64_t size);
  // Copies the version it began with, unless that was done.
  Task<Result<>> fill(Context context);

  // Makes the content final, after all changes that have begun. `keep` makes it durable, and
  // returns how to open it again; it may block. After a failure the content is not sealed.
  Task<Result<>> seal(Context context, std::function<Result<Reopen>(const File&, uint64_t)> keep);
  bool is_sealed() const { return sealed_.load(); }
  // Closes a sealed content until its next read.
  void park();
  // Opens it for good, since its name will go.
  Task<Result<>> keep_open();

 private:
  using FilePtr = std::shared_ptr<const File>;

  // Returns the open file; opens a parked one, which blocks.
  Result<FilePtr> open_file();
  FilePtr opened() const;
  // Runs a change that may block, unless the content is sealed.
  Task<Result<bool>> change(Context context, std::function<Result<>(int fd)> call);
  std::shared_ptr<OpenFile> base() const;
  Result<Bytes> read_now(uint64_t offset, uint64_t size);
  static Result<> write_now(int fd, uint64_t offset, const Bytes& data);

  Executor& executor_;
  mutable std::mutex mutex_;  // leaf: the next four
  FilePtr file_;              // null while parked
  Reopen reopen_{};
  bool stays_open_ = false;
  std::shared_ptr<OpenFile> base_;  // null once filled
  const uint64_t base_size_;
  std::atomic<bool> filled_;
  std::atomic<uint64_t> changes_ = 0;
  Semaphore filling_{1};
  // Each change takes one, sealing takes all.
  static constexpr uint64_t kChangesMax = 1 << 16;
  Semaphore changing_{kChangesMax};
  std::atomic<bool> sealed_ = false;
  std::atomic<uint64_t> sealed_size_ = 0;
};

// SealedFile: a sealed content as the version that another staged file begins with.
class SealedFile : public OpenFile {
 public:
  explicit SealedFile(std::shared_ptr<StagedFile> content) : content_(std::move(content)) {}

  NodeId node() const override { return 0; }
  const FileRefPtr& ref() const override { return no_ref_; }
  std::optional<Bytes> try_read(uint64_t offset, uint64_t size) override {
    return content_->try_read(offset, size);
  }
  Task<Result<Bytes>> read(Context context, uint64_t offset, uint64_t size) override {
    return content_->read(std::move(context), offset, size);
  }
  std::shared_ptr<BackingFile> backing() override { return nullptr; }
  void record_open(uint32_t, int32_t) override {}

 private:
  const FileRefPtr no_ref_ = nullptr;
  const std::shared_ptr<StagedFile> content_;
};

}  // namespace leat
