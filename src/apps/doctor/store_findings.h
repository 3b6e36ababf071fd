// SPDX-License-Identifier: Apache-2.0
// Whether a store can be reached, lets this user in, and how fast it is; and if not, which of the
// usual causes it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/doctor/finding.h"
#include "model/store_url.h"
#include "runtime/context.h"

namespace leat {

struct StoreFacts {
  std::string source{};  // as a URL without options
  bool s3 = false;
  std::optional<Status> trouble{};          // the first request that failed
  std::string doing{};                      // what that was: "listing", "reading"
  bool empty = false;                       // nothing below the prefix
  std::chrono::duration<double> latency{};  // of a small request, the median
  uint64_t read_bytes = 0;                  // of the first file, over one request
  std::chrono::duration<double> read_time{};
};

// Lists a page, asks for one name several times and reads the beginning of a file, with the
// credentials of this process. Ends after `patience` at the latest. Blocks.
StoreFacts inspect_store(const StoreUrl& url, Clock::duration patience);

Findings store_findings(const StoreFacts& facts);

}  // namespace leat
