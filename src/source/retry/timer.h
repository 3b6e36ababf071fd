// SPDX-License-Identifier: Apache-2.0
// Timer: a clock that one can wait on: the machine's, or one that a test advances.
// Thread-safe.
#pragma once

#include <memory>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"

namespace leat {

class Timer {
 public:
  using Event = std::shared_ptr<SharedPromise<bool>>;

  virtual ~Timer() = default;

  virtual Clock::time_point now() const = 0;
  // Returns true when `event` was set, false when `until` came first; kCancelled or kTimedOut,
  // naming `what`, if the context ended before both.
  virtual Task<Result<bool>> wait(Context context, Event event, Clock::time_point until,
                                  const char* what) = 0;
};

std::shared_ptr<Timer> system_timer();

}  // namespace leat
