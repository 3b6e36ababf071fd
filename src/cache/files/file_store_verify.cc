// SPDX-License-Identifier: Apache-2.0
// FileStore: verification for the kernel. All of a file is compared once in this process before the
// kernel may read it. The comparison reads through the page cache, so the next read is hot. Reads
// compare their own range. The background runs ahead of them, bounded by the bytes already read. So
// a program that reads a little of each file does not cause a full read.
#include <fcntl.h>

#include <algorithm>

#include "cache/files/file_store.h"

namespace leat {
namespace {

// Bytes of one read and comparison.
constexpr uint64_t kPieceBytes = 1 * kMiB;
// Bytes requested from the device at once, ahead of the comparison.
constexpr uint64_t kReadAheadBytes = 8 * kMiB;
// Background lead: kAheadMin, plus kAheadShare bytes for each byte read.
constexpr uint64_t kAheadMin = 16 * kMiB, kAheadShare = 3;
// Maximum lead over the reader: bytes further ahead may leave the page cache before they are read.
constexpr uint64_t kAheadMax = 256 * kMiB;
// A file that is read at once needs no background work.
constexpr auto kDelay = std::chrono::milliseconds(100);

class OpenBackingFile : public BackingFile {
 public:
  OpenBackingFile(std::shared_ptr<CachedFile> object, File file)
      : object_(std::move(object)), file_(std::move(file)) {
    ++object_->holders;
  }
  ~OpenBackingFile() override { --object_->holders; }

  int fd() const override { return file_.fd(); }
  uint64_t size() const override { return object_->size(); }
  bool current() const override { return !object_->doomed(); }

 private:
  const std::shared_ptr<CachedFile> object_;
  const File file_;  // after object_, so that it is closed before the bytes are returned
};

}  // namespace

std::shared_ptr<BackingFile> FileStore::backing(const FileRef& ref) {
  FilePtr file = find(ref.id);
  if (file == nullptr || !file->published()) return nullptr;
  file->note_pass();
  if (file->ready_for_kernel()) return open_backing(file);
  file->kernel_waits = true;
  queue_verification(file);
  return nullptr;
}

std::shared_ptr<BackingFile> FileStore::backing_unverified(const FileRef& ref) {
  FilePtr file = find(ref.id);
  return file == nullptr || !file->published() ? nullptr : open_backing(file);
}

std::shared_ptr<BackingFile> FileStore::open_backing(const FilePtr& file) {
  std::lock_guard lock(file->backing_mutex);
  if (auto open = file->backing.lock()) return open;
  Result<File> descriptor =
      directory_->disk->open(directory_->path(file->data_name()), O_RDONLY, 0);
  // The path may hold the successor of a file that was doomed meanwhile.
  if (!descriptor || !file->published()) return nullptr;
  auto made = std::make_shared<OpenBackingFile>(file, *std::move(descriptor));
  file->backing = made;
  return made;
}

// Each read extends the limit of the background verification.
void FileStore::note_read(const FilePtr& file, ByteRange range) {
  file->note_read(range);
  if (!file->kernel_waits.load(std::memory_order_relaxed)) return;
  if (file->ready_for_kernel()) {
    file->kernel_waits = false;
  } else if (file->published()) {
    queue_verification(file);
  }
}

void FileStore::queue_verification(const FilePtr& file) {
  if (file->verification_queued.load(std::memory_order_relaxed)) return;
  if (file->verification_queued.exchange(true)) return;
  {
    std::lock_guard lock(verification_mutex_);
    verification_queue_.push_back({file, Clock::now() + kDelay});
    if (verifying_) return;
    verifying_ = true;
  }
  directory_->spawn(verify_in_background(shared_from_this()));
}

Task<> FileStore::verify_in_background(std::shared_ptr<FileStore> self) {
  const Context until = Context::background().with_cancel(self->directory_->stopping.get_token());
  for (;;) {
    PendingVerification next;
    {
      std::lock_guard lock(self->verification_mutex_);
      if (self->verification_queue_.empty() || self->directory_->closing) {
        self->verification_queue_.clear();
        self->verifying_ = false;
        co_return;
      }
      next = self->verification_queue_.front();
      self->verification_queue_.pop_front();
    }
    const Clock::time_point now = Clock::now();
    if (next.not_before > now) {
      Result<> slept = co_await sleep_for(until, next.not_before - now);
      if (!slept) continue;
    }
    co_await self->verify_ahead(next.file);
    next.file->verification_queued = false;
  }
}

// Verifies as far as the reads of the file allow now.
Task<> FileStore::verify_ahead(FilePtr file) {
  uint64_t requested_end = 0;
  for (uint64_t at = 0; at < file->size() && !directory_->closing; at += kPieceBytes) {
    const ByteRange piece = ByteRange{at, kPieceBytes}.clamp(file->size());
    if (file->verified(BlockRun::covering(piece))) continue;
    const uint64_t read = file->read_bytes(), ahead = file->verified_ahead;
    if (ahead >= std::min(kAheadMin + kAheadShare * read, kAheadMax + read)) co_return;
    if (piece.end() > requested_end) {
      requested_end = std::min(at + kReadAheadBytes, file->size());
      co_await request_readahead(file, {at, requested_end - at});
    }
    Result<Bytes> bytes = co_await read_file(Context::background(), file, file->data_name(), piece);
    if (!bytes) co_return;
    file->verified_ahead += piece.size;
  }
}

Task<> FileStore::request_readahead(FilePtr file, ByteRange range) {
  Result<FilePairPtr> files = co_await directory_->descriptors.open(Context::background(), file);
  if (!files) co_return;
  CacheDirectory* directory = directory_.get();
  Result<uint64_t> requested = co_await directory->blocking([directory, &files, range] {
    return directory->disk->read_ahead((*files)->data.fd(), range.offset, range.size);
  });
  static_cast<void>(requested);
}

Task<> FileStore::verify_whole(FilePtr file) {
  for (uint64_t at = 0; at < file->size() && !directory_->closing; at += kPieceBytes) {
    ByteRange piece = ByteRange{at, kPieceBytes}.clamp(file->size());
    if (file->verified(BlockRun::covering(piece))) continue;
    Result<Bytes> bytes = co_await read_file(Context::background(), file, file->data_name(), piece);
    if (!bytes) co_return;
  }
}

}  // namespace leat
