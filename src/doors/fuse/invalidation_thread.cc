// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/invalidation_thread.h"

#include <pthread.h>

#include <utility>

namespace leat {

InvalidationThread::InvalidationThread(Kernel kernel, size_t queue_max)
    : kernel_(std::move(kernel)), queue_max_(queue_max), thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "leat-forget");
}

void InvalidationThread::push(Invalidation name) {
  {
    std::unique_lock lock(mutex_);
    if (name.patient) room_.wait(lock, [this] { return stopping_ || queue_.size() < queue_max_; });
    if (stopping_) return;
    // Else forget_all is still to come and covers it, but not what is said of attributes.
    if (all_ && !name.only_belief) return;
    if (queue_.size() >= queue_max_) {
      std::erase_if(queue_, [](const Invalidation& one) { return !one.only_belief; });
      all_ = true;
    } else {
      queue_.push_back(std::move(name));
    }
  }
  changed_.notify_one();
}

void InvalidationThread::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  room_.notify_all();
  if (thread_.joinable()) thread_.join();
}

size_t InvalidationThread::pending() const {
  std::lock_guard lock(mutex_);
  return queue_.size() + (all_ ? 1 : 0);
}

void InvalidationThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || all_ || !queue_.empty(); });
    if (stopping_) return;
    if (all_) {
      all_ = false;
      lock.unlock();
      kernel_.forget_all();
    } else {
      const Invalidation name = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      room_.notify_one();
      kernel_.tell(name);
    }
    lock.lock();
  }
}

}  // namespace leat
