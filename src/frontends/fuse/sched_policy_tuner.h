// SPDX-License-Identifier: Apache-2.0
// SchedPolicyTuner: selects the scheduling policy of a request thread. As a batch thread
// (SCHED_BATCH, sched(7)) it does not preempt the program that wakes it. Several readers of small
// files then wait for it, and it answers them all in one time slice, which halves its CPU time. If
// programs use all cores, it is scheduled late, sometimes by milliseconds. So it checks its
// scheduling delays, and is a normal thread for a while when they are long. Measured:
// docs/design/0009-fuse-thread-scheduling.md. One object a thread.
#pragma once

#include <cstdint>

#include "runtime/context.h"
#include "runtime/disk.h"

namespace leat {

// Decision about the policy. Pure.
class BatchPolicy {
 public:
  // timeslices in one check, so that a single late one has no effect
  static constexpr uint64_t kTimeslices = 256;
  static constexpr std::chrono::nanoseconds kDelayMax = std::chrono::microseconds(100);
  static constexpr Clock::duration kBackoffMin = std::chrono::milliseconds(250);
  static constexpr Clock::duration kBackoffMax = std::chrono::seconds(32);

  // Since the thread began: nanoseconds spent runnable but not running, and timeslices.
  struct RunDelay {
    uint64_t nanoseconds = 0;
    uint64_t timeslices = 0;
  };
  // Returns true if the thread should be a batch thread from now on.
  bool use_batch(RunDelay so_far, Clock::time_point now);

 private:
  RunDelay last_{};
  Clock::time_point until_{};  // a normal thread until then
  Clock::duration backoff_ = kBackoffMin;
};

class SchedPolicyTuner {
 public:
  // Acts on the calling thread, which stays normal if the kernel does not count (no
  // CONFIG_SCHED_INFO).
  SchedPolicyTuner();
  // For threads that the server did not create.
  static SchedPolicyTuner& of_this_thread() {
    thread_local SchedPolicyTuner tuner;
    return tuner;
  }
  // Call after each request.
  void request_done() {
    if (++requests_ % BatchPolicy::kTimeslices == 0) check();
  }
  bool batch() const { return batch_; }

 private:
  void check();
  void set_batch(bool batch);

  File schedstat_;  // /proc/thread-self/schedstat
  BatchPolicy policy_;
  uint64_t requests_ = 0;
  bool batch_ = false;
};

}  // namespace leat
