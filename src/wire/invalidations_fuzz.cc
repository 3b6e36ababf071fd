// SPDX-License-Identifier: Apache-2.0
// Decodes any text as a list of changes: an error, or a value that survives a round trip.
#include "wire/invalidations.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using Kind = leat::Invalidation::Kind;
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "none", leat::encode_invalidations({7, {}}));
  leat::write_seed(folder, "some",
                   leat::encode_invalidations({8,
                                               {{"/m", "\xff", Kind::kObject},
                                                {"/m", "d/", Kind::kDirectory},
                                                {"/", "", Kind::kAll}}}));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto changes = leat::decode_invalidations({reinterpret_cast<const char*>(data), size});
  if (changes)
    LEAT_CHECK(leat::decode_invalidations(leat::encode_invalidations(*changes)) == *changes);
  return 0;
}
