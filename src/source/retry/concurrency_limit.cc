// SPDX-License-Identifier: Apache-2.0
#include "source/retry/concurrency_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Seconds = std::chrono::duration<double>;

constexpr Clock::duration kWindowMin = milliseconds(50);
constexpr uint64_t kSamplesMin = 8;
// Weight of a window's mean in the smoothed value: two slow responses are no trend.
constexpr double kNewShare = 0.5;
constexpr double kSlow = 2;
// A smaller difference comes from this machine's threads, not from the store's queue.
constexpr double kSlowSecondsMin = 0.020;
constexpr double kFast = 1.25;
constexpr double kFastSeconds = 0.002;
// Share of the limit from which on it counts as in use. Requests that wait for the cache's disk
// hold permits above this one (StoreLimiter), so it is not reached exactly.
constexpr double kInUse = 0.7;
constexpr double kGainShare = 0.3;
// Latency of a store for which the start value is meant, and the largest first step.
constexpr double kNearSeconds = 0.010;
constexpr double kFirstStepMax = 8;
constexpr Clock::duration kHoldMin = seconds(10), kHoldMax = seconds(60);
constexpr Clock::duration kShrinkEvery = seconds(1);
constexpr Clock::duration kPause = seconds(1);
constexpr Clock::duration kThrottledFor = seconds(1);

// Descriptors of the limit for each request: small and large ones are limited apart, each takes up
// to three, and other work needs as many.
constexpr rlim_t kFilesOfRequest = 16;

int64_t second_of(Clock::time_point now) {
  return now.time_since_epoch() / seconds(1);
}

}  // namespace

ConcurrencyOptions default_concurrency() {
  ConcurrencyOptions options;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return options;
  const rlim_t share = std::max<rlim_t>(files.rlim_cur / kFilesOfRequest, options.min);
  options.max = static_cast<unsigned>(std::min<rlim_t>(share, options.max));
  options.start = std::min(options.start, options.max);
  return options;
}

ConcurrencyLimit::ConcurrencyLimit(ConcurrencyOptions options)
    : options_{.min = options.min,
               .start = std::clamp(options.start, options.min, options.max),
               .max = options.max},
      limit_(options_.start) {
  LEAT_CHECK(1 <= options.min && options.min <= options.max);
}

void ConcurrencyLimit::responded(Clock::time_point now, Clock::duration first_byte,
                                 Clock::duration whole, unsigned in_flight) {
  last_ = now;
  // A window that spans a pause shows nothing.
  if (end_ == Clock::time_point{} || now - end_ > std::max(kPause, 2 * (end_ - begin_))) {
    begin(now, now, first_byte);
  }
  if (now < begin_) return;  // sent before the last step
  in_flight_max_ = std::max(in_flight_max_, in_flight);
  first_byte_sum_ += Seconds(first_byte).count();
  whole_sum_ += Seconds(whole).count();
  ++count_;
  if (now >= end_ && (count_ >= kSamplesMin || now - begin_ >= seconds(1))) end_window(now);
}

// Without requests, a limit that had shrunk returns to where it began.
unsigned ConcurrencyLimit::limit(Clock::time_point now) {
  if (limit_ >= options_.start) return limit_;
  if (now > last_ + kPause) recover(now);
  return limit_;
}

// By one for each second since it last changed.
void ConcurrencyLimit::recover(Clock::time_point now) {
  const auto passed = (now - recovered_at_) / seconds(1);
  if (passed < 1) return;
  limit_ = static_cast<unsigned>(std::min<int64_t>(limit_ + passed, options_.start));
  recovered_at_ += passed * seconds(1);
}

void ConcurrencyLimit::begin(Clock::time_point now, Clock::time_point from,
                             Clock::duration latency) {
  begin_ = from;
  end_ = std::max(now, from) + std::max(kWindowMin, latency);
  first_byte_sum_ = whole_sum_ = 0;
  count_ = 0;
  in_flight_max_ = 0;
}

void ConcurrencyLimit::end_window(Clock::time_point now) {
  const double mean = first_byte_sum_ / static_cast<double>(count_);
  // By Little's law: responses arrive in bursts, so their number in a window says little.
  const double goodput = in_flight_max_ * static_cast<double>(count_) / std::max(whole_sum_, 1e-6);
  const bool in_use = in_flight_max_ >= kInUse * limit_;
  smoothed_ = smoothed_ == 0 ? mean : smoothed_ + kNewShare * (mean - smoothed_);
  const double least = lowest(second_of(now), mean);
  const bool fast = mean <= kFast * least || mean <= least + kFastSeconds;
  const unsigned before = limit_;
  if (smoothed_ > kSlow * least && smoothed_ > least + kSlowSecondsMin) {
    shrink(now);
  } else if (limit_ < options_.start) {
    recover(now);
  } else if (step_from_ != 0 && !has_gained(fast, goodput)) {
    undo_step(now, fast ? goodput / step_goodput_ : 0, least / mean);
  } else {
    step_from_ = 0;
    if (in_use && fast) grow(now, goodput, least);
  }
  // Responses to requests from before a step say nothing about it.
  const auto latency = std::chrono::duration_cast<Clock::duration>(Seconds(mean));
  begin(now, limit_ > before ? now + latency : now, latency);
}

double ConcurrencyLimit::lowest(int64_t second, double mean) {
  Past& now = past_[static_cast<size_t>(second % kRemembered)];
  if (now.second != second || mean < now.mean) now = {second, mean};
  double lowest = mean;
  for (const Past& past : past_) {
    if (past.second >= 0 && past.second > second - kRemembered)
      lowest = std::min(lowest, past.mean);
  }
  return lowest;
}

void ConcurrencyLimit::shrink(Clock::time_point now) {
  fast_start_ = false;
  step_from_ = 0;
  if (now < shrunk_at_ + kShrinkEvery) return;
  shrunk_at_ = recovered_at_ = now;
  limit_ = std::max(options_.min, limit_ - std::max(1u, limit_ / 10));
}

bool ConcurrencyLimit::has_gained(bool fast, double goodput) const {
  const double share = static_cast<double>(limit_) / step_from_ - 1;
  return fast && goodput >= step_goodput_ * (1 + kGainShare * share);
}

// The first steps double the limit. Their failure shows the product of bandwidth and latency:
// requests beyond it are those that made the latency longer than the least.
// If the latency was not longer, the goodput shows how many of them were in use.
void ConcurrencyLimit::undo_step(Clock::time_point now, double gain, double least_share) {
  const unsigned from = std::exchange(step_from_, 0);
  if (std::exchange(fast_start_, false)) {
    const double shown = gain > 0 ? from * gain : limit_ * least_share;
    limit_ = static_cast<unsigned>(std::clamp<double>(shown, from, limit_));
    return;
  }
  limit_ = from;
  hold_ = std::clamp(2 * hold_, kHoldMin, kHoldMax);
  hold_until_ = now + hold_;
}

void ConcurrencyLimit::grow(Clock::time_point now, double goodput, double least) {
  if (now < hold_until_ || now < throttled_at_ + kThrottledFor || limit_ == options_.max) return;
  if (now > hold_until_ + 2 * hold_) hold_ = {};
  step_from_ = limit_;
  step_goodput_ = goodput;
  unsigned more = fast_start_ ? limit_ : std::max(1u, limit_ / 8);
  if (fast_start_ && limit_ == options_.start) {
    const double times = std::clamp(least / kNearSeconds, 2.0, kFirstStepMax);
    more = static_cast<unsigned>(limit_ * (times - 1));
  }
  limit_ = std::min(limit_ + more, options_.max);
}

}  // namespace leat
