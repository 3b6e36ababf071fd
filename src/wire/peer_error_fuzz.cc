// SPDX-License-Identifier: Apache-2.0
// Decodes any text as the body of an error, and encodes it as a message.
#include "wire/peer_error.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "error", leat::encode_peer_error({leat::StatusCode::kBusy, "it is"}));
  leat::write_seed(folder, "bytes", leat::encode_peer_error({leat::StatusCode::kBusy, "\xff"}));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const leat::Status given(leat::StatusCode::kVersionChanged, std::string(text));
  for (const leat::Status& status : {leat::decode_peer_error(500, text), given}) {
    const leat::Status again = leat::decode_peer_error(500, leat::encode_peer_error(status));
    LEAT_CHECK(again.code() == status.code() && again.message() == status.message());
  }
  return 0;
}
