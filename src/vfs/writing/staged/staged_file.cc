// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/staged/staged_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/crc32c.h"
#include "model/timespec.h"

namespace leat {
namespace {

// Bytes of the version that are copied at a time.
constexpr uint64_t kCopyBytes = 4 * kMiB;
// Direct writes to files up to this size are also found by their checksum. keep() need not clean
// the mappings of these.
constexpr uint64_t kChecksumBytes = 64 * kKiB;
// Changes in a row that has_exact_times() compares.
constexpr int kTimeSamples = 16;
constexpr int kCopyAttempts = 3;

constexpr int kAllocateModes =
    FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_UNSHARE_RANGE;

Status failed(const char* what) {
  return status_from_errno(errno, fmt::format("cannot {} a file that is being written", what));
}

Result<> copy_bytes(const File& from, const File& to) {
  off_t at = 0;
  for (;;) {
    const ssize_t moved = ::copy_file_range(from.fd(), &at, to.fd(), nullptr, 64 * kMiB, 0);
    if (moved == 0) return {};
    if (moved < 0 && errno != EINTR) return error(failed("copy"));
  }
}

}  // namespace

// The kernel's hold.
class StagedFile::DirectWrites : public BackingFile {
 public:
  DirectWrites(std::shared_ptr<StagedFile> content, FilePtr file)
      : content_(std::move(content)), file_(std::move(file)) {}
  ~DirectWrites() override { content_->end_direct_writes(); }

  int fd() const override { return file_->fd(); }
  uint64_t size() const override { return content_->size(); }

