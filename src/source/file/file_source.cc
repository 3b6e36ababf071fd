// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_source.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "source/file/checked_file.h"
#include "source/file/file_listing.h"
#include "source/file/file_pool.h"
#include "source/file/file_system_type.h"
#include "source/file/local_file.h"
#include "source/file/local_posix_files.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

// Bytes per read; small enough to be copied out of a core's cache.
constexpr size_t kPieceBytes = 256 * 1024;

// The caller's memory. It is not written after the caller was cancelled.
class ReadTarget {
 public:
  explicit ReadTarget(std::span<std::byte> into) : into_(into) {}

  size_t size() const { return into_.size(); }
  // Returns false if the caller was cancelled.
  bool write(size_t at, std::span<const std::byte> piece) {
    std::lock_guard lock(mutex_);
    if (given_up_) return false;
    std::memcpy(into_.data() + at, piece.data(), piece.size());
    return true;
  }
  void give_up() {
    std::lock_guard lock(mutex_);
    given_up_ = true;
  }

 private:
  std::mutex mutex_;  // leaf
  const std::span<std::byte> into_;
  bool given_up_ = false;
};

}  // namespace

Result<SourceObject> stat_file(const std::string& key, FileAccess access, const std::string& root) {
  LEAT_CHECK_OK(check_file_key(key));
  std::string path = path_of_key(key);
  const bool exact = access == FileAccess::kExact && key != root && !key.empty();
  if (exact && key.ends_with('/')) path.pop_back();  // lstat would follow it
  struct stat info;
  if ((exact ? ::lstat(path.c_str(), &info) : ::stat(path.c_str(), &info)) != 0) {
    // A component is a file, so nothing is below it.
    int reason = errno == ENOTDIR ? ENOENT : errno;
    return Error(status_from_errno(reason, "cannot stat " + path));
  }
  bool wants_directory = key.empty() || key.ends_with('/');
  if (S_ISDIR(info.st_mode) != wants_directory) {
    return error(StatusCode::kNotFound,
                 fmt::format("cannot stat {}: it is {}", path,
                             wants_directory ? "not a directory" : "a directory"));
  }
  if (!exact && !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) {
    return error(StatusCode::kUnsupported,
                 fmt::format("cannot stat {}: it is neither a file nor a directory", path));
  }
  if (S_ISDIR(info.st_mode) && links_to_ancestor(key, info)) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("cannot stat {}: it is a link to a directory that it is in itself", path));
  }
  SourceObject object = object_of_stat(key, info);
  object.attributes = std::make_shared<const PosixAttributes>(attributes_of_stat(info));
  object.local = access != FileAccess::kAsNetwork && (!exact || S_ISREG(info.st_mode)) &&
                 is_on_local_disk(path, info.st_dev);
  return object;
}

namespace {

// Reads in the pool, into memory of its own, since the file system may hang.
Result<> read_remote(const CheckedFile& opened, uint64_t offset, ReadTarget& target) {
  thread_local const auto memory = std::make_unique_for_overwrite<std::byte[]>(kPieceBytes);
  for (size_t done = 0; done < target.size();) {
    size_t wanted = std::min(kPieceBytes, target.size() - done);
    ssize_t got = pread(opened.file.fd(), memory.get(), wanted, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(status_from_errno(errno, "cannot read " + opened.path));
    if (got == 0) return Error(opened.became_shorter());
    std::span<const std::byte> piece(memory.get(), static_cast<size_t>(got));
    if (!target.write(done, piece))
      return error(StatusCode::kCancelled, "the caller no longer waits");
    done += piece.size();
  }
  return opened.check_unchanged();
}

// Limits the open files, so that descriptors remain for other uses.
bool may_hold_one_more() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && LocalFile::open() < limit.rlim_cur / 2;
}

Result<SourceFilePtr> open_local(const OpenRequest& request) {
  LEAT_TRY(CheckedFile opened, CheckedFile::open(request.key, request.if_version));
  if (!opened.local) return SourceFilePtr();
  return std::make_shared<LocalFile>(std::move(opened));
}

// Opens the file. Returns a file on a local disk unread; fills `target` from any other one and
// returns null.
Result<std::shared_ptr<LocalFile>> open_or_read(const ReadRequest& request, FileAccess access,
                                                ReadTarget& target) {
  LEAT_TRY(CheckedFile opened, CheckedFile::open(request.key, request.if_version));
  LEAT_CHECK_OK(opened.check_range(request.range.offset, request.range.size));
  if (opened.local && access != FileAccess::kAsNetwork) {
    return std::make_shared<LocalFile>(std::move(opened));
  }
  LEAT_CHECK_OK(read_remote(opened, request.range.offset, target));
  return nullptr;
}

}  // namespace

