// SPDX-License-Identifier: Apache-2.0
// StagingService: changes of clients, and readers of this worker.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "telemetry/log.h"
#include "worker/staging/staging_service.h"

namespace leat {
namespace {

constexpr Clock::duration kAppendTimeout = std::chrono::minutes(5);
constexpr Clock::duration kRetryPause = std::chrono::milliseconds(100);
// A write without a piece for so long is forgotten.
constexpr Clock::duration kIdleWrite = std::chrono::minutes(1);
constexpr size_t kRemovalsAtOnce = 64;

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

void merge_attributes(PosixAttributes& into, const PosixAttributes& from) {
  if (from.mode) into.mode = from.mode;
  if (from.uid) into.uid = from.uid;
  if (from.gid) into.gid = from.gid;
  if (from.atime) into.atime = from.atime;
  if (from.mtime) into.mtime = from.mtime;
  if (from.ctime) into.ctime = from.ctime;
}

bool may_repeat(const StagedChange& change) {
  return change.kind != StagedKind::kRename && !change.condition.absent;
}

}  // namespace

// --- the way to the primary ----------------------------------------------------------------------

Task<Result<SourceObject>> StagingService::append_change(Context context, std::string mount,
                                                         StoreId store, StagedChange change,
                                                         bool until_sent) {
  const Context bounded = context.with_timeout(kAppendTimeout);
  change.since = wall_now();
  StagedAppend request{
      .mount = mount, .store = store, .change = std::move(change), .until_sent = until_sent};
  Status why(StatusCode::kUnavailable, "no worker has the staged writes of this mount");
  while (bounded.check("a staged write")) {
    const ClusterViewPtr view = deps_.views.view();
    const auto record = view->staging.find(mount);
    if (record == view->staging.end()) {
      Result<> created = co_await create_log(bounded, mount, store);
      if (!created) why = created.error();
      auto newer =
          co_await deps_.views.newer(bounded.with_timeout(std::chrono::seconds(1)), view->revision);
      static_cast<void>(newer);
      continue;
    }
    const WorkerId primary = record->second.primary;
    const PeerPtr peer = primary == deps_.self ? nullptr : deps_.peers.find(primary);
    StagingPeer* const staging = primary == deps_.self ? this : peer ? peer->staging() : nullptr;
    if (staging != nullptr) {
      PeerReply<SourceObject> reply = co_await staging->append(bounded, request);
      if (reply.result || reply.outcome == PeerOutcome::kAnswered) {
        co_return std::move(reply.result);
      }
      why = reply.result.error();
      if (reply.maybe_done && !may_repeat(request.change)) {
        co_return error(Status(StatusCode::kTimedOut, "whether it was done is not known", why));
      }
    }
    auto newer = co_await deps_.views.newer(bounded.with_timeout(kRetryPause), view->revision);
    static_cast<void>(newer);
  }
  co_return error(Status(StatusCode::kUnavailable,
                         fmt::format("the staged writes of {} cannot be reached", mount), why));
}

// --- readers -------------------------------------------------------------------------------------

Task<Result<StagedEvents>> StagingService::ask_events(Context context, StagingRecord record,
                                                      Id128 log, uint64_t after) {
  const PeerPtr peer = deps_.peers.find(record.primary);
  StagingPeer* const staging = peer == nullptr ? nullptr : peer->staging();
  if (staging == nullptr) co_return error(StatusCode::kUnavailable, "the primary is unknown here");
  StagedEventsRequest request{.mount = record.mount, .log = log, .after = after};
  PeerReply<StagedEvents> reply = co_await staging->events(context, std::move(request));
  co_return std::move(reply.result);
}

// Returns whether the view has the events. That of a member changes by replication only, so that it
// has what its disk has.
Task<bool> StagingService::apply_news(Context context, MountedPtr mounted, StagedEvents news) {
  const StagedView& view = *mounted->view;
  if (mounted->has_log) co_return news.log == view.log() && view.position() >= news.position;
  auto permit = co_await mounted->changing.acquire(context, 1, "staged writes");
  if (!permit || mounted->has_log) co_return false;
  // Another reader had a later answer.
  const bool is_old =
      news.log == view.log() && news.term == view.term() && news.position <= view.position();
  co_return is_old || mounted->view->apply(news).has_value();
}

Task<Result<std::shared_ptr<StagedView>>> StagingService::current(Context context,
                                                                  std::string mount) {
  const Context bounded = context.with_timeout(kAppendTimeout);
  Status why(StatusCode::kUnavailable, "the primary is not ready");
  while (bounded.check("the staged writes of a mount")) {
    const ClusterViewPtr view = deps_.views.view();
    const auto record = view->staging.find(mount);
    if (record == view->staging.end()) co_return std::shared_ptr<StagedView>();
    const MountedPtr at = mounted(mount);
    if (record->second.primary == deps_.self) {
      const auto primary = primary_of(mount);
      if (primary != nullptr && !primary->is_over()) {
        co_await primary->wait_renames(bounded);
        co_return at->view;
      }
    } else {
      Result<StagedEvents> news =
          co_await ask_events(bounded, record->second, at->view->log(), at->view->position());
      const bool is_applied = news && co_await apply_news(bounded, at, *news);
      if (is_applied) co_return at->view;
      if (news && !at->has_log) {
        news = co_await ask_events(bounded, record->second, {}, 0);
        const bool is_whole = news && co_await apply_news(bounded, at, *news);
        if (is_whole) co_return at->view;
      }
      if (!news) why = news.error();
    }
    auto newer = co_await deps_.views.newer(bounded.with_timeout(kRetryPause), view->revision);
    static_cast<void>(newer);
  }
  co_return error(Status(StatusCode::kUnavailable,
                         fmt::format("the staged writes of {} are not known here", mount), why));
}

Task<Result<std::string>> StagingService::read_staged(Context context, StagedChangePtr change,
                                                      ByteRange range) {
  return copies_.read(std::move(context), std::move(change), range);
}

Task<Result<>> StagingService::flush(Context context, std::string mount, std::string key) {
  uint64_t number = 0;
  while (true) {
    LEAT_CO_CHECK_OK(context.check("staged writes on their way to the store"));
    const ClusterViewPtr view = deps_.views.view();
    const auto record = view->staging.find(mount);
    if (record == view->staging.end()) co_return Result<>();
    if (number == 0) {
      // Later writes are not waited for.
      LEAT_CO_TRY(const auto now, co_await current(context, mount));
      if (now == nullptr) co_return Result<>();
      number = now->position();
    }
    StagingPeer* staging = this;
    PeerPtr peer;
    if (record->second.primary != deps_.self) {
      peer = deps_.peers.find(record->second.primary);
      staging = peer == nullptr ? nullptr : peer->staging();
    }
    if (staging != nullptr) {
      StagedWait request{.mount = mount, .key = key, .number = number};
      PeerReply<uint64_t> reply = co_await staging->wait_sent(context, std::move(request));
      if (reply.result && *reply.result == 0) co_return Result<>();
      if (reply.result) continue;
    }
    Result<> slept = co_await sleep_for(context, kRetryPause);
    if (!slept) co_return slept;
  }
}

// --- changes of clients --------------------------------------------------------------------------

Task<Result<std::optional<SourceObject>>> StagingService::write(
    Context context, PeerWrite request, std::span<const std::byte> content) {
  if (request.piece) {
    co_return co_await write_piece(std::move(context), std::move(request), content);
  }
  StagedChange change{.key = request.key,
                      .attributes = request.attributes,
                      .condition = request.condition,
                      .copies = std::max(request.copies, 1U)};
  if (request.key.ends_with('/')) {
    change.kind = StagedKind::kMakeDirectory;
  } else if (!content.empty()) {
    const StagedPiece piece{.content = Id128::random(), .is_last = true};
    auto holders = choose_workers(*deps_.views.view(), deps_.self, piece.content, change.copies);
    LEAT_CO_TRY(holders, co_await copies_.put(context, piece, std::move(holders), content));
    change.holders = co_await copies_.add_copies(context, deps_.views.view(), piece.content,
                                                 content.size(), std::move(holders), change.copies);
    change.content = piece.content;
    change.size = content.size();
    change.crc = crc32c(content);
  }
  const bool until_sent = request.copies == 0;
  auto kept = std::make_shared<const StagedChange>(change);
  Result<SourceObject> appended =
      co_await append_change(context, request.mount, request.store, std::move(change), until_sent);
  if (appended) co_return *std::move(appended);
  // Unless it may have been appended, nothing refers to the content.
  const StatusCode code = appended.error().code();
  const bool is_refused = code == StatusCode::kExists || code == StatusCode::kVersionChanged;
  if (is_refused && !kept->content.is_zero()) {
    co_await copies_.drop(Context::background().with_timeout(kRetryPause), kept);
  }
  co_return Error(appended.error());
}

void StagingService::forget_idle_writes() {
  std::vector<StagedChangePtr> idle;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(sessions_, [&](const auto& one) {
      if (Clock::now() - one.second.last_at <= kIdleWrite) return false;
      auto change = std::make_shared<StagedChange>();
      change->content = one.first;
      change->holders = one.second.holders;
      idle.push_back(std::move(change));
      return true;
    });
  }
  for (StagedChangePtr& change : idle) {
    auto holder = gate_.enter();
    if (!holder) return;
    executor_.spawn(drop_idle(*std::move(holder), std::move(change)));
  }
}

