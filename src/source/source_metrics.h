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
extern Counter retries, retries_throttled, retries_after_timeout;
extern Counter retry_budget_exhausted;            // the retry budget did not allow them
extern Counter throttled;                         // responses that requested a lower rate
extern Counter timeouts;                          // attempts that timed out
extern Counter circuit_opened, circuit_rejected;  // of all stores
extern Counter pacer_wait, retry_wait;            // waits for the pacer, and between attempts
extern Counter written_bytes;                     // accepted by the stores, parts included
extern Counter skipped_keys;                      // names skipped in listings

// Whether `code` is neither an ordinary response nor caused by the caller.
bool is_failure(StatusCode code);

// Names that a listing skipped: always counted, logged once per store.
struct SkippedKeys {
  size_t count = 0;
  std::string example;  // the first

  void add(std::string_view name) {
    if (count++ == 0) example = name;
  }
};
void report_skipped_keys(std::once_flag& logged, std::string_view store, const SkippedKeys& names,
                         std::string_view why);

}  // namespace leat::source_metrics
