// SPDX-License-Identifier: Apache-2.0
// InvalidationThread: tells the kernel which names to forget. A thread of its own, because the
// kernel takes the directory's lock for it, which a lookup that waits for the door may hold: a
// door's thread that did it could wait for itself. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "vfs/file_system.h"

namespace leat {

class InvalidationThread {
 public:
  struct Kernel {
    std::function<void(const Invalidation&)> tell;
    // Every name at once; what is done instead when names come faster than they can be told.
    std::function<void()> forget_all;
  };

  InvalidationThread(Kernel kernel, size_t queue_max);
  ~InvalidationThread() { stop(); }

  // When the queue is full, a patient name waits for room; for any other all that is in it becomes
  // one forget_all.
  void push(Invalidation name);
  // Finishes the one under way and drops the rest; later names are dropped too.
  void stop();
  size_t pending() const;

 private:
  void run();

  const Kernel kernel_;
  const size_t queue_max_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable room_;
  std::deque<Invalidation> queue_;
  bool all_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace leat
