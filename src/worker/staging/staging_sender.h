// SPDX-License-Identifier: Apache-2.0
// StagingSender: sends the pending changes of a mount to its store, in the order of publication,
// and repeats what fails. The primary of the mount's log has one. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/shared_promise.h"
#include "source/source.h"
#include "staging/staged_view.h"

namespace leat {

struct StagingSenderOptions {
  // A change waits so long, since temporary files are often removed or renamed.
  Clock::duration delay = std::chrono::seconds(1);
  unsigned concurrent = 64;  // changes without an order of their own
  // Between attempts; doubles from the first to the second.
  Clock::duration pause_min = std::chrono::seconds(1), pause_max = std::chrono::minutes(1);
};

struct StagingSenderDeps {
  std::string mount{};
  std::shared_ptr<StagedView> view{};
  // Returns the mount's store; null while it is not served here.
  std::function<SourcePtr()> source{};
  // Sends a save from a holder. An unknown version: the store has what somebody else wrote.
  std::function<Task<Result<SourceObject>>(Context, StagedChangePtr)> send_content{};
  // Adds an event to the log; returns when all members have it.
  std::function<Task<Result<>>(Context, StagedEvent)> note{};
  // Called after a change is in the store.
  std::function<Task<>(Context, StagedChangePtr)> sent{};
};

class StagingSender {
 public:
  StagingSender(Executor& executor, StagingSenderOptions options, StagingSenderDeps deps)
      : executor_(executor), options_(options), deps_(std::move(deps)) {}

  // Sends what the view has by now. Call it after each change of the view.
  void wake();
  // Sends changes up to `number` without delay.
  void hurry(uint64_t number);
  // Returns when no rename is under way that the store does at once: the store has it already, and
  // the view does not say so yet.
  Task<> wait_renames(Context context) const;
  // Returns the error of the last attempt, if it failed.
  std::optional<Status> trouble() const;
  // Sends no more; returns when nothing is being sent.
  Task<> stop();

 private:
  struct Next {
    uint64_t number = 0;
    StagedChangePtr change{};
  };
  std::vector<Next> take_startable();
  Task<> run(Gate::Holder holder, Next next);
  Task<> wake_later(Gate::Holder holder, Clock::duration after);
  Task<Result<>> send(Context context, Next next);
  Task<Result<>> send_and_note(Context context, Next next);
  Task<Result<Version>> send_save(Context context, StagedChangePtr change);
  Task<Result<Version>> send_rename(Context context, SourcePtr source, Next next);
  Task<Result<>> copy_directory(Context context, SourcePtr source, Next next);
  WriteCondition condition_of(const StagedChange& change) const;

  Executor& executor_;
  const StagingSenderOptions options_;
  const StagingSenderDeps deps_;
  Gate gate_;
  std::stop_source stopping_;

  mutable std::mutex mutex_;  // leaf
  std::set<uint64_t> running_;
  std::set<std::string> running_keys_;
  uint64_t hurried_ = 0;
  unsigned failures_ = 0;
  std::optional<Status> failure_;
  Clock::time_point retry_at_{};
  bool wakes_ = false;                             // a later wake-up is planned
  std::shared_ptr<SharedPromise<bool>> renaming_;  // set at the end of a rename under way
};

// Sends one save from this worker's copy of its content, and looks at the store where the outcome
// was unknown. If somebody else wrote the name, the content goes to NAME.conflict-TIME beside it,
// and the result has no version. `read` returns a part of the content.
using ReadContent = std::function<Task<Result<std::string>>(Context, ByteRange)>;
Task<Result<SourceObject>> send_staged_content(Context context, SourcePtr source,
                                               StagedChangePtr change, ReadContent read);

}  // namespace leat
