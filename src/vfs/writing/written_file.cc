// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/written_file.h"

#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

constexpr int kReadAttempts = 4;

}  // namespace

void WrittenFile::set_below(std::shared_ptr<OpenFile> file) {
  std::lock_guard lock(mutex_);
  below_ = std::move(file);
}

std::shared_ptr<OpenFile> WrittenFile::below() const {
  std::lock_guard lock(mutex_);
  return below_;
}

std::optional<Bytes> WrittenFile::try_read(uint64_t offset, uint64_t size) {
  if (const std::shared_ptr<StagedFile> staged = files_.staged_of(*node_)) {
    return staged->try_read(offset, size);
  }
  const std::shared_ptr<OpenFile> version = below();
  return version ? version->try_read(offset, size) : std::nullopt;
}

Task<Result<Bytes>> WrittenFile::read(Context context, uint64_t offset, uint64_t size) {
  if (const std::shared_ptr<StagedFile> staged = files_.staged_of(*node_)) {
    Result<Bytes> bytes = co_await staged->read(context, offset, size);
    co_return bytes;
  }
  std::shared_ptr<OpenFile> version = below();
  if (version) {
    Result<Bytes> bytes = co_await version->read(context, offset, size);
    if (bytes || bytes.error().code() != StatusCode::kVersionChanged) co_return bytes;
  }
  // A rename from here gives the same bytes another key; several may follow each other.
  Result<Bytes> bytes = error(StatusCode::kVersionChanged, "not read yet");
  for (int attempt = 0; attempt < kReadAttempts && !bytes; ++attempt) {
    if (bytes.error().code() != StatusCode::kVersionChanged) break;
    co_await files_.outdate_below(context, node_);
    LEAT_CO_TRY(version, co_await files_.open_below(context, node_));
    bytes = co_await version->read(context, offset, size);
  }
  co_return bytes;
}

std::shared_ptr<BackingFile> WrittenFile::backing() {
  return files_.write_directly(node_);
}

Task<Result<>> WrittenFile::write(Context context, uint64_t offset, Bytes data) {
  bool done = false;
  while (!done) {
    LEAT_CO_CHECK_OK(co_await files_.stage(context, node_, /*empty=*/false));
    const std::shared_ptr<StagedFile> staged = files_.staged_of(*node_);
    LEAT_CO_TRY(done, co_await staged->write(context, offset, data));
  }
  files_.note_written(*node_);
  files_.stream_written(node_);
  co_return Result<>();
}

Task<Result<>> WrittenFile::allocate(Context context, int mode, uint64_t offset, uint64_t size) {
  bool done = false;
  while (!done) {
    LEAT_CO_CHECK_OK(co_await files_.stage(context, node_, /*empty=*/false));
    const std::shared_ptr<StagedFile> staged = files_.staged_of(*node_);
    LEAT_CO_TRY(done, co_await staged->allocate(context, mode, offset, size));
  }
  files_.note_written(*node_);
  co_return Result<>();
}

Task<Result<>> WrittenFile::flush(Context context) {
  Result<> saved = co_await files_.save(context, node_);
  co_return saved;
}

Task<Result<>> WrittenFile::synchronise(Context context) {
  Result<> saved = co_await files_.save(context, node_, /*ordered=*/true);
  co_return saved;
}

bool WrittenFile::try_close() {
  return files_.try_close(node_);
}

Task<Result<>> WrittenFile::close(Context context) {
  Result<> closed = co_await files_.close(context, node_);
  co_return closed;
}

}  // namespace leat
