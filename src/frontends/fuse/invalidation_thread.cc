// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/invalidation_thread.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace leat {

InvalidationThread::InvalidationThread(Kernel kernel, size_t queue_max, Clock::duration timeout)
    : kernel_(std::move(kernel)),
      queue_max_(queue_max),
      timeout_(timeout),
      thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "leat-forget");
}

void InvalidationThread::push(KernelInvalidation name) {
  {
    std::unique_lock lock(mutex_);
    while (name.may_block && !stopping_ && !stalled_ && queue_.size() >= queue_max_) {
      stalled_ = !wait_for_progress(lock);
    }
    if (stopping_) return;
    // A pending invalidate_all covers plain names, but not `expire_only` ones.
    if (dropped_ != 0 && !name.expire_only) return;
    ++pushed_;
    if (queue_.size() < queue_max_ || name.expire_only) {
      queue_.push_back({pushed_, std::move(name)});
    } else {
      auto is_plain = [](const Queued& one) { return !one.name.expire_only; };
      const auto first = std::ranges::find_if(queue_, is_plain);
      dropped_ = first == queue_.end() ? pushed_ : first->number;
      std::erase_if(queue_, is_plain);
    }
  }
  changed_.notify_one();
}

bool InvalidationThread::wait_for_progress(std::unique_lock<std::mutex>& lock,
                                           const std::stop_token& cancel) {
  const uint64_t steps = steps_;
  progressed_.wait_for(lock, cancel, timeout_, [&] { return stopping_ || steps_ != steps; });
  return steps_ != steps;
}

// Returns the number up to which the kernel has everything.
uint64_t InvalidationThread::sent_through() const {
  uint64_t first = pushed_ + 1;
  if (sending_ != 0) first = sending_;
  if (!queue_.empty()) first = std::min(first, queue_.front().number);
  if (dropped_ != 0) first = std::min(first, dropped_);
  return first - 1;
}

bool InvalidationThread::flush(const std::stop_token& cancel) {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = pushed_;
  while (!stopping_ && sent_through() < wanted) {
    if (!wait_for_progress(lock, cancel)) return false;
  }
  return true;
}

void InvalidationThread::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  progressed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

size_t InvalidationThread::pending() const {
  std::lock_guard lock(mutex_);
  return queue_.size() + (dropped_ != 0 ? 1 : 0);
}

bool InvalidationThread::close_other_descriptors() const {
  if (kernel_.connection < 3 || ::unshare(CLONE_FILES) != 0) return false;
  const auto connection = static_cast<unsigned>(kernel_.connection);
  if (connection > 3) ::close_range(3, connection - 1, 0);
  ::close_range(connection + 1, ~0u, 0);
  return true;
}

void InvalidationThread::run() {
  const bool apart = close_other_descriptors();
  send_all();
  // Closes them now: the joining thread may close the connection next, and it must end with that.
  if (apart) ::close_range(3, ~0u, 0);
}

void InvalidationThread::send_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || dropped_ != 0 || !queue_.empty(); });
    if (stopping_) return;
    if (dropped_ != 0) {
      sending_ = std::exchange(dropped_, 0);
      lock.unlock();
      kernel_.invalidate_all();
    } else {
      sending_ = queue_.front().number;
      const KernelInvalidation name = std::move(queue_.front().name);
      queue_.pop_front();
      lock.unlock();
      kernel_.invalidate(name);
    }
    lock.lock();
    sending_ = 0;
    ++steps_;
    stalled_ = false;
    progressed_.notify_all();
  }
}

}  // namespace leat
