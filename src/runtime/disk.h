// SPDX-License-Identifier: Apache-2.0
// Disk: every system call that the page store makes on its directories, behind one interface so
// that faults can be wrapped around it. Reads go by io_uring where the kernel allows it, what else
// may block by threads of the disk's own. One that hangs holds up nothing but its own calls; its
// end does not wait for them, and whoever waits for one lives until it comes back. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "runtime/blocking_pool.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

// An owned descriptor.
class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~File();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct DiskUsage {
  uint64_t total_bytes;  // of the file system
  uint64_t free_bytes;   // for this user
};

struct DirectoryItem {
  std::string name;
  bool is_directory;
  uint64_t size_bytes;
  uint64_t allocated_bytes;  // st_blocks × 512
  int64_t modified_ns;       // mtime, nanoseconds since the epoch
};

class Disk {
 public:
  virtual ~Disk() = default;

  // For everything that blocks on this disk's behalf.
  virtual BlockingPool& threads() = 0;

  // These move data and may wait.
  // Reads until `into` is full or the file ends; returns the bytes read.
  virtual Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                                    uint64_t offset) = 0;
  // As write_now() and sync_now(), on threads(): io_uring would hand both to threads of the kernel,
  // which costs the same and is not bounded by us. Once a thread has taken it it is seen through.
  Task<Result<>> write(Context context, int fd, Bytes data, uint64_t offset);
  Task<Result<>> sync(Context context, int fd);

  // The same on the caller's thread, which blocks.
  // Writes all of `data`. Pieces of a MiB and more go around the page cache where they can: that
  // costs half the CPU, an error is known at once, and what is read next is not pushed out of
  // memory.
  virtual Result<> write_now(int fd, const Bytes& data, uint64_t offset) = 0;
  // Reads what the device holds, past what the kernel remembers where the file system lets it: into
  // whole pages, from a page on. Fewer bytes only at the end.
  virtual Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) = 0;
  // fdatasync.
  virtual Result<> sync_now(int fd) = 0;

  // Reads only what is in the page cache (RWF_NOWAIT) and never waits: the number of bytes, or
  // nothing where the whole of `into` could not be had at once.
  virtual std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) = 0;

  // Whether the page cache has nothing of a range; not where the kernel does not tell (before 6.5).
  virtual bool is_cold(int fd, uint64_t offset, uint64_t size) {
    static_cast<void>(fd);
    static_cast<void>(offset);
    static_cast<void>(size);
    return false;
  }

  // Begins to bring a range into the page cache and does not wait for the device, but it may for
  // memory or a place in its queue. The bytes that were not there; 0, and nothing is done, where
  // that is less than half of them.
  virtual Result<uint64_t> read_ahead(int fd, uint64_t offset, uint64_t size) {
    static_cast<void>(fd);
    static_cast<void>(offset);
    static_cast<void>(size);
    return 0;  // of one without a page cache
  }

  // Metadata: short, but they may block. Called on threads() wherever somebody waits.
  virtual Result<File> open(const std::string& path, int flags, mode_t mode) = 0;
  virtual Result<> unlink(const std::string& path) = 0;
  virtual Result<> rename(const std::string& from, const std::string& to) = 0;
  virtual Result<> truncate(int fd, uint64_t size) = 0;
  virtual Result<> make_directory(const std::string& path) = 0;
  virtual Result<> sync_directory(const std::string& path) = 0;
  virtual Result<std::vector<DirectoryItem>> list_directory(const std::string& path) = 0;
  // The first `bytes_max` bytes of a small file, or all of it where it is shorter.
  virtual Result<Buffer> read_file(const std::string& path, size_t bytes_max) = 0;
  virtual Result<DiskUsage> usage(const std::string& path) = 0;
};

// The real one, with a ring and up to as many threads of its own as `executor` has for calls that
// block.
std::shared_ptr<Disk> make_disk(Executor& executor);

}  // namespace leat
