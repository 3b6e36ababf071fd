// SPDX-License-Identifier: Apache-2.0
// FilePool: the threads on which file:// calls the kernel. A call to a network file system may
// never return, so these threads are separate from the executor's, and their number is bounded per
// process. A caller abandons its call when its context ends, so a call may only touch memory that
// it owns.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/blocking_pool.h"
#include "runtime/context.h"
#include "runtime/semaphore.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"

namespace leat {

class FilePool {
 public:
  // Returns the pool of this process, created at the first use. It is never destroyed, and its
  // threads are not joined: the kernel ends those that still hang when the process exits.
  static FilePool& of_process();

  explicit FilePool(unsigned threads);

  // Runs `call`, which may block and returns a Result<T>. Returns kCancelled or kTimedOut if the
  // context ends before `call` returns or before a thread is free. A call that runs then keeps its
  // thread until it returns. Returns kUnavailable if no thread can be started. The caller's
  // executor must outlive the task.
  template <class F>
  Task<std::invoke_result_t<F>> run(Context context, const char* what, F call);

  // Runs `call` when a thread is free; does not wait for it.
  void post(std::move_only_function<void()> call);

 private:
  // One permit per thread, so that a waiting caller can be cancelled.
  const std::shared_ptr<Semaphore> free_;
  BlockingPool threads_;
};

template <class F>
Task<std::invoke_result_t<F>> FilePool::run(Context context, const char* what, F call) {
  using Value = std::invoke_result_t<F>::value_type;
  Result<Semaphore::Permit> permit = co_await free_->acquire(context, 1, what);
  if (!permit) {
    co_return Error(permit.error().with_context(
        "the file systems of this host have not answered the calls before this one"));
  }
  auto result = SharedPromise<Value>::make();
  threads_.post([free = free_, permit = *std::move(permit), result,
                 call = std::move(call)](const Status* rejected) mutable {
    Result<Value> value = rejected == nullptr ? call() : Result<Value>(Error(*rejected));
    {
      Semaphore::Permit back = std::move(permit);
    }
    result->set(std::move(value));
  });
  co_return co_await result->wait(context, what);
}

}  // namespace leat
