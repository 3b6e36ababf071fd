// SPDX-License-Identifier: Apache-2.0
// ChangeFollower: receives invalidations from one worker, and from another one if that does not
// respond. It holds a lease: after `lease` without an answer, no cached name may be used any more.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "peer/changes.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/task.h"

namespace leat {

struct ChangeFollowerOptions {
  // Returns the changes after number `after` from the worker with index `worker`; the index grows
  // without bound and is reduced modulo the number of workers. After an error the next worker is
  // tried.
  using Ask = std::function<Task<Result<PeerChanges>>(Context, size_t worker, uint64_t after)>;
  Ask ask{};
  // Handles one set of changes; the next one is passed only after its end.
  std::function<Task<>(PeerChanges)> changed{};
  Clock::duration lease = kChangesBelieved;
  Clock::duration pause = std::chrono::milliseconds(200);
};

class ChangeFollower {
 public:
  static std::unique_ptr<ChangeFollower> start(ChangeFollowerOptions options, Executor& executor);
  virtual ~ChangeFollower() = default;
  // Returns false from the end of the lease until a worker answers and its changes were passed on.
  // Names cached meanwhile receive no invalidations.
  virtual bool hears() const = 0;
  // Must have ended before destruction.
  virtual Task<> stop() = 0;
};

}  // namespace leat
