// SPDX-License-Identifier: Apache-2.0
#include "cache/directory/directory_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Superblock and scrub position, a second copy of each during a rewrite, lock and probe.
constexpr uint64_t kDirectoryOverheadBytes = 6 * kPageBytes;
constexpr uint64_t kDefaultShare = 10;  // of the file system
constexpr auto kMaintenanceInterval = std::chrono::seconds(1);

const MetricFamily kCapacity(MetricType::kGauge, "leat_cache_capacity_bytes",
                             "Bytes that the cache may use", "directory");
const MetricFamily kUsed(MetricType::kGauge, "leat_cache_used_bytes",
                         "Bytes counted against the capacity", "directory");
const MetricFamily kUnlinked(MetricType::kGauge, "leat_cache_unlinked_bytes",
                             "Of the used bytes: unlinked, but still open", "directory");
const MetricFamily kFiles(MetricType::kGauge, "leat_cache_file_objects",
                          "Objects with a file of their own", "directory");
const MetricFamily kPacked(MetricType::kGauge, "leat_cache_packed_objects", "Objects in segments",
                           "directory");

}  // namespace

struct DirectoryStore::Gauges {
  explicit Gauges(const DirectoryStore& store)
      : label(metric_label("directory", store.options().directory)),
        capacity{kCapacity, [&store] { return double(store.stats().capacity_bytes); }, label},
        used{kUsed, [&store] { return double(store.stats().used_bytes); }, label},
        unlinked{kUnlinked, [&store] { return double(store.stats().unlinked_bytes); }, label},
        files{kFiles, [&store] { return double(store.stats().files); }, label},
        packed{kPacked, [&store] { return double(store.stats().packed_objects); }, label} {}

  const std::string label;
  Gauge capacity, used, unlinked, files, packed;
};

DirectoryStore::DirectoryStore(std::shared_ptr<CacheDirectory> directory, LockPtr lock,
                               Superblock superblock)
    : directory_(directory),
      files_(std::make_shared<FileStore>(directory)),
      packed_(std::make_shared<PackedStore>(directory)),
      evictor_(std::make_shared<Evictor>(directory, files_, packed_)),
      scrubber_(std::make_shared<Scrubber>(directory, files_, packed_)),
      policies_(std::make_shared<PolicyFile>(directory)),
      superblock_(superblock),
      lock_(std::move(lock)) {
  directory_->on_pressure = [evictor = std::weak_ptr(evictor_)] {
    if (auto alive = evictor.lock()) alive->start();
  };
}

DirectoryStore::~DirectoryStore() {
  stop();
  lock_->release();
}

void DirectoryStore::stop() {
  directory_->closing = true;
  directory_->stopping.request_stop();
}

void DirectoryStore::reject_new_work() {
  stop();
  directory_->closed = true;
}

void DirectoryStore::give_up() {
  reject_new_work();
  release();
}

void DirectoryStore::release() {
  lock_->release();
  std::shared_ptr<Gauges> gauges;  // unregistered after the mutex is released
  std::lock_guard ending(ending_mutex_);
  gauges.swap(gauges_);
}

Result<> DirectoryStore::load(bool clean) {
  policies_->load();
  LEAT_CHECK_OK(files_->load(clean));
  LEAT_CHECK_OK(packed_->load(clean));
  // Makes the names of their folders durable.
  return directory_->disk->sync_directory(directory_->options.directory);
}

bool DirectoryStore::small(const FileRef& ref) const {
  return ref.size > 0 && ref.size < directory_->options.packed_bytes_max;
}

// An object stays where it is when packed_bytes_max changes. The store that would take it now is
// checked first.
bool DirectoryStore::packed(const FileRef& ref) const {
  if (ref.size == 0) return false;
  if (small(ref)) return packed_->contains(ref.id) || !files_->contains(ref.id);
  return !files_->contains(ref.id) && packed_->contains(ref.id);
}

