// SPDX-License-Identifier: Apache-2.0
// Whether a store is reachable, accepts this user's credentials, and how fast it is. For a failure:
// which common cause it has.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "doctor/finding.h"
#include "model/store_url.h"
#include "runtime/context.h"

namespace leat {

struct StoreFacts {
  std::string source{};  // as a URL without options
  bool s3 = false;
  std::optional<Status> trouble{};          // the first request that failed
  std::string doing{};                      // the operation that failed: "listing", "reading"
  bool empty = false;                       // no object below the prefix
  std::chrono::duration<double> latency{};  // of a small request, median
  uint64_t read_bytes = 0;                  // from the first file, in one request
  std::chrono::duration<double> read_time{};
};

// Lists a page, stats one name several times and reads the beginning of a file, with the
// credentials of this process. Takes `timeout` at most. Blocks.
StoreFacts inspect_store(const StoreUrl& url, Clock::duration timeout);

Findings store_findings(const StoreFacts& facts);

}  // namespace leat