Task<> StagingService::drop_idle(Gate::Holder, StagedChangePtr change) {
  co_await copies_.drop(Context::background().with_timeout(kIdleWrite), std::move(change));
}

// The content has the id of the write. A piece that is there is a success.
Task<Result<std::optional<SourceObject>>> StagingService::write_piece(
    Context context, PeerWrite request, std::span<const std::byte> content) {
  const WritePiece piece = *request.piece;
  forget_idle_writes();
  Session session;
  {
    std::lock_guard lock(mutex_);
    const auto found = sessions_.find(piece.write);
    if (found == sessions_.end() && piece.offset != 0) {
      co_return error(StatusCode::kUnavailable, "this write is not in progress here (any more)");
    }
    if (found != sessions_.end()) session = found->second;
  }
  if (session.holders.empty()) {
    session.holders =
        choose_workers(*deps_.views.view(), deps_.self, piece.write, std::max(request.copies, 1U));
  }
  if (piece.step == WritePiece::Step::kAbort) {
    auto aborted = std::make_shared<StagedChange>();
    aborted->content = piece.write;
    aborted->holders = session.holders;
    {
      std::lock_guard lock(mutex_);
      sessions_.erase(piece.write);
    }
    co_await copies_.drop(context, std::move(aborted));
    co_return std::optional<SourceObject>();
  }
  const bool is_last = piece.step == WritePiece::Step::kComplete;
  const bool is_known = piece.offset + content.size() <= session.size && !is_last;
  if (!is_known) {
    if (piece.offset != session.size) {
      co_return error(StatusCode::kUnavailable, "this write lacks the pieces before this one");
    }
    const StagedPiece staged{.content = piece.write, .offset = piece.offset, .is_last = is_last};
    LEAT_CO_TRY(session.holders, co_await copies_.put(context, staged, session.holders, content));
    session.size += content.size();
    session.crc = crc32c(content, session.crc);
  }
  session.last_at = Clock::now();
  {
    std::lock_guard lock(mutex_);
    sessions_[piece.write] = session;
  }
  if (!is_last) co_return std::optional<SourceObject>();
  session.holders =
      co_await copies_.add_copies(context, deps_.views.view(), piece.write, session.size,
                                  std::move(session.holders), std::max(request.copies, 1U));
  StagedChange change{.key = request.key,
                      .content = piece.write,
                      .size = session.size,
                      .crc = session.crc,
                      .holders = session.holders,
                      .attributes = request.attributes,
                      .condition = request.condition,
                      .copies = std::max(request.copies, 1U)};
  const bool until_sent = request.copies == 0;
  Result<SourceObject> appended =
      co_await append_change(context, request.mount, request.store, std::move(change), until_sent);
  {
    std::lock_guard lock(mutex_);
    sessions_.erase(piece.write);
  }
  if (!appended) co_return Error(appended.error());
  co_return *std::move(appended);
}

