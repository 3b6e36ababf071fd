// SPDX-License-Identifier: Apache-2.0
// StoreLimiter: bounds the concurrent requests to one store and orders the waiters. Prefetch and
// load leave a quarter to demand reads and come after them. Among demand reads small ones pass
// large ones, and files share equally (FairQueue). Thread-safe; must outlive its permits.
#pragma once

#include <optional>

#include "base/status.h"
#include "fetch/fair_semaphore.h"
#include "runtime/context.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"

namespace leat {

class StoreLimiter {
 public:
  struct Permit {
    Semaphore::Permit low_priority;
    FairSemaphore::Permit request;
    FairSemaphore::Permit memory;  // of its bytes; set by the caller
  };

  explicit StoreLimiter(unsigned requests_max);

  // `request`: for a request of `cost` bytes. A low-priority one does not use the requests kept for
  // demand reads.
  Task<Result<Permit>> acquire(Context context, FairSemaphore::Request request);
  // For prefetch: does not wait, and uses only a share of the store's present
  // concurrency.
  std::optional<Permit> try_prefetch(unsigned concurrency);

 private:
  FairSemaphore requests_;
  Semaphore low_priority_;
};

}  // namespace leat
