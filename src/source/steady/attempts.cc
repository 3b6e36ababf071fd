// SPDX-License-Identifier: Apache-2.0
#include "source/steady/attempts.h"

#include <fmt/format.h>

#include <utility>

namespace leat {
namespace {

// Share of an attempt's bound: a failed attempt that lasted longer counts as silent.
constexpr double kSilentShare = 0.9;

std::string count_in_words(unsigned made) {
  return fmt::format("{} {}", made, made == 1 ? "attempt" : "attempts");
}

Attempts::Met what_was_met(const Status* failure, Clock::duration quiet, Clock::duration bound) {
  using Met = Attempts::Met;
  if (failure == nullptr) return Met::kAnswer;
  switch (failure->code()) {
    case StatusCode::kUnavailable:
      return quiet >= kSilentShare * bound ? Met::kSilence : Met::kUnavailable;
    case StatusCode::kThrottled:
      return Met::kThrottling;
    case StatusCode::kTimedOut:
    case StatusCode::kCancelled:
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return Met::kNothing;
    default:
      return Met::kAnswer;
  }
}

}  // namespace

void Attempts::begin(Clock::time_point now, Clock::duration bound_now) {
  if (first_began == Clock::time_point::min()) first_began = now;
  began = now;
  bound = bound_now;
  report = {};
}

void Attempts::end(Clock::time_point now, const Status* failed_with) {
  ++made;
  whole = now - began;
  met = what_was_met(failed_with, whole - report.first_byte, bound);
  silences = met == Met::kSilence ? silences + 1 : 0;
  if (met == Met::kThrottling) ++throttled;
  if (failed_with != nullptr && met != Met::kNothing) failure = *failed_with;
}

Status Attempts::give_up(const std::string& reason) const {
  std::string message = fmt::format("{} ({}{}{})", failure->message(), count_in_words(made),
                                    reason.empty() ? "" : "; ", reason);
  if (failure->cause() == nullptr) return {failure->code(), std::move(message)};
  return {failure->code(), std::move(message), *failure->cause()};
}

Status Attempts::ended(Status how) const {
  if (!failure) return how;
  return {how.code(), fmt::format("{} after {}", how.message(), count_in_words(made)), *failure};
}

std::string in_words(Clock::duration duration) {
  return fmt::format("{} s", std::chrono::ceil<std::chrono::seconds>(duration).count());
}

}  // namespace leat
