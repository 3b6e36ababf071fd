// SPDX-License-Identifier: Apache-2.0
// Decodes any text as the events of a staging log: an error, or a value that survives a round trip.
#include "wire/staging_messages.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  leat::StagedEvents events{.term = 1, .position = 2};
  events.events.push_back({.position = 1, .number = 1, .change = {.key = "a\xff"}});
  events.events.push_back({.kind = leat::StagedEvent::Kind::kDone, .position = 2, .number = 1});
  leat::write_seed(leat::seed_folder(*argc, *argv), "events", leat::encode_staged_events(events));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto events = leat::decode_staged_events(text)) {
    const auto again = leat::decode_staged_events(leat::encode_staged_events(*events));
    LEAT_CHECK(again && *again == *events);
  }
  return 0;
}
