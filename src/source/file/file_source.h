// SPDX-License-Identifier: Apache-2.0
// FileSource: this host's file system as one bucket; keys are absolute paths without the leading
// slash. A version is (size, mtime, inode, ctime). Names are looked up on the FilePool, and a call
// that hangs is abandoned when its context ends. Bytes of local disks are read by io_uring straight
// into the caller's memory, those of network file systems on the FilePool. Each opened file is
// checked for its file system, since one tree spans many mounts.
//
// With FileAccess::kExact, a link or a special file is an object without bytes that can be read;
// its attributes have the type (posix()). A file with several names is written in place.
//
// Otherwise symbolic links are followed everywhere, as by a program that reads the directory
// itself: the file system's own permissions decide. Listings skip and count a link to a directory
// that contains the link, since it would make the tree endless. They also skip names that are
// neither file nor directory (dangling links, sockets, devices). stat returns kUnsupported for
// both.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "source/source.h"
#include "source/store_counters.h"

namespace leat {

enum class FileAccess : uint8_t {
  kByFileSystem,
  kExact,      // shows links and special files as such, for a mount that takes writes
  kAsNetwork,  // treats every file as if its file system might hang; for tests and benchmarks
};

// Returns the object at `key`; kNotFound for a directory unless the key ends in '/'. With kExact, a
// link is never a directory, but for the `root` of the mount. Blocks.
Result<SourceObject> stat_file(const std::string& key, FileAccess access,
                               const std::string& root = {});

class FileSource : public Source {
 public:
  static constexpr size_t kPageEntries = 1000;

  // `page_entries` bounds the pages of recursive listings; one level is always one page.
  // `io_timeout`: how long a call waits for a file system that hangs; max() or zero: no limit.
  // `root`: the key of a directory that may be a link, also with kExact.
  explicit FileSource(std::string_view salt = {}, size_t page_entries = kPageEntries,
                      FileAccess access = FileAccess::kByFileSystem,
                      Clock::duration io_timeout = Clock::duration::max(), std::string root = {});

  const StoreId& id() const override { return id_; }
  const std::string& name() const override { return name_; }
  const SourceCapabilities& capabilities() const override { return capabilities_; }
  // Twice the threads of FilePool: more would wait there, with their memory.
  unsigned concurrency_hint(uint64_t) const override { return 32; }

  Task<Result<SourceObject>> stat(Context context, StatRequest request) override;
  Task<Result<ListPage>> list(Context context, ListRequest request) override;
  // Cannot detect a writer that overwrites in place between the checks and restores size and both
  // times; restoring ctime needs a change of the clock.
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override;
  // Holds at most half of the descriptors that this process may have.
  Task<Result<SourceFilePtr>> open_file(Context context, OpenRequest request) override;

  // Written bytes lie beside the target as ".leat-…" until they are complete and durable. Such a
  // file left by a killed process may be deleted.
  Task<Result<SourceObject>> write(Context context, WriteRequest request,
                                   std::span<const std::byte> content) override;
  Result<ObjectWriterPtr> begin_write(WriteRequest request) override;
  Task<Result<SourceObject>> copy(Context context, CopyRequest request) override;
  Task<Result<>> rename(Context context, RenameRequest request) override;
  Task<Result<SourceObject>> set_attributes(Context context, AttributesRequest request) override;
  Task<Result<>> remove(Context context, RemoveRequest request) override;
  // Null unless the access is kExact.
  PosixFiles* posix() override { return posix_.get(); }

 private:
  Context bounded(Context context) const;

  const size_t page_entries_;
  const FileAccess access_;
  const Clock::duration io_timeout_;
  const std::string root_;
  const std::string name_ = "file://";
  const StoreId id_;
  const std::shared_ptr<StoreCounters> counters_;  // shared with writers
  const SourceCapabilities capabilities_{.conditional_read = false,
                                         .real_directories = true,
                                         .writes = true,
                                         .write_if_absent = true,
                                         .copies = true,
                                         .renames = true,
                                         .removes_max = 1000,
                                         .attributes = true,
                                         .sets_attributes = true};
  const std::unique_ptr<PosixFiles> posix_;
  std::once_flag skipped_logged_;
};

}  // namespace leat
