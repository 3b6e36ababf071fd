// SPDX-License-Identifier: Apache-2.0
// InvalidationThread: sends invalidations to the kernel. It is a separate thread because the kernel
// takes the directory's lock for it, which a lookup that waits for this server may hold. A server
// thread could deadlock with itself. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "vfs/file_system.h"

namespace leat {

class InvalidationThread {
 public:
  struct Kernel {
    std::function<void(const KernelInvalidation&)> invalidate;
    // Descriptor that `invalidate` writes to; -1: none. The thread closes its copies of all other
    // descriptors from 3 on. Otherwise a process killed while this thread waits in the kernel would
    // keep them, with their locks, until another process answers the request.
    int connection = -1;
    // Invalidates every name at once; used when the queue overflows.
    std::function<void()> invalidate_all;
  };

  // The kernel may block the thread for as long as a request for the same directory takes.
  static constexpr Clock::duration kTimeout = std::chrono::seconds(10);

  InvalidationThread(Kernel kernel, size_t queue_max, Clock::duration timeout = kTimeout);
  ~InvalidationThread() { stop(); }

  // When the queue is full, a name with `may_block` waits until there is room, at most
  // `timeout` since the last progress. For other names, the queued names are replaced by one
  // invalidate_all. An invalidation with `expire_only` is always sent.
  void push(KernelInvalidation name);
  // Waits until all earlier pushes were sent; returns true. Returns false after `timeout` without
  // progress, or once `cancel` is set.
  bool flush(const std::stop_token& cancel = {});
  // Finishes the one in progress and drops the rest; later names are dropped, too.
  void stop();
  size_t pending() const;

 private:
  struct Queued {
    uint64_t number;
    KernelInvalidation name;
  };

  void run();
  // Returns true if the thread now has its own descriptor table with only the connection.
  bool close_other_descriptors() const;
  void send_all();
  // Returns true if something was sent within `timeout`. Also ends when the thread stops.
  bool wait_for_progress(std::unique_lock<std::mutex>& lock, const std::stop_token& cancel = {});

  uint64_t sent_through() const;

  const Kernel kernel_;
  const size_t queue_max_;
  const Clock::duration timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable_any progressed_;
  std::deque<Queued> queue_;
  uint64_t pushed_ = 0;   // numbers assigned, from 1 on
  uint64_t steps_ = 0;    // counts the names that the kernel has taken
  uint64_t sending_ = 0;  // the number in progress; 0: none
  // The first of the names replaced by a pending invalidate_all; 0: none is pending.
  uint64_t dropped_ = 0;
  bool stalled_ = false;  // no progress during the last blocking wait
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace leat