std::optional<Bytes> DirectoryStore::try_read(const FileRef& ref, ByteRange range) {
  range = range.clamp(ref.size);
  if (range.empty()) return Bytes();
  bool is_small = small(ref);
  if (is_small) {
    if (auto hot = packed_->try_read(ref, range)) return hot;
  }
  if (auto hot = files_->try_read(ref, range)) return hot;
  return is_small ? std::nullopt : packed_->try_read(ref, range);
}

Task<Result<Bytes>> DirectoryStore::read(Context context, FileRefPtr ref, ByteRange range) {
  range = range.clamp(ref->size);
  if (range.empty()) co_return Bytes();
  if (packed(*ref)) {
    Result<Bytes> bytes = co_await packed_->read(context, ref, range);
    co_return bytes;
  }
  Result<Bytes> bytes = co_await files_->read(context, ref, range);
  co_return bytes;
}

std::vector<ByteRange> DirectoryStore::missing(const FileRef& ref, ByteRange range) {
  range = range.clamp(ref.size);
  if (range.empty()) return {};
  bool is_small = small(ref);
  if (is_small && packed_->contains(ref.id)) return {};
  bool has_file = files_->contains(ref.id);
  if (is_small && !has_file) return {ByteRange{0, ref.size}};
  if (!has_file && packed_->contains(ref.id)) return {};
  return files_->missing(ref, range);
}

Result<> DirectoryStore::check_write(const FileRef& ref, ByteRange range) const {
  auto reject = [&](StatusCode code, std::string_view why) {
    return error(code, fmt::format("bytes {} to {} of {} are not cached: {}", range.offset,
                                   range.end(), ref.key, why));
  };
  if (directory_->closing) return reject(StatusCode::kUnavailable, "the cache is being closed");
  if (!ref.version.known()) {
    return reject(StatusCode::kUnsupported, "the store gives it no version");
  }
  if (ref.key.size() > kKeyBytesMax || ref.version.value.size() > kVersionBytesMax) {
    return reject(StatusCode::kUnsupported, "its name or version is too long for the cache");
  }
  // SegmentIndex skips damaged records by a byte that no name has: NUL.
  if (ref.key.contains('\0') || ref.version.value.contains('\0')) {
    return reject(StatusCode::kUnsupported, "its name or version has a NUL byte");
  }
  bool whole_blocks = range.offset % kBlockBytes == 0 && range.end() <= ref.size &&
                      (range.end() % kBlockBytes == 0 || range.end() == ref.size);
  if (!whole_blocks) {
    return reject(StatusCode::kInvalidArgument, "they are not whole blocks of 64 KiB");
  }
  bool is_packed = packed(ref);
  if (!is_packed && !FileStore::fits(ref, directory_->options)) {
    return reject(StatusCode::kNoSpace,
                  "it is too large for this cache even in parts; give a larger --cache-size");
  }
  if (is_packed && range != ByteRange{0, ref.size}) {
    return reject(StatusCode::kInvalidArgument, "small objects are cached whole or not at all");
  }
  return {};
}

void DirectoryStore::readahead(std::vector<FileRefPtr> refs, ReadaheadListener listener) {
  std::vector<FileExtent> extents;
  for (const FileRefPtr& ref : refs) {
    std::optional<FileExtent> found = packed_->file_extent(ref->id);
    if (!found) found = files_->file_extent(ref->id);
    if (found) extents.push_back(*std::move(found));
  }
  directory_->spawn(submit_readahead(directory_, std::move(extents), std::move(listener)));
}

Task<Result<>> DirectoryStore::write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) {
  LEAT_CO_CHECK_OK(check_write(*ref, ByteRange{offset, data.size()}));
  if (data.empty()) co_return Result<>();
  // A write of the first byte follows a read that missed, so it counts as a pass.
  if (offset == 0) directory_->pools.at(ref->pool).note_pass(ref->id);
  if (packed(*ref)) {
    Result<> kept = co_await packed_->write(context, ref, data);
    co_return kept;
  }
  Result<> kept = co_await files_->write(context, ref, offset, data);
  co_return kept;
}

