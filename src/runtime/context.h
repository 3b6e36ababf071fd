// SPDX-License-Identifier: Apache-2.0
// Context: what travels with a request. Passed by value as the first parameter of every function
// that waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "base/status.h"

namespace leat {

using Clock = std::chrono::steady_clock;

struct Context {
  // When the caller stops waiting; the far future means never.
  Clock::time_point deadline = Clock::time_point::max();
  // Asked to stop when the caller gave up (interrupt, closed connection, shutdown).
  std::stop_token cancel;
  // 0 when the request is not traced.
  uint64_t trace_id = 0;

  static Context background() { return {}; }
  Context with_timeout(Clock::duration timeout) const {
    Context copy = *this;
    copy.deadline = std::min(deadline, Clock::now() + timeout);
    return copy;
  }
  Context with_cancel(std::stop_token token) const {
    Context copy = *this;
    copy.cancel = std::move(token);
    return copy;
  }

  bool cancelled() const { return cancel.stop_requested(); }
  bool expired() const { return deadline != Clock::time_point::max() && Clock::now() >= deadline; }
  // kCancelled or kTimedOut naming `what`, or success.
  Result<> check(const char* what) const {
    if (cancelled()) return error(StatusCode::kCancelled, std::string(what) + " was cancelled");
    if (expired()) return error(StatusCode::kTimedOut, std::string(what) + " ran out of time");
    return {};
  }
};

}  // namespace leat
