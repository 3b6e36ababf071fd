// SPDX-License-Identifier: Apache-2.0
// The module's counters, shared by all sources. The shim counts HTTP traffic; it is read when
// metrics are.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "telemetry/metrics.h"

namespace leat::source_metrics {

extern Counter stat_requests, list_requests, read_requests, write_requests, remove_requests;
// Retries, by the outcome of the attempt before them.
extern Counter retries, retries_throttled, retries_silent;
extern Counter retries_held_back;                   // the retry budget did not allow them
extern Counter throttled;                           // responses that asked for fewer requests
extern Counter silences;                            // attempts that ended in silence
extern Counter circuit_openings, circuit_refusals;  // of all stores
extern Counter turn_wait, retry_wait;               // waits for the pace, and between attempts
extern Counter bytes;                               // of successful reads
extern Counter written_bytes;                       // accepted by the stores, parts included
extern Counter errors;                              // attempts that failed because of the store
extern Counter left_out;                            // names in listings that cannot be addressed

// Whether `code` is neither an ordinary response nor caused by the caller.
bool is_failure(StatusCode code);
// Adds to `errors` if is_failure(code).
void count_failure(StatusCode code);

// Names that a listing skipped: always counted, logged once per store.
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
