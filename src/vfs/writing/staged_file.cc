// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/staged_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace leat {
namespace {

// Bytes of the version that are copied at a time.
constexpr uint64_t kCopyBytes = 4 * kMiB;

constexpr int kAllocateModes =
    FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_UNSHARE_RANGE;

Status failed(const char* what) {
  return status_from_errno(errno, fmt::format("cannot {} a file that is being written", what));
}

}  // namespace

Result<File> StagedFile::create_unlinked(const std::string& directory) {
  File file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string path = directory + "/written-XXXXXX";  // a file system without O_TMPFILE
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) {
    return error(
        status_from_errno(errno, fmt::format("cannot create a file for writing in {}", directory)));
  }
  ::unlink(path.c_str());
  return File(fd);
}

Result<std::shared_ptr<StagedFile>> StagedFile::create(const std::string& directory,
                                                       Executor& executor,
                                                       std::shared_ptr<OpenFile> base,
                                                       uint64_t size) {
  LEAT_TRY(File file, create_unlinked(directory));
  return std::make_shared<StagedFile>(std::move(file), executor, std::move(base), size);
}

std::shared_ptr<StagedFile> StagedFile::sealed(Executor& executor, uint64_t size, Reopen reopen) {
  auto content = std::make_shared<StagedFile>(File(), executor, nullptr, size);
  content->sealed_size_ = size;
  content->sealed_ = true;
  content->reopen_ = std::move(reopen);
  return content;
}

std::shared_ptr<OpenFile> StagedFile::base() const {
  std::lock_guard lock(mutex_);
  return base_;
}

StagedFile::FilePtr StagedFile::opened() const {
  std::lock_guard lock(mutex_);
  return file_;
}

Result<StagedFile::FilePtr> StagedFile::open_file() {
  Reopen reopen;
  {
    std::lock_guard lock(mutex_);
    if (file_) return file_;
    reopen = reopen_;
  }
  LEAT_TRY(File file, reopen());
  std::lock_guard lock(mutex_);
  if (!file_) file_ = std::make_shared<const File>(std::move(file));
  return file_;
}

uint64_t StagedFile::size() const {
  if (!is_filled()) return base_size_;
  if (is_sealed()) return sealed_size_;
  struct stat now{};
  ::fstat(opened()->fd(), &now);
  return static_cast<uint64_t>(now.st_size);
}