Task<Result<SourceObject>> StagingService::change(Context context, PeerChange request) {
  switch (request.op) {
    case ChangeOp::kCopy:
      co_return co_await copy(std::move(context), std::move(request));
    case ChangeOp::kSetAttributes:
      co_return co_await set_attributes(std::move(context), std::move(request));
    case ChangeOp::kRemove: {
      Result<> removed = co_await remove(std::move(context), std::move(request));
      if (!removed) co_return Error(removed.error());
      co_return SourceObject();
    }
    case ChangeOp::kFlush: {
      std::string key = request.keys.empty() ? "" : request.keys[0];
      Result<> flushed = co_await flush(std::move(context), request.mount, std::move(key));
      if (!flushed) co_return Error(flushed.error());
      co_return SourceObject();
    }
    case ChangeOp::kRename:
      break;
  }
  StagedChange change{.kind = StagedKind::kRename,
                      .key = request.keys[1],
                      .from = request.keys[0],
                      .exclusive = request.exclusive,
                      .copies = std::max(request.copies, 1U)};
  const bool until_sent = request.copies == 0;
  co_return co_await append_change(std::move(context), request.mount, request.store,
                                   std::move(change), until_sent);
}

// Files in any order, then directories, the deepest first.
Task<Result<>> StagingService::remove(Context context, PeerChange request) {
  std::ranges::sort(request.keys, [](const std::string& a, const std::string& b) {
    const bool is_directory = a.ends_with('/');
    return is_directory != b.ends_with('/') ? !is_directory : a > b;
  });
  const bool until_sent = request.copies == 0;
  std::vector<std::shared_ptr<SharedPromise<Result<SourceObject>>>> removals;
  std::optional<Status> failed;
  for (size_t i = 0; i < request.keys.size(); ++i) {
    StagedChange change{.kind = StagedKind::kRemove,
                        .key = request.keys[i],
                        .copies = std::max(request.copies, 1U)};
    removals.push_back(leat::start(
        executor_, append_change(context, request.mount, request.store, change, until_sent)));
    const bool waits = removals.size() == kRemovalsAtOnce || request.keys[i].ends_with('/') ||
                       i + 1 == request.keys.size() || request.keys[i + 1].ends_with('/');
    if (!waits) continue;
    for (const auto& one : removals) {
      Result<Result<SourceObject>> got = co_await one->wait(Context::background(), "a removal");
      if (!*got) failed = got->error();
    }
    removals.clear();
    if (failed) co_return error(*failed);
  }
  co_return Result<>();
}

