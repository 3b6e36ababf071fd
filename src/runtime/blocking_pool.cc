// SPDX-License-Identifier: Apache-2.0
#include "runtime/blocking_pool.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace leat {
namespace {

// Time for threads that have delivered their result to exit. A hanging thread costs it once.
constexpr auto kLeavingTime = std::chrono::milliseconds(100);

Result<> start_detached(const std::string& name, std::move_only_function<void()> body) {
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name.c_str());
    thread.detach();
    return {};
  } catch (const std::system_error& failure) {
    return error(StatusCode::kUnavailable, fmt::format("cannot start a thread for calls that "
                                                       "block: {}",
                                                       failure.what()));
  }
}

Status given_up_status() {
  return {StatusCode::kUnavailable, "its disk was abandoned because it does not respond"};
}

// The pool of this thread. A pool may be destroyed by one of its own calls.
thread_local const void* own_pool = nullptr;

}  // namespace

struct BlockingPool::State {
  const std::string name;
  const unsigned threads_max;
  const ThreadStarter start_thread;

  std::mutex mutex;  // leaf
  std::condition_variable work_came, thread_left;
  std::deque<Job> queue;
  unsigned threads = 0, idle = 0;
  bool given_up = false;
};

BlockingPool::BlockingPool(std::string name, unsigned threads_max, ThreadStarter start_thread)
    : state_(new State{.name = std::move(name),
                       .threads_max = std::max(threads_max, 1u),
                       .start_thread = start_thread ? std::move(start_thread) : start_detached,
                       .mutex = {},
                       .work_came = {},
                       .thread_left = {},
                       .queue = {}}) {}

BlockingPool::~BlockingPool() {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->given_up) return;  // the owner knows that a call hangs
  }
  shut_down();
  if (own_pool == state_.get()) return;
  std::unique_lock lock(state_->mutex);
  state_->thread_left.wait_for(lock, kLeavingTime, [this] { return state_->threads == 0; });
}

void BlockingPool::shut_down() {
  std::deque<Job> rejected;
  {
    std::lock_guard lock(state_->mutex);
    state_->given_up = true;
    rejected.swap(state_->queue);
  }
  state_->work_came.notify_all();
  const Status why = given_up_status();
  for (Job& job : rejected) job(&why);
}

void BlockingPool::post(Job job) {
  // The pool may be destroyed by its owner as soon as the job is in the queue.
  const std::shared_ptr<State> state = state_;
  bool start = false;
  {
    std::lock_guard lock(state->mutex);
    if (!state->given_up) {
      state->queue.push_back(std::move(job));
      start = state->queue.size() > state->idle && state->threads < state->threads_max;
      if (start) ++state->threads;
    }
  }
  if (job != nullptr) {
    const Status why = given_up_status();
    job(&why);
    return;
  }
  if (!start) {
    state->work_came.notify_one();
    return;
  }
  Result<> started = state->start_thread(state->name, [state] { work(state); });
  if (started) return;
  // Other threads will run the job. Without any it would wait for ever, so reject it.
  std::deque<Job> rejected;
  {
    std::lock_guard lock(state->mutex);
    if (--state->threads == 0) rejected.swap(state->queue);
  }
  for (Job& one : rejected) one(&started.error());
}

void BlockingPool::work(std::shared_ptr<State> state) {
  own_pool = state.get();
  std::unique_lock lock(state->mutex);
  for (;;) {
    ++state->idle;
    state->work_came.wait(lock, [&] { return state->given_up || !state->queue.empty(); });
    --state->idle;
    if (state->queue.empty()) break;
    {
      Job job = std::move(state->queue.front());
      state->queue.pop_front();
      lock.unlock();
      job(nullptr);
    }  // what the job held may be the last reference to the pool
    lock.lock();
  }
  --state->threads;
  // Before the unlock: the destructor that waits may be the last thing of the process.
  state->thread_left.notify_all();
}

}  // namespace leat
