// SPDX-License-Identifier: Apache-2.0
#include "vfs/versioned_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter fault_around_rejected(
    "leat_vfs_fault_around_rejected_total",
    "Fault-around reads of a mapping that were reduced to the faulting page", "",
    Stability::kExperimental);

// Direct reads by the kernel of a file outside of the cache.
class LocalBacking : public BackingFile {
 public:
  explicit LocalBacking(SourceFilePtr file) : file_(std::move(file)) {}
  int fd() const override { return file_->fd(); }
  uint64_t size() const override { return file_->size(); }

 private:
  const SourceFilePtr file_;
};

// The kernel would take a short answer for the end of the file, and programs would read a truncated
// file without an error.
Result<Bytes> whole(Result<Bytes> bytes, ByteRange range) {
  if (!bytes || bytes->size() == range.size) return bytes;
  return error(StatusCode::kInternal,
               fmt::format("got {} bytes in place of {} at {}; this is a fault of leat, report it",
                           bytes->size(), range.size, range.offset));
}

// A wait this long means a store that does not respond; its failure is reused for kRepeatedWithin.
constexpr Clock::duration kLongWait = std::chrono::seconds(1);
constexpr Clock::duration kRepeatedWithin = std::chrono::seconds(1);

StreamOptions stream_options(uint64_t window_bytes) {
  StreamOptions options;
  options.window_bytes_max = window_bytes;
  options.window_bytes_min = std::min(options.window_bytes_min, window_bytes);
  return options;
}

}  // namespace

void FailedWait::record(Clock::time_point began, Clock::time_point now, const Status& why) {
  const bool of_store =
      why.code() == StatusCode::kUnavailable || why.code() == StatusCode::kThrottled;
  if (!of_store || now - began < kLongWait) return;
  std::lock_guard lock(mutex_);
  until_ = now + kRepeatedWithin;
  why_ = why;
  any_ = true;
}

std::optional<Status> FailedWait::recent(Clock::time_point now) const {
  if (!any_) return std::nullopt;
  std::lock_guard lock(mutex_);
  return now < until_ ? why_ : std::nullopt;
}

VersionedFile::VersionedFile(const FileDeps& deps, NodePtr node, FileRefPtr ref, bool pass_through)
    : deps_(deps),
      node_(std::move(node)),
      ref_(std::move(ref)),
      pass_through_(pass_through),
      streams_(ref_->size, stream_options(deps.prefetch_window_bytes), deps.windows),
      fault_detector_(deps.fault_around_bytes) {}

std::optional<Bytes> VersionedFile::try_read(uint64_t offset, uint64_t size) {
  const ByteRange range = within(offset, size);
  if (range.empty()) return Bytes();
  if (local_) {
    Buffer buffer(range.size);
    if (!local_->try_read(range.offset, buffer.span())) return std::nullopt;
    deps_.metrics->from_local_file.add();
    deps_.metrics->bytes.add(range.size);
    return Bytes(std::move(buffer));
  }
  std::optional<Bytes> bytes = deps_.fetcher.try_read(*ref_, range);
  if (!bytes || bytes->size() != range.size) return std::nullopt;  // read() records the stream
  prefetch(range);
  deps_.metrics->inline_reads.add();
  deps_.metrics->bytes.add(range.size);
  return bytes;
}