FileSource::FileSource(std::string_view salt, size_t page_entries, FileAccess access,
                       Clock::duration io_timeout, std::string root)
    : page_entries_(page_entries),
      access_(access),
      io_timeout_(io_timeout),
      root_(std::move(root)),
      id_(make_store_id("file", "", "", "", salt)),
      counters_(std::make_shared<StoreCounters>(name_, id_)),
      posix_(access == FileAccess::kExact ? make_posix_files(counters_) : nullptr) {}

Context FileSource::bounded(Context context) const {
  const bool bounds = io_timeout_ > Clock::duration::zero() && io_timeout_ < Clock::duration::max();
  return bounds ? context.with_timeout(io_timeout_) : context;
}

Task<Result<SourceObject>> FileSource::stat(Context context, StatRequest request) {
  source_metrics::stat_requests.add();
  context = bounded(std::move(context));
  if (auto alive = context.check("a stat"); !alive) co_return Error(alive.error());
  auto work = [key = std::move(request.key), access = access_, root = root_] {
    return stat_file(key, access, root);
  };
  Result<SourceObject> object = co_await FilePool::of_process().run(context, "a stat", work);
  if (!object) counters_->add_failure(object.error().code());
  co_return object;
}

Task<Result<ListPage>> FileSource::list(Context context, ListRequest request) {
  source_metrics::list_requests.add();
  context = bounded(std::move(context));
  if (auto alive = context.check("a listing"); !alive) co_return Error(alive.error());
  if (auto good = check_file_key(request.prefix); !good) co_return Error(good.error());
  using FilePagePtr = std::shared_ptr<FilePage>;
  auto work = [context, request, page_entries = page_entries_,
               exact = access_ == FileAccess::kExact]() -> Result<FilePagePtr> {
    LEAT_TRY(FilePage page, list_files(context, request, page_entries, exact));
    return std::make_shared<FilePage>(std::move(page));
  };
  Result<FilePagePtr> listed = co_await FilePool::of_process().run(context, "a listing", work);
  if (!listed) {
    counters_->add_failure(listed.error().code());
    co_return Error(listed.error());
  }
  FilePage& files = **listed;
  source_metrics::report_skipped_keys(
      skipped_logged_, name_, files.skipped,
      "neither a file nor a directory, or a link to nothing or to a directory that it is in");
  files.page.skipped = files.skipped.count;
  files.page.skipped_example = std::move(files.skipped.example);
  if (access_ == FileAccess::kAsNetwork) {
    for (SourceObject& object : files.page.objects) object.local = false;
  }
  co_return std::move(files.page);
}

Task<Result<>> FileSource::read(Context context, ReadRequest request, std::span<std::byte> into) {
  LEAT_CHECK(into.size() == request.range.size);
  source_metrics::read_requests.add();
  context = bounded(std::move(context));
  if (auto alive = context.check("a read"); !alive) co_return alive;
  auto target = std::make_shared<ReadTarget>(into);
  auto work = [request, access = access_, target] {
    return open_or_read(request, access, *target);
  };
  Result<std::shared_ptr<LocalFile>> opened =
      co_await FilePool::of_process().run(context, "a read", work);
  target->give_up();
  Result<> done;
  if (!opened) {
    done = Error(opened.error());
  } else if (*opened != nullptr) {
    done = co_await (*opened)->read(context, request.range.offset, into);
  }
  if (done) {
    counters_->add_read(into.size());
  } else {
    counters_->add_failure(done.error().code());
  }
  co_return done;
}

Task<Result<SourceFilePtr>> FileSource::open_file(Context context, OpenRequest request) {
  context = bounded(std::move(context));
  if (auto alive = context.check("an open"); !alive) co_return Error(alive.error());
  if (access_ == FileAccess::kAsNetwork || !may_hold_one_more()) co_return SourceFilePtr();
  auto work = [request] { return open_local(request); };
  Result<SourceFilePtr> file = co_await FilePool::of_process().run(context, "an open", work);
  if (!file) counters_->add_failure(file.error().code());
  co_return file;
}

}  // namespace leat
