// SPDX-License-Identifier: Apache-2.0
#include "runtime/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <optional>
#include <string>

#include "runtime/io_ring.h"
#include "runtime/page_cache.h"
#include "runtime/shared_promise.h"

namespace leat {

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

// One io_uring request moves at most this much; the kernel's own limit is 2 GiB − 4 KiB.
constexpr size_t kRequestBytesMax = size_t{1} << 30;
// Writes from this size on bypass the page cache. For smaller ones an extra request costs more.
constexpr size_t kDirectBytesMin = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;

bool page_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kPageBytes == 0;
}

// Returns the leading parts that one call can write directly to the device, in whole pages. Returns
// none if they have less than a MiB.
std::vector<iovec> direct_part(std::span<const iovec> parts, uint64_t offset) {
  std::vector<iovec> direct;
  size_t bytes = 0;
  if (offset % kPageBytes != 0) return direct;
  for (const iovec& part : parts) {
    const size_t whole = part.iov_len / kPageBytes * kPageBytes;
    if (!page_aligned(part.iov_base) || whole == 0 || direct.size() == IOV_MAX) break;
    direct.push_back({part.iov_base, whole});
    bytes += whole;
    if (whole != part.iov_len) break;
  }
  if (bytes < kDirectBytesMin) direct.clear();
  return direct;
}

// Writes whole pages directly to the device. Returns the number of bytes, or nothing if that is not
// possible (too few, not aligned, not on this file system).
std::optional<ssize_t> write_directly(int fd, std::span<const iovec> parts, uint64_t offset) {
  const std::vector<iovec> direct = direct_part(parts, offset);
  if (direct.empty()) return std::nullopt;
  // A separate open file description, since O_DIRECT would also apply to readers of `fd`.
  const std::string self = fmt::format("/proc/self/fd/{}", fd);
  const File file(::open(self.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  if (!file) return std::nullopt;
  const ssize_t moved = ::pwritev(file.fd(), direct.data(), static_cast<int>(direct.size()),
                                  static_cast<off_t>(offset));
  if (moved < 0 && errno == EINVAL) return std::nullopt;
  return moved;
}

ssize_t write_some(int fd, std::span<const iovec> parts, uint64_t offset) {
  if (auto moved = write_directly(fd, parts, offset)) return *moved;
  return ::pwrite(fd, parts[0].iov_base, std::min(parts[0].iov_len, kRequestBytesMax),
                  static_cast<off_t>(offset));
}

// Writes all parts; returns 0 or the errno.
int write_all(int fd, std::vector<iovec> parts, uint64_t offset) {
  for (size_t first = 0; first < parts.size();) {
    ssize_t moved = write_some(fd, std::span(parts).subspan(first), offset);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : ENOSPC;
    offset += static_cast<uint64_t>(moved);
    auto left = static_cast<size_t>(moved);
    while (first < parts.size() && left >= parts[first].iov_len) left -= parts[first++].iov_len;
    if (left == 0) continue;
    parts[first].iov_base = static_cast<std::byte*>(parts[first].iov_base) + left;
    parts[first].iov_len -= left;
  }
  return 0;
}

// Reads until `into` is full or the file ends; returns the bytes, or -errno.
ssize_t read_all(int fd, std::span<std::byte> into, uint64_t offset) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        ::pread(fd, into.data() + done, std::min(into.size() - done, kRequestBytesMax),
                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) break;
    done += static_cast<size_t>(got);
    if (done % kPageBytes != 0) break;  // end of file: direct reads need whole pages
  }
  return static_cast<ssize_t>(done);
}

