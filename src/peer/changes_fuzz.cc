// SPDX-License-Identifier: Apache-2.0
// Decodes any text as a list of changes: an error, or a value that survives a round trip.
#include "peer/changes.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using Kind = leat::PeerChange::Kind;
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "none", leat::encode_changes({7, {}}));
  leat::write_seed(folder, "some",
                   leat::encode_changes({8,
                                         {{"/m", "\xff", Kind::kObject},
                                          {"/m", "d/", Kind::kDirectory},
                                          {"/", "", Kind::kAll}}}));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto changes = leat::decode_changes({reinterpret_cast<const char*>(data), size});
  if (changes) LEAT_CHECK(leat::decode_changes(leat::encode_changes(*changes)) == *changes);
  return 0;
}
