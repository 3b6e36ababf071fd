// SPDX-License-Identifier: Apache-2.0
// Attempts: what one request has met so far at its store, and how that is told when it is given up.
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
    kAnswer,       // be it that there is no such object
    kUnavailable,  // worth trying again
    kSilence,      // the same; the fault of the connection, or the store is slow
    kThrottling,
    kNothing,  // that tells of the store: the caller's end, or refused unasked
  };

  // Before an attempt that may be silent for `bound`; it fills `report`.
  void begin(Clock::time_point now, Clock::duration bound);
  // After it; `failure` is null if there was none.
  void end(Clock::time_point now, const Status* failure);

  // Those that count against the most that is allowed.
  unsigned failed() const { return made - throttled; }
  // The last failure with the number of attempts and, unless it is empty, the reason why there are
  // no more.
  Status give_up(const std::string& reason) const;
  // The caller's end, `how`, with what had failed until then.
  Status ended(Status how) const;

  // The first attempt, or when an open circuit first held it up.
  Clock::time_point first_began = Clock::time_point::min();
  bool waits = false;  // for a store that does not answer, until io_timeout has passed
  unsigned made = 0;
  unsigned throttled = 0;  // of those
  unsigned silences = 0;   // in a row, up to the last
  // Of the last one:
  Met met = Met::kNothing;
  Clock::time_point began;
  Clock::duration bound{};
  Clock::duration whole{};
  AttemptReport report;
  std::optional<Status> failure;  // or of the one before, where the caller's end was the last
};

// "3 s", never less than is meant.
std::string in_words(Clock::duration duration);

}  // namespace leat
