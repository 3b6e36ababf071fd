// SPDX-License-Identifier: Apache-2.0
// FileStore: find, write, remove. A file is in the index from before its creation until after its
// unlink, so a path never belongs to two objects.
#include "cache/files/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "cache/block_crc.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Files synced at once in the background; more wait.
constexpr uint64_t kSyncsMax = 2;
// 1/16 of the capacity: limit of the bytes charged for an object before its data.
constexpr uint64_t kOverheadShare = 16;
// Attempts of a write when its file is evicted meanwhile.
constexpr int kWriteTries = 2;

}  // namespace

FileStore::FileStore(std::shared_ptr<CacheDirectory> directory)
    : directory_(std::move(directory)), sync_semaphore_(kSyncsMax) {}

bool FileStore::fits(const FileRef& ref, const PageStoreOptions& options) {
  return ref.size <= kFileBytesMax &&
         CachedFile::overhead_bytes(ref) <= options.capacity_bytes / kOverheadShare;
}

FileStore::FilePtr FileStore::find(const FileId& id) const {
  Shard& part = shard(id);
  std::lock_guard lock(part.mutex);
  auto found = part.files.find(id);
  return found == part.files.end() ? nullptr : found->second;
}

std::vector<FileStore::FilePtr> FileStore::all() const {
  std::vector<FilePtr> files;
  for (const Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    for (const auto& [id, file] : part.files) files.push_back(file);
  }
  return files;
}

bool FileStore::contains(const FileId& id) const {
  FilePtr file = find(id);
  return file != nullptr && !file->doomed();
}

std::vector<ByteRange> FileStore::missing(const FileRef& ref, ByteRange range) const {
  FilePtr file = find(ref.id);
  if (file == nullptr) return {range.widen(kBlockBytes, ref.size)};
  return file->missing(BlockRun::covering(range));
}

uint64_t FileStore::cached_bytes(const FileId& id) const {
  FilePtr file = find(id);
  return file == nullptr || file->doomed() ? 0 : file->present_bytes();
}

uint64_t FileStore::count() const {
  uint64_t count = 0;
  for (const Shard& part : shards_) {
    std::lock_guard lock(part.mutex);
    count += part.files.size();
  }
  return count;
}

bool FileStore::vouched_for() const {
  return std::ranges::all_of(all(), [](const FilePtr& file) { return file->vouched_for(); });
}

Task<Result<>> FileStore::write(Context context, FileRefPtr ref, uint64_t offset, Bytes data) {
  std::vector<uint32_t> crcs;
  for (int tries = 0; tries < kWriteTries; ++tries) {
    LEAT_CO_TRY(FilePtr file, co_await find_or_create(context, ref));
    if (file->present(BlockRun::covering({offset, data.size()}))) co_return Result<>();
    if (crcs.empty()) crcs = block_crcs(data);
    PendingWrite writing{file, ref, offset, data, crcs};
    LEAT_CO_TRY(bool written, co_await write_missing(context, std::move(writing)));
    if (written) co_return Result<>();
  }
  co_return error(StatusCode::kNoSpace,
                  fmt::format("{} of {} not kept in the cache {}: it was dropped during the write",
                              format_bytes(data.size()), ref->key, directory_->options.directory));
}

Task<Result<bool>> FileStore::write_missing(Context context, PendingWrite writing) {
  const auto& [file, ref, offset, data, crcs] = writing;
  LEAT_CO_TRY(Semaphore::Permit permit,
              co_await file->write_semaphore().acquire(context, 1, "the writer of a cache file"));
  Result<FilePairPtr> files = co_await directory_->descriptors.open(context, file);
  if (!files) co_return directory_->write_failed(ref->key, files.error());
  const BlockRun whole = BlockRun::covering({offset, data.size()});
  BlockRun rest = whole;
  while (auto run = file->next_missing(rest)) {
    if (file->doomed()) co_return false;
    ByteRange bytes = run->bytes(ref->size);
    Bytes part = data.sub(bytes.offset - offset, bytes.size);
    auto first = crcs.begin() + static_cast<ptrdiff_t>(run->first - whole.first);
    std::vector<uint32_t> sums(first, first + static_cast<ptrdiff_t>(run->count()));
    LEAT_CO_CHECK_OK(co_await write_run(context, file, *files, ref, *run, part, std::move(sums)));
    rest.first = run->end;
  }
  co_return true;
}

