// SPDX-License-Identifier: Apache-2.0
// RequestLimits: how many requests to one store may be under way, and who is next. Look-ahead and
// load leave a quarter to demand reads and come after them; among these small reads pass large
// ones, and files share equally (FairOrder). Thread-safe; must outlive its tickets.
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
    FairGate::Permit memory;  // of its bytes, by whoever fills it in
  };

  explicit RequestLimits(unsigned requests_max);

  // `ask`: for one of `cost` bytes. One that yields is not one of those kept for demand reads.
  Task<Result<Ticket>> acquire(Context context, FairGate::Ask ask);
  // For look-ahead: without waiting, and only a share of what the store takes at a time now.
  std::optional<Ticket> try_ahead(unsigned window);

 private:
  FairGate requests_;
  Semaphore ahead_;
};

}  // namespace leat
