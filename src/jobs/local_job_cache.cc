// SPDX-License-Identifier: Apache-2.0
#include "jobs/local_job_cache.h"

#include <algorithm>
#include <utility>

namespace leat {
namespace {

constexpr uint64_t kReadBackBytes = kMiB;

}  // namespace

Task<Result<uint64_t>> LocalJobCache::missing(Context, FileRefPtr file, ByteRange range) {
  uint64_t bytes = 0;
  for (const ByteRange& gap : store_.missing(*file, range)) bytes += gap.size;
  co_return bytes;
}

Task<Result<uint64_t>> LocalJobCache::verify_range(Context context, FileRefPtr file,
                                                   ByteRange range) {
  uint64_t fetched = 0;
  for (uint64_t at = range.offset; at < range.end(); at += kReadBackBytes) {
    const ByteRange piece{at, std::min(kReadBackBytes, range.end() - at)};
    Result<Bytes> read = co_await store_.read(context, file, piece);
    if (!read && !context.cancelled()) {
      Result<uint64_t> again = co_await fetcher_.ensure(context, file, piece);
      if (!again) co_return Error(again.error());
      fetched += *again;
      read = co_await store_.read(context, file, piece);
    }
    if (!read) co_return Error(read.error());
  }
  co_return fetched;
}

Task<Result<uint64_t>> LocalJobCache::drop(Context context, std::vector<FileRefPtr> files) {
  std::vector<FileId> ids;
  for (const FileRefPtr& file : files) ids.push_back(file->id);
  co_return co_await drop_ids(std::move(context), std::move(ids));
}

// Each drop may unlink a file, which blocks. Waits first for bytes that readers have and the page
// store does not have yet.
Task<Result<uint64_t>> LocalJobCache::drop_ids(Context context, std::vector<FileId> files) {
  for (const FileId& id : files) co_await fetcher_.wait_for_writes(context, id);
  auto drop_all = [this, files = std::move(files)] {
    uint64_t bytes = 0;
    for (const FileId& id : files) {
      // Memory last: a concurrent reader finds the bytes there instead of fetching them.
      bytes += store_.drop(id);
      fetcher_.evict(id);
    }
    return bytes;
  };
  co_return co_await executor_.blocking(std::move(drop_all));
}

Task<JobCache::Content> LocalJobCache::content(Context, uint64_t) {
  const PageStoreStats stats = store_.stats();
  co_return Content{.objects = stats.files + stats.packed_objects, .bytes = stats.used_bytes};
}

Task<Result<>> LocalJobCache::verify(Context context, uint64_t, HostCache::StepListener listener) {
  if (cache_ == nullptr) {
    co_return error(StatusCode::kUnsupported, "there is no cache that could be verified");
  }
  co_return co_await cache_->verify(std::move(context), std::move(listener));
}

}  // namespace leat
