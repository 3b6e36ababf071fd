// SPDX-License-Identifier: Apache-2.0
// Context: deadline, cancellation and trace of a request. Every function that waits takes it by
// value as its first parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "telemetry/trace.h"

namespace leat {

using Clock = std::chrono::steady_clock;

struct Context {
  // When the caller stops waiting; max() means never.
  Clock::time_point deadline = Clock::time_point::max();
  // Signalled when the caller gave up (interrupt, closed connection, shutdown).
  std::stop_token cancel;
  // Null if the request is not traced. Otherwise new spans belong to `span`
  // (runtime/scoped_span.h).
  std::shared_ptr<Trace> trace;
  uint32_t span = Span::kTop;

  static Context background() { return {}; }
  Context with_timeout(Clock::duration timeout) const {
    Context copy = *this;
    copy.deadline = std::min(deadline, Clock::now() + timeout);
    return copy;
  }
  Context with_trace(std::shared_ptr<Trace> wanted) const {
    Context copy = *this;
    copy.trace = std::move(wanted);
    copy.span = Span::kTop;
    return copy;
  }
  Context with_cancel(std::stop_token token) const {
    Context copy = *this;
    copy.cancel = std::move(token);
    return copy;
  }

  bool cancelled() const { return cancel.stop_requested(); }
  bool expired() const { return deadline != Clock::time_point::max() && Clock::now() >= deadline; }
  // Returns kCancelled or kTimedOut naming `what`, or success.
  Result<> check(const char* what) const {
    if (cancelled()) return error(StatusCode::kCancelled, std::string(what) + " was cancelled");
    if (expired()) return error(StatusCode::kTimedOut, std::string(what) + " ran out of time");
    return {};
  }
};

}  // namespace leat
