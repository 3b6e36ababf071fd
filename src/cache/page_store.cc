// SPDX-License-Identifier: Apache-2.0
// The face: which kind of object goes where, and how a directory is opened and closed.
#include "cache/page_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/cache_directory.h"
#include "cache/evictor.h"
#include "cache/files/file_store.h"
#include "cache/packed/packed_store.h"
#include "cache/superblock.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

// Superblock, its successor while it is written, and lock file.
constexpr uint64_t kDirectoryOverheadBytes = 3 * kPageBytes;
constexpr uint64_t kDefaultShare = 10;  // of the file system
constexpr auto kHouseEvery = std::chrono::seconds(1);

class DiskPageStore : public PageStore {
 public:
  DiskPageStore(std::shared_ptr<CacheDirectory> directory, File lock, Superblock superblock)
      : directory_(directory),
        files_(std::make_shared<FileStore>(directory)),
        packed_(std::make_shared<PackedStore>(directory)),
        evictor_(std::make_shared<Evictor>(directory, files_, packed_)),
        lock_(std::move(lock)),
        superblock_(superblock) {
    directory_->on_pressure = [evictor = std::weak_ptr(evictor_)] {
      if (auto alive = evictor.lock()) alive->start();
    };
  }
  ~DiskPageStore() override { stop(); }

  Result<> load(bool clean) {
    LEAT_CHECK_OK(files_->load(clean));
    LEAT_CHECK_OK(packed_->load());
    // The names of their folders.
    return directory_->disk->sync_directory(directory_->options.directory);
  }
  Task<> evict_to_marks() {
    bool evicted = co_await evictor_->run();
    static_cast<void>(evicted);
  }

  Task<> close() override;
  std::optional<Bytes> try_read(const FileRef& ref, ByteRange range) override;
  Task<Result<Bytes>> read(Context context, FileRefPtr ref, ByteRange range) override;
  std::vector<ByteRange> missing(const FileRef& ref, ByteRange range) override;
  Task<Result<>> write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) override;
  std::shared_ptr<BackingFile> backing(const FileRef& ref) override { return files_->backing(ref); }
  bool packed(const FileRef& ref) const override;
  uint64_t cached_bytes(const FileRef& ref) override {
    return files_->cached_bytes(ref.id) + packed_->cached_bytes(ref.id);
  }
  uint64_t drop(const FileId& id) override { return files_->drop(id) + packed_->drop(id); }
  Task<Result<>> flush(Context context) override;
  void set_pool_policy(PoolId id, const PoolPolicy& policy) override;

  PageStoreStats stats() const override;
  std::vector<PoolStats> pools() const override;

 private:
  void stop() {
    directory_->closing = true;
    directory_->stopping.request_stop();
  }
  static Task<> keep_house(std::shared_ptr<CacheDirectory> directory,
                           std::shared_ptr<Evictor> evictor);
  bool small(const FileRef& ref) const;  // of the kind that is packed
  Result<> check_write(const FileRef& ref, ByteRange range) const;

  const std::shared_ptr<CacheDirectory> directory_;
  const std::shared_ptr<FileStore> files_;
  const std::shared_ptr<PackedStore> packed_;
  const std::shared_ptr<Evictor> evictor_;
  File lock_;
  Superblock superblock_;
  std::atomic<bool> keeps_house_ = false;

  const std::string label_ = fmt::format(R"(directory="{}")", directory_->options.directory);
  Gauge capacity_gauge_{"leat_cache_capacity_bytes", "Bytes the cache may use.",
                        [this] { return static_cast<double>(stats().capacity_bytes); }, label_};
  Gauge used_gauge_{"leat_cache_used_bytes", "Bytes counted against the capacity.",
                    [this] { return static_cast<double>(stats().used_bytes); }, label_};
  Gauge held_gauge_{"leat_cache_held_bytes", "Of the used bytes: unlinked, but still held open.",
                    [this] { return static_cast<double>(stats().held_bytes); }, label_};
  Gauge files_gauge_{"leat_cache_file_objects", "Objects with a file of their own.",
                     [this] { return static_cast<double>(stats().files); }, label_};
  Gauge packed_gauge_{"leat_cache_packed_objects", "Objects in segments.",
                      [this] { return static_cast<double>(stats().packed_objects); }, label_};
};

bool DiskPageStore::small(const FileRef& ref) const {
  return ref.size > 0 && ref.size < directory_->options.packed_bytes_max;
}

