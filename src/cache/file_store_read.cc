// SPDX-License-Identifier: Apache-2.0
// Reading, verifying and making durable. Nothing leaves here that did not match its checksum once
// in this process; what does not match goes, and reads as missing.
#include <fcntl.h>
#include <fmt/format.h>

#include "base/crc32c.h"
#include "cache/file_store.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Verification in the background reads in pieces of this size.
constexpr uint64_t kVerifyBytes = 1 * kMiB;

class OpenBackingFile : public BackingFile {
 public:
  OpenBackingFile(std::shared_ptr<CachedFile> object, File file)
      : object_(std::move(object)), file_(std::move(file)) {
    ++object_->holders;
  }
  ~OpenBackingFile() override { --object_->holders; }

  int fd() const override { return file_.fd(); }
  uint64_t size() const override { return object_->size(); }

 private:
  const std::shared_ptr<CachedFile> object_;
  const File file_;  // after object_, so that it is closed before the bytes are given back
};

Error not_here(const std::string& key) {
  return error(StatusCode::kNotFound, fmt::format("{} is not in the cache", key));
}

}  // namespace

std::optional<Bytes> FileStore::try_read(const FileRef& ref, ByteRange range) {
  FilePtr file = find(ref.id);
  if (file == nullptr) return std::nullopt;
  // In this order: descriptors opened after the file was doomed may belong to its successor.
  OpenFilesPtr files = file->opened();
  if (files == nullptr || !file->verified(BlockRun::covering(range))) return std::nullopt;
  Buffer buffer(range.size);
  if (!directory_->disk->try_read(files->data.fd(), buffer.span(), range.offset)) {
    return std::nullopt;
  }
  file->note_read(range);
  return Bytes(std::move(buffer));
}

Task<Result<Bytes>> FileStore::read(Context context, FileRefPtr ref, ByteRange range) {
  FilePtr file = find(ref->id);
  if (file == nullptr) co_return not_here(ref->key);
  Result<Bytes> bytes = co_await read_file(context, file, ref->key, range);
  if (bytes) file->note_read(range);
  co_return bytes;
}

Task<Result<Bytes>> FileStore::read_file(Context context, FilePtr file, std::string key,
                                         ByteRange range) {
  BlockRun run = BlockRun::covering(range);
  if (!file->present(run)) co_return not_here(key);
  Result<OpenFilesPtr> files = co_await directory_->descriptors.open(context, file);
  if (!files && ended_by_caller(files.error())) co_return Error(files.error());
  if (!files) {
    Result<Bytes> answer =
        co_await lost(file, nullptr, key, BlockRun{0, file->blocks()}, files.error().to_string());
    co_return answer;
  }
  if (!file->present(run)) co_return not_here(key);  // removed while it was opened
  if (!file->verified(run)) {
    Result<Bytes> checked = co_await read_checked(context, file, *files, key, range);
    co_return checked;
  }
  Buffer buffer(range.size);
  Result<size_t> got =
      co_await directory_->disk->read(context, (*files)->data.fd(), buffer.span(), range.offset);
  if (got && *got == range.size) co_return Bytes(std::move(buffer));
  if (!got && ended_by_caller(got.error())) co_return Error(got.error());
  std::string why = got ? "the file is cut short" : got.error().to_string();
  Result<Bytes> answer = co_await lost(file, *files, key, run, why);
  co_return answer;
}

// Reads the whole blocks around `range` and compares those not yet verified with their records.
Task<Result<Bytes>> FileStore::read_checked(Context context, FilePtr file, OpenFilesPtr files,
                                            std::string key, ByteRange range) {
  BlockRun run = BlockRun::covering(range);
  Result<CachedFile::Records> crcs = co_await records(file);
  if (!crcs) {
    Result<Bytes> answer =
        co_await lost(file, files, key, BlockRun{0, file->blocks()}, crcs.error().to_string());
    co_return answer;
  }
  ByteRange wide = run.bytes(file->size());
  Buffer buffer(wide.size);
  Result<size_t> got =
      co_await directory_->disk->read(context, files->data.fd(), buffer.span(), wide.offset);
  if (!got && ended_by_caller(got.error())) co_return Error(got.error());
  if (!got || *got != wide.size) {
    std::string why = got ? "the file is cut short" : got.error().to_string();
    Result<Bytes> answer = co_await lost(file, files, key, run, why);
    co_return answer;
  }
  for (uint64_t block = run.first; block < run.end; ++block) {
    BlockRun one{block, block + 1};
    if (file->verified(one)) continue;
    ByteRange bytes = one.bytes(file->size());
    auto content = buffer.span().subspan(bytes.offset - wide.offset, bytes.size);
    if ((**crcs)[block] != crc32c(content)) {
      Result<Bytes> answer = co_await lost(file, files, key, one, "its checksum differs");
      co_return answer;
    }
    file->mark_verified(one);
  }
  co_return Bytes(std::move(buffer)).sub(range.offset - wide.offset, range.size);
}

Task<Result<CachedFile::Records>> FileStore::records(FilePtr file) {
  if (CachedFile::Records known = file->records()) co_return known;
  CacheDirectory* directory = directory_.get();
  Result<CachedFile::Records> loaded =
      co_await directory->executor.blocking([directory, &file]() -> Result<CachedFile::Records> {
        LEAT_TRY(Buffer bytes, directory->disk->read_file(directory->path(file->side_name()),
                                                          file->record_offset(file->blocks())));
        LEAT_TRY(ObjectMeta meta, ObjectMeta::decode(bytes.span()));
        return std::make_shared<const std::vector<std::optional<uint32_t>>>(std::move(meta.blocks));
      });
  if (loaded) file->set_records(*loaded);
  co_return loaded;
}

