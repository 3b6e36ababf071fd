// SPDX-License-Identifier: Apache-2.0
// StagingService: roles, and requests of other workers.
#include "worker/staging/staging_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/cluster_records.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter takeovers_total("leat_staging_takeovers_total",
                        "Logs of staged writes that this worker took over");

// How often the roles are looked at without a new view.
constexpr Clock::duration kFollowInterval = std::chrono::seconds(2);
// How long a worker with a log waits for the record that makes it a member.
constexpr Clock::duration kNewMember = std::chrono::minutes(1);
constexpr Clock::duration kRegistryTimeout = std::chrono::seconds(5);

}  // namespace

Result<StagingDisk> StagingDisk::open(const std::string& directory, uint64_t bytes_max) {
  StagingDisk disk;
  LEAT_TRY(disk.log, StagingLog::open(directory));
  LEAT_TRY(disk.contents, StagedContents::open(directory + "/contents", bytes_max));
  LEAT_TRY(disk.stored, disk.log->load());
  return disk;
}

StagingService::StagingService(StagingServiceDeps deps, StagingDisk disk,
                               StagingPrimaryOptions options, Executor& executor)
    : deps_(std::move(deps)),
      options_(options),
      executor_(executor),
      log_(std::move(disk.log)),
      contents_(std::move(disk.contents)),
      copies_(deps_.self, deps_.peers, *contents_, executor) {
  for (const StagingLog::Stored& one : disk.stored) {
    const MountedPtr at = mounted(one.mount);
    const Result<> applied = at->view->apply(one.events);
    LEAT_CHECK(applied);
    // A log without a position was being copied here.
    at->has_log = one.events.position > 0 || one.events.events.empty();
    const auto totals = at->view->totals();
    if (totals.changes == 0) continue;
    log::info("{} staged changes of {} are on this worker's disk, with {} bytes", totals.changes,
              one.mount, totals.bytes);
  }
}

void StagingService::start() {
  executor_.spawn(follow_views(*gate_.enter()));
}

Task<> StagingService::stop() {
  stopping_.request_stop();
  gate_.close();
  co_await gate_.wait_idle();
  std::map<std::string, MountedPtr> all;
  {
    std::lock_guard lock(mutex_);
    all = mounted_;
  }
  for (const auto& [path, one] : all) co_await end_primary(one);
}

void StagingService::set_source(const std::string& mount, SourcePtr source) {
  std::lock_guard lock(mutex_);
  sources_[mount] = std::move(source);
}

SourcePtr StagingService::source_of(const std::string& mount) const {
  std::lock_guard lock(mutex_);
  const auto found = sources_.find(mount);
  return found == sources_.end() ? nullptr : found->second;
}

StagingService::MountedPtr StagingService::mounted(const std::string& mount) {
  std::lock_guard lock(mutex_);
  MountedPtr& one = mounted_[mount];
  if (one == nullptr) one = std::make_shared<Mounted>(mount);
  return one;
}

StagingService::MountedPtr StagingService::find(const std::string& mount) const {
  std::lock_guard lock(mutex_);
  const auto found = mounted_.find(mount);
  return found == mounted_.end() ? nullptr : found->second;
}

std::shared_ptr<StagingPrimary> StagingService::primary_of(const std::string& mount) const {
  const MountedPtr at = find(mount);
  if (at == nullptr) return nullptr;
  std::lock_guard lock(at->mutex);
  return at->primary;
}

bool StagingService::is_active(const std::string& mount) const {
  return deps_.views.view()->staging.contains(mount);
}

Task<std::vector<StagingState>> StagingService::states(Context context) {
  std::vector<StagingState> states;
  const ClusterViewPtr view = deps_.views.view();
  for (const auto& [mount, record] : view->staging) {
    const Result<std::shared_ptr<StagedView>> now = co_await current(context, mount);
    if (!now || *now == nullptr) continue;
    const auto totals = (*now)->totals();
    StagingState state{.mount = mount,
                       .changes = totals.changes,
                       .bytes = totals.bytes,
                       .oldest = totals.oldest,
                       .workers = static_cast<uint32_t>(record.members.size())};
    if (const auto primary = primary_of(mount)) state.trouble = primary->trouble();
    states.push_back(std::move(state));
  }
  co_return states;
}

// --- roles ---------------------------------------------------------------------------------------

Task<> StagingService::follow_views(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  RegistryRevision seen = 0;
  bool is_first = true;
  while (!context.cancelled()) {
    Result<ClusterViewPtr> newer =
        co_await deps_.views.newer(context.with_timeout(kFollowInterval), seen);
    if (context.cancelled()) break;
    const ClusterViewPtr view = newer ? *newer : deps_.views.view();
    seen = view->revision;
    if (view->revision == 0 || view->worker(deps_.self) == nullptr) continue;
    co_await follow(context, view);
    if (!std::exchange(is_first, false)) continue;
    if (auto cleaning = gate_.enter())
      executor_.spawn(remove_unknown_contents(*std::move(cleaning)));
  }
}