std::optional<Result<>> DirectoryStore::try_write(const FileRef& ref, uint64_t offset,
                                                  const Bytes& data) {
  if (!packed(ref) || data.empty()) return std::nullopt;
  LEAT_CHECK_OK(check_write(ref, ByteRange{offset, data.size()}));
  std::optional<Result<>> kept = packed_->try_write(ref, data);
  if (kept) directory_->pools.at(ref.pool).note_pass(ref.id);  // as in write()
  return kept;
}

Task<Result<>> DirectoryStore::flush(Context context) {
  LEAT_CO_CHECK_OK(context.check("flush of the cache"));
  Result<> files = co_await files_->flush();
  Result<> packed_objects = co_await packed_->flush();
  co_return files ? packed_objects : files;
}

void DirectoryStore::set_pool_policy(PoolId id, const PoolPolicy& policy) {
  PoolPtr pool = directory_->pools.get(id);
  const bool changed = pool->policy() != policy;
  pool->set_policy(policy);
  policies_->set(id, changed);
  if (pool->capacity->under_pressure()) directory_->on_pressure();
  if (policy.ttl.count() > 0) start_maintenance();
}

void DirectoryStore::start_maintenance() {
  if (!maintenance_started_.exchange(true))
    directory_->spawn(run_maintenance(directory_, evictor_));
}

Task<> DirectoryStore::run_maintenance(std::shared_ptr<CacheDirectory> directory,
                                       std::shared_ptr<Evictor> evictor) {
  Context until_stop = Context::background().with_cancel(directory->stopping.get_token());
  while (co_await sleep_for(until_stop, kMaintenanceInterval)) co_await evictor->expire();
}

std::vector<PoolStats> DirectoryStore::pools() const {
  std::vector<PoolStats> pools;
  for (const PoolPtr& pool : directory_->pools.all()) {
    pools.push_back({.id = pool->id,
                     .policy = pool->policy(),
                     .used_bytes = pool->capacity->used(),
                     .unlinked_bytes = pool->capacity->unlinked(),
                     .cyclic = pool->meter.cyclic()});
  }
  std::ranges::sort(pools, {}, &PoolStats::id);
  return pools;
}

PageStoreStats DirectoryStore::stats() const {
  const Capacity& capacity = *directory_->capacity;
  return {.capacity_bytes = capacity.limit(),
          .used_bytes = capacity.used(),
          .unlinked_bytes = capacity.unlinked(),
          .files = files_->count(),
          .packed_objects = packed_->object_count(),
          .segments = packed_->segment_count(),
          .evicted_bytes = directory_->evicted_bytes,
          .corrupt_blocks = directory_->corrupt_blocks,
          .rejected_bytes = directory_->rejected_bytes};
}

Task<> DirectoryStore::close() {
  stop();
  {
    std::shared_ptr<Gauges> gauges;
    std::lock_guard ending(ending_mutex_);
    gauges.swap(gauges_);
  }
  co_await directory_->background->idle();
  co_await policies_->close();
  Result<> closed = co_await flush(Context::background());
  // Objects that the flush dropped are still being removed. Their removal must be durable before
  // the mark.
  co_await directory_->background->idle();
  if (closed) closed = co_await flush(Context::background());
  if (closed && (!files_->vouched_for() || directory_->left_behind)) {
    log::info(
        "cache {}: not all files were verified since it was not closed cleanly, so it is "
        "still not marked clean",
        directory_->options.directory);
  } else if (closed) {
    superblock_.clean = true;
    closed =
        co_await write_superblock(directory_->disk, directory_->options.directory, superblock_);
  }
  if (!closed) {
    log::warning("cache {}: not closed cleanly, the next start will verify it: {}",
                 directory_->options.directory, closed.error().to_string());
  }
  directory_->closed = true;
  release();
}

