// SPDX-License-Identifier: Apache-2.0
// UploadQueue: sends the pending changes of a mount to its store, in the order of publication, and
// repeats what fails. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "runtime/context.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"
#include "vfs/file_system.h"
#include "vfs/writing/write_journal.h"
#include "vfs/writing/written_node.h"

namespace leat {

// A pending change in memory. It changes only while it is in no queue.
struct QueuedChange : PendingChange {
  WrittenNodePtr node{};  // that it is about; of a removal, the directory
  std::shared_ptr<StagedFile> staged{};
  WrittenNodePtr old_parent{};  // of a rename: the directory that it leaves
};
using QueuedChangePtr = std::shared_ptr<QueuedChange>;

struct UploadOptions {
  // A change waits so long before it is sent, since temporary files are often removed or renamed.
  Clock::duration delay = std::chrono::seconds(1);
  unsigned concurrent = 64;         // changes without an order of their own
  uint64_t bytes_max = UINT64_MAX;  // of content that waits or is local
  // Between attempts; doubles from the first to the second.
  Clock::duration pause_min = std::chrono::seconds(1), pause_max = std::chrono::minutes(1);
};

class UploadQueue {
 public:
  // Sends one change; after a success the journal no longer has it. Its context is cancelled for a
  // change that is taken out.
  using Send = std::function<Task<Result<>>(Context, QueuedChangePtr)>;

  UploadQueue(Executor& executor, UploadOptions options, Send send)
      : executor_(executor), options_(options), send_(std::move(send)) {}

  // Adds a change that the journal has, at the place of its number. `begun`: the store may have it.
  void add(QueuedChangePtr change, bool begun = false);
  // The same for one that is held, as after withdraw().
  void add_held(QueuedChangePtr change);

  struct Withdrawn {
    QueuedChangePtr change{};  // null: it was sent, or is unknown
    bool begun = false;        // the store may have it all the same
  };
  // Holds a change, so that it may be changed. Nothing after it is sent until put_back() or
  // release(). One that is being sent is cancelled first.
  Task<Withdrawn> withdraw(uint64_t number);
  // The same for the last change of the queue, unless it was ever sent; else returns null.
  QueuedChangePtr withdraw_newest(uint64_t number);
  void put_back(uint64_t number);
  // The change goes.
  void release(uint64_t number);

  // Returns a change of the queue; null: there is none.
  QueuedChangePtr find(uint64_t number) const;

  // Returns the changes at and below `path`, below the root of the mounts, in their order. Renames
  // are not among them.
  std::vector<QueuedChangePtr> changes_below(std::string_view path) const;
  // Returns the changes of a name that may be taken back: those of `node`, and removals before them
  // of the same kind. A removal stays where a rename or another node used the name since.
  std::vector<QueuedChangePtr> changes_of(const WrittenNode& node, std::string_view path) const;
  // Returns the pending saves of these nodes.
  std::vector<QueuedChangePtr> saves_of(const std::vector<WrittenNodePtr>& nodes) const;
  // Returns whether a change is pending at or below `path`, or a rename of what it is in.
  bool has_changes(std::string_view path) const;
  // Returns whether a rename from or to what is at or below `path`, or what it is in, is pending:
  // earlier changes with such paths may be of other nodes.
  bool has_renames(std::string_view path) const;

  // Sends what is there at and below `path` without delay, and returns when the store has it. Fails
  // with the first attempt that fails.
  Task<Result<>> drain(Context context, std::string path);
  // Waits until `bytes` more may be staged. kNoSpace if that does not help.
  Task<Result<>> reserve(Context context, uint64_t bytes);

  UnsentChanges unsent() const;

  // Sends no more, and ends all waits; returns when nothing is being sent.
  Task<> stop();

 private:
  struct Running {
    std::stop_source cancel{};
    bool withdrawn = false;
    std::shared_ptr<SharedPromise<bool>> ended = SharedPromise<bool>::make();  // true: taken out
  };
  struct Entry {
    QueuedChangePtr change{};
    Clock::time_point due{};
    std::shared_ptr<Running> running{};
    bool begun = false;  // it was sent at least once, and has no known outcome
    bool held = false;   // withdrawn
  };
  struct Waiter {
    std::string path{};
    uint64_t last = 0;
    std::shared_ptr<SharedPromise<bool>> done = SharedPromise<bool>::make();
  };
  using WaiterPtr = std::shared_ptr<Waiter>;

  // Begins what may be sent now.
  void pump();
  void insert(QueuedChangePtr change, bool begun, bool held);
  // The caller holds the mutex, in these.
  std::vector<QueuedChangePtr> take_startable();
  bool begin(Entry& entry);
  void take_out(uint64_t number);
  bool waits_for(const Waiter& waiter) const;
  // Waits that end together.
  struct Ended {
    std::vector<WaiterPtr> drains{};
    std::shared_ptr<SharedPromise<bool>> progress{};
  };
  // Takes the drains that have what they wait for, or all of them, and those that wait for space.
  Ended take_ended(bool all);
  static void end(const Ended& ended, const Result<bool>& result);  // without the mutex
  Error ending() const;
  void wake_at(Clock::time_point when);  // by pump(), later
  bool has_unsent() const;

  Task<> run(Gate::Holder holder, QueuedChangePtr change, std::shared_ptr<Running> running);
  Task<> wake_later(Gate::Holder holder, Clock::time_point when);

  Executor& executor_;
  const UploadOptions options_;
  const Send send_;
  Gate gate_;
  std::stop_source stopping_;

  mutable std::mutex mutex_;  // leaf
  std::map<uint64_t, Entry> entries_;
  std::set<std::string> running_paths_;
  uint64_t bytes_ = 0, local_bytes_ = 0;
  uint64_t hurried_ = 0;  // changes up to this number are not delayed
  unsigned failures_ = 0;
  std::optional<Status> failure_;
  Clock::time_point retry_at_{};
  std::optional<Clock::time_point> wakes_at_, wake_;  // the next wake-up; one to begin
  std::vector<WaiterPtr> waiters_;
  std::shared_ptr<SharedPromise<bool>> progress_ = SharedPromise<bool>::make();
};

}  // namespace leat
