// SPDX-License-Identifier: Apache-2.0
// StagingPrimary: the primary of a mount's staging log, for one term. It gives changes their order,
// makes them durable at all members of the log before it answers, and sends them to the store.
//
// A member that does not respond leaves the log's record in the registry before anything is
// answered without it. So each member of the record has all answered changes, and may take over. A
// primary that is not the record's any more gets no answer from a member of a later term, and
// cannot change the record: it ends. Thread-safe.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/cluster_view.h"
#include "cluster/registry.h"
#include "peer/peer_table.h"
#include "peer/staging/staging_peer.h"
#include "runtime/executor.h"
#include "runtime/gate.h"
#include "staging/staging_log.h"
#include "worker/staging/content_copies.h"
#include "worker/staging/staging_sender.h"

namespace leat {

struct StagingPrimaryOptions {
  StagingSenderOptions sending{};
  // A member that has not answered in this time leaves the log.
  Clock::duration member_timeout = std::chrono::seconds(3);
  // Between attempts to add a member.
  Clock::duration member_interval = std::chrono::seconds(1);
  // Pending changes of a mount; more wait.
  uint64_t pending_max = 50'000;
};

struct StagingPrimaryDeps {
  WorkerId self;
  Registry& registry;
  ClusterViewSource& views;
  const PeerTable& peers;
  StagingLog& log;
  ContentCopies& contents;
  std::shared_ptr<StagedView> view{};
  std::function<SourcePtr()> source{};
  // Sends a save with this worker's copy of the content.
  std::function<Task<Result<SourceObject>>(Context, StagedChangePtr)> send_own{};
};

class StagingPrimary {
 public:
  // `record` is that of this term. stop() must have ended before destruction.
  StagingPrimary(StagingRecord record, StagingPrimaryDeps deps, StagingPrimaryOptions options,
                 Executor& executor);
  void start();

  uint64_t term() const { return term_; }
  // Whether it takes no changes any more.
  bool is_over() const;
  // As StagingPeer::append.
  Task<Result<SourceObject>> append(Context context, StagedChange change, bool until_sent);
  // Waits until the changes at and below `key` up to `number` (0: the last) are in the store;
  // returns how many are not.
  Task<uint64_t> wait_sent(Context context, std::string key, uint64_t number);
  Task<> wait_renames(Context context) const { return sender_.wait_renames(std::move(context)); }
  // Returns the events after that position; whole ones if they are not all known.
  StagedEvents events_after(const Id128& log, uint64_t position) const;
  // Returns when other members have everything and one of them is the primary; kUnavailable without
  // another member.
  Task<Result<>> hand_over(Context context);
  std::optional<Status> trouble() const { return sender_.trouble(); }
  Task<> stop();

 private:
  struct Item {
    StagedEvent event{};
    std::shared_ptr<SharedPromise<uint64_t>> done{};  // the event's position
  };
  using Members = std::set<WorkerId>;

  Task<> run(Gate::Holder holder);
  Task<> tick(Context context);
  Task<> commit(Context context, std::vector<Item> items);
  Task<Result<>> replicate(Context context, StagedEvents events);
  Task<Result<>> send_to(Context context, WorkerId member, StagedEvents events);
  Task<Result<>> send_parts(Context context, WorkerId member, std::vector<StagedEvents> parts);
  Task<Result<>> change_members(Context context, std::vector<WorkerId> members, WorkerId primary);
  Task<Result<>> note(Context context, StagedEvent event);
  Task<Result<SourceObject>> send_content(Context context, StagedChangePtr change);
  Task<> sent(Context context, StagedChangePtr change);
  Result<> check(const StagedChange& change) const;
  std::optional<uint64_t> number_of_repeated(const StagedChange& change) const;
  void note_recent(const std::vector<StagedEvent>& events);
  std::vector<Item> take();
  std::shared_ptr<SharedPromise<uint64_t>> push(StagedEvent event);
  std::shared_ptr<SharedPromise<bool>> progress() const;
  void note_progress();
  void wake_loop();
  void end(const Status& why);
  Result<SourceObject> answer_to(const StagedChange& change, uint64_t number) const;
  StagingRecord record() const;

  const uint64_t term_;
  const StagingPrimaryDeps deps_;
  const StagingPrimaryOptions options_;
  Executor& executor_;
  Gate gate_;
  std::stop_source stopping_;
  StagingSender sender_;

  mutable std::mutex mutex_;  // leaf
  StagingRecord record_;
  Members behind_;  // members that lack an earlier event, or have others
  std::deque<Item> waiting_;
  // The last error of a new member; used by the loop only.
  std::string member_trouble_;
  // This worker's disk has other events; used by the loop only.
  bool is_behind_ = false;
  std::deque<StagedEvent> recent_;      // the last events, for other workers
  std::map<Id128, uint64_t> contents_;  // of pending saves
  uint32_t copies_ = 1;                 // wanted members
  // It hands over to any worker.
  bool leaves_ = false;
  std::optional<Status> ended_;
  std::shared_ptr<SharedPromise<bool>> wake_ = SharedPromise<bool>::make();
  std::shared_ptr<SharedPromise<bool>> progress_ = SharedPromise<bool>::make();
};

}  // namespace leat
