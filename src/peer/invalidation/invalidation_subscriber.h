// SPDX-License-Identifier: Apache-2.0
// InvalidationSubscriber: receives invalidations from one worker, and from another one if that does
// not respond. It holds a lease: after `lease` without an answer, no cached name may be used any
// more. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"
#include "wire/invalidations.h"

namespace leat {

struct InvalidationSubscriberOptions {
  // Returns the changes after number `after` from the worker with index `worker`; the index grows
  // without bound and is reduced modulo the number of workers. After an error the next worker is
  // tried.
  using Poll = std::function<Task<Result<Invalidations>>(Context, size_t worker, uint64_t after)>;
  Poll poll{};
  // Handles one set of changes; the next one is passed only after its end.
  std::function<Task<>(Invalidations)> changed{};
  Clock::duration lease = kInvalidationLease;
  Clock::duration backoff = std::chrono::milliseconds(200);
};

class InvalidationSubscriber {
 public:
  static std::unique_ptr<InvalidationSubscriber> start(InvalidationSubscriberOptions options,
                                                       Executor& executor);
  virtual ~InvalidationSubscriber() = default;
  // Returns false from the end of the lease until a worker answers and its changes were passed on.
  // Names cached meanwhile receive no invalidations.
  virtual bool lease_valid() const = 0;
  // Must have ended before destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