// An object stays where it is when the border between the kinds moves. Asked first is the store
// where it would go now.
bool DiskPageStore::packed(const FileRef& ref) const {
  if (ref.size == 0) return false;
  if (small(ref)) return packed_->contains(ref.id) || !files_->contains(ref.id);
  return !files_->contains(ref.id) && packed_->contains(ref.id);
}

std::optional<Bytes> DiskPageStore::try_read(const FileRef& ref, ByteRange range) {
  range = range.clamp(ref.size);
  if (range.empty()) return Bytes();
  bool is_small = small(ref);
  if (is_small) {
    if (auto hot = packed_->try_read(ref, range)) return hot;
  }
  if (auto hot = files_->try_read(ref, range)) return hot;
  return is_small ? std::nullopt : packed_->try_read(ref, range);
}

Task<Result<Bytes>> DiskPageStore::read(Context context, FileRefPtr ref, ByteRange range) {
  range = range.clamp(ref->size);
  if (range.empty()) co_return Bytes();
  if (packed(*ref)) {
    Result<Bytes> bytes = co_await packed_->read(context, ref, range);
    co_return bytes;
  }
  Result<Bytes> bytes = co_await files_->read(context, ref, range);
  co_return bytes;
}

std::vector<ByteRange> DiskPageStore::missing(const FileRef& ref, ByteRange range) {
  range = range.clamp(ref.size);
  if (range.empty()) return {};
  bool is_small = small(ref);
  if (is_small && packed_->contains(ref.id)) return {};
  bool has_file = files_->contains(ref.id);
  if (is_small && !has_file) return {ByteRange{0, ref.size}};
  if (!has_file && packed_->contains(ref.id)) return {};
  return files_->missing(ref, range);
}

Result<> DiskPageStore::check_write(const FileRef& ref, ByteRange range) const {
  auto refuse = [&](StatusCode code, std::string_view why) {
    return error(code, fmt::format("bytes {} to {} of {} are not kept: {}", range.offset,
                                   range.end(), ref.key, why));
  };
  if (directory_->closing) return refuse(StatusCode::kUnavailable, "the cache is being closed");
  if (!ref.version.known()) {
    return refuse(StatusCode::kUnsupported, "the store gives it no version");
  }
  if (ref.key.size() > kKeyBytesMax || ref.version.value.size() > kVersionBytesMax) {
    return refuse(StatusCode::kUnsupported, "its name or version is too long for the cache");
  }
  bool whole_blocks = range.offset % kBlockBytes == 0 && range.end() <= ref.size &&
                      (range.end() % kBlockBytes == 0 || range.end() == ref.size);
  if (!whole_blocks) {
    return refuse(StatusCode::kInvalidArgument, "they are not whole blocks of 64 KiB");
  }
  bool is_packed = packed(ref);
  if (!is_packed && !FileStore::fits(ref, directory_->options)) {
    return refuse(StatusCode::kNoSpace,
                  "it is too large for this cache even in parts; give a larger --cache-size");
  }
  if (is_packed && range != ByteRange{0, ref.size}) {
    return refuse(StatusCode::kInvalidArgument, "small objects are kept whole or not at all");
  }
  return {};
}

Task<Result<>> DiskPageStore::write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) {
  LEAT_CO_CHECK_OK(check_write(*ref, ByteRange{offset, data.size()}));
  if (data.empty()) co_return Result<>();
  // Who brings the first byte does so for somebody who began to read.
  if (offset == 0) directory_->pools.at(ref->pool).note_pass(ref->id);
  if (packed(*ref)) {
    Result<> kept = co_await packed_->write(context, ref, data);
    co_return kept;
  }
  Result<> kept = co_await files_->write(context, ref, offset, data);
  co_return kept;
}

Task<Result<>> DiskPageStore::flush(Context context) {
  LEAT_CO_CHECK_OK(context.check("flush of the cache"));
  Result<> files = co_await files_->flush();
  Result<> packed_objects = co_await packed_->flush();
  co_return files ? packed_objects : files;
}

void DiskPageStore::set_pool_policy(PoolId id, const PoolPolicy& policy) {
  PoolPtr pool = directory_->pools.get(id);
  pool->set_policy(policy);
  if (pool->capacity->pressed()) directory_->on_pressure();
  if (policy.ttl.count() > 0 && !keeps_house_.exchange(true)) {
    directory_->spawn(keep_house(directory_, evictor_));
  }
}

