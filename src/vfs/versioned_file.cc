// SPDX-License-Identifier: Apache-2.0
#include "vfs/versioned_file.h"

#include <algorithm>

#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter reads_in_place("leat_vfs_reads_total", "Reads of open files", R"(answered="in_place")");
Counter reads_from_disk("leat_vfs_reads_total", "Reads of open files", R"(answered="from_disk")");
Counter reads_from_store("leat_vfs_reads_total", "Reads of open files", R"(answered="from_store")");
Counter read_bytes("leat_vfs_read_bytes_total", "Bytes that reads of open files returned");
Counter read_errors("leat_vfs_read_errors_total", "Reads of open files that failed");

}  // namespace

VersionedFile::VersionedFile(const VersionedFileParts& parts, NodePtr node)
    : parts_(parts), node_(std::move(node)), streams_(node_->ref->size, StreamOptions{}) {}

std::optional<Bytes> VersionedFile::try_read(uint64_t offset, uint64_t size) {
  const ByteRange range = within(offset, size);
  if (range.empty()) return Bytes();
  std::optional<Bytes> bytes = parts_.fetcher.try_read(*node_->ref, range);
  if (!bytes) return std::nullopt;  // read() follows and notes the stream
  look_ahead(range);
  reads_in_place.add();
  read_bytes.add(range.size);
  return bytes;
}

Task<Result<Bytes>> VersionedFile::read(Context context, uint64_t offset, uint64_t size) {
  const ByteRange range = within(offset, size);
  if (range.empty()) co_return Bytes();
  const bool local = on_disk(range);
  look_ahead(range);
  Result<Bytes> bytes = co_await parts_.fetcher.read(context, node_->ref, range);
  if (!bytes) {
    read_errors.add();
    Status status = bytes.error().with_context("cannot read " + parts_.path(*node_));
    if (status.code() == StatusCode::kChanged) parts_.changed(*node_, status);
    co_return error(std::move(status));
  }
  if (local) {
    reads_from_disk.add();
  } else {
    reads_from_store.add();
    streams_.reader_waited(range);
  }
  read_bytes.add(range.size);
  co_return std::move(*bytes);
}

std::shared_ptr<BackingFile> VersionedFile::backing() {
  return parts_.store == nullptr ? nullptr : parts_.store->backing(*node_->ref);
}

ByteRange VersionedFile::within(uint64_t offset, uint64_t size) const {
  const uint64_t file_size = node_->ref->size;
  if (offset >= file_size) return {file_size, 0};
  return {offset, std::min(size, file_size - offset)};
}

void VersionedFile::look_ahead(ByteRange read) {
  for (const ByteRange& ahead : streams_.observe(read)) {
    if (parts_.fetcher.prefetch(node_->ref, ahead)) continue;
    streams_.refused(ahead);
    break;
  }
}

bool VersionedFile::on_disk(ByteRange range) const {
  return parts_.store != nullptr && parts_.store->missing(*node_->ref, range).empty();
}

}  // namespace leat
