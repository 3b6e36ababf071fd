// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_directory.h"

#include <fmt/format.h>

#include <chrono>

#include "base/units.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Two descriptors each; the hard limit of open files is 20,000 on common systems, and of a smaller
// one a DescriptorPool leaves a part to others.
constexpr size_t kOpenObjectsMax = 4096;
// Bytes reserved between two checks of the file system's free space.
constexpr uint64_t kProbeEveryBytes = 64 * kMiB;

Counter evicted_total("leat_cache_evicted_bytes_total", "Bytes evicted from the cache");
Counter expired_total("leat_cache_expired_bytes_total",
                      "Bytes evicted because they were older than the TTL of their mount");
Counter corrupt_total(
    "leat_cache_corrupt_blocks_total",
    "Cached blocks removed because they could not be read or failed their checksum");
Counter refused_total("leat_cache_admission_rejected_bytes_total",
                      "Bytes not cached because the cache had no free space for them");

}  // namespace

void Background::spawn(const Spawner& executor, Task<> task) {
  {
    std::lock_guard lock(mutex_);
    ++running_;
  }
  if (!executor.spawn(run(shared_from_this(), std::move(task)))) finished();
}

Task<> Background::run(std::shared_ptr<Background> self, Task<> task) {
  co_await std::move(task);
  self->finished();
}

void Background::finished() {
  std::shared_ptr<SharedPromise<bool>> waiting;
  {
    std::lock_guard lock(mutex_);
    if (--running_ == 0) waiting = std::exchange(idle_, nullptr);
  }
  if (waiting != nullptr) waiting->set(true);
}

Task<> Background::idle() {
  std::shared_ptr<SharedPromise<bool>> waiting;
  {
    std::lock_guard lock(mutex_);
    if (running_ == 0) co_return;
    if (idle_ == nullptr) idle_ = SharedPromise<bool>::make();
    waiting = idle_;
  }
  auto done = co_await waiting->wait(Context::background(), "end of background work");
  static_cast<void>(done);
}

CacheDirectory::CacheDirectory(PageStoreOptions resolved, Executor& starts,
                               std::shared_ptr<Disk> any_disk)
    : options(std::move(resolved)),
      executor(starts),
      disk(std::move(any_disk)),
      capacity(std::make_shared<Capacity>(options.capacity_bytes)),
      pools(capacity),
      background(std::make_shared<Background>()),
      descriptors(options.directory, disk, kOpenObjectsMax) {}

void CacheDirectory::count_rejected(uint64_t bytes) {
  rejected_bytes += bytes;
  refused_total.add(bytes);
}

void CacheDirectory::evict_if_full(const Status& status) {
  if (status.code() != StatusCode::kNoSpace) return;
  capacity->note_write_rejected();
  on_pressure();
}

Error CacheDirectory::reject_write(Pool& pool, std::string_view key, uint64_t bytes) {
  count_rejected(bytes);
  pool.needs_room = true;
  on_pressure();
  if (!capacity->under_pressure() && pool.capacity->under_pressure()) {
    return error(
        StatusCode::kNoSpace,
        fmt::format("{} of {} not kept in the cache {}: {} of the quota of {} are in use",
                    format_bytes(bytes), key, options.directory,
                    format_bytes(pool.capacity->used()), format_bytes(pool.capacity->limit())));
  }
  const bool disk_is_short = capacity->limit() < capacity->configured();
  return error(StatusCode::kNoSpace,
               fmt::format("{} of {} not kept in the cache {}: {} of {} are in use; eviction runs, "
                           "or {}",
                           format_bytes(bytes), key, options.directory,
                           format_bytes(capacity->used()), format_bytes(capacity->limit()),
                           disk_is_short ? "free space on its disk, which is short of it"
                                         : "give a larger --cache-size"));
}

