// SPDX-License-Identifier: Apache-2.0
#include "cache/files/object_meta.h"

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/records.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "LEATOBJ1";
// Format 1 has no pool; its objects belong to PoolId::kNone.
constexpr uint32_t kFormatVersion = 2, kFormatWithoutPool = 1;
constexpr size_t kHeaderCrcOffset = 20;
constexpr size_t kFixedBytes = 88, kFixedBytesWithoutPool = 80;
constexpr size_t kRecordBytes = ObjectMeta::kRecordBytes;
// A record is the CRC and the CRC xor this; both zero: missing. Any other value is damage and reads
// as missing.
constexpr uint32_t kPresentMark = 0x4b434c42;  // "BLCK"

size_t header_with(size_t fixed_bytes, size_t key_bytes, size_t version_bytes) {
  return align_up(fixed_bytes + key_bytes + version_bytes, kRecordBytes);
}

// The checksum skips the state, which may change after the header was written, and itself.
uint32_t header_crc(std::span<const std::byte> header) {
  uint32_t crc = crc32c(header.first(ObjectMeta::kStateOffset));
  crc = crc32c(header.subspan(16, kHeaderCrcOffset - 16), crc);
  return crc32c(header.subspan(kHeaderCrcOffset + 4), crc);
}

Error damaged(std::string_view what) {
  return error(StatusCode::kCorrupt, fmt::format("the .meta file {}", what));
}

}  // namespace

std::string ObjectMeta::encode_new(const FileRef& ref) {
  RecordWriter writer;
  writer.put_text(kMagic);
  writer.put(kFormatVersion);
  writer.put(static_cast<uint32_t>(State::kFilling));
  const uint64_t header = new_header_bytes(ref);
  writer.put(static_cast<uint32_t>(header));
  writer.put<uint32_t>(0);  // the checksum, set below
  writer.put(ref.size);
  writer.put(static_cast<uint32_t>(kBlockBytes));
  writer.put(static_cast<uint32_t>(ref.version.kind));
  writer.put(static_cast<uint32_t>(ref.key.size()));
  writer.put(static_cast<uint32_t>(ref.version.value.size()));
  writer.put(ref.store);
  writer.put(ref.id);
  writer.put(static_cast<uint64_t>(ref.pool));
  writer.put_text(ref.key);
  writer.put_text(ref.version.value);
  writer.pad_to(header);
  writer.overwrite(kHeaderCrcOffset, header_crc(writer.span()));
  return writer.take();
}

std::string ObjectMeta::encode_state(State state) {
  RecordWriter writer;
  writer.put(static_cast<uint32_t>(state));
  return writer.take();
}

std::string ObjectMeta::encode_blocks(std::span<const uint32_t> crcs) {
  RecordWriter writer;
  for (uint32_t crc : crcs) {
    writer.put(crc);
    writer.put(crc ^ kPresentMark);
  }
  return writer.take();
}

std::string ObjectMeta::encode_no_blocks(uint64_t count) {
  return std::string(count * kRecordBytes, '\0');
}

uint64_t ObjectMeta::new_header_bytes(const FileRef& ref) {
  return header_with(kFixedBytes, ref.key.size(), ref.version.value.size());
}

uint64_t ObjectMeta::file_bytes(const FileRef& ref) {
  return new_header_bytes(ref) + block_count(ref.size) * kRecordBytes;
}

Result<ObjectMeta> ObjectMeta::decode(std::span<const std::byte> bytes) {
  RecordReader reader(bytes);
  if (reader.get_text(kMagic.size()) != kMagic) return damaged("does not begin with its mark");
  auto version = reader.get<uint32_t>();
  auto state = reader.get<uint32_t>();
  auto header = reader.get<uint32_t>();
  auto crc = reader.get<uint32_t>();
  if (header < kFixedBytesWithoutPool || header > bytes.size()) return damaged("is cut short");
  if (crc != header_crc(bytes.first(header))) return damaged("does not match its checksum");
  const bool has_pool = version == kFormatVersion;
  if (!has_pool && version != kFormatWithoutPool)
    return damaged(fmt::format("has format {}", version));

  ObjectMeta meta;
  auto size = reader.get<uint64_t>();
  auto block_bytes = reader.get<uint32_t>();
  auto kind = reader.get<uint32_t>();
  auto key_bytes = reader.get<uint32_t>();
  auto version_bytes = reader.get<uint32_t>();
  StoreId store(reader.get_id());
  FileId id(reader.get_id());
  const PoolId pool = has_pool ? PoolId{reader.get<uint64_t>()} : PoolId::kNone;
  std::string key = reader.get_text(key_bytes);
  std::string value = reader.get_text(version_bytes);
  if (!reader.ok() || block_bytes != kBlockBytes || kind > UINT8_MAX ||
      header !=
          header_with(has_pool ? kFixedBytes : kFixedBytesWithoutPool, key_bytes, version_bytes) ||
      size > kFileBytesMax || bytes.size() != header + block_count(size) * kRecordBytes) {
    return damaged("has lengths that do not fit");
  }
  meta.ref = FileRef::make(store, std::move(key),
                           Version{static_cast<Version::Kind>(kind), std::move(value)}, size);
  meta.ref.pool = pool;
  meta.header_bytes = header;
  if (meta.ref.id != id) return damaged("names another object than its key and version do");
  if (state != static_cast<uint32_t>(State::kFilling) &&
      state != static_cast<uint32_t>(State::kComplete)) {
    return damaged(fmt::format("has state {:#x}", state));
  }
  meta.state = static_cast<State>(state);
  RecordReader records(bytes.subspan(header));
  meta.blocks.resize(block_count(size));
  for (std::optional<uint32_t>& block : meta.blocks) {
    auto value_of_block = records.get<uint32_t>();
    auto mark = records.get<uint32_t>();
    if (mark == (value_of_block ^ kPresentMark)) block = value_of_block;
  }
  return meta;
}

}  // namespace leat
