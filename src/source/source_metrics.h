// SPDX-License-Identifier: Apache-2.0
// The room's counters; every source adds to the same ones. What went over HTTP is the shim's, and
// is read when metrics are.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "telemetry/metrics.h"

namespace leat::source_metrics {

extern Counter stat_requests, list_requests, read_requests, write_requests, remove_requests;
// Attempts after the first, by what the one before them met.
extern Counter retries, retries_throttled, retries_silent;
extern Counter retries_held_back;                   // that the retry budget did not pay for
extern Counter throttled;                           // answers that asked for fewer requests
extern Counter silences;                            // attempts that ended in silence
extern Counter circuit_openings, circuit_refusals;  // of all stores
extern Counter turn_wait, retry_wait;               // waited for the pace, and between attempts
extern Counter bytes;                               // of reads that succeeded
extern Counter written_bytes;                       // that the stores took, parts included
extern Counter errors;                              // attempts that failed for the store's sake
extern Counter left_out;                            // names in listings that cannot be addressed

// Not an ordinary answer, nor the caller's own doing.
bool is_failure(StatusCode code);
// Adds to `errors` if it is one.
void count_failure(StatusCode code);

// Names that a listing had to leave out: counted always, said once for each store.
struct LeftOut {
  size_t count = 0;
  std::string example;  // the first

  void add(std::string_view name) {
    if (count++ == 0) example = name;
  }
};
void report_left_out(std::once_flag& said, std::string_view store, const LeftOut& names,
                     std::string_view why);

}  // namespace leat::source_metrics