 private:
  const std::shared_ptr<StagedFile> content_;
  const FilePtr file_;
};

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

bool StagedFile::has_exact_times(const std::string& directory) {
  const Result<File> file = create_unlinked(directory);
  if (!file) return false;
  WallTime last = traces_of(*file, false).mtime;
  for (int sample = 0; sample < kTimeSamples; ++sample) {
    if (::pwrite(file->fd(), "", 1, 0) != 1) return false;
    const WallTime now = traces_of(*file, false).mtime;
    if (now == last) return false;
    last = now;
  }
  return true;
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
  Result<File> file = reopen();
  std::lock_guard lock(mutex_);
  // Its name may be gone by now: keep_open() opened it before.
  if (file_) return file_;
  if (!file) return Error(file.error());
  file_ = std::make_shared<const File>(*std::move(file));
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

Task<Result<bool>> StagedFile::change(Context context, Note note,
                                      std::function<Result<>(int fd)> call) {
  auto permit = co_await changing_.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  if (is_sealed()) co_return false;
  // Counted first, so that a save that reads meanwhile does not take itself for complete.
  note_change(note, /*done=*/false);
  auto run = [&call, file = opened()] { return call(file->fd()); };
  const Result<> done = co_await executor_.blocking(run);
  note_change(note, /*done=*/true);
  if (!done) co_return Error(done.error());
  co_return true;
}

void StagedFile::note_change(const Note& note, bool done) {
  std::lock_guard lock(mutex_);
  note(*this, done);
  ++changes_;
}

uint64_t StagedFile::written_in_order() const {
  std::lock_guard lock(mutex_);
  return ordered_.ready();
}

void StagedFile::end_order() {
  std::lock_guard lock(mutex_);
  ordered_.close();
}

std::optional<ByteRange> StagedFile::take_part(uint64_t size) {
  std::lock_guard lock(mutex_);
  return ordered_.take(size);
}

std::optional<ByteRange> StagedFile::take_rest(uint64_t size) {
  const uint64_t end = this->size();
  std::lock_guard lock(mutex_);
  return ordered_.take_rest(size, end);
}

bool StagedFile::is_order_intact() const {
  std::lock_guard lock(mutex_);
  return ordered_.is_intact();
}

void StagedFile::set_version(Version version) {
  std::lock_guard lock(mutex_);
  changed_.begin(std::move(version), base_size_);
}

UnchangedRanges StagedFile::begin_save() {
  std::lock_guard lock(mutex_);
  ordered_.close();
  return changed_.begin_save();
}

void StagedFile::end_save(const std::optional<Version>& saved, uint64_t size) {
  std::lock_guard lock(mutex_);
  changed_.end_save(saved, size);
}

Task<Result<bool>> StagedFile::write(Context context, uint64_t offset, Bytes data) {
  if (is_sealed()) co_return false;
  LEAT_CO_CHECK_OK(co_await fill(context));
  auto call = [offset, &data](int fd) { return write_now(fd, offset, data); };
  const Note note = [offset, size = data.size()](StagedFile& self, bool done) {
    self.changed_.note_write(offset, size);
    self.ordered_.note_write(offset, size, done);
  };
  Result<bool> written = co_await change(context, note, call);
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
    changed_.note_size(0);
    ordered_.note_size(0);
  }
  LEAT_CO_CHECK_OK(co_await fill(context));
  auto call = [size](int fd) -> Result<> {
    if (::ftruncate(fd, static_cast<off_t>(size)) == 0) return {};
    return error(failed("truncate"));
  };
  const Note note = [size](StagedFile& self, bool) {
    self.changed_.note_size(size);
    self.ordered_.note_size(size);
  };
  Result<bool> done = co_await change(context, note, call);
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
  const bool clears = (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0;
  const Note note = [offset, size, clears](StagedFile& self, bool) {
    self.changed_.note_write(offset, size);
    if (clears) self.ordered_.note_write(offset, size, /*done=*/false);
  };
  Result<bool> done = co_await change(context, note, call);
  co_return done;
}

Task<Result<>> StagedFile::seal(Context context,
                                std::function<Result<Reopen>(const File&, uint64_t)> keep) {
  LEAT_CO_CHECK_OK(co_await fill(context));
  auto permit = co_await changing_.acquire(context, kChangesMax, "changes of a file");
  if (!permit) co_return Error(permit.error());
  const uint64_t changes = this->changes(), size = this->size();
  auto call = [&]() -> Result<Reopen> {
    LEAT_TRY(const FilePtr file, open_file());
    return keep(*file, size);
  };
  LEAT_CO_TRY(Reopen reopen, co_await executor_.blocking(call));
  std::lock_guard lock(mutex_);
  reopen_ = std::move(reopen);
  kept_size_ = size;
  kept_changes_ = changes;
  seal_if_final();
  co_return Result<>();
}

void StagedFile::seal_if_final() {
  if (direct_ > 0 || !reopen_ || kept_changes_ != changes_) return;
  sealed_size_ = kept_size_;
  sealed_ = true;
}

bool StagedFile::is_kept() const {
  std::lock_guard lock(mutex_);
  return reopen_ && kept_changes_ == changes_;
}

uint64_t StagedFile::kept_changes() const {
  std::lock_guard lock(mutex_);
  return kept_changes_;
}

uint64_t StagedFile::kept_size() const {
  std::lock_guard lock(mutex_);
  return kept_size_;
}

void StagedFile::park() {
  std::lock_guard lock(mutex_);
  if (is_sealed() && reopen_ && !stays_open_) file_ = nullptr;
}

// ---- direct writes

StagedFile::Traces StagedFile::traces_of(const File& file, bool with_crc) {
  struct stat now{};
  ::fstat(file.fd(), &now);
  Traces traces{.mtime = to_wall_time(now.st_mtim), .size = static_cast<uint64_t>(now.st_size)};
  if (!with_crc || traces.size > kChecksumBytes) return traces;
  Buffer bytes(traces.size);
  const ssize_t got = ::pread(file.fd(), bytes.data(), bytes.size(), 0);
  if (got > 0) traces.crc = crc32c({bytes.data(), static_cast<size_t>(got)});
  return traces;
}

std::shared_ptr<BackingFile> StagedFile::write_directly(
    const std::shared_ptr<StagedFile>& content) {
  std::lock_guard lock(content->mutex_);
  if (!content->is_filled() || content->is_sealed() || !content->file_) return nullptr;
  content->changed_.give_up();
  content->ordered_.close();
  if (content->direct_++ == 0) content->noted_ = traces_of(*content->file_, true);
  return std::make_shared<DirectWrites>(content, content->file_);
}

bool StagedFile::is_direct() const {
  std::lock_guard lock(mutex_);
  return direct_ > 0;
}

void StagedFile::note_traces() {
  const Traces now = traces_of(*file_, true);
  if (now == noted_) return;
  noted_ = now;
  noted_time_ = now.mtime;
  ++changes_;
}

std::optional<WallTime> StagedFile::note_direct_writes() {
  std::lock_guard lock(mutex_);
  if (direct_ > 0) note_traces();
  return std::exchange(noted_time_, std::nullopt);
}

std::optional<WallTime> StagedFile::direct_write_time() const {
  std::lock_guard lock(mutex_);
  if (direct_ == 0) return noted_time_;
  const Traces now = traces_of(*file_, false);
  if (now.mtime == noted_.mtime && now.size == noted_.size) return noted_time_;
  return now.mtime;
}

Task<Result<>> StagedFile::synchronise() {
  auto call = [file = opened()]() -> Result<> {
    if (::fdatasync(file->fd()) == 0) return {};
    return error(failed("synchronise"));
  };
  Result<> done = co_await executor_.blocking(call);
  co_return done;
}

void StagedFile::end_direct_writes() {
  std::lock_guard lock(mutex_);
  note_traces();
  --direct_;
  seal_if_final();
}

uint64_t StagedFile::changes_now() {
  std::lock_guard lock(mutex_);
  if (direct_ > 0) note_traces();
  return changes_;
}

Result<std::shared_ptr<StagedFile>> StagedFile::copy_to(const std::string& directory) {
  LEAT_TRY(const FilePtr from, open_file());
  for (int attempt = 1;; ++attempt) {
    const uint64_t changes = changes_now();
    LEAT_TRY(File copy, create_unlinked(directory));
    LEAT_CHECK_OK(copy_bytes(*from, copy));
    if (changes != changes_now() && attempt < kCopyAttempts) continue;
    struct stat now{};
    ::fstat(copy.fd(), &now);
    const auto size = static_cast<uint64_t>(now.st_size);
    auto content = std::make_shared<StagedFile>(std::move(copy), executor_, nullptr, size);
    content->sealed_size_ = size;
    content->sealed_ = true;
    return content;
  }
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