// Order: data, then its record, then the index. A crash leaves blocks that are missing or have a
// checksum.
Task<Result<>> FileStore::write_run(Context context, FilePtr file, FilePairPtr files,
                                    FileRefPtr ref, BlockRun run, Bytes data,
                                    std::vector<uint32_t> crcs) {
  std::optional<uint64_t> reserved = file->reserve(run);
  if (!reserved) co_return directory_->reject_write(*file->pool, ref->key, data.size());
  directory_->note_reserved(*file->pool, *reserved);

  uint64_t offset = run.bytes(ref->size).offset;
  Result<> written = co_await directory_->disk->write(context, files->data.fd(), data, offset);
  if (!written) co_return directory_->write_failed(ref->key, written.error());
  Bytes record = Bytes::copy_of(ObjectMeta::encode_blocks(crcs));
  uint64_t record_at = file->record_offset(run.first);
  written = co_await directory_->disk->write(context, files->side.fd(), record, record_at);
  if (!written) co_return directory_->write_failed(ref->key, written.error());
  directory_->capacity->note_write_accepted();

  bool full = file->publish(run, crcs);
  {
    std::lock_guard lock(eviction_mutex_);
    queues_of(*file->pool).resize(file->id, file->charge.bytes());
  }
  if (full) queue_sync(file);
  co_return Result<>();
}

Result<FileStore::Lookup> FileStore::find_or_insert(const FileRef& ref) {
  Shard& part = shard(ref.id);
  std::lock_guard lock(part.mutex);
  auto found = part.files.find(ref.id);
  if (found != part.files.end()) return Lookup{found->second, false};
  // Checked before the object is created: its memory grows with the object's size, too.
  uint64_t overhead = CachedFile::overhead_bytes(ref);
  PoolPtr pool = directory_->pools.get(ref.pool);
  if (!pool->capacity->reserve(overhead)) {
    return error(StatusCode::kNoSpace, "no room for a new file");
  }
  auto file = std::make_shared<CachedFile>(ref, birth_now_ns(), std::move(pool));
  file->charge.adopt(overhead);
  file->last_pass = file->pool->now();
  part.files.emplace(ref.id, file);
  return Lookup{std::move(file), true};
}

Task<Result<FileStore::FilePtr>> FileStore::find_or_create(Context context, FileRefPtr ref) {
  for (;;) {
    Result<Lookup> found = find_or_insert(*ref);
    if (!found) {
      co_return directory_->reject_write(*directory_->pools.get(ref->pool), ref->key, ref->size);
    }
    FilePtr file = found->file;
    if (found->is_new) {
      Result<> created = co_await create(file, ref);
      if (created) {
        file->created->set(true);
        co_return file;
      }
      bool taken = created.error().code() == StatusCode::kExists;
      Error refused = taken ? directory_->path_occupied(ref->key, created.error())
                            : directory_->write_failed(ref->key, created.error());
      file->doom();
      file->created->set(refused);
      co_await remove(file);
      co_return refused;
    }
    Result<bool> exists = co_await file->created->wait(context, "creation of a cache file");
    if (!exists) co_return Error(exists.error());
    if (!file->doomed()) co_return file;
    Result<bool> gone = co_await file->removed->wait(context, "removal of a cache file");
    if (!gone) co_return Error(gone.error());
  }
}

