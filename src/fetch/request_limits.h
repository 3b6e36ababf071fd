// SPDX-License-Identifier: Apache-2.0
// RequestLimits: bounds the concurrent requests to one store and orders the waiters. Prefetch and
// load leave a quarter to demand reads and come after them. Among demand reads small ones pass
// large ones, and files share equally (FairOrder). Thread-safe; must outlive its tickets.
#pragma once

#include <optional>

#include "base/status.h"
#include "fetch/fair_gate.h"
#include "runtime/context.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"

namespace leat {

class RequestLimits {
 public:
  struct Ticket {
    Semaphore::Permit ahead;
    FairGate::Permit request;
    FairGate::Permit memory;  // of its bytes; set by the caller
  };

  explicit RequestLimits(unsigned requests_max);

  // `ask`: for a request of `cost` bytes. A low-priority one does not use the requests kept for
  // demand reads.
  Task<Result<Ticket>> acquire(Context context, FairGate::Ask ask);
  // For prefetch: does not wait, and uses only a share of the store's present window.
  std::optional<Ticket> try_ahead(unsigned window);

 private:
  FairGate requests_;
  Semaphore ahead_;
};

}  // namespace leat
