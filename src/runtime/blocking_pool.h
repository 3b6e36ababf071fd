// SPDX-License-Identifier: Apache-2.0
// BlockingPool: threads for the blocking calls of one owner, such as a disk. A call that hangs
// occupies only these threads. The number of threads is bounded; they start on demand. The queue
// holds what callers post, and callers are bounded themselves. Thread-safe.
//
// The destructor does not wait for a call that hangs. Its thread stays with all it needs. A late
// result resumes the coroutine that waits for it, or nothing if the executor was destroyed.
#pragma once

#include <boost/asio/async_result.hpp>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "runtime/executor_post_guard.h"
#include "runtime/task.h"

namespace leat {

class BlockingPool {
 public:
  // Runs once. `rejected` is null, or else the reason why the call cannot run.
  using Job = std::move_only_function<void(const Status* rejected)>;
  // Starts a detached thread. kUnavailable if that fails.
  using ThreadStarter = std::function<Result<>(std::string name, std::move_only_function<void()>)>;

  // `name` is the name of its threads, at most 15 characters.
  BlockingPool(std::string name, unsigned threads_max, ThreadStarter start_thread = nullptr);
  // Calls shut_down(), and waits up to 100 ms for calls that are about to end.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;

  // Runs `call`, which may block and returns a Result<T>, and resumes the coroutine with its value.
  // The coroutine frame lives until then, so `call` may refer to it. Returns kUnavailable without a
  // call if no thread could start or the pool was shut down.
  template <class F>
  Task<std::invoke_result_t<F>> run(F call);

  // Runs `job` when a thread is free. Does not wait.
  void post(Job job);

  // Starts no further call: queued and later ones are rejected. Running calls continue. Does not
  // wait.
  void shut_down();

 private:
  struct State;
  static void work(std::shared_ptr<State> state);

  const std::shared_ptr<State> state_;
};

template <class F>
Task<std::invoke_result_t<F>> BlockingPool::run(F call) {
  using Value = std::invoke_result_t<F>;
  auto resume_on = co_await boost::asio::this_coro::executor;
  auto initiate = [this, &call, resume_on](auto handler) {
    post([handler = std::move(handler), call = std::move(call), resume_on,
          guard = ExecutorPostGuard::of(resume_on)](const Status* rejected) mutable {
      Value value = Error(Status(StatusCode::kUnavailable, "not called"));
      {
        F mine = std::move(call);  // destroyed with its captures before the coroutine resumes
        value = rejected == nullptr ? mine() : Value(Error(*rejected));
      }
      guard.post(resume_on, [handler = std::move(handler), value = std::move(value)]() mutable {
        std::move(handler)(std::move(value));
      });
    });
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&,
                                                 void(Value)>(initiate, boost::asio::use_awaitable);
}

}  // namespace leat
