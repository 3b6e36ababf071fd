// SPDX-License-Identifier: Apache-2.0
// ThreadTurns: selects the scheduling policy of a request thread. As a batch thread (SCHED_BATCH,
// sched(7)) it does not preempt the program that wakes it. Several readers of small files then wait
// for it, and it answers them all in one time slice, which halves its CPU time. If programs use all
// cores, its turn comes late, sometimes by milliseconds. So it checks its scheduling delays, and is
// a normal thread for a while when they are long.
// Measured: docs/design/0009-fuse-thread-scheduling.md. One object a thread.
#pragma once

#include <cstdint>

#include "runtime/context.h"
#include "runtime/disk.h"

namespace leat {

// Decision about the policy. Pure.
class TurnPolicy {
 public:
  // turns in one check, so that a single late turn has no effect
  static constexpr uint64_t kTurns = 256;
  static constexpr std::chrono::nanoseconds kLong = std::chrono::microseconds(100);
  static constexpr Clock::duration kHoldMin = std::chrono::milliseconds(250);
  static constexpr Clock::duration kHoldMax = std::chrono::seconds(32);

  // Since the thread began: nanoseconds spent runnable but not running, and turns.
  struct Waited {
    uint64_t nanoseconds = 0;
    uint64_t turns = 0;
  };
  // Returns true if the thread should be a batch thread from now on.
  bool batch(Waited so_far, Clock::time_point now);

 private:
  Waited last_{};
  Clock::time_point until_{};  // a normal thread until then
  Clock::duration hold_ = kHoldMin;
};

class ThreadTurns {
 public:
  // Acts on the calling thread, which stays normal if the kernel does not count (no
  // CONFIG_SCHED_INFO).
  ThreadTurns();
  // For threads that the server did not create.
  static ThreadTurns& of_this_thread() {
    thread_local ThreadTurns turns;
    return turns;
  }
  // Call after each request.
  void served() {
    if (++requests_ % TurnPolicy::kTurns == 0) look();
  }
  bool batch() const { return batch_; }

 private:
  void look();
  void become(bool batch);

  File counts_;  // /proc/thread-self/schedstat
  TurnPolicy policy_;
  uint64_t requests_ = 0;
  bool batch_ = false;
};

}  // namespace leat
