// SPDX-License-Identifier: Apache-2.0
// RequestLimits: how many requests to one store may be under way. Look-ahead and load leave a
// quarter to demand reads. Thread-safe; must outlive its tickets.
#pragma once

#include <optional>

#include "base/status.h"
#include "runtime/context.h"
#include "runtime/semaphore.h"
#include "runtime/task.h"

namespace leat {

class RequestLimits {
 public:
  struct Ticket {
    Semaphore::Permit ahead;
    Semaphore::Permit request;
  };

  explicit RequestLimits(unsigned requests_max);

  // First come, first served. `yields`: not one of those kept for demand reads.
  Task<Result<Ticket>> acquire(Context context, bool yields);
  // For look-ahead: without waiting, and only a share of what the store takes at a time now.
  std::optional<Ticket> try_ahead(unsigned window);

 private:
  Semaphore requests_;
  Semaphore ahead_;
};

}  // namespace leat