Task<> StagingService::follow(Context context, ClusterViewPtr view) {
  for (const auto& [mount, record] : view->staging) {
    if (record.primary == deps_.self || record.has_member(deps_.self)) mounted(mount);
  }
  std::map<std::string, MountedPtr> all;
  {
    std::lock_guard lock(mutex_);
    all = mounted_;
  }
  for (const auto& [mount, one] : all) co_await follow_mount(context, view, one);
}

Task<> StagingService::follow_mount(Context context, ClusterViewPtr view, MountedPtr mounted) {
  auto permit = co_await mounted->changing.acquire(context, 1, "a change of a staging log's role");
  if (!permit) co_return;
  const auto found = view->staging.find(mounted->mount);
  if (found == view->staging.end()) {
    co_await follow_absence(context, view, mounted);
  } else {
    co_await follow_record(context, view, mounted, found->second);
  }
}

Task<> StagingService::follow_absence(Context context, ClusterViewPtr view, MountedPtr mounted) {
  co_await end_primary(mounted);
  // A new log is there before its record.
  const bool is_new = Clock::now() - mounted->replicated_at < kNewMember;
  if (!mounted->has_log || is_new) co_return;
  const auto mount = view->mounts.find(mounted->mount);
  const bool is_lost = mounted->view->totals().changes > 0 && mount != view->mounts.end();
  if (is_lost) {
    // The registry has lost the record, as after a restore: nothing else says where the log is.
    log::warning("the registry has no record of the staged writes of {}; this worker has them",
                 mounted->mount);
    StagingRecord record{.mount = mounted->mount,
                         .store = mount->second.store,
                         .log = mounted->view->log(),
                         .term = mounted->view->term() + 1,
                         .primary = deps_.self,
                         .members = {deps_.self}};
    static_cast<void>(co_await put_record(context, std::move(record)));
    co_return;
  }
  mounted->has_log = false;
  const Result<> removed =
      co_await executor_.blocking([this, mount = mounted->mount] { return log_->remove(mount); });
  if (!removed) log::warning("{}", removed.error().to_string());
  std::lock_guard lock(mutex_);
  mounted_.erase(mounted->mount);
}

Task<> StagingService::follow_record(Context context, ClusterViewPtr view, MountedPtr mounted,
                                     StagingRecord record) {
  std::shared_ptr<StagingPrimary> primary;
  {
    std::lock_guard lock(mounted->mutex);
    primary = mounted->primary;
  }
  const bool is_primary = record.primary == deps_.self;
  const bool is_other = !is_primary || (primary != nullptr && record.term > primary->term());
  if (primary != nullptr && (is_other || primary->is_over())) {
    if (is_other) log::info("the staged writes of {} have another primary", mounted->mount);
    co_await end_primary(mounted);
    primary = nullptr;
  }
  const bool has_log = mounted->has_log && mounted->view->log() == record.log;
  if (is_primary && primary == nullptr) {
    if (has_log) {
      begin_primary(mounted, record);
    } else {
      co_await give_up(context, view, record);
    }
    co_return;
  }
  if (is_primary) co_return;
  if (!record.has_member(deps_.self)) {
    // A new member gets the log before its record.
    const bool is_new = Clock::now() - mounted->replicated_at < kNewMember;
    if (is_new || !mounted->has_log.exchange(false)) co_return;
    const Result<> removed =
        co_await executor_.blocking([this, mount = mounted->mount] { return log_->remove(mount); });
    if (!removed) log::warning("{}", removed.error().to_string());
    co_return;
  }
  if (has_log && view->worker(record.primary) == nullptr) {
    co_await take_over(context, view, record);
  }
}

// The first present member is the next primary.
Task<> StagingService::take_over(Context context, ClusterViewPtr view, StagingRecord record) {
  std::vector<WorkerId> present;
  for (const WorkerId& member : record.members) {
    if (view->worker(member) != nullptr) present.push_back(member);
  }
  if (present.empty() || present.front() != deps_.self) co_return;
  log::warning("{} is gone; this worker takes its staged writes of {}",
               deps_.peers.name_of(record.primary), record.mount);
  ++record.term;
  record.primary = deps_.self;
  record.members = std::move(present);
  if (co_await put_record(context, std::move(record))) takeovers_total.add();
}

// The record names this worker, but its disk does not have the log.
Task<> StagingService::give_up(Context context, ClusterViewPtr view, StagingRecord record) {
  std::erase(record.members, deps_.self);
  const auto next = std::ranges::find_if(
      record.members, [&](const WorkerId& member) { return view->worker(member) != nullptr; });
  if (next != record.members.end()) {
    ++record.term;
    record.primary = *next;
    static_cast<void>(co_await put_record(context, std::move(record)));
    co_return;
  }
  if (!record.members.empty()) co_return;  // another one may come back
  log::error("the staged writes of {} were on this worker only, and its disk has lost them",
             record.mount);
  RegistryChange change{.conditions = {{staging_key(record.mount), record.changed}},
                        .removals = {staging_key(record.mount)}};
  static_cast<void>(
      co_await deps_.registry.commit(context.with_timeout(kRegistryTimeout), std::move(change)));
}

