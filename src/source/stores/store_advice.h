// SPDX-License-Identifier: Apache-2.0
// store_advice(): advice for an attempt that a store failed, from the store's own error code if it
// gave one. Names the option or command that helps, and the mount's present setting.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace leat {

struct OpendalConfig;

// Details of a failed attempt beside its status.
struct StoreErrorDetails {
  std::string code;                    // "NoSuchBucket"; empty if the store gave none
  std::string region;                  // of the bucket, if the response names it
  std::string proxy;                   // that did not respond, and its variable
  std::chrono::seconds clock_ahead{};  // this machine's clock minus the store's; zero: unknown
  unsigned http_status = 0;            // zero: no response arrived
};

// Returns advice that begins with "; ", or an empty text.
std::string store_advice(const Status& failure, const StoreErrorDetails& details,
                         const OpendalConfig& config);

}  // namespace leat
