// SPDX-License-Identifier: Apache-2.0
// ChangeFollower: hears of changes of names from one worker, or from another one when that does not
// answer. Its lease: who has heard of nobody for so long believes nothing any more of what it
// keeps. Thread-safe.
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
  // What came after `after` at the worker with that number of those that there are, counted on and
  // on; an error: the next one is asked.
  using Ask = std::function<Task<Result<PeerChanges>>(Context, size_t worker, uint64_t after)>;
  Ask ask{};
  // What is not as it was; the next is told after its end.
  std::function<Task<>(PeerChanges)> changed{};
  Clock::duration lease = kChangesBelieved;
  Clock::duration pause = std::chrono::milliseconds(200);
};

class ChangeFollower {
 public:
  static std::unique_ptr<ChangeFollower> start(ChangeFollowerOptions options, Executor& executor);
  virtual ~ChangeFollower() = default;
  // False from the end of the lease until somebody is heard, and what that one said is passed on:
  // nobody tells then of what becomes of what is kept meanwhile.
  virtual bool hears() const = 0;
  // Must have ended before it goes.
  virtual Task<> stop() = 0;
};

}  // namespace leat
