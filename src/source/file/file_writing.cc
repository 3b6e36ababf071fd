// SPDX-License-Identifier: Apache-2.0
// FileSource: operations that change the file system. Each call runs on the FilePool and touches
// only what it owns, since its caller may have ended.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "runtime/disk.h"
#include "source/file/checked_file.h"
#include "source/file/file_attributes.h"
#include "source/file/file_call.h"
#include "source/file/file_listing.h"
#include "source/file/file_source.h"
#include "source/file/file_system_type.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

constexpr mode_t kFileMode = 0666;  // the umask applies
constexpr mode_t kDirectoryMode = 0777;
constexpr size_t kCopyBytes = size_t{128} << 20;  // between two checks of the context
constexpr size_t kPieceBytes = size_t{1} << 20;   // of a copy through memory of this process
constexpr size_t kHoleBytes = size_t{1} << 20;    // shorter zeros are written

// Compares each byte with the next one, at the speed of memcmp.
bool is_hole(std::span<const std::byte> bytes) {
  return bytes.size() >= kHoleBytes && bytes.front() == std::byte{0} &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

Result<> make_directories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string directory = path.substr(0, end);
    if (!directory.empty() && mkdir(directory.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
      return Error(status_from_errno(errno, "cannot make the directory " + directory));
    }
    if (end == path.npos) break;
  }
  struct stat info;
  if (!path.empty() && (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
    return error(StatusCode::kNotDirectory,
                 fmt::format("cannot make the directory {}: there is a file", path));
  }
  return {};
}

// `path` ends in '/'. With `is_new`, one of two concurrent callers gets kExists.
Result<> make_directory(const std::string& path, bool is_new) {
  const std::string directory = path.substr(0, path.size() - 1);
  if (!is_new) return make_directories(directory);
  LEAT_CHECK_OK(make_directories(parent_of(directory)));
  if (mkdir(directory.c_str(), kDirectoryMode) == 0) return {};
  if (errno == EEXIST) {
    return error(StatusCode::kExists, fmt::format("cannot make {}: it is there already", path));
  }
  return Error(status_from_errno(errno, "cannot make the directory " + path));
}

// Renames without replacing. A file system without such a call uses a second link.
Result<> rename_to_nothing(const std::string& from, const std::string& to, bool is_directory) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EINVAL || errno == ENOSYS) {
    if (is_directory ? ::rename(from.c_str(), to.c_str()) == 0
                     : link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0) {
      return {};
    }
  }
  if (errno == EEXIST || errno == ENOTEMPTY) {
    return error(StatusCode::kExists, fmt::format("cannot write {}: it is there already", to));
  }
  return Error(status_from_errno(errno, fmt::format("cannot rename {} to {}", from, to)));
}

Result<> check_condition(const WriteRequest& request) {
  if (!request.condition.version.known()) return {};
  return error(StatusCode::kUnsupported,
               fmt::format("cannot write {}: a file system cannot write on condition of a version",
                           path_of_key(request.key)));
}

// A file that is being written, under a temporary name. Blocks.
class StagedFile {
 public:
  StagedFile(std::string key, bool absent, FileAccess access, PosixAttributes attributes = {})
      : key_(std::move(key)),
        absent_(absent),
        access_(access),
        attributes_(attributes),
        path_(path_of_key(key_)),
        staged_(fmt::format("{}/.leat-{}", parent_of(path_), Id128::random().to_hex())) {}
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile() { abandon(); }

