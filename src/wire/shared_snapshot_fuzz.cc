// SPDX-License-Identifier: Apache-2.0
// Decodes any text as each document about snapshots: an error, or a value that survives a round
// trip.
#include "wire/shared_snapshot.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  const leat::SharedSnapshot one{.name = "monday", .mount = "/train", .folder = "train/\xff/"};
  leat::write_seed(folder, "record", leat::encode_snapshot(one));
  leat::write_seed(folder, "list", leat::encode_snapshots({one, one}));
  leat::write_seed(folder, "build", leat::encode_snapshot_build({.files = 1, .built = one}));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto one = leat::decode_snapshot(text)) {
    LEAT_CHECK(leat::decode_snapshot(leat::encode_snapshot(*one)) == *one);
  }
  if (const auto all = leat::decode_snapshots(text)) {
    LEAT_CHECK(leat::decode_snapshots(leat::encode_snapshots(*all)) == *all);
  }
  if (const auto build = leat::decode_snapshot_build(text)) {
    LEAT_CHECK(leat::decode_snapshot_build(leat::encode_snapshot_build(*build)) == *build);
  }
  return 0;
}
