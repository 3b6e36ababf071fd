// SPDX-License-Identifier: Apache-2.0
// StoreLimiter: bounds the concurrent requests to one store and orders the waiters, small and large
// requests apart. It follows the concurrency that the source has found (Source::concurrency_hint).
// Prefetch and loads leave a quarter to demand reads and come after them; loads come last. Files
// share equally (FairQueue). Thread-safe; must outlive its permits.
#pragma once

#include <optional>

#include "base/status.h"
#include "fetch/fair_semaphore.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

class StoreLimiter {
 public:
  struct Permit {
    FairSemaphore::Permit load;  // of a load
    FairSemaphore::Permit request;
    FairSemaphore::Permit memory;  // for its bytes; set by the caller, as is load_memory
    FairSemaphore::Permit load_memory;
  };

  // `requests_max`: of each size, whatever the source takes.
  explicit StoreLimiter(unsigned requests_max);

  // `request`: for a request of `cost` bytes. A low-priority one does not use the requests kept for
  // demand reads. `concurrency`: what the source takes now of this size.
  Task<Result<Permit>> acquire(Context context, FairSemaphore::Request request,
                               unsigned concurrency);
  // For prefetch of `bytes`: does not wait, and uses only a share of the source's concurrency.
  std::optional<Permit> try_prefetch(uint64_t bytes, unsigned concurrency);
  // The source takes another concurrency of requests of `bytes`, so that waiters may continue.
  void update(uint64_t bytes, unsigned concurrency);

 private:
  struct SizeClass {
    explicit SizeClass(unsigned requests);

    FairSemaphore all;
    FairSemaphore loads;
  };
  SizeClass& class_of(uint64_t bytes);

  const unsigned requests_max_;
  SizeClass small_, large_;
};

}  // namespace leat
