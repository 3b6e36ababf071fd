// SPDX-License-Identifier: Apache-2.0
// Attempts: the outcomes of one request's attempts at its store, and its final error message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "runtime/context.h"
#include "source/source.h"

namespace leat {

struct Attempts {
  enum class Outcome : uint8_t {
    kResponse,     // includes "no such object"
    kUnavailable,  // worth a retry
    kTimeout,      // worth a retry; the connection stalls or the store is slow
    kThrottled,
    kNotTheStore,  // independent of the store: the caller's end, or rejected before it was sent
  };

  // Starts an attempt with the idle timeout `timeout`; the attempt fills `report`.
  void begin(Clock::time_point now, Clock::duration timeout);
  // Ends the attempt; `failure` is null on success.
  void end(Clock::time_point now, const Status* failure);

  // Number of attempts that count against the maximum.
  unsigned failed() const { return made - throttled; }
  // Returns the last failure with the number of attempts and, unless it is empty, the reason why no
  // more are made.
  Status final_error(const std::string& reason) const;
  // Returns the caller's end, `how`, together with the failure before it.
  Status interrupted(Status how) const;

  // Start of the first attempt, or when an open circuit first delayed it.
  Clock::time_point first_began = Clock::time_point::min();
  bool waits = false;  // keep retrying until io_timeout has passed
  unsigned made = 0;
  unsigned throttled = 0;  // of `made`
  unsigned timeouts = 0;   // in a row, up to the last attempt
  // The last attempt:
  Outcome outcome = Outcome::kNotTheStore;
  Clock::time_point began;
  Clock::duration timeout{};
  Clock::duration whole{};
  AttemptReport report;
  std::optional<Status> failure;  // the failure before, if the last attempt ended by its caller
};

// Returns text such as "3 s", rounded up.
std::string seconds_text(Clock::duration duration);

}  // namespace leat
