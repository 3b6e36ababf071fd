// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/sched_policy_tuner.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <optional>

namespace leat {
namespace {

// Three numbers: nanoseconds run, run delay in nanoseconds, timeslices (proc(5), sched-stats.rst).
std::optional<BatchPolicy::RunDelay> read_schedstat(const File& file) {
  char text[96];
  const ssize_t bytes = file ? ::pread(file.fd(), text, sizeof text - 1, 0) : -1;
  if (bytes <= 0) return std::nullopt;
  text[bytes] = 0;
  BatchPolicy::RunDelay delay;
  if (std::sscanf(text, "%*u %" SCNu64 " %" SCNu64, &delay.nanoseconds, &delay.timeslices) != 2) {
    return std::nullopt;
  }
  return delay;
}

}  // namespace

bool BatchPolicy::use_batch(RunDelay so_far, Clock::time_point now) {
  const uint64_t timeslices = std::max(so_far.timeslices - last_.timeslices, kTimeslices / 4);
  const std::chrono::nanoseconds mean((so_far.nanoseconds - last_.nanoseconds) / timeslices);
  last_ = so_far;
  if (now < until_) return false;
  if (mean <= kDelayMax) return true;
  // Long delays soon after the last try double the back-off.
  backoff_ = now < until_ + backoff_ ? std::min(backoff_ * 2, kBackoffMax) : kBackoffMin;
  until_ = now + backoff_;
  return false;
}

SchedPolicyTuner::SchedPolicyTuner()
    : schedstat_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {
  check();
}

void SchedPolicyTuner::check() {
  const std::optional<BatchPolicy::RunDelay> delay = read_schedstat(schedstat_);
  const bool batch = delay && policy_.use_batch(*delay, Clock::now());
  if (batch != batch_) set_batch(batch);
}

void SchedPolicyTuner::set_batch(bool batch) {
  const sched_param none{};
  if (::sched_setscheduler(0, batch ? SCHED_BATCH : SCHED_OTHER, &none) == 0) batch_ = batch;
}

}  // namespace leat
