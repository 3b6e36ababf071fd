// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a segment's .index: a header and records that advance and stay within it.
#include "cache/packed/segment_record.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"
#include "cache/files/object_meta.h"

namespace leat {
namespace {

constexpr size_t kLengthAt = 4, kCrcAt = 8, kFixedBytes = 80;

void decode(std::span<const std::byte> bytes) {
  auto header = SegmentHeader::decode(bytes);
  static_cast<void>(header);
  size_t at = std::min(bytes.size(), SegmentHeader::kBytes);
  while (at < bytes.size()) {
    const size_t before = at;
    auto record = SegmentRecord::decode(bytes.subspan(at), &at);
    if (!record) {
      LEAT_CHECK(at == before);
      return;
    }
    LEAT_CHECK(at > before && at <= bytes.size());
    LEAT_CHECK(record->offset % 4096 == 0);
    const bool is_object = record->kind == SegmentRecord::Kind::kObject;
    LEAT_CHECK(!is_object || record->crcs.size() == block_count(record->ref.size));
    LEAT_CHECK(record->ref.key.size() < bytes.size());
  }
}

void repair(std::span<std::byte> bytes) {
  if (bytes.size() < SegmentHeader::kBytes) return;
  put_crc(bytes, SegmentHeader::kBytes - 4, crc32c(bytes.first(SegmentHeader::kBytes - 4)));
  for (size_t at = SegmentHeader::kBytes; at + kFixedBytes <= bytes.size();) {
    uint32_t length;
    std::memcpy(&length, bytes.data() + at + kLengthAt, sizeof length);
    if (length < kFixedBytes || length > bytes.size() - at) return;
    const auto record = bytes.subspan(at, length);
    put_crc(record, kCrcAt, crc32c(record.subspan(kCrcAt + 4), crc32c(record.first(kCrcAt))));
    at += length;
  }
}

std::string seed(int records) {
  std::string bytes = SegmentHeader{3, Id128::random(), pool_of_mount("/data")}.encode();
  for (int i = 0; i < records; ++i) {
    SegmentRecord record;
    record.kind = i % 3 == 2 ? SegmentRecord::Kind::kTombstone : SegmentRecord::Kind::kObject;
    const uint64_t size = 1000 + 70'000 * static_cast<uint64_t>(i);
    record.ref = FileRef::make(make_store_id("s3", "localhost", "", "bucket"), "a/b",
                               Version::etag("\"v1\""), size);
    record.offset = 4096 * static_cast<uint64_t>(i);
    record.crcs.assign(block_count(size), 7);
    bytes += record.encode();
  }
  return bytes;
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  for (int records : {0, 1, 3, 8}) {
    leat::write_seed(folder, std::to_string(records), leat::seed(records));
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes = leat::bytes_of(data, size);
  leat::decode(bytes);
  leat::repair(bytes);
  leat::decode(bytes);
  return 0;
}
