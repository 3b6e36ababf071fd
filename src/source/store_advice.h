// SPDX-License-Identifier: Apache-2.0
// store_advice(): what to do about an attempt that a store failed, by the store's own code where it
// gave one. Names the option or the command that helps, and what the mount has now.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace leat {

struct OpendalConfig;

// What is known of a failed attempt beside its status.
struct StoreRefusal {
  std::string code;                    // "NoSuchBucket"; empty where the store gave none
  std::string region;                  // of the bucket, where the answer names it
  std::string proxy;                   // from which no answer came, and the variable that names it
  std::chrono::seconds clock_ahead{};  // this machine's clock minus the store's; zero: unknown
  unsigned http_status = 0;            // zero: no answer came
};

// Begins with "; ", or is empty.
std::string store_advice(const Status& failure, const StoreRefusal& refusal,
                         const OpendalConfig& config);

}  // namespace leat
