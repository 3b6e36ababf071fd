// SPDX-License-Identifier: Apache-2.0
#include "source/file_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "runtime/disk.h"
#include "source/file_listing.h"
#include "source/file_pool.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

// What is read at once; small enough to be copied out of a core's cache.
constexpr size_t kPieceBytes = 256 * 1024;

// The caller's memory, which is no longer written to once the caller has given up.
class ReadTarget {
 public:
  explicit ReadTarget(std::span<std::byte> into) : into_(into) {}

  size_t size() const { return into_.size(); }
  // Whether somebody still wants it.
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

Result<SourceObject> stat_file(const std::string& key) {
  LEAT_CHECK_OK(check_file_key(key));
  std::string path = path_of_key(key);
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    // A component that is a file has nothing below it.
    int reason = errno == ENOTDIR ? ENOENT : errno;
    return Error(status_from_errno(reason, "cannot stat " + path));
  }
  bool wants_directory = key.empty() || key.ends_with('/');
  if (S_ISDIR(info.st_mode) != wants_directory) {
    return error(StatusCode::kNotFound,
                 fmt::format("cannot stat {}: it is {}", path,
                             wants_directory ? "not a directory" : "a directory"));
  }
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) {
    return error(StatusCode::kUnsupported,
                 fmt::format("cannot stat {}: it is neither a file nor a directory", path));
  }
  if (S_ISDIR(info.st_mode) && links_to_ancestor(key, info)) {
    return error(
        StatusCode::kUnsupported,
        fmt::format("cannot stat {}: it is a link to a directory that it is in itself", path));
  }
  return object_of_stat(key, info);
}

namespace {

Error changed(const std::string& path, const Version& now, const Version& wanted) {
  return error(StatusCode::kChanged,
               fmt::format("cannot read {}: it is {} now, not {} any more; open it again", path,
                           now.to_string(), wanted.to_string()));
}

// What the open file is now; kNotFound unless it is a file.
Result<SourceObject> stat_open(const File& file, const ReadRequest& request,
                               const std::string& path) {
  struct stat info;
  if (fstat(file.fd(), &info) != 0) return Error(status_from_errno(errno, "cannot stat " + path));
  if (!S_ISREG(info.st_mode)) {
    return error(StatusCode::kNotFound, fmt::format("cannot read {}: it is not a file", path));
  }
  return object_of_stat(request.key, info);
}

Result<> pread_all(const File& file, const std::string& path, uint64_t offset, ReadTarget& target) {
  thread_local const auto memory = std::make_unique_for_overwrite<std::byte[]>(kPieceBytes);
  for (size_t done = 0; done < target.size();) {
    size_t wanted = std::min(kPieceBytes, target.size() - done);
    ssize_t got = pread(file.fd(), memory.get(), wanted, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(status_from_errno(errno, "cannot read " + path));
    if (got == 0) {
      return error(StatusCode::kChanged,
                   fmt::format("cannot read {}: it became shorter while it was read", path));
    }
    std::span<const std::byte> piece(memory.get(), static_cast<size_t>(got));
    if (!target.write(done, piece)) return error(StatusCode::kCancelled, "nobody waits any more");
    done += piece.size();
  }
  return {};
}

Result<> read_file(const ReadRequest& request, ReadTarget& target) {
  LEAT_CHECK_OK(check_file_key(request.key));
  std::string path = path_of_key(request.key);
  // O_NONBLOCK: opening a FIFO would wait for a writer.
  File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    int reason = errno == ENOTDIR ? ENOENT : errno;
    return Error(status_from_errno(reason, "cannot read " + path));
  }
  LEAT_TRY(SourceObject before, stat_open(file, request, path));
  if (request.if_version.known() && before.version != request.if_version) {
    return changed(path, before.version, request.if_version);
  }
  if (request.range.offset > before.size ||
      request.range.size > before.size - request.range.offset) {
    return error(StatusCode::kOutOfRange,
                 fmt::format("cannot read {} bytes at {} of {}: it has only {} bytes",
                             request.range.size, request.range.offset, path, before.size));
  }
  LEAT_CHECK_OK(pread_all(file, path, request.range.offset, target));
  LEAT_TRY(SourceObject after, stat_open(file, request, path));
  if (after.version != before.version) return changed(path, after.version, before.version);
  return {};
}

}  // namespace

FileSource::FileSource(std::string_view salt, size_t page_entries)
    : page_entries_(page_entries), id_(make_store_id("file", "", "", "", salt)) {}

Task<Result<SourceObject>> FileSource::stat(Context context, StatRequest request) {
  source_metrics::stat_requests.add();
  if (auto alive = context.check("a stat"); !alive) co_return Error(alive.error());
  auto work = [key = std::move(request.key)] { return stat_file(key); };
  Result<SourceObject> object = co_await FilePool::of_process().run(context, "a stat", work);
  if (!object) source_metrics::count_failure(object.error().code());
  co_return object;
}

Task<Result<ListPage>> FileSource::list(Context context, ListRequest request) {
  source_metrics::list_requests.add();
  if (auto alive = context.check("a listing"); !alive) co_return Error(alive.error());
  if (auto good = check_file_key(request.prefix); !good) co_return Error(good.error());
  using FilePagePtr = std::shared_ptr<FilePage>;
  auto work = [context, request, page_entries = page_entries_]() -> Result<FilePagePtr> {
    LEAT_TRY(FilePage page, list_files(context, request, page_entries));
    return std::make_shared<FilePage>(std::move(page));
  };
  Result<FilePagePtr> listed = co_await FilePool::of_process().run(context, "a listing", work);
  if (!listed) {
    source_metrics::count_failure(listed.error().code());
    co_return Error(listed.error());
  }
  FilePage& files = **listed;
  source_metrics::report_left_out(
      left_out_said_, name_, files.left_out,
      "neither a file nor a directory, or a link to nothing or to a directory that it is in");
  files.page.left_out = files.left_out.count;
  co_return std::move(files.page);
}

Task<Result<>> FileSource::read(Context context, ReadRequest request, std::span<std::byte> into) {
  LEAT_CHECK(into.size() == request.range.size);
  source_metrics::read_requests.add();
  if (auto alive = context.check("a read"); !alive) co_return alive;
  auto target = std::make_shared<ReadTarget>(into);
  auto work = [request, target] { return read_file(request, *target); };
  Result<> done = co_await FilePool::of_process().run(context, "a read", work);
  target->give_up();
  if (done) {
    source_metrics::bytes.add(into.size());
  } else {
    source_metrics::count_failure(done.error().code());
  }
  co_return done;
}

}  // namespace leat
