// SPDX-License-Identifier: Apache-2.0
// StagedFile: the content of a file that programs write, in an unlinked file on a disk of this
// host. It begins with the bytes of a version, which are copied before the first change. A kept one
// is durable until it is in the store; a sealed one is kept, and changes no more.
// Thread-safe; concurrent writes of the same bytes leave one of them.
//
// The kernel may write to it by itself (FUSE passthrough). Such changes are found by the time of
// the file and, in small files, by a checksum. A mapping that is written sets the time only when
// its pages are clean; seal() cleans those of larger files. A content that the kernel writes to is
// kept as it is, and sealed when that ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "cache/page_store.h"
#include "model/file_info.h"
#include "runtime/context.h"
#include "runtime/disk.h"
#include "runtime/executor.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"
#include "vfs/file_system.h"
#include "vfs/writing/staged/changed_ranges.h"
#include "vfs/writing/staged/ordered_writes.h"

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
  // Returns whether the times of files in `directory` tell any two changes apart, as direct writes
  // need (multigrain timestamps: Linux 6.13, and ext4, XFS, Btrfs or tmpfs).
  static bool has_exact_times(const std::string& directory);

  StagedFile(File file, Executor& executor, std::shared_ptr<OpenFile> base, uint64_t size)
      : executor_(executor),
        file_(file ? std::make_shared<const File>(std::move(file)) : nullptr),
        base_(std::move(base)),
        base_size_(size),
        filled_(base_ == nullptr) {
    ordered_ = OrderedWrites(base_ == nullptr);
  }

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

  // The content is that of this version, and no change has begun.
  void set_version(Version version);
  // Around each save: returns what the store has already, by the last version that was set or
  // saved. `saved`: the version with the content of this save, with `size` bytes.
  UnchangedRanges begin_save();
  void end_save(const std::optional<Version>& saved, uint64_t size);

  // For an upload that begins before the first save (OrderedWrites). written_in_order() is 0 where
  // none can begin, and from the first save on.
  uint64_t written_in_order() const;
  void end_order();
  std::optional<ByteRange> take_part(uint64_t size);
  std::optional<ByteRange> take_rest(uint64_t size);
  bool is_order_intact() const;

  // Seals the content, after all changes that have begun; one that the kernel writes to is only
  // kept. `keep` makes it durable, with the page tables of its mappings clean, and returns how to
  // open it again; it may block. After a failure the content is as it was.
  Task<Result<>> seal(Context context, std::function<Result<Reopen>(const File&, uint64_t)> keep);
  bool is_sealed() const { return sealed_.load(); }
  // Returns whether it was kept, and not changed since.
  bool is_kept() const;
  // changes() when it was kept last.
  uint64_t kept_changes() const;
  // Its size when it was kept last; 0: never.
  uint64_t kept_size() const;
  // Closes a sealed content until its next read.
  void park();
  // Opens it for good, since its name will go.
  Task<Result<>> keep_open();

  // Lets the kernel write to the file until the result is destroyed. Null if the content is sealed,
  // or not filled.
  static std::shared_ptr<BackingFile> write_directly(const std::shared_ptr<StagedFile>& content);
  bool is_direct() const;
  // Writes the file to the disk, after which its mappings are clean.
  Task<Result<>> synchronise();
  // Counts what the kernel wrote since the last call as one change, and returns its time; nothing:
  // it wrote nothing.
  std::optional<WallTime> note_direct_writes();
  // Returns the time of what note_direct_writes() would count.
  std::optional<WallTime> direct_write_time() const;
  // Returns a sealed copy, without a name, of a content that may change meanwhile; blocks. Changes
  // during three attempts may be in it in part.
  Result<std::shared_ptr<StagedFile>> copy_to(const std::string& directory);

 private:
  class DirectWrites;

  using FilePtr = std::shared_ptr<const File>;

  // The marks that a change by the kernel leaves.
  struct Traces {
    WallTime mtime{};
    uint64_t size = 0;
    uint32_t crc = 0;  // of a small file

    bool operator==(const Traces&) const = default;
  };
  static Traces traces_of(const File& file, bool with_crc);

  // Returns the open file; opens a parked one, which blocks.
  Result<FilePtr> open_file();
  FilePtr opened() const;
  // Runs a change that may block, unless the content is sealed.
  // `note` is called before it and when it is `done`, so that a save meanwhile misses nothing. The
  // caller holds the mutex.
  using Note = std::function<void(StagedFile& self, bool done)>;
  Task<Result<bool>> change(Context context, Note note, std::function<Result<>(int fd)> call);
  void note_change(const Note& note, bool done);
  std::shared_ptr<OpenFile> base() const;
  Result<Bytes> read_now(uint64_t offset, uint64_t size);
  static Result<> write_now(int fd, uint64_t offset, const Bytes& data);
  void end_direct_writes();
  uint64_t changes_now();  // with those of the kernel
  // With the mutex.
  void note_traces();
  void seal_if_final();

  Executor& executor_;
  mutable std::mutex mutex_;  // leaf: down to base_
  ChangedRanges changed_{};
  OrderedWrites ordered_{false};
  FilePtr file_;  // null while parked
  Reopen reopen_{};
  uint64_t kept_size_ = 0, kept_changes_ = 0;
  unsigned direct_ = 0;                   // holders of direct writes
  Traces noted_{};                        // of the kernel's writes so far
  std::optional<WallTime> noted_time_{};  // of the last one; nothing: it was returned
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
