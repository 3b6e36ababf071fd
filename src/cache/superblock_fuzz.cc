// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a superblock: rejected with a helpful message, or decoded.
#include "cache/superblock.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

void decode(std::span<const std::byte> bytes) {
  Result<Superblock> block = Superblock::decode(bytes, "/the/directory");
  if (block) {
    // The encoded form equals the decoded one, except for ignored fields.
    const std::string written = block->encode();
    auto again = Superblock::decode(std::as_bytes(std::span(written)), "/the/directory");
    LEAT_CHECK(again && again->uuid == block->uuid && again->clean == block->clean);
  } else {
    const std::string text = block.error().to_string();
    LEAT_CHECK(text.find("/the/directory") != std::string::npos);
    LEAT_CHECK(text.find("remove the directory") != std::string::npos);
  }
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::Superblock block;
  block.uuid = leat::Id128::random();
  leat::write_seed(folder, "open", block.encode());
  block.clean = true;
  block.incompatible = leat::Superblock::kPools;
  leat::write_seed(folder, "clean", block.encode());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes = leat::bytes_of(data, size);
  leat::decode(bytes);
  if (bytes.size() >= 128) {
    leat::put_crc(bytes, 124, leat::crc32c(std::span(bytes).first(124)));
    leat::decode(bytes);
  }
  return 0;
}