// The bytes of `run` cannot be had. A file still being filled loses those blocks; a complete one is
// never changed, so it goes as a whole.
Task<Result<Bytes>> FileStore::lost(FilePtr file, OpenFilesPtr files, std::string key, BlockRun run,
                                    std::string why) {
  if (file->doomed()) co_return not_here(key);
  bool in_part = files != nullptr && file->lose(run);
  directory_->corrupt(
      in_part ? fmt::format("blocks {} to {} of {}", run.first, run.end - 1, key) : "all of " + key,
      fmt::format("{}: {}", file->data_name(), why), run.count());
  if (in_part) {
    Bytes record = Bytes::copy_of(ObjectMeta::encode_no_blocks(run.count()));
    // Where this fails, the checksum finds the block again after the next start.
    Result<> cleared = co_await directory_->disk->write(Context::background(), files->side.fd(),
                                                        record, file->record_offset(run.first));
    static_cast<void>(cleared);
  } else {
    bool mine = file->doom();
    if (mine) co_await remove(file);
  }
  co_return not_here(key);
}

Task<> FileStore::settle_in_background(std::shared_ptr<FileStore> self, FilePtr file) {
  auto permit = co_await self->settling_.acquire(Context::background(), 1, "a turn to sync");
  Result<> settled = co_await self->settle(file);
  if (!settled) {
    log::warning("cache {}: {}", self->directory_->options.directory, settled.error().to_string());
  }
}

// Data, then the record that calls it complete.
Task<Result<>> FileStore::settle(FilePtr file) {
  if (file->doomed() || file->synced()) co_return Result<>();
  const std::shared_ptr<Disk>& disk = directory_->disk;
  const Context background = Context::background();
  Result<OpenFilesPtr> files = co_await directory_->descriptors.open(background, file);
  if (!files) co_return Error(files.error().with_context("cannot sync " + file->data_name()));
  CachedFile::SyncPoint point = file->sync_point();
  Result<> synced = co_await disk->sync(background, (*files)->data.fd());
  if (!synced) {
    // The kernel has thrown away what it could not write; nothing of the file can be relied on.
    Result<Bytes> answer = co_await lost(file, nullptr, file->data_name(),
                                         BlockRun{0, file->blocks()}, synced.error().to_string());
    co_return Error(synced.error().with_context("cannot sync " + file->data_name()));
  }
  synced = co_await disk->sync(background, (*files)->side.fd());
  if (!synced) co_return Error(synced.error().with_context("cannot sync " + file->side_name()));
  bool complete = file->note_synced(point);
  if (!complete) co_return Result<>();

  Bytes state = Bytes::copy_of(ObjectMeta::encode_state(ObjectMeta::State::kComplete));
  LEAT_CO_CHECK_OK(
      co_await disk->write(background, (*files)->side.fd(), state, ObjectMeta::kStateOffset));
  LEAT_CO_CHECK_OK(co_await disk->sync(background, (*files)->side.fd()));
  CacheDirectory* directory = directory_.get();
  LEAT_CO_CHECK_OK(co_await directory->executor.blocking([directory, &file]() -> Result<> {
    LEAT_CHECK_OK(directory->disk->sync_directory(directory->path(file->folder_name())));
    return directory->disk->sync_directory(directory->path("files"));
  }));
  file->set_published();
  co_return Result<>();
}

Task<Result<>> FileStore::flush() {
  Result<> first_failure;
  for (const FilePtr& file : all()) {
    Result<> settled = co_await settle(file);
    if (!settled && first_failure) first_failure = settled;
  }
  co_return first_failure;
}

std::shared_ptr<BackingFile> FileStore::backing(const FileRef& ref) {
  FilePtr file = find(ref.id);
  if (file == nullptr || !file->published()) return nullptr;
  file->touch();
  if (!file->ready_for_kernel()) {
    queue_verification(file);
    return nullptr;
  }
  std::lock_guard lock(file->backing_mutex);
  if (auto open = file->backing.lock()) return open;
  Result<File> descriptor =
      directory_->disk->open(directory_->path(file->data_name()), O_RDONLY, 0);
  // What is at the path may be the successor of a file that was doomed meanwhile.
  if (!descriptor || !file->published()) return nullptr;
  auto made = std::make_shared<OpenBackingFile>(file, *std::move(descriptor));
  file->backing = made;
  return made;
}

void FileStore::queue_verification(const FilePtr& file) {
  if (file->verification_queued.exchange(true)) return;
  {
    std::lock_guard lock(verification_mutex_);
    verification_queue_.push_back(file);
    if (verifying_) return;
    verifying_ = true;
  }
  directory_->spawn(verify_in_background(shared_from_this()));
}

Task<> FileStore::verify_in_background(std::shared_ptr<FileStore> self) {
  for (;;) {
    FilePtr file;
    {
      std::lock_guard lock(self->verification_mutex_);
      if (self->verification_queue_.empty() || self->directory_->closing) {
        self->verification_queue_.clear();
        self->verifying_ = false;
        co_return;
      }
      file = self->verification_queue_.front();
      self->verification_queue_.pop_front();
    }
    co_await self->verify_whole(file);
    file->verification_queued = false;
  }
}

Task<> FileStore::verify_whole(FilePtr file) {
  for (uint64_t at = 0; at < file->size() && !directory_->closing; at += kVerifyBytes) {
    ByteRange piece = ByteRange{at, kVerifyBytes}.clamp(file->size());
    if (file->verified(BlockRun::covering(piece))) continue;
    Result<Bytes> bytes = co_await read_file(Context::background(), file, file->data_name(), piece);
    if (!bytes) co_return;
  }
}

}  // namespace leat
