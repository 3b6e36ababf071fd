// SPDX-License-Identifier: Apache-2.0
// ChangeLog: the last changes, numbered, for those who follow them by GET /peer/v1/changes.
//
// Guarantees: who asks after the number that it was told last is told every change since, in order,
// or that everything may have changed. Numbers begin at random, so that nobody takes another
// process's for ours. Bounded; forgets its oldest changes. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "peer/changes.h"
#include "runtime/context.h"
#include "runtime/shared_result.h"
#include "runtime/task.h"

namespace leat {

struct ChangeLogOptions {
  size_t changes_max = 10'000;
  // Paths of all mounts that there are now: what may have changed for who cannot be told more. Any
  // thread; must not call the log.
  std::function<std::vector<std::string>()> mounts;
};

class ChangeLog {
 public:
  explicit ChangeLog(ChangeLogOptions options);

  // Tells all who wait. The number of the last one.
  uint64_t append(std::vector<PeerChange> changes);
  uint64_t number() const;

  // What changed after `number`, at most kChangesMax of it (and the rest the next time), at once or
  // as soon as something does. For a number that was not given, or that is forgotten: kAll for each
  // mount, at once. Nothing where nothing changed for `wait`. kCancelled and kTimedOut by the
  // context.
  Task<Result<std::optional<PeerChanges>>> wait_after(Context context, uint64_t number,
                                                      Clock::duration wait);

 private:
  using Signal = std::shared_ptr<SharedResult<bool>>;

  // Nothing yet, and then what to wait for.
  std::optional<PeerChanges> after(uint64_t number, Signal& changed) const;

  const ChangeLogOptions options_;
  mutable std::mutex mutex_;        // leaf
  uint64_t number_;                 // of the last change
  std::deque<PeerChange> changes_;  // up to number_
  Signal changed_ = SharedResult<bool>::make();
};

}  // namespace leat