Task<Result<>> FileStore::create(FilePtr file, FileRefPtr ref) {
  CacheDirectory* directory = directory_.get();
  Result<FilePairPtr> made = co_await directory->blocking([directory, &file,
                                                           &ref]() -> Result<FilePairPtr> {
    // A file that could not be unlinked may still have readers, so it must not be truncated.
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL;
    auto files = std::make_shared<FilePair>();
    LEAT_CHECK_OK(directory->disk->make_directory(directory->path(file->folder_name())));
    LEAT_TRY(files->data, directory->disk->open(directory->path(file->data_name()), kFlags, 0600));
    LEAT_CHECK_OK(directory->disk->truncate(files->data.fd(), ref->size));
    LEAT_TRY(files->side, directory->disk->open(directory->path(file->side_name()), kFlags, 0600));
    LEAT_CHECK_OK(directory->disk->truncate(files->side.fd(), ObjectMeta::file_bytes(*ref)));
    return files;
  });
  note_names_changed(file->id);
  if (!made) co_return Error(made.error());
  Bytes meta = Bytes::copy_of(ObjectMeta::encode_new(*ref));
  int side = (*made)->side.fd();
  Result<> written = co_await directory->disk->write(Context::background(), side, meta, 0);
  if (!written) co_return written;
  directory->descriptors.adopt(file, *made);
  std::lock_guard lock(eviction_mutex_);
  queues_of(*file->pool).insert(file->id, file, file->charge.bytes(), file->birth_ns);
  co_return Result<>();
}

uint64_t FileStore::drop(const FileId& id) {
  FilePtr file = find(id);
  if (file == nullptr) return 0;
  uint64_t bytes = file->present_bytes();
  if (!file->doom()) return 0;
  directory_->spawn(remove_in_background(shared_from_this(), file));
  return bytes;
}

Task<> FileStore::remove_in_background(std::shared_ptr<FileStore> self, FilePtr file) {
  co_await self->remove(file);
}

// Removes a doomed file; called by the task that doomed it.
Task<> FileStore::remove(FilePtr file) {
  auto created = co_await file->created->wait(Context::background(), "creation of a cache file");
  static_cast<void>(created);  // a file that was only half created is unlinked too
  {
    std::lock_guard lock(eviction_mutex_);
    queues_of(*file->pool).remove(file->id);
  }
  const bool gone = co_await directory_->remove_files(*file, file->charge);
  note_names_changed(file->id);
  Shard& part = shard(file->id);
  {
    std::lock_guard lock(part.mutex);
    part.files.erase(file->id);
    auto unread = part.unread.find(file->id);
    if (gone && unread != part.unread.end()) {  // the unreadable file at this path is removed, too
      directory_->capacity->release(unread->second);
      part.unread.erase(unread);
    }
  }
  file->removed->set(true);
}

S3Fifo& FileStore::queues_of(const Pool& pool) const {
  std::unique_ptr<S3Fifo>& queues = eviction_[static_cast<uint64_t>(pool.id)];
  if (queues == nullptr) queues = std::make_unique<S3Fifo>();
  return *queues;
}

std::optional<int64_t> FileStore::oldest_birth(const Pool& pool) const {
  std::lock_guard lock(eviction_mutex_);
  return queues_of(pool).oldest_birth();
}

Task<uint64_t> FileStore::evict_one(PoolPtr pool, bool stale) {
  for (;;) {
    std::optional<FileId> id;
    {
      std::lock_guard lock(eviction_mutex_);
      id = stale ? queues_of(*pool).evict_stale([&](uint64_t last) { return pool->stale(last); })
                 : queues_of(*pool).evict();
    }
    if (!id) co_return 0;
    FilePtr file = find(*id);
    if (file == nullptr) continue;  // just removed
    uint64_t bytes = file->charge.bytes();
    bool mine = file->doom();
    if (!mine) co_return bytes;  // another task removes it and frees these bytes
    co_await remove(file);
    directory_->count_evicted(bytes);
    co_return bytes;
  }
}

Task<uint64_t> FileStore::expire(PoolPtr pool, int64_t before_ns) {
  uint64_t bytes = 0;
  for (const FilePtr& file : all()) {
    if (file->pool != pool || file->birth_ns >= before_ns || !file->doom()) continue;
    bytes += file->charge.bytes();
    co_await remove(file);
  }
  co_return bytes;
}

}  // namespace leat