namespace {

// Replaces each 0 in the options by its default.
Result<PageStoreOptions> resolve(PageStoreOptions options, Disk& disk) {
  while (options.directory.size() > 1 && options.directory.back() == '/') {
    options.directory.pop_back();
  }
  LEAT_TRY(DiskUsage usage, disk.usage(options.directory));
  if (options.capacity_bytes == 0) options.capacity_bytes = usage.total_bytes / kDefaultShare;
  if (options.free_bytes_min == 0) options.free_bytes_min = usage.total_bytes / kDefaultShare;
  return options;
}

struct Opening {
  PageStoreOptions options;
  std::optional<Superblock> found;
};

Result<Opening> begin(PageStoreOptions options, Disk& disk, DirectoryLock& lock) {
  Opening opening;
  LEAT_CHECK_OK(lock.acquire(disk, options.directory));
  LEAT_TRY(opening.found, read_superblock(disk, options.directory));
  LEAT_TRY(opening.options, resolve(std::move(options), disk));
  return opening;
}

}  // namespace

Task<Result<std::unique_ptr<DirectoryStore>>> DirectoryStore::open(Context context,
                                                                   PageStoreOptions options,
                                                                   Executor& executor,
                                                                   std::shared_ptr<Disk> disk,
                                                                   LockPtr lock) {
  LEAT_CO_CHECK_OK(context.check("opening the cache"));
  Result<Opening> opening = co_await disk->threads().run(
      [&disk, &options, &lock] { return begin(options, *disk, *lock); });
  if (!opening) co_return Error(opening.error());
  bool clean = opening->found && opening->found->clean;
  bool is_new = !opening->found;
  Superblock superblock = opening->found.value_or(Superblock{});
  if (is_new) {
    superblock.uuid = Id128::random();
    superblock.worker = Id128::random();
  }
  superblock.clean = false;
  superblock.incompatible |= Superblock::kPools;  // objects written from here on have pools
  // Cleared before any other change: from here to close() a stop is not clean.
  Result<> marked = co_await write_superblock(disk, opening->options.directory, superblock);
  if (!marked) co_return Error(marked.error().with_context("cannot open the cache directory"));

  auto directory = std::make_shared<CacheDirectory>(opening->options, executor, disk);
  directory->uuid = superblock.uuid;
  directory->capacity->count(kDirectoryOverheadBytes);
  std::unique_ptr<DirectoryStore> store(new DirectoryStore(directory, std::move(lock), superblock));
  DirectoryStore* loading = store.get();
  Result<> loaded = co_await directory->blocking([loading, clean] { return loading->load(clean); });
  if (!loaded) co_return Error(loaded.error().with_context("cannot read the cache directory"));
  if (!clean && !is_new) {
    log::info("cache {}: was not closed cleanly", directory->options.directory);
  }
  store->corrupt_at_start_ = directory->corrupt_blocks.load();
  store->gauges_ = std::make_shared<Gauges>(*store);
  bool evicted = co_await store->evictor_->run();
  static_cast<void>(evicted);
  for (const PoolPtr& pool : directory->pools.all()) {
    if (pool->policy().ttl.count() > 0) store->start_maintenance();
  }
  if (directory->options.scrub_period.count() > 0) {
    directory->spawn(Scrubber::run(store->scrubber_, directory->options.scrub_period));
  }
  if (directory->options.compact_interval.count() > 0 && !directory->options.eviction_disabled) {
    directory->spawn(
        PackedStore::run_compaction(store->packed_, directory->options.compact_interval));
  }
  co_return std::move(store);
}

Task<Result<std::unique_ptr<PageStore>>> PageStore::open(Context context, PageStoreOptions options,
                                                         Executor& executor,
                                                         std::shared_ptr<Disk> disk) {
  Result<std::unique_ptr<DirectoryStore>> store =
      co_await DirectoryStore::open(std::move(context), std::move(options), executor,
                                    std::move(disk), std::make_shared<DirectoryLock>());
  if (!store) co_return Error(store.error());
  co_return std::unique_ptr<PageStore>(*std::move(store));
}

}  // namespace leat