  Result<> append(std::span<const std::byte> bytes) {
    LEAT_CHECK_OK(begin());
    // A hole stays one: programs truncate files to sizes that no disk has.
    if (is_hole(bytes)) {
      const off_t end = lseek(file_.fd(), static_cast<off_t>(bytes.size()), SEEK_CUR);
      if (end >= 0 && ftruncate(file_.fd(), end) == 0) return {};
      return Error(status_from_errno(errno, "cannot write " + path_));
    }
    while (!bytes.empty()) {
      ssize_t written = ::write(file_.fd(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Error(status_from_errno(errno, "cannot write " + path_));
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }

  // Appends all of `from`, by the file system's own copy call if there is one.
  Result<> append_file(const Context& context, const File& from) {
    LEAT_CHECK_OK(begin());
    for (;;) {
      LEAT_CHECK_OK(context.check("a copy"));
      ssize_t copied = copy_file_range(from.fd(), nullptr, file_.fd(), nullptr, kCopyBytes, 0);
      if (copied == 0) return {};
      if (copied > 0 || errno == EINTR) continue;
      // Two different file systems, or one without copy_file_range.
      if (errno == EXDEV || errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS) {
        return append_rest(context, from);
      }
      return Error(status_from_errno(errno, "cannot copy to " + path_));
    }
  }

  Result<SourceObject> finish() {
    LEAT_CHECK_OK(begin());
    LEAT_CHECK_OK(apply_attributes(file_.fd(), attributes_, /*owner_must=*/false, path_));
    if (access_ == FileAccess::kExact && !absent_) {
      struct stat there;
      const bool exists = lstat(path_.c_str(), &there) == 0 && S_ISREG(there.st_mode);
      if (exists && there.st_nlink > 1) return overwrite();
      if (exists) LEAT_CHECK_OK(copy_user_attributes(path_, file_.fd()));
    }
    if (fsync(file_.fd()) != 0) return Error(status_from_errno(errno, "cannot sync " + path_));
    struct stat there;
    // A link to a directory is replaced where links are shown as such.
    const int found =
        access_ == FileAccess::kExact ? lstat(path_.c_str(), &there) : stat(path_.c_str(), &there);
    if (!absent_ && found == 0 && S_ISDIR(there.st_mode)) {
      return error(StatusCode::kIsDirectory,
                   fmt::format("cannot write {}: there is a directory", path_));
    }
    LEAT_CHECK_OK(give_name());
    if (absent_) {
      LEAT_CHECK_OK(rename_to_nothing(staged_, path_, false));
    } else if (::rename(staged_.c_str(), path_.c_str()) != 0) {
      return Error(status_from_errno(errno, "cannot write " + path_));
    }
    named_ = false;
    LEAT_CHECK_OK(sync_directory(parent_of(path_)));
    return object_of(file_);
  }

  void abandon() {
    if (std::exchange(named_, false)) unlink(staged_.c_str());
  }

 private:
  // A file with several names stays one file, so its content is replaced and not the name.
  Result<SourceObject> overwrite() {
    const File file(open(path_.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat ours;
    if (!file || fstat(file_.fd(), &ours) != 0) {
      return Error(status_from_errno(errno, "cannot write " + path_));
    }
    std::vector<std::byte> piece(kPieceBytes);
    for (off_t at = 0; at < ours.st_size;) {
      const ssize_t got = pread(file_.fd(), piece.data(), piece.size(), at);
      if (got <= 0) return Error(status_from_errno(errno, "cannot write " + path_));
      for (ssize_t done = 0; done < got;) {
        const ssize_t put =
            pwrite(file.fd(), piece.data() + done, static_cast<size_t>(got - done), at + done);
        if (put < 0) return Error(status_from_errno(errno, "cannot write " + path_));
        done += put;
      }
      at += got;
    }
    if (ftruncate(file.fd(), ours.st_size) != 0) {
      return Error(status_from_errno(errno, "cannot truncate " + path_));
    }
    LEAT_CHECK_OK(apply_attributes(file.fd(), attributes_, /*owner_must=*/false, path_));
    if (fsync(file.fd()) != 0) return Error(status_from_errno(errno, "cannot sync " + path_));
    return object_of(file);
  }

  Result<SourceObject> object_of(const File& file) const {
    struct stat info;
    if (fstat(file.fd(), &info) != 0) {
      return Error(status_from_errno(errno, "cannot stat " + path_));
    }
    SourceObject object = object_of_stat(key_, info);
    object.attributes = std::make_shared<const PosixAttributes>(attributes_of_stat(info));
    object.local = access_ != FileAccess::kAsNetwork && is_on_local_disk(file.fd(), info.st_dev);
    return object;
  }

  Result<> append_rest(const Context& context, const File& from) {
    std::vector<std::byte> piece(kPieceBytes);
    for (;;) {
      LEAT_CHECK_OK(context.check("a copy"));
      ssize_t read = ::read(from.fd(), piece.data(), piece.size());
      if (read == 0) return {};
      if (read < 0 && errno == EINTR) continue;
      if (read < 0)
        return Error(status_from_errno(errno, "cannot read what is copied to " + path_));
      LEAT_CHECK_OK(append(std::span(piece).first(static_cast<size_t>(read))));
    }
  }

  // Names what is to be renamed.
  Result<> give_name() {
    if (named_) return {};
    const std::string self = fmt::format("/proc/self/fd/{}", file_.fd());
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, staged_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return Error(status_from_errno(errno, "cannot write " + path_));
    }
    named_ = true;
    return {};
  }

  Result<> begin() {
    if (file_) return {};
    LEAT_CHECK_OK(make_directories(parent_of(path_)));
    // Without a name, nothing is left behind by a process that is killed.
    file_ = File(open((parent_of(path_) + "/").c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, kFileMode));
    if (file_) return {};
    file_ = File(open(staged_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode));
    if (!file_) return Error(status_from_errno(errno, "cannot write " + path_));
    named_ = true;
    return {};
  }

  const std::string key_;
  const bool absent_;
  const FileAccess access_;
  const PosixAttributes attributes_;
  const std::string path_, staged_;
  File file_;
  bool named_ = false;
};

using StagedPtr = std::shared_ptr<StagedFile>;
using ObjectPtr = std::shared_ptr<SourceObject>;

Result<> check_file(const WriteRequest& request) {
  LEAT_CHECK_OK(check_file_key(request.key));
  if (request.key.empty() || request.key.ends_with('/')) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("cannot write {}: a directory holds no bytes", path_of_key(request.key)));
  }
  return check_condition(request);
}

class FileWriter : public ObjectWriter {
 public:
  FileWriter(const WriteRequest& request, FileAccess access,
             std::shared_ptr<StoreCounters> counters)
      : counters_(std::move(counters)),
        file_(std::make_shared<StagedFile>(request.key, request.condition.absent, access,
                                           request.attributes)) {}

  ~FileWriter() override {
    FilePool::of_process().post([file = file_] { file->abandon(); });
  }

  // A part may be half written.
  bool is_retryable() const override { return false; }

  Task<Result<>> append(Context context, std::span<const std::byte> part,
                        AttemptTimeouts) override {
    source_metrics::write_requests.add();
    std::function<Result<>()> work = [file = file_, part = copy_of(part)] {
      return file->append(part);
    };
    Result<> done = co_await on_pool(counters_, std::move(context), "a write", std::move(work));
    if (done) source_metrics::written_bytes.add(part.size());
    co_return done;
  }

  Task<Result<SourceObject>> complete(Context context, AttemptTimeouts) override {
    std::function<Result<SourceObject>()> work = [file = file_] { return file->finish(); };
    co_return co_await on_pool(counters_, std::move(context), "a write", std::move(work));
  }

  Task<Result<>> abort(Context context, AttemptTimeouts) override {
    std::function<Result<>()> work = [file = file_]() -> Result<> {
      file->abandon();
      return {};
    };
    co_return co_await on_pool(counters_, std::move(context), "a clean-up", std::move(work));
  }

  static std::vector<std::byte> copy_of(std::span<const std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
  }

 private:
  const std::shared_ptr<StoreCounters> counters_;
  const StagedPtr file_;
};

Result<SourceObject> copy_file(const Context& context, const CopyRequest& request,
                               FileAccess access) {
  LEAT_CHECK_OK(check_file(WriteRequest{.key = request.to}));
  LEAT_TRY(SourceObject from, stat_file(request.from, access));
  if (from.kind != FileKind::kFile || request.from == request.to) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("cannot copy {} to {}: it is a directory or the same file",
                             path_of_key(request.from), path_of_key(request.to)));
  }
  File file(open(path_of_key(request.from).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return Error(status_from_errno(errno, "cannot read " + path_of_key(request.from)));
  StagedFile staged(request.to, request.if_absent, access);
  LEAT_CHECK_OK(staged.append_file(context, file));
  return staged.finish();
}

Result<> rename_file(const RenameRequest& request, FileAccess access) {
  LEAT_CHECK_OK(check_file_key(request.from));
  LEAT_CHECK_OK(check_file_key(request.to));
  const bool is_directory = request.from.ends_with('/');
  if (is_directory != request.to.ends_with('/') || request.from.empty()) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("cannot rename {} to {}: a file does not become a directory, nor a "
                             "directory a file",
                             path_of_key(request.from), path_of_key(request.to)));
  }
  LEAT_CHECK_OK(stat_file(request.from, access));
  std::string from = path_of_key(request.from), to = path_of_key(request.to);
  if (is_directory) {
    from.pop_back();
    to.pop_back();
  }
  LEAT_CHECK_OK(make_directories(parent_of(to)));
  if (is_directory || request.no_replace) {
    LEAT_CHECK_OK(rename_to_nothing(from, to, is_directory));
  } else if (::rename(from.c_str(), to.c_str()) != 0) {
    return Error(status_from_errno(errno, fmt::format("cannot rename {} to {}", from, to)));
  }
  LEAT_CHECK_OK(sync_directory(parent_of(to)));
  return parent_of(from) == parent_of(to) ? Result<>() : sync_directory(parent_of(from));
}

