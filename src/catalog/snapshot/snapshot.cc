// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot/snapshot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/crc32c.h"
#include "base/records.h"
#include "catalog/snapshot/snapshot_entry.h"
#include "catalog/snapshot/snapshot_layout.h"
#include "catalog/snapshot/snapshot_order.h"

namespace leat {
namespace {

using namespace snapshot_layout;

Error damaged(std::string_view what) {
  return error(StatusCode::kCorrupt, fmt::format("it {}", what));
}

template <class T>
T number_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Returns the part of `bytes` at `offset`, or nothing if it reaches beyond the end.
std::optional<std::span<const std::byte>> part(std::span<const std::byte> bytes, uint64_t offset,
                                               uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(offset, size);
}

}  // namespace

Result<std::shared_ptr<const Snapshot>> Snapshot::open(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return error(status_from_errno(errno, "open the snapshot " + path));
  return open(file, path);
}

Result<std::shared_ptr<const Snapshot>> Snapshot::open(const File& file, const std::string& name) {
  std::shared_ptr<Snapshot> snapshot(new Snapshot());
  LEAT_CHECK_OK(snapshot->map(file, name));
  Result<> whole = snapshot->check(Verify::kAll);
  if (!whole) {
    return error(whole.error().with_context(fmt::format("the snapshot {} cannot be used", name)));
  }
  return snapshot;
}

Result<SnapshotHead> Snapshot::read_head(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return error(status_from_errno(errno, "open the snapshot " + path));
  Snapshot snapshot;
  LEAT_CHECK_OK(snapshot.map(file, path));
  LEAT_CHECK_OK(snapshot.check(Verify::kHead));
  return snapshot.head_;
}

Snapshot::~Snapshot() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<> Snapshot::map(const File& file, const std::string& name) {
  struct stat info;
  int failed = ::fstat(file.fd(), &info) == 0 ? 0 : errno;
  void* mapped = nullptr;
  const auto size = static_cast<size_t>(failed == 0 ? info.st_size : 0);
  if (size > 0) {
    mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (mapped == MAP_FAILED) failed = errno;
  }
  if (failed != 0) return error(status_from_errno(failed, "map the snapshot " + name));
  if (size > 0) bytes_ = {static_cast<const std::byte*>(mapped), size};
  return {};
}

Result<> Snapshot::check(Verify what) {
  if (bytes_.size() < kHeaderBytes) return damaged("is cut short");
  RecordReader reader(bytes_.first(kHeaderBytes));
  if (reader.get_text(kMagic.size()) != kMagic) return damaged("is no snapshot");
  if (number_at<uint32_t>(bytes_, kHeaderCrcOffset) != crc32c(bytes_.first(kHeaderCrcOffset))) {
    return damaged("has a header that does not match its checksum");
  }
  const auto version = reader.get<uint32_t>();
  const auto header_bytes = reader.get<uint32_t>();
  const auto features = reader.get<uint64_t>();
  if (version != kFormatVersion || header_bytes != kHeaderBytes || features != 0) {
    return error(StatusCode::kUnsupported,
                 fmt::format("it was written by a newer leat (format {}, features {:#x}); use that "
                             "version, or build the snapshot again",
                             version, features));
  }
  head_.id = reader.get_id();
  head_.store = StoreId(reader.get_id());
  head_.created_ns = reader.get<int64_t>();
  head_.files = reader.get<uint64_t>();
  head_.directories = reader.get<uint64_t>();
  head_.bytes = reader.get<uint64_t>();
  head_.skipped = reader.get<uint64_t>();
  seed_ = reader.get<uint64_t>();
  const auto source_bytes = reader.get<uint32_t>(), prefix_bytes = reader.get<uint32_t>();
  const auto blocks_at = reader.get<uint64_t>(), blocks_size = reader.get<uint64_t>();
  const auto index_at = reader.get<uint64_t>(), hashes_at = reader.get<uint64_t>();
  const auto file_size = reader.get<uint64_t>();
  const auto crc = reader.get<uint32_t>();
  if (file_size != bytes_.size()) return damaged("is cut short, or longer than it was");
  if (what == Verify::kAll && crc != crc32c(bytes_.subspan(kHeaderBytes))) {
    return damaged("does not match its checksum");
  }

  entries_ = head_.files + head_.directories;
  const bool countable = head_.files < UINT32_MAX && head_.directories < UINT32_MAX;
  if (!countable || entries_ >= UINT32_MAX) return damaged("counts more than it can hold");
  auto source = part(bytes_, kHeaderBytes, source_bytes);
  auto prefix = part(bytes_, kHeaderBytes + uint64_t{source_bytes}, prefix_bytes);
  auto blocks = part(bytes_, blocks_at, blocks_size);
  auto index =
      part(bytes_, index_at, (entries_ + kBlockEntries - 1) / kBlockEntries * sizeof(uint64_t));
  auto hashes = part(bytes_, hashes_at, slots_for(entries_) * kSlotBytes);
  if (!source || !prefix || !blocks || !index || !hashes) return damaged("has parts outside of it");
  head_.source = std::string(reinterpret_cast<const char*>(source->data()), source->size());
  head_.prefix = std::string(reinterpret_cast<const char*>(prefix->data()), prefix->size());
  blocks_ = *blocks;
  block_index_ = *index;
  hashes_ = *hashes;
  return {};
}

uint64_t Snapshot::block_offset(uint64_t block) const {
  return number_at<uint64_t>(block_index_, block * sizeof(uint64_t));
}

std::optional<SnapshotEntry> Snapshot::find(std::string_view path) const {
  std::optional<NumberedEntry> place = locate(path);
  if (!place) return std::nullopt;
  place->entry.number = place->number;
  return std::move(place->entry);
}

std::optional<Snapshot::NumberedEntry> Snapshot::locate(std::string_view path) const {
  const uint64_t hash = hash_of(path, seed_), slots = slots_for(entries_);
  uint64_t slot = slot_of(hash, slots);
  NumberedEntry place;
  place.entry.path.reserve(path.size() + 32);  // neighbouring entries are about as long
  for (uint64_t tries = 0; tries < slots; ++tries, slot = slot + 1 == slots ? 0 : slot + 1) {
    const auto number = number_at<uint32_t>(hashes_, slot * kSlotBytes);
    if (number == 0) return std::nullopt;
    const auto mark = number_at<uint32_t>(hashes_, slot * kSlotBytes + sizeof number);
    if (mark != static_cast<uint32_t>(hash) || number > entries_) continue;
    place.number = number - 1;
    const uint64_t block = place.number / kBlockEntries;
    uint64_t offset = block_offset(block);
    bool good = offset <= blocks_.size();
    place.entry.path.clear();
    for (uint64_t i = block * kBlockEntries; good && i < place.number; ++i) {
      good = read_path(blocks_, offset, place.entry);
    }
    good = good && read_entry(blocks_, offset, place.entry);
    if (good && place.entry.path == path) return place;
  }
  return std::nullopt;
}

std::optional<Snapshot::Cursor> Snapshot::below(std::string_view directory) const {
  if (directory.empty()) return all();
  std::optional<NumberedEntry> place = locate(directory);
  if (!place || place->entry.kind != FileKind::kDirectory) return std::nullopt;
  const uint64_t first = place->number + 1;
  return Cursor(*this, first, first + std::min(place->entry.below, entries_ - first));
}

uint64_t Snapshot::lower_bound(std::string_view path) const {
  // Finds the last block that begins before `path`, then compares its entries one by one.
  uint64_t block = 0, behind = (entries_ + kBlockEntries - 1) / kBlockEntries;
  while (behind - block > 1) {
    const uint64_t middle = block + (behind - block) / 2;
    const uint64_t offset = block_offset(middle);
    if (offset > blocks_.size()) return entries_;
    (compare_paths(path_of_entry(blocks_, offset).path, path) < 0 ? block : behind) = middle;
  }
  Cursor cursor(*this, block * kBlockEntries, entries_);
  while (cursor.advance()) {
    if (compare_paths(cursor.entry().path, path) >= 0) return cursor.number() - 1;
  }
  return entries_;
}

// Reads the entries before it in its block, since they share prefixes.
void Snapshot::Cursor::seek(uint64_t number) {
  at_ = std::min(number, end_);
  if (at_ >= end_) return;
  const uint64_t block = at_ / kBlockEntries;
  offset_ = snapshot_->block_offset(block);
  if (offset_ > snapshot_->blocks_.size()) {
    at_ = end_;
    return;
  }
  last_.path.clear();
  for (uint64_t i = block * kBlockEntries; i < at_; ++i) {
    if (!read_path(snapshot_->blocks_, offset_, last_)) end_ = at_;
  }
}

bool Snapshot::Cursor::advance() {
  if (at_ >= end_) return false;
  if (at_ % kBlockEntries == 0) last_.path.clear();
  if (!read_entry(snapshot_->blocks_, offset_, last_)) {
    at_ = end_;
    return false;
  }
  ++at_;
  return true;
}

std::optional<SnapshotEntry> Snapshot::Cursor::next() {
  if (!advance()) return std::nullopt;
  return last_;
}

void Snapshot::Cursor::skip_below() {
  if (last_.kind == FileKind::kDirectory && last_.below > 0 && at_ < end_) {
    seek(at_ + std::min(last_.below, end_ - at_));
  }
}

}  // namespace leat
