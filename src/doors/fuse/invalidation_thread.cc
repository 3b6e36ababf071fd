// SPDX-License-Identifier: Apache-2.0
#include "doors/fuse/invalidation_thread.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <utility>

namespace leat {

InvalidationThread::InvalidationThread(Kernel kernel, size_t queue_max, Clock::duration patience)
    : kernel_(std::move(kernel)),
      queue_max_(queue_max),
      patience_(patience),
      thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "leat-forget");
}

void InvalidationThread::push(Invalidation name) {
  {
    std::unique_lock lock(mutex_);
    while (name.patient && !stopping_ && !stalled_ && queue_.size() >= queue_max_) {
      stalled_ = !wait_for_progress(lock);
    }
    if (stopping_) return;
    // Else forget_all is still to come and covers it, but not what is said of attributes.
    if (all_ && !name.only_belief) return;
    ++pushed_;
    if (queue_.size() < queue_max_ || name.only_belief) {
      queue_.push_back(std::move(name));
    } else {
      std::erase_if(queue_, [](const Invalidation& one) { return !one.only_belief; });
      all_ = true;
    }
  }
  changed_.notify_one();
}

bool InvalidationThread::wait_for_progress(std::unique_lock<std::mutex>& lock,
                                           const std::stop_token& given_up) {
  const uint64_t told = told_;
  told_more_.wait_for(lock, given_up, patience_, [&] { return stopping_ || told_ != told; });
  return told_ != told;
}

bool InvalidationThread::flush(const std::stop_token& given_up) {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = pushed_;
  while (!stopping_ && told_ < wanted) {
    if (!wait_for_progress(lock, given_up)) return false;
  }
  return true;
}

void InvalidationThread::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  told_more_.notify_all();
  if (thread_.joinable()) thread_.join();
}

size_t InvalidationThread::pending() const {
  std::lock_guard lock(mutex_);
  return queue_.size() + (all_ ? 1 : 0);
}

bool InvalidationThread::let_go_of_descriptors() const {
  if (kernel_.connection < 3 || ::unshare(CLONE_FILES) != 0) return false;
  const auto kept = static_cast<unsigned>(kernel_.connection);
  if (kept > 3) ::close_range(3, kept - 1, 0);
  ::close_range(kept + 1, ~0u, 0);
  return true;
}

void InvalidationThread::run() {
  const bool apart = let_go_of_descriptors();
  tell_all();
  // Not when the kernel comes to it: whoever joined this thread may close the connection next, and
  // it is to end with that.
  if (apart) ::close_range(3, ~0u, 0);
}

void InvalidationThread::tell_all() {
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
      kernel_.tell(name);
    }
    lock.lock();
    // All but what is still in the queue; what came meanwhile is there, or in all_ again.
    told_ = pushed_ - queue_.size() - (all_ ? 1 : 0);
    stalled_ = false;
    told_more_.notify_all();
  }
}

}  // namespace leat
