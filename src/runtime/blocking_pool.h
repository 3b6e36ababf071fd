// SPDX-License-Identifier: Apache-2.0
// BlockingPool: threads for the calls that block on behalf of one owner, such as a disk, so that
// calls that never come back take these threads and nobody else's. Bounded in threads, which start
// when they are needed; its queue holds what callers, themselves bounded, put there. Thread-safe.
//
// Its end waits for nobody who hangs: such a thread is left behind with what it needs, and its
// answer, if it ever comes, resumes who waited for it, or nobody where the executor is gone.
#pragma once

#include <boost/asio/async_result.hpp>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "runtime/post_gate.h"
#include "runtime/task.h"

namespace leat {

class BlockingPool {
 public:
  // Runs once: the call with null, or else with why it will not be made.
  using Job = std::move_only_function<void(const Status* refused)>;
  // Starts a thread that nobody joins; kUnavailable where there can be none.
  using ThreadStarter = std::function<Result<>(std::string name, std::move_only_function<void()>)>;

  // `name`, at most 15 characters, is that of its threads.
  BlockingPool(std::string name, unsigned threads_max, ThreadStarter start_thread = nullptr);
  // As give_up(), and waits a moment for calls that are about to end.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;

  // Runs `call`, which may block and returns a Result<T>, and resumes the coroutine with its value.
  // The frame that waits lives until then, so `call` may refer to it. kUnavailable, without a call,
  // where no thread could be started or the pool was given up.
  template <class F>
  Task<std::invoke_result_t<F>> run(F call);

  // Runs `job` when a thread is free; nobody waits for it.
  void post(Job job);

  // No call is begun any more: those that wait for a thread are refused, as later ones are. Those
  // that run are seen through. Does not wait.
  void give_up();

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
          gate = PostGate::of(resume_on)](const Status* refused) mutable {
      Value value = Error(Status(StatusCode::kUnavailable, "not called"));
      {
        F mine = std::move(call);  // gone, with what it holds, before anybody goes on
        value = refused == nullptr ? mine() : Value(Error(*refused));
      }
      gate.post(resume_on, [handler = std::move(handler), value = std::move(value)]() mutable {
        std::move(handler)(std::move(value));
      });
    });
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&,
                                                 void(Value)>(initiate, boost::asio::use_awaitable);
}

}  // namespace leat
