// SPDX-License-Identifier: Apache-2.0
#include "source/file_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/check.h"
#include "runtime/disk.h"
#include "runtime/executor.h"
#include "source/file_listing.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

// The kernel would resolve these, and one file would have many keys.
Result<> check_key(std::string_view key) {
  while (!key.empty()) {
    std::string_view part = key.substr(0, key.find('/'));
    if (part.empty() || part == "." || part == ".." || part.contains('\0')) {
      return error(
          StatusCode::kUnsupported,
          fmt::format("'{}' is not a key of file://: it has an empty, '.' or '..' component", key));
    }
    key.remove_prefix(std::min(key.size(), part.size() + 1));
  }
  return {};
}

Result<SourceObject> stat_file(const std::string& key) {
  LEAT_CHECK_OK(check_key(key));
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
  return object_of_stat(key, info);
}

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

Result<> pread_all(const File& file, const std::string& path, uint64_t offset,
                   std::span<std::byte> into) {
  while (!into.empty()) {
    ssize_t got = pread(file.fd(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error(status_from_errno(errno, "cannot read " + path));
    if (got == 0) {
      return error(StatusCode::kChanged,
                   fmt::format("cannot read {}: it became shorter while it was read", path));
    }
    offset += static_cast<uint64_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
  return {};
}

Result<> read_file(const ReadRequest& request, std::span<std::byte> into) {
  LEAT_CHECK_OK(check_key(request.key));
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
  LEAT_CHECK_OK(pread_all(file, path, request.range.offset, into));
  LEAT_TRY(SourceObject after, stat_open(file, request, path));
  if (after.version != before.version) return changed(path, after.version, before.version);
  return {};
}

}  // namespace

FileSource::FileSource(Executor& executor, std::string_view salt, size_t page_entries)
    : executor_(executor),
      page_entries_(page_entries),
      id_(make_store_id("file", "", "", "", salt)) {}

Task<Result<SourceObject>> FileSource::stat(Context context, std::string key) {
  source_metrics::stat_requests.add();
  if (auto alive = context.check("a stat"); !alive) co_return Error(alive.error());
  auto work = [&key] { return stat_file(key); };
  Result<SourceObject> object = co_await executor_.blocking(work);
  if (!object) source_metrics::count_failure(object.error().code());
  co_return object;
}

Task<Result<ListPage>> FileSource::list(Context context, ListRequest request) {
  source_metrics::list_requests.add();
  if (auto alive = context.check("a listing"); !alive) co_return Error(alive.error());
  if (auto good = check_key(request.prefix); !good) co_return Error(good.error());
  auto work = [this, &context, &request] { return list_files(context, request, page_entries_); };
  Result<FilePage> files = co_await executor_.blocking(work);
  if (!files) {
    source_metrics::count_failure(files.error().code());
    co_return Error(files.error());
  }
  source_metrics::report_left_out(left_out_said_, name_, files->left_out,
                                  "neither a file nor a directory, or a link to nothing");
  files->page.left_out = files->left_out.count;
  co_return std::move(files->page);
}

Task<Result<>> FileSource::read(Context context, ReadRequest request, std::span<std::byte> into) {
  LEAT_CHECK(into.size() == request.range.size);
  source_metrics::read_requests.add();
  if (auto alive = context.check("a read"); !alive) co_return alive;
  auto work = [&request, into] { return read_file(request, into); };
  Result<> done = co_await executor_.blocking(work);
  if (done) {
    source_metrics::bytes.add(into.size());
  } else {
    source_metrics::count_failure(done.error().code());
  }
  co_return done;
}

}  // namespace leat
