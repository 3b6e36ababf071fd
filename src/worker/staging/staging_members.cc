// SPDX-License-Identifier: Apache-2.0
// StagingPrimary: the members of the log.
#include <algorithm>
#include <utility>

#include "cluster/cluster_records.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "worker/staging/staging_primary.h"

namespace leat {
namespace {

Counter member_changes("leat_staging_member_changes_total",
                       "Changes of the workers that keep a log of staged writes");

constexpr Clock::duration kRegistryTimeout = std::chrono::seconds(5);
// Events on the disk beside those of pending changes, before the log is rewritten.
constexpr uint64_t kDoneEventsMax = 50'000;

Error moved() {
  return error(StatusCode::kBusy, "another worker has the staged writes of this mount by now");
}

}  // namespace

// Returns when this worker and all members of the record have the events.
Task<Result<>> StagingPrimary::replicate(Context context, StagedEvents events) {
  const StagingRecord now = record();
  std::vector<WorkerId> others = now.members;
  std::erase(others, deps_.self);
  std::vector<std::shared_ptr<SharedPromise<Result<>>>> sends;
  for (const WorkerId& member : others) {
    sends.push_back(leat::start(executor_, send_to(context, member, events)));
  }
  Result<> own = co_await executor_.blocking([this, now, events]() -> Result<> {
    if (is_behind_) {
      StagedEvents whole = deps_.view->whole();
      whole.term = term_;
      LEAT_CHECK_OK(deps_.log.append(now.mount, now.store, whole));
    }
    return deps_.log.append(now.mount, now.store, events);
  });
  is_behind_ = true;  // until the events are part of the log
  std::vector<WorkerId> left{deps_.self};
  bool is_former = false;
  for (size_t i = 0; i < others.size(); ++i) {
    const Result<Result<>> got = co_await sends[i]->wait(Context::background(), "a member");
    const Result<>& result = *got;
    if (result) {
      left.push_back(others[i]);
      continue;
    }
    is_former = is_former || result.error().code() == StatusCode::kVersionChanged;
    log::warning("{} does not take the staged writes of {}: {}", deps_.peers.name_of(others[i]),
                 now.mount, result.error().to_string());
  }
  if (is_former) {
    end({StatusCode::kBusy, "a member has a later primary"});
    co_return moved();
  }
  Result<> done = own;
  if (done && left.size() < now.members.size()) {
    done = co_await change_members(context, std::move(left), deps_.self);
  }
  if (done) {
    is_behind_ = false;
    co_return done;
  }
  // Some disks have events that are not in the log, and their positions come again.
  std::lock_guard lock(mutex_);
  behind_.insert(others.begin(), others.end());
  co_return done;
}

Task<Result<>> StagingPrimary::send_to(Context context, WorkerId member, StagedEvents events) {
  bool is_behind;
  {
    std::lock_guard lock(mutex_);
    is_behind = behind_.contains(member);
  }
  std::vector<StagedEvents> parts;
  if (is_behind) parts = parts_of(deps_.view->whole());
  for (StagedEvents& part : parts) part.term = term_;
  if (!events.events.empty()) parts.push_back(std::move(events));
  Result<> sent = co_await send_parts(context, member, std::move(parts));
  std::lock_guard lock(mutex_);
  if (sent) {
    behind_.erase(member);
  } else {
    behind_.insert(member);
  }
  co_return sent;
}

Task<Result<>> StagingPrimary::send_parts(Context context, WorkerId member,
                                          std::vector<StagedEvents> parts) {
  const Context bounded = context.with_timeout(options_.member_timeout);
  const StagingRecord now = record();
  for (const StagedEvents& part : parts) {
    while (true) {
      const PeerPtr peer = deps_.peers.find(member);
      StagingPeer* const staging = peer == nullptr ? nullptr : peer->staging();
      if (staging == nullptr || deps_.views.view()->worker(member) == nullptr) {
        co_return error(StatusCode::kUnavailable, "the worker is gone");
      }
      StagedReplicate request{.mount = now.mount, .store = now.store, .events = part};
      PeerReply<uint64_t> reply = co_await staging->replicate(bounded, std::move(request));
      if (reply.result) break;
      if (reply.outcome == PeerOutcome::kAnswered) co_return Error(reply.result.error());
      if (reply.outcome == PeerOutcome::kNotOwner) {
        co_return error(StatusCode::kVersionChanged, "the member has a later primary");
      }
      LEAT_CO_CHECK_OK(co_await sleep_for(bounded, std::chrono::milliseconds(50)));
    }
  }
  co_return Result<>();
}

Task<Result<>> StagingPrimary::change_members(Context context, std::vector<WorkerId> members,
                                              WorkerId primary) {
  StagingRecord next = record();
  const RegistryChange::Condition condition{staging_key(next.mount), next.changed};
  next.members = std::move(members);
  next.primary = primary;
  if (primary != deps_.self) ++next.term;
  const Context bounded = context.with_timeout(kRegistryTimeout);
  RegistryChange change{.conditions = {condition},
                        .puts = {{staging_key(next.mount), encode_staging(next)}}};
  Result<RegistryRevision> written = co_await deps_.registry.commit(bounded, std::move(change));
  if (!written && written.error().code() == StatusCode::kUnavailable) {
    // It may have been done: the view says so, later.
    Result<> slept = co_await sleep_for(context, std::chrono::seconds(1));
    static_cast<void>(slept);
    const ClusterViewPtr view = deps_.views.view();
    const auto found = view->staging.find(next.mount);
    if (found != view->staging.end() && found->second.term == next.term &&
        found->second.members == next.members) {
      written = found->second.changed;
    }
  }
  if (!written) {
    if (written.error().code() == StatusCode::kVersionChanged) {
      end({StatusCode::kBusy, "the record of the log has changed"});
      co_return moved();
    }
    co_return Error(written.error());
  }
  member_changes.add();
  log::info("the staged writes of {} are kept by {} workers", next.mount, next.members.size());
  std::lock_guard lock(mutex_);
  next.changed = *written;
  record_ = std::move(next);
  co_return Result<>();
}

// Adds a member if there are fewer than writers want.
Task<> StagingPrimary::tick(Context context) {
  const StagingRecord now = record();
  uint32_t copies;
  bool leaves;
  {
    std::lock_guard lock(mutex_);
    if (ended_) co_return;
    copies = copies_;
    leaves = leaves_;
  }
  const ClusterViewPtr view = deps_.views.view();
  if (now.members.size() < copies) {
    std::vector<WorkerId> members = now.members;
    for (const WorkerId& next : choose_workers(*view, deps_.self, now.log, copies, leaves)) {
      if (members.size() >= copies || std::ranges::find(members, next) != members.end()) continue;
      {
        std::lock_guard lock(mutex_);
        behind_.insert(next);
      }
      if (co_await send_to(context, next, {})) members.push_back(next);
    }
    if (members.size() > now.members.size()) {
      Result<> changed = co_await change_members(context, std::move(members), deps_.self);
      std::string trouble = changed ? "" : changed.error().to_string();
      if (!changed && trouble != member_trouble_) {
        log::warning("no member is added to the staged writes of {}: {}", now.mount, trouble);
      }
      member_trouble_ = std::move(trouble);
    }
  }
  // The log on the disk has events of changes that are done.
  const auto totals = deps_.view->totals();
  if (deps_.log.size(now.mount) < 2 * totals.changes + kDoneEventsMax) co_return;
  Result<> compacted = co_await executor_.blocking([this, now] {
    StagedEvents whole = deps_.view->whole();
    whole.term = term_;
    return deps_.log.append(now.mount, now.store, whole);
  });
  if (!compacted) log::warning("{}", compacted.error().to_string());
}

}  // namespace leat