// A pending save is staged again with the same content. An object of the store is changed there.
Task<Result<SourceObject>> StagingService::set_attributes(Context context, PeerChange request) {
  const std::string& key = request.keys[0];
  LEAT_CO_TRY(const auto view, co_await current(context, request.mount));
  if (view != nullptr) {
    const StagedPlace place = view->find(key, view->mark());
    if (place.kind == StagedPlace::Kind::kMissing) {
      co_return error(StatusCode::kNotFound, key + " does not exist");
    }
    const bool is_pending = place.kind != StagedPlace::Kind::kStore && place.change != nullptr;
    if (is_pending) {
      StagedChange change = *place.change;
      change.key = key;
      change.condition = {};
      if (place.kind == StagedPlace::Kind::kContent) {
        change.condition.version = staged_version(view->log(), place.number);
      }
      change.copies = std::max(request.copies, 1U);
      merge_attributes(change.attributes, request.attributes);
      const bool until_sent = request.copies == 0;
      Result<SourceObject> again = co_await append_change(context, request.mount, request.store,
                                                          std::move(change), until_sent);
      // It reached the store meanwhile, or another change came first.
      if (again || again.error().code() != StatusCode::kVersionChanged) co_return again;
    }
    LEAT_CO_CHECK_OK(co_await flush(context, request.mount, key));
  }
  const SourcePtr source = source_of(request.mount);
  if (source == nullptr) co_return error(StatusCode::kBusy, "the mount is not served here");
  AttributesRequest set{.key = key, .attributes = request.attributes};
  co_return co_await source->set_attributes(std::move(context), std::move(set));
}

Task<Result<SourceObject>> StagingService::copy(Context context, PeerChange request) {
  for (const std::string& key : request.keys) {
    LEAT_CO_CHECK_OK(co_await flush(context, request.mount, key));
  }
  const SourcePtr source = source_of(request.mount);
  if (source == nullptr) co_return error(StatusCode::kBusy, "the mount is not served here");
  CopyRequest copy{.from = request.keys[0], .to = request.keys[1], .if_absent = request.exclusive};
  co_return co_await source->copy(std::move(context), std::move(copy));
}

}  // namespace leat
