// SPDX-License-Identifier: Apache-2.0
// Decodes any text as a copy step and as its answer: an error, or a value that survives a round
// trip.
#include "wire/copy_request.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::CopySpec goal{.to = "s3://bucket/x", .key = "a\xff"};
  goal.mtime = leat::WallTime(std::chrono::nanoseconds(5));
  leat::write_seed(folder, "goal", leat::encode_copy_spec(goal, {1, 2}));
  leat::write_seed(folder, "step", leat::encode_copy_step({.bytes = 7}));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  leat::ByteRange range, again;
  if (const auto goal = leat::decode_copy_spec(text, &range)) {
    LEAT_CHECK(leat::decode_copy_spec(leat::encode_copy_spec(*goal, range), &again) == *goal);
    LEAT_CHECK(again == range);
  }
  if (const auto step = leat::decode_copy_step(text)) {
    LEAT_CHECK(leat::decode_copy_step(leat::encode_copy_step(*step)) == *step);
  }
  return 0;
}