Task<Result<Bytes>> VersionedFile::read(Context context, uint64_t offset, uint64_t size) {
  const ByteRange range = within(offset, size);
  if (range.empty()) co_return Bytes();
  const bool cached = on_disk(range);
  const Clock::time_point begin = deps_.now();
  Result<Bytes> bytes = co_await read_unless_failed(context, range, cached);
  bytes = whole(std::move(bytes), range);
  MountMetrics& metrics = *deps_.metrics;
  if (!bytes) {
    metrics.errors.add();
    Status status = bytes.error().with_context("cannot read " + deps_.path(*node_));
    if (status.code() == StatusCode::kVersionChanged) deps_.changed(*node_, status);
    failed_wait_.record(begin, deps_.now(), bytes.error());
    co_return error(std::move(status));
  }
  if (local_) {
    metrics.from_local_file.add();
  } else if (cached) {
    metrics.from_disk.add();
    metrics.disk_seconds.observe(deps_.now() - begin);
  } else {
    metrics.from_store.add();
    metrics.store_seconds.observe(deps_.now() - begin);
    streams_.on_stall(range);
    if (deps_.epochs && !missed_.exchange(true) && deps_.fetcher.take_cache_miss(*ref_)) {
      deps_.epochs->on_miss(*node_);
    }
  }
  if (deps_.next && !local_) deps_.next->on_stall(*node_);
  metrics.bytes.add(range.size);
  co_return std::move(*bytes);
}

Task<Result<Bytes>> VersionedFile::read_unless_failed(Context context, ByteRange range,
                                                      bool cached) {
  if (!cached && !local_) {
    if (std::optional<Status> failed = failed_wait_.recent(deps_.now())) {
      co_return Error(*std::move(failed));
    }
  }
  co_return co_await read_range(std::move(context), range, cached);
}

Task<Result<Bytes>> VersionedFile::read_range(Context context, ByteRange range, bool cached) {
  if (!local_) {
    // Without a window no reads are observed.
    const bool at_random =
        !cached && deps_.prefetch_window_bytes > 0 && streams_.is_at_random(range);
    prefetch(range);
    if (at_random) co_return co_await deps_.fetcher.read_at_random(context, ref_, range);
    co_return co_await deps_.fetcher.read(context, ref_, range);
  }
  Buffer buffer(range.size);
  Result<> done = co_await local_->read(context, range.offset, buffer.span());
  if (done) co_return Bytes(std::move(buffer));
  // A file received by fd passing is a copy; its disk may fail.
  const bool copy = local_->immutable() && context.check("a read");
  if (!copy) co_return Error(done.error());
  log::warning("failed to read the passed file of {}: {}; fetching its bytes instead", ref_->key,
               done.error().to_string());
  co_return co_await deps_.fetcher.read(context, ref_, range);
}

// A cached range is read whole: the kernel keeps it.
bool VersionedFile::rejects_fault_around(uint64_t offset, uint64_t size) {
  if (local_ || !fault_detector_.applies_to(size)) return false;
  const ByteRange range = within(offset, size);
  if (range.empty() || (range.size > kBlockBytes && on_disk(range))) return false;
  const auto rejection = fault_detector_.observe(range, streams_.is_alone(range));
  if (!rejection) return false;
  fault_around_rejected.add();
  if (rejection->page) deps_.fetcher.prefetch(ref_, *rejection->page);
  return true;
}

std::shared_ptr<BackingFile> VersionedFile::backing() {
  if (local_ && (pass_through_ || local_->immutable()))
    return std::make_shared<LocalBacking>(local_);
  if (ref_->cache != CacheUse::kDisk) return nullptr;
  return deps_.store == nullptr ? nullptr : deps_.store->backing(*ref_);
}

std::shared_ptr<BackingFile> VersionedFile::hold_backing() {
  if (local_ || ref_->cache != CacheUse::kDisk || deps_.store == nullptr) return backing();
  return deps_.store->backing_unverified(*ref_);
}

ByteRange VersionedFile::within(uint64_t offset, uint64_t size) const {
  const uint64_t file_size = ref_->size;
  if (offset >= file_size) return {file_size, 0};
  return {offset, std::min(size, file_size - offset)};
}

void VersionedFile::prefetch(ByteRange read) {
  if (deps_.prefetch_window_bytes == 0) return;
  for (const ByteRange& range : streams_.observe(read)) {
    if (deps_.fetcher.prefetch(ref_, range)) continue;
    streams_.on_rejected(range);
    break;
  }
}

bool VersionedFile::on_disk(ByteRange range) const {
  return deps_.store != nullptr && ref_->cache == CacheUse::kDisk &&
         deps_.store->missing(*ref_, range).empty();
}

}  // namespace leat