Result<> remove_file(const std::string& key) {
  LEAT_CHECK_OK(check_file_key(key));
  const std::string path = path_of_key(key);
  const bool is_directory = key.ends_with('/');
  if ((is_directory ? rmdir(path.c_str()) : unlink(path.c_str())) == 0) return {};
  if (errno == ENOENT || errno == ENOTDIR) return {};
  return Error(status_from_errno(errno, "cannot remove " + path));
}

}  // namespace

Task<Result<SourceObject>> FileSource::write(Context context, WriteRequest request,
                                             std::span<const std::byte> content) {
  source_metrics::write_requests.add();
  std::function<Result<SourceObject>()> work;
  if (request.key.ends_with('/') && content.empty()) {
    if (auto good = check_condition(request); !good) co_return Error(good.error());
    work = [key = request.key, absent = request.condition.absent,
            access = access_]() -> Result<SourceObject> {
      LEAT_CHECK_OK(check_file_key(key));
      LEAT_CHECK_OK(make_directory(path_of_key(key), absent));
      return stat_file(key, access);
    };
  } else {
    if (auto good = check_file(request); !good) co_return Error(good.error());
    auto file = std::make_shared<StagedFile>(request.key, request.condition.absent, access_,
                                             request.attributes);
    work = [file, bytes = FileWriter::copy_of(content)]() -> Result<SourceObject> {
      Result<> taken = file->append(bytes);
      Result<SourceObject> object = taken ? file->finish() : Error(taken.error());
      // Before the caller gets the result.
      if (!object) file->abandon();
      return object;
    };
  }
  Result<SourceObject> object =
      co_await on_pool(counters_, std::move(context), "a write", std::move(work));
  if (object) source_metrics::written_bytes.add(content.size());
  co_return object;
}

