// SPDX-License-Identifier: Apache-2.0
// Executor: the threads of the process. A small pool runs coroutines and never blocks. A bounded
// pool runs calls that must block (metadata system calls, fsync).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <functional>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/executor_post_guard.h"
#include "runtime/task.h"

namespace leat {

struct ExecutorOptions {
  unsigned threads = 0;           // 0: one per core, at least 2
  unsigned blocking_threads = 8;  // for calls that block; further ones are queued
};

class Executor {
 public:
  explicit Executor(ExecutorOptions options = {});
  // Stops the threads. Unfinished tasks are destroyed where they are suspended.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  boost::asio::any_io_executor any() const;
  unsigned threads() const;
  unsigned blocking_threads() const;

  // Starts `task` on the pool and does not wait. An exception in it is a defect and aborts.
  void spawn(Task<> task);
  // Runs `call` on the pool's threads; it must not block.
  void post(std::move_only_function<void()> call);
  // Runs `call`, which may block, on the blocking pool and resumes the coroutine with its value.
  template <class F>
  Task<std::invoke_result_t<F>> blocking(F call);

  // Waits for the task. Only from threads outside the executor (main, tests, the CLI).
  template <class T>
  T block_on(Task<T> task) {
    return boost::asio::co_spawn(any(), std::move(task), boost::asio::use_future).get();
  }

 private:
  void post_blocking(std::move_only_function<void()> call);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Completion handler for co_spawn of detached tasks: an exception is a defect, and ends the process
// with the reason.
void terminate_on_exception(std::exception_ptr failure);

// Starts tasks on an Executor from any thread, as long as the executor exists; may outlive it.
class Spawner {
 public:
  Spawner(Executor& executor)  // NOLINT(google-explicit-constructor): is a spawner
      : io_(executor.any()), guard_(ExecutorPostGuard::of(io_)) {}

  // Returns false if the executor was destroyed; then `task` never starts.
  bool spawn(Task<> task) const;

 private:
  const boost::asio::any_io_executor io_;
  const ExecutorPostGuard guard_;
};

// Suspends for `duration`. Returns kCancelled or kTimedOut if the context ends first.
Task<Result<>> sleep_for(Context context, Clock::duration duration);
// Suspends without a context. The wait ends early only with the executor, which destroys the
// coroutine.
Task<> sleep_uncancellable(Clock::duration duration);

template <class F>
Task<std::invoke_result_t<F>> Executor::blocking(F call) {
  using Value = std::invoke_result_t<F>;
  auto resume_on = co_await boost::asio::this_coro::executor;
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&,
                                                 void(Value)>(
      [this, &call, resume_on](auto handler) {
        auto work = [handler = std::move(handler), call = std::move(call), resume_on,
                     guard = ExecutorPostGuard::of(resume_on)]() mutable {
          Value value = call();
          guard.post(resume_on, [handler = std::move(handler), value = std::move(value)]() mutable {
            std::move(handler)(std::move(value));
          });
        };
        post_blocking(std::move(work));
      },
      boost::asio::use_awaitable);
}

}  // namespace leat
