// SPDX-License-Identifier: Apache-2.0
// ThreadTurns: how a thread that answers requests gets its turns on its core. As a *batch* thread
// (SCHED_BATCH, sched(7)) it does not preempt who wakes it: several readers of small files come to
// wait for it, and it answers them all in one turn, which halves its processor time. Where programs
// compute on all cores its turn comes late, sometimes by milliseconds. So it looks at how long it
// waited for its turns, and when that is long it is a normal thread for a while.
// Measured: docs/design/0009-fuse-thread-scheduling.md. One object a thread.
#pragma once

#include <cstdint>

#include "runtime/context.h"
#include "runtime/disk.h"

namespace leat {

// What decides. Pure.
class TurnPolicy {
 public:
  static constexpr uint64_t kTurns = 256;  // of one look, so that one late turn is none
  static constexpr std::chrono::nanoseconds kLong = std::chrono::microseconds(100);
  static constexpr Clock::duration kHoldMin = std::chrono::milliseconds(250);
  static constexpr Clock::duration kHoldMax = std::chrono::seconds(32);

  // Since the thread began: nanoseconds that it could have run and did not, and turns that it had.
  struct Waited {
    uint64_t nanoseconds = 0;
    uint64_t turns = 0;
  };
  // Whether to be a batch thread from now on.
  bool batch(Waited so_far, Clock::time_point now);

 private:
  Waited last_{};
  Clock::time_point until_{};  // a normal thread until then
  Clock::duration hold_ = kHoldMin;
};

class ThreadTurns {
 public:
  // Of the calling thread. Where the kernel does not count (no CONFIG_SCHED_INFO) it stays normal.
  ThreadTurns();
  // For threads that are not the door's own.
  static ThreadTurns& of_this_thread() {
    thread_local ThreadTurns turns;
    return turns;
  }
  // After each request.
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