Error CacheDirectory::write_failed(std::string_view key, const Status& status) {
  evict_if_full(status);
  return error(
      status.with_context(fmt::format("cannot keep {} in the cache {}", key, options.directory)));
}

void CacheDirectory::note_lost_writes(uint64_t objects, uint64_t bytes, const Status& status) {
  if (closed) return;
  count_rejected(bytes);
  evict_if_full(status);
  if (lost_writes_logged_.exchange(true)) return;
  log::warning("cache {}: {} small objects ({}) could not be written and will be fetched again: {}",
               options.directory, objects, format_bytes(bytes), status.to_string());
}

Error CacheDirectory::path_occupied(std::string_view key, const Status& status) {
  Status answer(
      StatusCode::kNoSpace,
      fmt::format("{} is not cached in {}: a file that could not be removed has its path; "
                  "the next write or start removes it, or remove it yourself",
                  key, options.directory),
      status);
  if (!occupied_path_logged_.exchange(true)) log::warning("{}", answer.to_string());
  return error(answer);
}

void CacheDirectory::note_reserved(Pool& pool, uint64_t bytes) {
  bool probe = reserved_since_probe_.fetch_add(bytes) + bytes >= kProbeEveryBytes;
  if (probe) reserved_since_probe_ = 0;
  const bool under_pressure = capacity->under_pressure() || pool.capacity->under_pressure();
  if (under_pressure) pool.needs_room = true;
  if (probe || under_pressure) on_pressure();
}

void CacheDirectory::report_corrupt(const std::string& what, const std::string& why,
                                    uint64_t blocks) {
  if (closed) return;  // the failure says nothing about the disk
  corrupt_blocks += blocks;
  corrupt_total.add(blocks);
  log::warning("cache {}: dropped {}, which will be fetched again: {}", options.directory, what,
               why);
}

void CacheDirectory::report_unverified(const std::string& what, const Status& why) {
  if (closed) return;
  ++unverified_parts;
  log::warning("cache {}: {} could not be verified: {}", options.directory, what, why.to_string());
}

// The .meta or .index file goes first: a start removes data without it.
Task<bool> CacheDirectory::remove_files(FdOwner& object, Charge& charge) {
  Result<> removed = co_await blocking([this, &object]() -> Result<> {
    if (closed) return error(StatusCode::kUnavailable, "the cache directory is closed");
    object.close_files();
    Result<> side = disk->unlink(path(object.side_name()));
    Result<> data = disk->unlink(path(object.data_name()));
    if (!side && side.error().code() != StatusCode::kNotFound) return side;
    if (!data && data.error().code() != StatusCode::kNotFound) return data;
    return {};
  });
  if (removed) co_return true;
  charge.never_release();
  left_behind = true;
  if (closed) co_return false;
  log::warning("cache {}: {} bytes stay in use until the next start: {}", options.directory,
               charge.bytes(), removed.error().to_string());
  co_return false;
}

void CacheDirectory::count_evicted(uint64_t bytes) {
  evicted_bytes += bytes;
  evicted_total.add(bytes);
}

void CacheDirectory::count_expired(uint64_t bytes) {
  expired_total.add(bytes);
}

int64_t birth_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool lost_by_open(const Status& failure) {
  return failure.code() == StatusCode::kNotFound || failure.code() == StatusCode::kCorrupt;
}

bool lost_by_read(const Status& failure) {
  // EIO arrives as kInternal; it has no code of its own.
  return lost_by_open(failure) || failure.code() == StatusCode::kInternal;
}

Error not_cached(const std::string& key) {
  return error(StatusCode::kNotFound, fmt::format("{} is not in the cache", key));
}

Error not_readable(const std::string& key, const Status& failure) {
  bool ended = failure.code() == StatusCode::kCancelled || failure.code() == StatusCode::kTimedOut;
  if (ended) return error(failure);
  return error(Status(StatusCode::kNotFound,
                      fmt::format("{} cannot be read from the cache now", key), failure));
}

}  // namespace leat
