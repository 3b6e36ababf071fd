// SPDX-License-Identifier: Apache-2.0
// FileStore: read, verify, sync. Bytes leave here only after they matched their checksum once in
// this process. Wrong bytes are dropped and read as missing.
#include <fmt/format.h>

#include "base/crc32c.h"
#include "cache/files/file_store.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Beginning of a file that is read ahead into the page cache.
constexpr uint64_t kBeginningBytes = 2 * kMiB;

}  // namespace

std::optional<Bytes> FileStore::try_read(const FileRef& ref, ByteRange range) {
  FilePtr file = find(ref.id);
  if (file == nullptr) return std::nullopt;
  // Order matters: descriptors opened after the file was doomed may belong to its successor.
  FilePairPtr files = file->open_files();
  if (files == nullptr) return std::nullopt;
  BlockRun run = BlockRun::covering(range);
  std::optional<CachedFile::Checks> checks;  // none in the steady state
  if (!file->verified(run)) {
    checks = file->checks(run);
    if (!checks) return std::nullopt;
  }
  ByteRange wide = checks ? run.bytes(file->size()) : range;
  Buffer buffer(wide.size);
  if (!directory_->disk->try_read(files->data.fd(), buffer.span(), wide.offset)) {
    return std::nullopt;
  }
  if (checks) {
    if (first_wrong(*file, *checks, buffer.span(), wide)) return std::nullopt;  // read() handles it
    note_matched(file, *checks);
  }
  note_read(file, range);
  return Bytes(std::move(buffer)).sub(range.offset - wide.offset, range.size);
}

// Only the beginning of a complete file: the kernel reads such a file and its read-ahead does the
// rest.
std::optional<FileExtent> FileStore::file_extent(const FileId& id) const {
  const FilePtr file = find(id);
  if (file == nullptr || !file->published()) return std::nullopt;
  return FileExtent{file, 0, std::min(file->size(), kBeginningBytes)};
}

Task<Result<Bytes>> FileStore::read(Context context, FileRefPtr ref, ByteRange range) {
  FilePtr file = find(ref->id);
  if (file == nullptr) co_return not_cached(ref->key);
  Result<Bytes> bytes = co_await read_file(context, file, ref->key, range);
  if (bytes) note_read(file, range);
  co_return bytes;
}

Task<Result<Bytes>> FileStore::read_file(Context context, FilePtr file, std::string key,
                                         ByteRange range) {
  BlockRun run = BlockRun::covering(range);
  if (!file->present(run)) co_return not_cached(key);
  Result<FilePairPtr> files = co_await directory_->descriptors.open(context, file);
  if (!files && !lost_by_open(files.error())) co_return not_readable(key, files.error());
  if (!files) {
    Result<Bytes> answer = co_await drop_corrupt(file, nullptr, key, BlockRun{0, file->blocks()},
                                                 files.error().to_string());
    co_return answer;
  }
  if (!file->present(run)) co_return not_cached(key);  // removed while it was being opened
  if (!file->verified(run)) {
    Result<Bytes> checked = co_await read_checked(context, file, *files, key, range);
    co_return checked;
  }
  Buffer buffer(range.size);
  Result<size_t> got =
      co_await directory_->disk->read(context, (*files)->data.fd(), buffer.span(), range.offset);
  if (got && *got == range.size) co_return Bytes(std::move(buffer));
  if (!got && !lost_by_read(got.error())) co_return not_readable(key, got.error());
  std::string why = got ? "the file is cut short" : got.error().to_string();
  Result<Bytes> answer = co_await drop_corrupt(file, *files, key, run, why);
  co_return answer;
}

