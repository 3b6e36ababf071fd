// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/thread_turns.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <optional>

namespace leat {
namespace {

// Three numbers: nanoseconds run, nanoseconds waited, turns (proc(5), sched-stats.rst).
std::optional<TurnPolicy::Waited> read_counts(const File& file) {
  char text[96];
  const ssize_t bytes = file ? ::pread(file.fd(), text, sizeof text - 1, 0) : -1;
  if (bytes <= 0) return std::nullopt;
  text[bytes] = 0;
  TurnPolicy::Waited waited;
  if (std::sscanf(text, "%*u %" SCNu64 " %" SCNu64, &waited.nanoseconds, &waited.turns) != 2) {
    return std::nullopt;
  }
  return waited;
}

}  // namespace

bool TurnPolicy::batch(Waited so_far, Clock::time_point now) {
  const uint64_t turns = std::max(so_far.turns - last_.turns, kTurns / 4);
  const std::chrono::nanoseconds mean((so_far.nanoseconds - last_.nanoseconds) / turns);
  last_ = so_far;
  if (now < until_) return false;
  if (mean <= kLong) return true;
  // Long delays soon after the last try double the hold time.
  hold_ = now < until_ + hold_ ? std::min(hold_ * 2, kHoldMax) : kHoldMin;
  until_ = now + hold_;
  return false;
}

ThreadTurns::ThreadTurns() : counts_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {
  look();
}

void ThreadTurns::look() {
  const std::optional<TurnPolicy::Waited> waited = read_counts(counts_);
  const bool batch = waited && policy_.batch(*waited, Clock::now());
  if (batch != batch_) become(batch);
}

void ThreadTurns::become(bool batch) {
  const sched_param none{};
  if (::sched_setscheduler(0, batch ? SCHED_BATCH : SCHED_OTHER, &none) == 0) batch_ = batch;
}

}  // namespace leat
