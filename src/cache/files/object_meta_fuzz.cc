// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a .meta file: rejected, or an object with a matching name, version and id.
#include "cache/files/object_meta.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

constexpr size_t kHeaderAt = 16, kCrcAt = 20;

void decode(std::span<const std::byte> bytes) {
  Result<ObjectMeta> meta = ObjectMeta::decode(bytes);
  if (!meta) return;
  const FileRef& ref = meta->ref;
  LEAT_CHECK(FileRef::make(ref.store, ref.key, ref.version, ref.size).id == ref.id);
  LEAT_CHECK(meta->blocks.size() == block_count(ref.size));
  LEAT_CHECK(meta->header_bytes + meta->blocks.size() * ObjectMeta::kRecordBytes == bytes.size());
}

std::string seed(const std::string& key, uint64_t size, ObjectMeta::State state) {
  FileRef ref = FileRef::make(make_store_id("s3", "localhost", "", "bucket"), key,
                              Version::etag("\"v1\""), size);
  ref.pool = pool_of_mount("/data");
  std::string bytes = ObjectMeta::encode_new(ref);
  bytes.replace(ObjectMeta::kStateOffset, 4, ObjectMeta::encode_state(state));
  std::vector<uint32_t> crcs(block_count(size), 7);
  return bytes + ObjectMeta::encode_blocks(crcs);
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using leat::ObjectMeta;
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "filling", leat::seed("a", 3'000'000, ObjectMeta::State::kFilling));
  leat::write_seed(folder, "complete", leat::seed("a/b/c", 70'000, ObjectMeta::State::kComplete));
  leat::write_seed(folder, "long",
                   leat::seed(std::string(3000, 'x'), 1, ObjectMeta::State::kFilling));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes = leat::bytes_of(data, size);
  leat::decode(bytes);
  if (bytes.size() < 88) return 0;
  uint32_t header;
  std::memcpy(&header, bytes.data() + leat::kHeaderAt, sizeof header);
  if (header < 80 || header > bytes.size()) return 0;
  const auto part = std::span<const std::byte>(bytes).first(header);
  uint32_t crc = leat::crc32c(part.first(12));
  crc = leat::crc32c(part.subspan(16, 4), crc);
  leat::put_crc(bytes, leat::kCrcAt, leat::crc32c(part.subspan(24), crc));
  leat::decode(bytes);
  return 0;
}
