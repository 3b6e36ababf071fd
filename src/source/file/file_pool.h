// SPDX-License-Identifier: Apache-2.0
// FilePool: the threads on which file:// waits for the kernel. A call to a network file system may
// never come back, so these threads are apart from the executor's and bounded for the process, and
// a caller whose context ends leaves its call behind: whatever a call touches has to be its own.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/blocking_pool.h"
#include "runtime/context.h"
#include "runtime/semaphore.h"
#include "runtime/shared_result.h"
#include "runtime/task.h"

namespace leat {

class FilePool {
 public:
  // The one of this process, made at the first use. It is never destroyed, and its threads are not
  // waited for: those that still hang when the process exits are ended by the kernel.
  static FilePool& of_process();

  explicit FilePool(unsigned threads);

  // Runs `call`, which may block and returns a Result<T>. kCancelled or kTimedOut when the context
  // ends before the call, or before a thread is free for it; a call that runs then keeps its thread
  // until it returns. kUnavailable where no thread can be started. The caller's executor must live
  // until the task has ended.
  template <class F>
  Task<std::invoke_result_t<F>> run(Context context, const char* what, F call);

  // Runs `call` when a thread is free; nobody waits for it.
  void post(std::move_only_function<void()> call);

 private:
  // As many as there are threads, so that what waits can give up.
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
  auto result = SharedResult<Value>::make();
  threads_.post([free = free_, permit = *std::move(permit), result,
                 call = std::move(call)](const Status* refused) mutable {
    Result<Value> value = refused == nullptr ? call() : Result<Value>(Error(*refused));
    {
      Semaphore::Permit back = std::move(permit);
    }
    result->set(std::move(value));
  });
  co_return co_await result->wait(context, what);
}

}  // namespace leat
