// SPDX-License-Identifier: Apache-2.0
// Decodes any text as each upkeep body: an error, or a value that survives a round trip.
#include "wire/cache_op.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "bytes", leat::encode_bytes_answer(7));
  leat::write_seed(folder, "drop", leat::encode_drop({leat::FileId(), leat::FileId()}));
  leat::write_seed(folder, "verify",
                   leat::encode_verify({.ended = true, .objects = 1, .error = "\xff"}));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto files = leat::decode_drop(text)) {
    LEAT_CHECK(leat::decode_drop(leat::encode_drop(*files)) == *files);
  }
  if (const auto bytes = leat::decode_bytes_answer(text)) {
    LEAT_CHECK(leat::decode_bytes_answer(leat::encode_bytes_answer(*bytes)) == *bytes);
  }
  if (const auto verify = leat::decode_verify(text)) {
    LEAT_CHECK(leat::decode_verify(leat::encode_verify(*verify)) == *verify);
  }
  return 0;
}
