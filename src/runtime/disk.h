// SPDX-License-Identifier: Apache-2.0
// Disk: all system calls of the page store on its directories, behind one interface, so that tests
// can inject faults. Reads use io_uring if the kernel allows it. Other blocking calls use threads
// of the disk.
//
// A call that hangs delays no other request. The destructor does not wait for it; the coroutine
// that waits for the call lives until it returns. Thread-safe.
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

// An owned file descriptor.
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

  // The pool for all blocking calls on this disk.
  virtual BlockingPool& threads() = 0;

  // These move data and may wait. Reads until `into` is full or the file ends; returns the bytes
  // read.
  virtual Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                                    uint64_t offset) = 0;
  // Run write_now() and sync_now() on threads(). io_uring would use kernel threads for both, at the
  // same cost and without our bound. A call that has started is completed, whatever the context.
  Task<Result<>> write(Context context, int fd, Bytes data, uint64_t offset);
  Task<Result<>> sync(Context context, int fd);

  // The same on the calling thread, which blocks. Writes all of `data`. Parts of 1 MiB or more
  // bypass the page cache if possible (O_DIRECT). That halves the CPU cost, reports errors at once,
  // and displaces no cached pages.
  virtual Result<> write_now(int fd, const Bytes& data, uint64_t offset) = 0;
  // Reads from the device, bypassing the page cache if the file system allows it. `into` is whole
  // pages, and `offset` a page boundary. Returns fewer bytes only at the end of the file.
  virtual Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) = 0;
  // fdatasync.
  virtual Result<> sync_now(int fd) = 0;

  // Reads only from the page cache (RWF_NOWAIT) and never waits. Returns the number of bytes, or
  // nothing unless all of `into` is available at once.
  virtual std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) = 0;

  // Returns whether no byte of a range is in the page cache. False if the kernel cannot tell
  // (before 6.5).
  virtual bool is_cold(int fd, uint64_t offset, uint64_t size) {
    static_cast<void>(fd);
    static_cast<void>(offset);
    static_cast<void>(size);
    return false;
  }

  // Starts reading a range into the page cache. Does not wait for the device, but may wait for
  // memory or for space in its queue. Returns the bytes that were missing. If less than half of the
  // range is missing, does nothing and returns 0.
  virtual Result<uint64_t> read_ahead(int fd, uint64_t offset, uint64_t size) {
    static_cast<void>(fd);
    static_cast<void>(offset);
    static_cast<void>(size);
    return 0;  // no page cache to fill
  }

  // Metadata: short calls that may block. Coroutines call them on threads().
  virtual Result<File> open(const std::string& path, int flags, mode_t mode) = 0;
  virtual Result<> unlink(const std::string& path) = 0;
  virtual Result<> rename(const std::string& from, const std::string& to) = 0;
  virtual Result<> truncate(int fd, uint64_t size) = 0;
  virtual Result<> make_directory(const std::string& path) = 0;
  virtual Result<> sync_directory(const std::string& path) = 0;
  virtual Result<std::vector<DirectoryItem>> list_directory(const std::string& path) = 0;
  // Returns the first `bytes_max` bytes of a small file, or all of it if it is shorter.
  virtual Result<Buffer> read_file(const std::string& path, size_t bytes_max) = 0;
  virtual Result<DiskUsage> usage(const std::string& path) = 0;
};

// Creates the real one: a ring, and as many threads of its own as `executor` has for blocking
// calls.
std::shared_ptr<Disk> make_disk(Executor& executor);

}  // namespace leat
