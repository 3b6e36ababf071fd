// SPDX-License-Identifier: Apache-2.0
// InvalidationLog: the latest invalidations, numbered, for the subscribers of GET /peer/v1/changes.
//
// Guarantees: a subscriber that polls after the last number it received gets every later change in
// order, or kAll. Numbers begin at a random value, so a number of another process is not mistaken
// for one of this log. Bounded: the oldest changes are dropped. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"
#include "wire/invalidations.h"

namespace leat {

struct InvalidationLogOptions {
  size_t entries_max = 10'000;
  // Returns the paths of all present mounts; a subscriber with an unknown number gets kAll for
  // each. Called on any thread; must not call the log.
  std::function<std::vector<std::string>()> mounts;
};

class InvalidationLog {
 public:
  explicit InvalidationLog(InvalidationLogOptions options);

  // Appends, wakes all waiters and returns the number of the last change.
  uint64_t append(std::vector<Invalidation> invalidations);
  uint64_t number() const;

  // Returns up to kInvalidationsMax changes after `number` as soon as there are any; the rest
  // follows in the next call. An unknown or dropped number returns kAll for each mount at once.
  // Returns nothing if there was no change during `wait`. kCancelled and kTimedOut come from the
  // context.
  Task<Result<std::optional<Invalidations>>> wait_after(Context context, uint64_t number,
                                                        Clock::duration wait);

 private:
  using Signal = std::shared_ptr<SharedPromise<bool>>;

  // Returns nothing if there are no changes, and sets the signal to wait for.
  std::optional<Invalidations> after(uint64_t number, Signal& changed) const;

  const InvalidationLogOptions options_;
  mutable std::mutex mutex_;          // leaf
  uint64_t number_;                   // number of the last change
  std::deque<Invalidation> entries_;  // the newest has number_
  Signal changed_ = SharedPromise<bool>::make();
};

}  // namespace leat