std::optional<Bytes> StagedFile::try_read(uint64_t offset, uint64_t size) {
  if (!is_filled()) {
    const std::shared_ptr<OpenFile> from = base();
    return from ? from->try_read(offset, size) : std::nullopt;
  }
  const uint64_t end = this->size();
  if (offset >= end) return Bytes();
  const FilePtr file = opened();
  if (!file) return std::nullopt;
  Buffer buffer(std::min(size, end - offset));
  const iovec into{buffer.data(), buffer.size()};
  const ssize_t got = ::preadv2(file->fd(), &into, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (got != static_cast<ssize_t>(buffer.size())) return std::nullopt;
  return Bytes(std::move(buffer));
}

Task<Result<Bytes>> StagedFile::read(Context context, uint64_t offset, uint64_t size) {
  if (!is_filled()) {
    if (const std::shared_ptr<OpenFile> from = base()) {
      Result<Bytes> bytes = co_await from->read(context, offset, size);
      co_return bytes;
    }
  }
  auto call = [this, offset, size] { return read_now(offset, size); };
  Result<Bytes> bytes = co_await executor_.blocking(call);
  co_return bytes;
}

Result<Bytes> StagedFile::read_now(uint64_t offset, uint64_t size) {
  const uint64_t end = this->size();
  if (offset >= end) return Bytes();
  LEAT_TRY(const FilePtr file, open_file());
  Buffer buffer(std::min(size, end - offset));
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got = ::pread(file->fd(), buffer.data() + done, buffer.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(failed("read"));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  buffer.truncate(done);
  return Bytes(std::move(buffer));
}

Result<> StagedFile::write_now(int fd, uint64_t offset, const Bytes& data) {
  for (const Slice& slice : data.slices()) {
    size_t done = 0;
    while (done < slice.size) {
      const ssize_t put =
          ::pwrite(fd, slice.data + done, slice.size - done, static_cast<off_t>(offset + done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return error(failed("write"));
      done += static_cast<size_t>(put);
    }
    offset += slice.size;
  }
  return {};
}

Task<Result<bool>> StagedFile::change(Context context, std::function<Result<>(int fd)> call) {
  auto permit = co_await changing_.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  if (is_sealed()) co_return false;
  // Counted first, so that a save that reads meanwhile does not take itself for complete.
  ++changes_;
  auto run = [&call, file = opened()] { return call(file->fd()); };
  const Result<> done = co_await executor_.blocking(run);
  ++changes_;
  if (!done) co_return Error(done.error());
  co_return true;
}

Task<Result<bool>> StagedFile::write(Context context, uint64_t offset, Bytes data) {
  if (is_sealed()) co_return false;
  LEAT_CO_CHECK_OK(co_await fill(context));
  auto call = [offset, &data](int fd) { return write_now(fd, offset, data); };
  Result<bool> written = co_await change(context, call);
  co_return written;
}

Task<Result<bool>> StagedFile::truncate(Context context, uint64_t size) {
  if (is_sealed()) co_return false;
  if (size == 0) {
    auto permit = co_await filling_.acquire(context, 1, "a truncation");
    if (!permit) co_return Error(permit.error());
    std::lock_guard lock(mutex_);
    base_ = nullptr;
    filled_ = true;
  }
  LEAT_CO_CHECK_OK(co_await fill(context));
  auto call = [size](int fd) -> Result<> {
    if (::ftruncate(fd, static_cast<off_t>(size)) == 0) return {};
    return error(failed("truncate"));
  };
  Result<bool> done = co_await change(context, call);
  co_return done;
}

Task<Result<bool>> StagedFile::allocate(Context context, int mode, uint64_t offset, uint64_t size) {
  if ((mode & ~kAllocateModes) != 0) {
    co_return error(StatusCode::kUnsupported, "a file cannot be collapsed or extended in place");
  }
  if (is_sealed()) co_return false;
  LEAT_CO_CHECK_OK(co_await fill(context));
  auto call = [=](int fd) -> Result<> {
    const int result = ::fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(size));
    if (result == 0) return {};
    return error(failed("allocate"));
  };
  Result<bool> done = co_await change(context, call);
  co_return done;
}

Task<Result<>> StagedFile::seal(Context context,
                                std::function<Result<Reopen>(const File&, uint64_t)> keep) {
  LEAT_CO_CHECK_OK(co_await fill(context));
  auto permit = co_await changing_.acquire(context, kChangesMax, "changes of a file");
  if (!permit) co_return Error(permit.error());
  if (is_sealed()) co_return Result<>();
  const uint64_t size = this->size();
  auto call = [&] { return keep(*opened(), size); };
  LEAT_CO_TRY(Reopen reopen, co_await executor_.blocking(call));
  std::lock_guard lock(mutex_);
  reopen_ = std::move(reopen);
  sealed_size_ = size;
  sealed_ = true;
  co_return Result<>();
}

void StagedFile::park() {
  std::lock_guard lock(mutex_);
  if (reopen_ && !stays_open_) file_ = nullptr;
}

Task<Result<>> StagedFile::keep_open() {
  {
    std::lock_guard lock(mutex_);
    stays_open_ = true;
  }
  auto call = [this] { return open_file(); };
  LEAT_CO_CHECK_OK(co_await executor_.blocking(call));
  co_return Result<>();
}

Task<Result<>> StagedFile::fill(Context context) {
  if (is_filled()) co_return Result<>();
  auto permit = co_await filling_.acquire(context, 1, "a copy of a file to write");
  if (!permit) co_return Error(permit.error());
  const std::shared_ptr<OpenFile> from = base();
  if (!from) co_return Result<>();
  for (uint64_t at = 0; at < base_size_; at += kCopyBytes) {
    Result<Bytes> bytes = co_await from->read(context, at, std::min(kCopyBytes, base_size_ - at));
    if (!bytes) co_return Error(bytes.error());
    auto call = [at, &bytes, file = opened()] { return write_now(file->fd(), at, *bytes); };
    Result<> written = co_await executor_.blocking(call);
    if (!written) co_return written;
  }
  std::lock_guard lock(mutex_);
  base_ = nullptr;
  filled_ = true;
  co_return Result<>();
}

}  // namespace leat
