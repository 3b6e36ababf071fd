// SPDX-License-Identifier: Apache-2.0
#include "source/retry/attempts.h"

#include <fmt/format.h>

#include <utility>

namespace leat {
namespace {

// Share of an attempt's timeout: a failed attempt that lasted longer counts as timed out.
constexpr double kTimeoutShare = 0.9;

std::string attempts_text(unsigned made) {
  return fmt::format("{} {}", made, made == 1 ? "attempt" : "attempts");
}

Attempts::Outcome outcome_of(const Status* failure, Clock::duration quiet,
                             Clock::duration timeout) {
  using Outcome = Attempts::Outcome;
  if (failure == nullptr) return Outcome::kResponse;
  switch (failure->code()) {
    case StatusCode::kUnavailable:
      return quiet >= kTimeoutShare * timeout ? Outcome::kTimeout : Outcome::kUnavailable;
    case StatusCode::kThrottled:
      return Outcome::kThrottled;
    case StatusCode::kTimedOut:
    case StatusCode::kCancelled:
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return Outcome::kNotTheStore;
    default:
      return Outcome::kResponse;
  }
}

}  // namespace

void Attempts::begin(Clock::time_point now, Clock::duration timeout_now) {
  if (first_began == Clock::time_point::min()) first_began = now;
  began = now;
  timeout = timeout_now;
  report = {};
}

void Attempts::end(Clock::time_point now, const Status* failed_with) {
  ++made;
  whole = now - began;
  outcome = outcome_of(failed_with, whole - report.first_byte, timeout);
  timeouts = outcome == Outcome::kTimeout ? timeouts + 1 : 0;
  if (outcome == Outcome::kThrottled) ++throttled;
  if (failed_with != nullptr && outcome != Outcome::kNotTheStore) failure = *failed_with;
}

Status Attempts::final_error(const std::string& reason) const {
  std::string message = fmt::format("{} ({}{}{})", failure->message(), attempts_text(made),
                                    reason.empty() ? "" : "; ", reason);
  if (failure->cause() == nullptr) return {failure->code(), std::move(message)};
  return {failure->code(), std::move(message), *failure->cause()};
}

Status Attempts::interrupted(Status how) const {
  if (!failure) return how;
  return {how.code(), fmt::format("{} after {}", how.message(), attempts_text(made)), *failure};
}

std::string seconds_text(Clock::duration duration) {
  return fmt::format("{} s", std::chrono::ceil<std::chrono::seconds>(duration).count());
}

}  // namespace leat
