// SPDX-License-Identifier: Apache-2.0
// Calls of file sources on the FilePool, with their failures counted. A call touches only what it
// owns, since its caller may have ended.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "runtime/task.h"
#include "source/file/file_pool.h"
#include "source/store_counters.h"

namespace leat {

template <class T>
Task<Result<T>> on_pool(std::shared_ptr<StoreCounters> counters, Context context, const char* what,
                        std::function<Result<T>()> call) {
  if (auto alive = context.check(what); !alive) co_return Error(alive.error());
  Result<T> done = co_await FilePool::of_process().run(context, what, std::move(call));
  if (!done) counters->add_failure(done.error().code());
  co_return done;
}

inline Task<Result<>> on_pool(std::shared_ptr<StoreCounters> counters, Context context,
                              const char* what, std::function<Result<>()> call) {
  std::function<Result<bool>()> shared_call = [call = std::move(call)]() -> Result<bool> {
    LEAT_CHECK_OK(call());
    return true;
  };
  Result<bool> done =
      co_await on_pool<bool>(std::move(counters), std::move(context), what, std::move(shared_call));
  if (!done) co_return Error(done.error());
  co_return Result<>();
}

}  // namespace leat