Result<ObjectWriterPtr> FileSource::begin_write(WriteRequest request) {
  LEAT_CHECK_OK(check_file(request));
  return std::make_unique<FileWriter>(request, access_, counters_);
}

Task<Result<SourceObject>> FileSource::copy(Context context, CopyRequest request) {
  source_metrics::write_requests.add();
  std::function<Result<SourceObject>()> work = [context, request, access = access_] {
    return copy_file(context, request, access);
  };
  co_return co_await on_pool(counters_, context, "a copy", std::move(work));
}

Task<Result<>> FileSource::rename(Context context, RenameRequest request) {
  source_metrics::write_requests.add();
  std::function<Result<>()> work = [request, access = access_] {
    return rename_file(request, access);
  };
  co_return co_await on_pool(counters_, std::move(context), "a rename", std::move(work));
}

Task<Result<SourceObject>> FileSource::set_attributes(Context context, AttributesRequest request) {
  source_metrics::write_requests.add();
  std::function<Result<SourceObject>()> work = [request, access = access_, root = root_] {
    return set_attributes_of(request, access, root);
  };
  co_return co_await on_pool(counters_, std::move(context), "a change", std::move(work));
}

Task<Result<>> FileSource::remove(Context context, RemoveRequest request) {
  source_metrics::remove_requests.add();
  std::function<Result<>()> work = [request]() -> Result<> {
    for (const std::string& key : request.keys) LEAT_CHECK_OK(remove_file(key));
    return {};
  };
  co_return co_await on_pool(counters_, std::move(context), "a removal", std::move(work));
}

}  // namespace leat
