// SPDX-License-Identifier: Apache-2.0
// The option `io_timeout` of every source: how long a read, a listing or a lookup waits for a store
// that does not answer.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "model/store_url.h"
#include "runtime/context.h"

namespace leat {

inline constexpr std::string_view kIoTimeoutOption = "io_timeout";
// A training job fails at one failed read, and most outages of a store end within minutes.
inline constexpr Clock::duration kIoTimeoutDefault = std::chrono::minutes(5);

// The option of `url`, or the default; "never" is Clock::duration::max(). Zero: a request does not
// wait, but gets the attempts of some seconds. kInvalidArgument for what is no duration.
Result<Clock::duration> io_timeout_of(const StoreUrl& url);

// Returns the URL for a command that must fail soon: adds `io_timeout=0s` unless the option is set.
StoreUrl without_waiting(StoreUrl url);

// For messages: "5m", "never".
std::string io_timeout_text(Clock::duration io_timeout);
// The same as the end of a sentence: "up to 5m (io_timeout)"; empty if requests do not wait.
std::string waits_text(Clock::duration io_timeout);

}  // namespace leat