// Returns nothing if the file system or the alignment does not allow direct reads.
std::optional<ssize_t> read_directly(int fd, std::span<std::byte> into, uint64_t offset) {
  const bool aligned = page_aligned(into.data()) && into.size() % kPageBytes == 0;
  if (!aligned || offset % kPageBytes != 0) return std::nullopt;
  const std::string self = fmt::format("/proc/self/fd/{}", fd);
  const File file(::open(self.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!file) return std::nullopt;
  const ssize_t got = read_all(file.fd(), into, offset);
  if (got == -EINVAL) return std::nullopt;
  return got;
}

class SystemDisk : public Disk {
 public:
  explicit SystemDisk(unsigned threads)
      : threads_("leat-cache", threads), ring_(IoRing::create()) {}

  BlockingPool& threads() override { return threads_; }

  Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                            uint64_t offset) override {
    size_t done = 0;
    while (done < into.size()) {
      auto rest = into.subspan(done, std::min(into.size() - done, kRequestBytesMax));
      Result<size_t> step = co_await read_some(context, fd, rest, offset + done);
      if (!step) co_return step;
      if (*step == 0) break;
      done += *step;
    }
    co_return done;
  }

  Result<> write_now(int fd, const Bytes& data, uint64_t offset) override {
    int failed = write_all(fd, data.to_iovec(), offset);
    if (failed != 0) return error(status_from_errno(failed, "write to the cache disk"));
    return {};
  }

  Result<size_t> read_now(int fd, std::span<std::byte> into, uint64_t offset) override {
    std::optional<ssize_t> got = read_directly(fd, into, offset);
    if (!got) {
      // Dirty pages stay cached; the others are read from the device again.
      ::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(into.size()),
                      POSIX_FADV_DONTNEED);
      got = read_all(fd, into, offset);
    }
    if (*got < 0) {
      return error(status_from_errno(static_cast<int>(-*got), "read from the cache disk"));
    }
    return static_cast<size_t>(*got);
  }

  Result<> sync_now(int fd) override {
    return checked(::fdatasync(fd), "fdatasync on the cache disk", "");
  }

  std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) override {
    iovec vector{into.data(), into.size()};
    ssize_t got = ::preadv2(fd, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got != static_cast<ssize_t>(into.size())) return std::nullopt;
    return static_cast<size_t>(got);
  }

  bool is_cold(int fd, uint64_t offset, uint64_t size) override {
    return cached_bytes(fd, offset, size) == 0;
  }

  Result<uint64_t> read_ahead(int fd, uint64_t offset, uint64_t size) override {
    const uint64_t cold = size - std::min(size, cached_bytes(fd, offset, size).value_or(0));
    // Leave a mostly cached range to the kernel's own read-ahead. Requesting the rest made three
    // requests of one and more reads wait (12,000 × 110 KB in the order of a segment).
    if (cold * 2 < size || cold == 0) return 0;
    // One call starts at most one device request or the size of the kernel's read-ahead.
    for (uint64_t done = 0; done < size;) {
      const int failed = ::posix_fadvise(fd, static_cast<off_t>(offset + done),
                                         static_cast<off_t>(size - done), POSIX_FADV_WILLNEED);
      if (failed != 0) return error(status_from_errno(failed, "read ahead from the cache disk"));
      const uint64_t taken = cached_bytes(fd, offset + done, size - done).value_or(0);
      if (taken == 0) break;
      done += taken;
    }
    return cold;
  }

  Result<File> open(const std::string& path, int flags, mode_t mode) override {
    int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd < 0) return error(status_from_errno(errno, "open " + path));
    return File(fd);
  }

  Result<> unlink(const std::string& path) override {
    return checked(::unlink(path.c_str()), "unlink ", path);
  }
  Result<> rename(const std::string& from, const std::string& to) override {
    return checked(::rename(from.c_str(), to.c_str()), "rename to ", to);
  }
  Result<> truncate(int fd, uint64_t size) override {
    return checked(::ftruncate(fd, static_cast<off_t>(size)), "set the size of a cache file", "");
  }
  Result<> make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
    return error(status_from_errno(errno, "create directory " + path));
  }
  Result<> sync_directory(const std::string& path) override {
    LEAT_TRY(File directory, open(path, O_RDONLY | O_DIRECTORY, 0));
    return checked(::fsync(directory.fd()), "fsync directory ", path);
  }

  Result<std::vector<DirectoryItem>> list_directory(const std::string& path) override {
    std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (!directory) return error(status_from_errno(errno, "list directory " + path));
    std::vector<DirectoryItem> items;
    errno = 0;
    while (dirent* entry = ::readdir(directory.get())) {  // NOLINT(concurrency-mt-unsafe)
      std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info;
      if (::fstatat(dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) return error(status_from_errno(errno, "stat of an item of " + path));
        errno = 0;  // removed in the meantime
        continue;
      }
      items.push_back({std::move(name), S_ISDIR(info.st_mode), static_cast<uint64_t>(info.st_size),
                       static_cast<uint64_t>(info.st_blocks) * 512,
                       info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
      errno = 0;
    }
    if (errno != 0) return error(status_from_errno(errno, "list directory " + path));
    return items;
  }

  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override {
    LEAT_TRY(File file, open(path, O_RDONLY, 0));
    struct stat info;
    if (::fstat(file.fd(), &info) != 0) return error(status_from_errno(errno, "stat " + path));
    Buffer content(std::min(bytes_max, static_cast<size_t>(info.st_size)));
    size_t done = 0;
    while (done < content.size()) {
      ssize_t got = ::pread(file.fd(), content.data() + done, content.size() - done,
                            static_cast<off_t>(done));
      if (got < 0) return error(status_from_errno(errno, "read " + path));
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    content.truncate(done);
    return content;
  }

  Result<DiskUsage> usage(const std::string& path) override {
    struct statvfs info;
    if (::statvfs(path.c_str(), &info) != 0) {
      return error(status_from_errno(errno, "ask for free space of " + path));
    }
    return DiskUsage{info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize};
  }

 private:
  static Result<> checked(int result, const char* what, const std::string& path) {
    if (result == 0) return {};
    int failed = errno;
    return error(status_from_errno(failed, what + path));
  }

  // Reads with one system call. Once started it is completed, whatever the context: the buffer
  // belongs to the kernel until then.
  Task<Result<size_t>> read_some(Context context, int fd, std::span<std::byte> bytes,
                                 uint64_t offset) {
    LEAT_CO_CHECK_OK(context.check("a read from the cache disk"));
    auto outcome = SharedPromise<int>::make();
    IoRing::Completion completion = [outcome](int result) { outcome->set(result); };
    auto size = static_cast<unsigned>(bytes.size());
    int got;
    if (ring_ && ring_->read(fd, bytes.data(), size, offset, completion)) {
      got = *co_await outcome->wait(Context::background(), "disk input");
    } else {
      auto read = [=]() -> Result<int> {
        ssize_t moved = ::pread(fd, bytes.data(), size, static_cast<off_t>(offset));
        return moved < 0 ? -errno : static_cast<int>(moved);
      };
      LEAT_CO_TRY(got, co_await threads_.run(read));
    }
    if (got < 0) co_return Error(status_from_errno(-got, "read from the cache disk"));
    co_return static_cast<size_t>(got);
  }

  BlockingPool threads_;
  std::unique_ptr<IoRing> ring_;
};

}  // namespace

Task<Result<>> Disk::write(Context context, int fd, Bytes data, uint64_t offset) {
  LEAT_CO_CHECK_OK(context.check("a write to the cache disk"));
  co_return co_await threads().run(
      [this, fd, &data, offset] { return write_now(fd, data, offset); });
}

Task<Result<>> Disk::sync(Context context, int fd) {
  LEAT_CO_CHECK_OK(context.check("a sync of the cache disk"));
  co_return co_await threads().run([this, fd] { return sync_now(fd); });
}

std::shared_ptr<Disk> make_disk(Executor& executor) {
  return std::make_shared<SystemDisk>(executor.blocking_threads());
}

}  // namespace leat