Task<Result<>> StagingService::put_record(Context context, StagingRecord record) {
  RegistryChange change{.conditions = {{staging_key(record.mount), record.changed}},
                        .puts = {{staging_key(record.mount), encode_staging(record)}}};
  Result<RegistryRevision> written =
      co_await deps_.registry.commit(context.with_timeout(kRegistryTimeout), std::move(change));
  if (!written && written.error().code() != StatusCode::kVersionChanged) {
    log::warning("the record of the staged writes of {} is not written: {}", record.mount,
                 written.error().to_string());
  }
  if (!written) co_return Error(written.error());
  co_return Result<>();
}

// The log is on the disk before its record names this worker.
Task<Result<StagingRecord>> StagingService::prepare_log(Context context, std::string mount,
                                                        StoreId store) {
  const MountedPtr at = mounted(mount);
  LEAT_CO_TRY(const auto permit, co_await at->changing.acquire(context, 1, "a new staging log"));
  StagingRecord record{.mount = mount,
                       .store = store,
                       .log = Id128::random(),
                       .term = 1,
                       .primary = deps_.self,
                       .members = {deps_.self}};
  const StagedEvents empty{.log = record.log, .term = 1, .is_whole = true};
  LEAT_CO_CHECK_OK(co_await executor_.blocking(
      [this, mount, store, empty] { return log_->append(mount, store, empty); }));
  LEAT_CO_CHECK_OK(at->view->apply(empty));
  at->has_log = true;
  at->replicated_at = Clock::now();
  co_return record;
}

// For a mount that has lost its record.
Task<Result<>> StagingService::create_log(Context context, std::string mount, StoreId store) {
  LEAT_CO_TRY(StagingRecord record, co_await prepare_log(context, std::move(mount), store));
  Result<> put = co_await put_record(context, std::move(record));
  if (!put && put.error().code() != StatusCode::kVersionChanged) co_return put;
  co_return Result<>();
}

void StagingService::begin_primary(const MountedPtr& mounted, const StagingRecord& record) {
  StagingPrimaryDeps deps{
      .self = deps_.self,
      .registry = deps_.registry,
      .views = deps_.views,
      .peers = deps_.peers,
      .log = *log_,
      .contents = copies_,
      .view = mounted->view,
      .source = [this, mount = mounted->mount] { return source_of(mount); },
      .send_own =
          [this, mount = mounted->mount](Context context, StagedChangePtr change) {
            return send_own(std::move(context), mount, std::move(change));
          }};
  auto primary = std::make_shared<StagingPrimary>(record, std::move(deps), options_, executor_);
  primary->start();
  log::info("this worker has the staged writes of {}, {} of them pending", mounted->mount,
            mounted->view->totals().changes);
  std::lock_guard lock(mounted->mutex);
  mounted->primary = std::move(primary);
}

Task<> StagingService::end_primary(MountedPtr mounted) {
  std::shared_ptr<StagingPrimary> primary;
  {
    std::lock_guard lock(mounted->mutex);
    primary.swap(mounted->primary);
  }
  if (primary != nullptr) co_await primary->stop();
}

// Contents of changes that were done while this worker was away.
Task<> StagingService::remove_unknown_contents(Gate::Holder) {
  const ClusterViewPtr view = deps_.views.view();
  std::set<Id128> known;
  const Context context = Context::background()
                              .with_cancel(stopping_.get_token())
                              .with_timeout(std::chrono::minutes(1));
  for (const auto& [mount, record] : view->staging) {
    Result<std::shared_ptr<StagedView>> now = co_await current(context, mount);
    if (!now) co_return;  // nothing is removed on a guess
    if (*now == nullptr) continue;
    for (const auto& [number, change] : (*now)->pending()) known.insert(change->content);
  }
  for (const Id128& content : contents_->all()) {
    bool is_session;
    {
      std::lock_guard lock(mutex_);
      is_session = sessions_.contains(content);
    }
    if (!known.contains(content) && !is_session && contents_->is_from_before(content)) {
      contents_->remove(content);
    }
  }
}

Task<Result<>> StagingService::drain(Context context) {
  std::map<std::string, MountedPtr> all;
  {
    std::lock_guard lock(mutex_);
    all = mounted_;
  }
  for (const auto& [mount, one] : all) {
    const auto primary = primary_of(mount);
    if (primary == nullptr) continue;
    const ClusterViewPtr view = deps_.views.view();
    const bool has_other = choose_workers(*view, deps_.self, {}, 2, true).size() > 1;
    if (has_other) LEAT_CO_CHECK_OK(co_await primary->hand_over(context));
    while (!has_other && co_await primary->wait_sent(context, "", 0) > 0) {
      LEAT_CO_CHECK_OK(context.check("a drain of staged writes"));
    }
  }
  // Contents go when the store has them.
  while (contents_->bytes() > 0) {
    LEAT_CO_CHECK_OK(context.check("a drain of staged writes"));
    LEAT_CO_CHECK_OK(co_await sleep_for(context, std::chrono::milliseconds(200)));
  }
  co_return Result<>();
}

}  // namespace leat
