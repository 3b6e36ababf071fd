// SPDX-License-Identifier: Apache-2.0
#include "runtime/bandwidth_limiter.h"

#include <algorithm>
#include <chrono>

#include "runtime/executor.h"

namespace leat {

Clock::duration BandwidthLimiter::time_of(uint64_t bytes) const {
  if (!limited()) return Clock::duration::zero();
  const std::chrono::duration<double> takes(double(bytes) / double(bytes_per_second_));
  return std::chrono::duration_cast<Clock::duration>(takes);
}

BandwidthLimiter::Reservation BandwidthLimiter::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const Clock::time_point begins = std::max(free_, Clock::now());
  free_ = begins + time_of(bytes);
  return {begins, free_};
}

void BandwidthLimiter::return_unused(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  free_ -= time_of(bytes);
}

Task<Result<>> BandwidthLimiter::acquire(Context context, uint64_t bytes) {
  if (!limited()) co_return Result<>();
  const Clock::duration wait = reserve(bytes).begins - Clock::now();
  if (wait <= Clock::duration::zero()) co_return Result<>();
  co_return co_await sleep_for(context, wait);
}

}  // namespace leat