// Reads the whole blocks around `range` and compares those that were not verified before.
Task<Result<Bytes>> FileStore::read_checked(Context context, FilePtr file, FilePairPtr files,
                                            std::string key, ByteRange range) {
  BlockRun run = BlockRun::covering(range);
  std::optional<CachedFile::Checks> checks = file->checks(run);
  if (!checks) {
    Result<> learnt = co_await read_checksums(file, files);
    if (!learnt && !lost_by_read(learnt.error())) co_return not_readable(key, learnt.error());
    if (!learnt) {
      Result<Bytes> answer = co_await drop_corrupt(file, files, key, BlockRun{0, file->blocks()},
                                                   learnt.error().to_string());
      co_return answer;
    }
    checks = file->checks(run);
    if (!checks) co_return not_cached(key);  // lost meanwhile
  }
  ByteRange wide = run.bytes(file->size());
  Buffer buffer(wide.size);
  Result<size_t> got =
      co_await directory_->disk->read(context, files->data.fd(), buffer.span(), wide.offset);
  if (!got && !lost_by_read(got.error())) co_return not_readable(key, got.error());
  if (!got || *got != wide.size) {
    std::string why = got ? "the file is cut short" : got.error().to_string();
    Result<Bytes> answer = co_await drop_corrupt(file, files, key, run, why);
    co_return answer;
  }
  if (auto wrong = first_wrong(*file, *checks, buffer.span(), wide)) {
    Result<Bytes> answer = co_await drop_corrupt(file, files, key, *wrong, "its checksum differs");
    co_return answer;
  }
  note_matched(file, *checks);
  co_return Bytes(std::move(buffer)).sub(range.offset - wide.offset, range.size);
}

// `bytes` holds the whole blocks of `range`.
std::optional<BlockRun> FileStore::first_wrong(const CachedFile& file,
                                               const CachedFile::Checks& checks,
                                               std::span<const std::byte> bytes,
                                               ByteRange range) const {
  for (const CachedFile::Check& check : checks) {
    BlockRun one{check.block, check.block + 1};
    ByteRange place = one.bytes(file.size());
    if (crc32c(bytes.subspan(place.offset - range.offset, place.size)) != check.crc) return one;
  }
  return std::nullopt;
}

// Bytes that are not synced are compared on each read, so a read requests a sync.
void FileStore::note_matched(const FilePtr& file, const CachedFile::Checks& checks) {
  if (file->note_matched(checks)) queue_sync(file);
}

// Uses the open descriptor, since another open may fail for lack of descriptors.
Task<Result<>> FileStore::read_checksums(FilePtr file, FilePairPtr files) {
  Buffer bytes(file->record_offset(file->blocks()));
  LEAT_CO_TRY(size_t got, co_await directory_->disk->read(Context::background(), files->side.fd(),
                                                          bytes.span(), 0));
  LEAT_CO_TRY(ObjectMeta meta, ObjectMeta::decode(bytes.span().first(got)));
  if (meta.ref.id != file->id || !file->load_checksums(meta.blocks)) {
    co_return error(StatusCode::kCorrupt, "the .meta file lacks checksums");
  }
  co_return Result<>();
}

// The bytes of `run` are lost. An incomplete file loses those blocks. A complete file never
// changes, so it is removed as a whole.
Task<Result<Bytes>> FileStore::drop_corrupt(FilePtr file, FilePairPtr files, std::string key,
                                            BlockRun run, std::string why) {
  if (file->doomed()) co_return not_cached(key);
  bool in_part = files != nullptr && file->discard(run);
  directory_->report_corrupt(
      in_part ? fmt::format("blocks {} to {} of {}", run.first, run.end - 1, key) : "all of " + key,
      fmt::format("{}: {}", file->data_name(), why), run.count());
  if (in_part) {
    Bytes record = Bytes::copy_of(ObjectMeta::encode_no_blocks(run.count()));
    // If this fails, the checksum detects the block again after the next start.
    Result<> cleared = co_await directory_->disk->write(Context::background(), files->side.fd(),
                                                        record, file->record_offset(run.first));
    static_cast<void>(cleared);
  } else {
    const bool mine = file->doom();
    directory_->notify_damage(file->id);
    if (mine) co_await remove(file);
    co_return not_cached(key);
  }
  directory_->notify_damage(file->id);
  co_return not_cached(key);
}

void FileStore::queue_sync(const FilePtr& file) {
  if (file->sync_queued.exchange(true)) return;
  directory_->spawn(sync_in_background(shared_from_this(), file));
}

