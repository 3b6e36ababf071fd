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
  enum class Met : uint8_t {
    kAnswer,       // includes "no such object"
    kUnavailable,  // worth a retry
    kSilence,      // worth a retry; the connection stalls or the store is slow
    kThrottling,
    kNothing,  // nothing about the store: the caller's end, or rejected before it was sent
  };

  // Starts an attempt that may be silent for `bound`; the attempt fills `report`.
  void begin(Clock::time_point now, Clock::duration bound);
  // Ends the attempt; `failure` is null on success.
  void end(Clock::time_point now, const Status* failure);

  // Number of attempts that count against the maximum.
  unsigned failed() const { return made - throttled; }
  // Returns the last failure with the number of attempts and, unless it is empty, the reason why no
  // more are made.
  Status give_up(const std::string& reason) const;
  // Returns the caller's end, `how`, together with the failure before it.
  Status ended(Status how) const;

  // Start of the first attempt, or when an open circuit first delayed it.
  Clock::time_point first_began = Clock::time_point::min();
  bool waits = false;  // keep retrying until io_timeout has passed
  unsigned made = 0;
  unsigned throttled = 0;  // of `made`
  unsigned silences = 0;   // in a row, up to the last attempt
  // The last attempt:
  Met met = Met::kNothing;
  Clock::time_point began;
  Clock::duration bound{};
  Clock::duration whole{};
  AttemptReport report;
  std::optional<Status> failure;  // the failure before, if the last attempt ended by its caller
};

// Returns text such as "3 s", rounded up.
std::string in_words(Clock::duration duration);

}  // namespace leat
