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
#include <cstdio>
#include <optional>
#include <string>

#include "runtime/io_ring.h"
#include "runtime/shared_result.h"

namespace leat {

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

// One io_uring request moves at most this much; the kernel's own limit is 2 GiB − 4 KiB.
constexpr size_t kRequestBytesMax = size_t{1} << 30;
// From here on a write goes around the page cache; below, one more request would cost more.
constexpr size_t kDirectBytesMin = size_t{1} << 20;
constexpr size_t kPageBytes = 4096;

// Whole pages straight from `bytes` to the device, as many as there are: their number of bytes, or
// nothing where that is not possible (too few, not aligned, not on this file system).
std::optional<ssize_t> write_directly(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  const size_t size = bytes.size() / kPageBytes * kPageBytes;
  const bool aligned =
      offset % kPageBytes == 0 && reinterpret_cast<uintptr_t>(bytes.data()) % kPageBytes == 0;
  if (size < kDirectBytesMin || !aligned) return std::nullopt;
  // A description of its own, since the flag would bind the readers of this one, too.
  const std::string self = fmt::format("/proc/self/fd/{}", fd);
  const File direct(::open(self.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  if (!direct) return std::nullopt;
  const ssize_t moved = ::pwrite(direct.fd(), bytes.data(), size, static_cast<off_t>(offset));
  if (moved < 0 && errno == EINVAL) return std::nullopt;
  return moved;
}

ssize_t write_some(int fd, std::span<const std::byte> bytes, uint64_t offset) {
  if (auto moved = write_directly(fd, bytes, offset)) return *moved;
  return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}

class SystemDisk : public Disk {
 public:
  explicit SystemDisk(Executor& executor) : executor_(executor), ring_(IoRing::create()) {}

  Task<Result<size_t>> read(Context context, int fd, std::span<std::byte> into,
                            uint64_t offset) override {
    size_t done = 0;
    while (done < into.size()) {
      auto rest = into.subspan(done, std::min(into.size() - done, kRequestBytesMax));
      Result<size_t> step = co_await move(context, Direction::kRead, fd, rest, offset + done);
      if (!step) co_return step;
      if (*step == 0) break;
      done += *step;
    }
    co_return done;
  }

  Task<Result<>> write(Context context, int fd, Bytes data, uint64_t offset) override {
    for (const Slice& slice : data.slices()) {
      size_t done = 0;
      while (done < slice.size) {
        // The buffer is only read; one span type serves both directions.
        std::span<std::byte> rest(const_cast<std::byte*>(slice.data) + done,
                                  std::min(slice.size - done, kRequestBytesMax));
        Result<size_t> step = co_await move(context, Direction::kWrite, fd, rest, offset + done);
        if (!step) co_return Error(step.error());
        if (*step == 0) co_return Error(status_from_errno(ENOSPC, "write to the cache disk"));
        done += *step;
      }
      offset += slice.size;
    }
    co_return Result<>();
  }

  Task<Result<>> sync(Context, int fd) override {
    int failed = co_await executor_.blocking([fd] { return ::fdatasync(fd) == 0 ? 0 : errno; });
    if (failed != 0) co_return Error(status_from_errno(failed, "fdatasync on the cache disk"));
    co_return Result<>();
  }

  std::optional<size_t> try_read(int fd, std::span<std::byte> into, uint64_t offset) override {
    iovec vector{into.data(), into.size()};
    ssize_t got = ::preadv2(fd, &vector, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got != static_cast<ssize_t>(into.size())) return std::nullopt;
    return static_cast<size_t>(got);
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
        continue;  // gone in the meantime
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
  enum class Direction { kRead, kWrite };

  static Result<> checked(int result, const char* what, const std::string& path) {
    if (result == 0) return {};
    int failed = errno;
    return error(status_from_errno(failed, what + path));
  }

  // One system call's worth. Once started it is seen through: the buffer belongs to the kernel
  // until then, so the context does not end it early.
  Task<Result<size_t>> move(Context context, Direction direction, int fd,
                            std::span<std::byte> bytes, uint64_t offset) {
    LEAT_CO_CHECK_OK(context.check("disk input or output"));
    auto outcome = SharedResult<int>::make();
    IoRing::Completion completion = [outcome](int result) { outcome->set(result); };
    auto size = static_cast<unsigned>(bytes.size());
    bool submitted = false;
    if (ring_ && direction == Direction::kRead) {
      submitted = ring_->read(fd, bytes.data(), size, offset, completion);
    }
    if (!submitted) {
      // io_uring hands writes that extend a file to kernel worker threads anyway: the blocking pool
      // costs the same and is bounded by us.
      int result = co_await executor_.blocking([=] {
        ssize_t moved = direction == Direction::kRead
                            ? ::pread(fd, bytes.data(), size, static_cast<off_t>(offset))
                            : write_some(fd, bytes, offset);
        return moved < 0 ? -errno : static_cast<int>(moved);
      });
      co_return moved_or_error(direction, result);
    }
    Result<int> result = co_await outcome->wait(Context::background(), "disk input or output");
    co_return moved_or_error(direction, *result);
  }

  static Result<size_t> moved_or_error(Direction direction, int result) {
    if (result >= 0) return static_cast<size_t>(result);
    return error(status_from_errno(-result, direction == Direction::kRead
                                                ? "read from the cache disk"
                                                : "write to the cache disk"));
  }

  Executor& executor_;
  std::unique_ptr<IoRing> ring_;
};

}  // namespace

std::shared_ptr<Disk> make_disk(Executor& executor) {
  return std::make_shared<SystemDisk>(executor);
}

}  // namespace leat
