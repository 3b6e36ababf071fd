// SPDX-License-Identifier: Apache-2.0
#include "cache/packed/segment_record.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/records.h"
#include "cache/files/object_meta.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "LEATSEG1";
constexpr uint32_t kFormatVersion = 1;
constexpr uint32_t kRecordMark = 0x4345524c;  // "LREC"
constexpr size_t kFixedBytes = 80;
constexpr size_t kCrcOffset = 8;

uint32_t record_crc(std::span<const std::byte> record) {
  return crc32c(record.subspan(kCrcOffset + 4), crc32c(record.first(kCrcOffset)));
}

}  // namespace

uint64_t SegmentRecord::encoded_bytes(std::string_view key, std::string_view version, size_t crcs) {
  return align_up(kFixedBytes + crcs * 4 + key.size() + version.size(), 8);
}

std::string SegmentRecord::encode(Kind kind, const FileRef& ref, uint64_t offset,
                                  std::span<const uint32_t> crcs, uint32_t origin) {
  RecordWriter writer;
  const uint64_t length = encoded_bytes(ref.key, ref.version.value, crcs.size());
  writer.reserve(length);
  writer.put(kRecordMark);
  writer.put(static_cast<uint32_t>(length));
  writer.put<uint32_t>(0);  // the checksum, set below
  writer.put(static_cast<uint8_t>(kind));
  writer.put(static_cast<uint8_t>(ref.version.kind));
  writer.put<uint16_t>(0);
  writer.put(ref.id);
  writer.put(ref.store);
  writer.put(ref.size);
  writer.put(offset);
  writer.put(static_cast<uint32_t>(ref.key.size()));
  writer.put(static_cast<uint32_t>(ref.version.value.size()));
  writer.put(static_cast<uint32_t>(crcs.size()));
  writer.put(origin);
  for (uint32_t crc : crcs) writer.put(crc);
  writer.put_text(ref.key);
  writer.put_text(ref.version.value);
  writer.pad_to(length);
  writer.overwrite(kCrcOffset, record_crc(writer.span()));
  return writer.take();
}

bool SegmentRecord::begins(std::span<const std::byte> bytes) {
  RecordReader reader(bytes.first(std::min<size_t>(bytes.size(), kCrcOffset)));
  const auto mark = reader.get<uint32_t>();
  const auto length = reader.get<uint32_t>();
  return reader.ok() && mark == kRecordMark && length >= kFixedBytes && length <= bytes.size() &&
         length % 8 == 0;
}

std::optional<SegmentRecord> SegmentRecord::decode(std::span<const std::byte> bytes, size_t* at) {
  RecordReader reader(bytes);
  auto mark = reader.get<uint32_t>();
  auto length = reader.get<uint32_t>();
  auto crc = reader.get<uint32_t>();
  if (!reader.ok() || mark != kRecordMark || length < kFixedBytes || length > bytes.size() ||
      crc != record_crc(bytes.first(length))) {
    return std::nullopt;
  }
  SegmentRecord record;
  auto kind = reader.get<uint8_t>();
  auto version_kind = reader.get<uint8_t>();
  reader.get<uint16_t>();
  record.ref.id = FileId(reader.get_id());
  record.ref.store = StoreId(reader.get_id());
  record.ref.size = reader.get<uint64_t>();
  record.offset = reader.get<uint64_t>();
  auto key_bytes = reader.get<uint32_t>();
  auto version_bytes = reader.get<uint32_t>();
  auto crc_count = reader.get<uint32_t>();
  record.origin = reader.get<uint32_t>();
  uint64_t wanted = kFixedBytes + uint64_t{crc_count} * 4 + key_bytes + uint64_t{version_bytes};
  bool is_object = kind == static_cast<uint8_t>(Kind::kObject);
  bool is_dropped = kind == static_cast<uint8_t>(Kind::kTombstone);
  if (align_up(wanted, 8) != length || !(is_object || is_dropped) || record.ref.size > UINT32_MAX ||
      (is_object && crc_count != block_count(record.ref.size)) || record.offset % 4096 != 0) {
    return std::nullopt;
  }
  record.kind = static_cast<Kind>(kind);
  for (uint32_t i = 0; i < crc_count; ++i) record.crcs.push_back(reader.get<uint32_t>());
  record.ref.key = reader.get_text(key_bytes);
  record.ref.version = {static_cast<Version::Kind>(version_kind), reader.get_text(version_bytes)};
  *at += length;
  return record;
}

std::string SegmentHeader::encode() const {
  RecordWriter writer;
  writer.put_text(kMagic);
  writer.put(kFormatVersion);
  writer.put(static_cast<uint32_t>(kBytes));
  writer.put(sequence);
  writer.put(directory);
  writer.put(static_cast<uint64_t>(pool));
  writer.pad_to(kBytes - 4);
  writer.put(crc32c(writer.span()));
  return writer.take();
}

std::optional<SegmentHeader> SegmentHeader::decode(std::span<const std::byte> bytes) {
  if (bytes.size() < kBytes) return std::nullopt;
  RecordReader reader(bytes);
  bool known = reader.get_text(kMagic.size()) == kMagic;
  known = reader.get<uint32_t>() == kFormatVersion && known;
  known = reader.get<uint32_t>() == kBytes && known;
  SegmentHeader header;
  header.sequence = reader.get<uint64_t>();
  header.directory = reader.get_id();
  header.pool = PoolId{reader.get<uint64_t>()};
  RecordReader crc(bytes.subspan(kBytes - 4));
  if (!known || crc.get<uint32_t>() != crc32c(bytes.first(kBytes - 4))) return std::nullopt;
  return header;
}

}  // namespace leat