Task<> DiskPageStore::keep_house(std::shared_ptr<CacheDirectory> directory,
                                 std::shared_ptr<Evictor> evictor) {
  Context until_stop = Context::background().with_cancel(directory->stopping.get_token());
  while (co_await sleep_for(until_stop, kHouseEvery)) co_await evictor->expire();
}

std::vector<PoolStats> DiskPageStore::pools() const {
  std::vector<PoolStats> pools;
  for (const PoolPtr& pool : directory_->pools.all()) {
    pools.push_back({.id = pool->id,
                     .policy = pool->policy(),
                     .used_bytes = pool->capacity->used(),
                     .held_bytes = pool->capacity->held(),
                     .even = pool->meter.even()});
  }
  std::ranges::sort(pools, {}, &PoolStats::id);
  return pools;
}

PageStoreStats DiskPageStore::stats() const {
  const Capacity& capacity = *directory_->capacity;
  return {.capacity_bytes = capacity.limit(),
          .used_bytes = capacity.used(),
          .held_bytes = capacity.held(),
          .files = files_->count(),
          .packed_objects = packed_->object_count(),
          .segments = packed_->segment_count(),
          .evicted_bytes = directory_->evicted_bytes,
          .corrupt_blocks = directory_->corrupt_blocks,
          .refused_bytes = directory_->refused_bytes};
}

Task<> DiskPageStore::close() {
  stop();
  co_await directory_->background->idle();
  Result<> closed = co_await flush(Context::background());
  // What the flush dropped is being removed, and has to be gone for good before the mark.
  co_await directory_->background->idle();
  if (closed) closed = co_await flush(Context::background());
  if (closed && (!files_->vouched_for() || directory_->left_behind)) {
    log::info(
        "cache {}: not all files were verified since it was not closed in order, so it still "
        "counts as that",
        directory_->options.directory);
  } else if (closed) {
    superblock_.clean = true;
    closed =
        co_await write_superblock(directory_->disk, directory_->options.directory, superblock_);
  }
  if (!closed) {
    log::warning("cache {}: not closed in order, the next start will verify it: {}",
                 directory_->options.directory, closed.error().to_string());
  }
  lock_ = File();
}

// Nothing in the options is 0 afterwards.
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
  File lock;
  std::optional<Superblock> found;
};

Result<Opening> begin(PageStoreOptions options, Disk& disk) {
  Opening opening;
  LEAT_TRY(opening.lock, lock_cache_directory(disk, options.directory));
  LEAT_TRY(opening.found, read_superblock(disk, options.directory));
  LEAT_TRY(opening.options, resolve(std::move(options), disk));
  return opening;
}

}  // namespace

Task<Result<std::unique_ptr<PageStore>>> PageStore::open(Context context, PageStoreOptions options,
                                                         Executor& executor,
                                                         std::shared_ptr<Disk> disk) {
  LEAT_CO_CHECK_OK(context.check("opening the cache"));
  Result<Opening> opening = co_await executor.blocking(
      [disk, options = std::move(options)] { return begin(options, *disk); });
  if (!opening) co_return Error(opening.error());
  bool clean = opening->found && opening->found->clean;
  bool is_new = !opening->found;
  Superblock superblock = opening->found.value_or(Superblock{});
  if (is_new) {
    superblock.uuid = Id128::random();
    superblock.worker = Id128::random();
  }
  superblock.clean = false;
  superblock.incompatible |= Superblock::kPools;  // what is written from here on has them
  // Before anything else changes: from here to close() a stop is not a clean one.
  Result<> marked = co_await write_superblock(disk, opening->options.directory, superblock);
  if (!marked) co_return Error(marked.error().with_context("cannot open the cache directory"));

  auto directory = std::make_shared<CacheDirectory>(opening->options, executor, disk);
  directory->uuid = superblock.uuid;
  directory->capacity->count(kDirectoryOverheadBytes);
  auto store = std::make_unique<DiskPageStore>(directory, std::move(opening->lock), superblock);
  DiskPageStore* loading = store.get();
  Result<> loaded = co_await executor.blocking([loading, clean] { return loading->load(clean); });
  if (!loaded) co_return Error(loaded.error().with_context("cannot read the cache directory"));
  if (!clean && !is_new) {
    log::info("cache {}: was not closed in order; files are verified before the kernel reads them",
              directory->options.directory);
  }
  co_await store->evict_to_marks();
  co_return std::unique_ptr<PageStore>(std::move(store));
}

}  // namespace leat