Task<> FileStore::sync_in_background(std::shared_ptr<FileStore> self, FilePtr file) {
  auto permit =
      co_await self->sync_semaphore_.acquire(Context::background(), 1, "a sync of a cache file");
  file->sync_queued = false;  // later writes must queue again
  Result<> settled = co_await self->sync_file(file);
  if (!settled) {
    log::warning("cache {}: {}", self->directory_->options.directory, settled.error().to_string());
  }
}

// Syncs the written blocks, which verifies them, and marks a full file complete.
Task<Result<>> FileStore::sync_file(FilePtr file) {
  if (file->doomed() || file->synced()) co_return Result<>();
  const std::shared_ptr<Disk>& disk = directory_->disk;
  const Context background = Context::background();
  Result<FilePairPtr> files = co_await directory_->descriptors.open(background, file);
  if (!files) co_return Error(files.error().with_context("cannot sync " + file->data_name()));
  CachedFile::SyncPoint point = file->sync_point();
  Result<> synced = co_await disk->sync(background, (*files)->data.fd());
  if (!synced) {
    // The kernel has discarded the pages that it could not write; no part of the file is reliable.
    Result<Bytes> answer = co_await drop_corrupt(
        file, nullptr, file->data_name(), BlockRun{0, file->blocks()}, synced.error().to_string());
    co_return Error(synced.error().with_context("cannot sync " + file->data_name()));
  }
  synced = co_await disk->sync(background, (*files)->side.fd());
  if (!synced) co_return Error(synced.error().with_context("cannot sync " + file->side_name()));
  file->note_synced(point);
  // Blocks of an earlier run may be wrong, and the kernel reads without a check.
  if (point.full) co_await verify_whole(file);
  if (file->freeze(point)) {
    Result<> complete = co_await mark_complete(file, *files);
    co_return complete;
  }
  co_return Result<>();
}

Task<Result<>> FileStore::mark_complete(FilePtr file, FilePairPtr files) {
  const std::shared_ptr<Disk>& disk = directory_->disk;
  const Context background = Context::background();
  Bytes state = Bytes::copy_of(ObjectMeta::encode_state(ObjectMeta::State::kComplete));
  LEAT_CO_CHECK_OK(
      co_await disk->write(background, files->side.fd(), state, ObjectMeta::kStateOffset));
  LEAT_CO_CHECK_OK(co_await disk->sync(background, files->side.fd()));
  CacheDirectory* directory = directory_.get();
  LEAT_CO_CHECK_OK(co_await directory->blocking([directory, &file]() -> Result<> {
    LEAT_CHECK_OK(directory->disk->sync_directory(directory->path(file->folder_name())));
    return directory->disk->sync_directory(directory->path("files"));
  }));
  file->set_published();
  co_return Result<>();
}

Task<Result<>> FileStore::flush() {
  Result<> first_failure;
  for (const FilePtr& file : all()) {
    Result<> settled = co_await sync_file(file);
    if (!settled && first_failure) first_failure = settled;
    if (!file->doomed()) continue;
    auto gone = co_await file->removed->wait(Context::background(), "removal of a cache file");
    static_cast<void>(gone);
  }
  Result<> synced = co_await directory_->blocking([this] { return sync_names(); });
  if (!synced && first_failure) first_failure = synced;
  co_return first_failure;
}

// An incomplete file needs its name durable as a complete one does. A removed file must not return
// after a power cut: one of its files could be trusted beside one of its successor.
Result<> FileStore::sync_names() {
  bool any = false;
  for (size_t folder = 0; folder < folders_changed_.size(); ++folder) {
    if (!folders_changed_[folder].exchange(false)) continue;
    any = true;
    Result<> synced =
        directory_->disk->sync_directory(directory_->path(fmt::format("files/{:02x}", folder)));
    if (synced || synced.error().code() == StatusCode::kNotFound) continue;
    folders_changed_[folder] = true;
    return synced;
  }
  return any ? directory_->disk->sync_directory(directory_->path("files")) : Result<>();
}

}  // namespace leat
