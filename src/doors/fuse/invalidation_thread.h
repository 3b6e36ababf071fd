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
#include <stop_token>
#include <thread>

#include "vfs/file_system.h"

namespace leat {

class InvalidationThread {
 public:
  struct Kernel {
    std::function<void(const Invalidation&)> tell;
    // What `tell` writes to; -1: none. The thread lets go of every other descriptor from 3 on,
    // since a process that is killed while this thread waits in the kernel would else keep them
    // all, its locks among them, until somebody else answers what the thread waits for.
    int connection = -1;
    // Every name at once; what is done instead when names come faster than they can be told.
    std::function<void()> forget_all;
  };

  // The kernel may keep it waiting for as long as a request for the same directory takes.
  static constexpr Clock::duration kPatience = std::chrono::seconds(10);

  InvalidationThread(Kernel kernel, size_t queue_max, Clock::duration patience = kPatience);
  ~InvalidationThread() { stop(); }

  // When the queue is full, a patient name waits for room, at most `patience` unless something is
  // told meanwhile; for any other the names in it become one forget_all. What is said of belief is
  // told in any case.
  void push(Invalidation name);
  // Until all that was pushed before has been told: true. False when nothing was told for as long
  // as `patience`, or as soon as `given_up`.
  bool flush(const std::stop_token& given_up = {});
  // Finishes the one under way and drops the rest; later names are dropped too.
  void stop();
  size_t pending() const;

 private:
  struct Queued {
    uint64_t number;
    Invalidation name;
  };

  void run();
  // Whether the thread has descriptors of its own: the connection alone.
  bool let_go_of_descriptors() const;
  void tell_all();
  // Whether something was told meanwhile, within `patience`. Also ends when it stops.
  bool wait_for_progress(std::unique_lock<std::mutex>& lock, const std::stop_token& given_up = {});

  uint64_t told_through() const;

  const Kernel kernel_;
  const size_t queue_max_;
  const Clock::duration patience_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable_any told_more_;
  std::deque<Queued> queue_;
  uint64_t pushed_ = 0;   // numbers given, from 1 on
  uint64_t steps_ = 0;    // how often the kernel has taken something
  uint64_t telling_ = 0;  // the number that is under way; 0: none
  // The first of those that became one forget_all, which is still to come; 0: none is.
  uint64_t dropped_ = 0;
  bool stalled_ = false;  // nothing was told for as long as somebody was patient
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace leat
