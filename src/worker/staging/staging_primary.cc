// SPDX-License-Identifier: Apache-2.0
// One loop appends: it takes what waits, makes it durable here and at the members, applies it to
// the view and answers. So events have one order, and each synchronisation of the disks is shared.
#include "worker/staging/staging_primary.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter appended_total("leat_staging_appended_total", "Changes that were staged");

constexpr size_t kBatchMax = 512;
constexpr size_t kRecentMax = 20'000;
constexpr Clock::duration kWaitTime = std::chrono::seconds(2);

bool touches(const StagedChange& a, const StagedChange& b) {
  return a.key == b.key || a.key == b.from || a.from == b.key;
}

Error moved() {
  return error(StatusCode::kBusy, "another worker has the staged writes of this mount by now");
}

}  // namespace

StagingPrimary::StagingPrimary(StagingRecord record, StagingPrimaryDeps deps,
                               StagingPrimaryOptions options, Executor& executor)
    : term_(record.term),
      deps_(std::move(deps)),
      options_(options),
      executor_(executor),
      sender_(
          executor, options.sending,
          {.mount = record.mount,
           .view = deps_.view,
           .source = deps_.source,
           .send_content =
               [this](Context context, StagedChangePtr change) {
                 return send_content(std::move(context), std::move(change));
               },
           .note = [this](Context context,
                          StagedEvent event) { return note(std::move(context), std::move(event)); },
           .sent =
               [this](Context context, StagedChangePtr change) {
                 return sent(std::move(context), std::move(change));
               }}),
      record_(std::move(record)) {
  // The members may have events of an earlier primary that this one lacks.
  for (const WorkerId& member : record_.members) {
    if (member != deps_.self) behind_.insert(member);
  }
  for (const auto& [number, change] : deps_.view->pending()) {
    if (!change->content.is_zero()) contents_[change->content] = number;
    copies_ = std::max(copies_, change->copies);
  }
}

void StagingPrimary::start() {
  executor_.spawn(run(*gate_.enter()));
  sender_.wake();
}

Task<> StagingPrimary::stop() {
  end({StatusCode::kCancelled, "this worker is ending"});
  stopping_.request_stop();
  wake_loop();
  co_await sender_.stop();
  gate_.close();
  co_await gate_.wait_idle();
}

bool StagingPrimary::is_over() const {
  std::lock_guard lock(mutex_);
  return ended_.has_value();
}

StagingRecord StagingPrimary::record() const {
  std::lock_guard lock(mutex_);
  return record_;
}

// --- requests ------------------------------------------------------------------------------------

Result<SourceObject> StagingPrimary::answer_to(const StagedChange& change, uint64_t number) const {
  if (change.kind == StagedKind::kRemove || change.kind == StagedKind::kRename) {
    return SourceObject();
  }
  const bool is_save = change.kind == StagedKind::kSave;
  const StagedPlace place{
      .kind = is_save ? StagedPlace::Kind::kContent : StagedPlace::Kind::kDirectory,
      .change = std::make_shared<const StagedChange>(change),
      .number = number};
  return place.object(change.key, deps_.view->log());
}

Task<Result<SourceObject>> StagingPrimary::append(Context context, StagedChange change,
                                                  bool until_sent) {
  const auto holder = gate_.enter();
  if (!holder) co_return moved();
  // A name that was written here may have been removed in the store since.
  const StagedPlace place = deps_.view->find(change.key, deps_.view->mark());
  const SourcePtr source = deps_.source();
  if (change.condition.absent && place.shown.known() && source != nullptr) {
    StatRequest request{.key = place.key};
    const Result<SourceObject> present = co_await source->stat(context, std::move(request));
    if (present) co_return error(StatusCode::kExists, change.key + " exists");
  }
  const uint32_t copies = change.copies;
  const auto held = static_cast<uint32_t>(change.holders.size());
  const bool has_content = !change.content.is_zero();
  // A full queue makes writers wait for the store.
  while (deps_.view->totals().changes >= options_.pending_max) {
    const auto more = progress();
    sender_.hurry(deps_.view->position());
    LEAT_CO_CHECK_OK(context.check("room for a staged write"));
    if (is_over()) co_return moved();
    Result<bool> waited = co_await more->wait(context.with_timeout(kWaitTime), "the store");
    static_cast<void>(waited);
  }
  {
    std::lock_guard lock(mutex_);
    if (ended_) co_return moved();
    copies_ = std::max(copies_, copies);
  }
  StagedEvent event{.kind = StagedEvent::Kind::kAppend, .change = change};
  const auto pushed = push(std::move(event));
  LEAT_CO_TRY(const uint64_t number, co_await pushed->wait(context, "a staged write"));
  // With too few workers for its promise the store has to have it.
  const auto is_safe = [&] {
    return !until_sent && record().members.size() >= copies && (!has_content || held >= copies);
  };
  if (is_safe()) co_return answer_to(change, number);
  sender_.hurry(number);
  while (deps_.view->is_pending(number)) {
    if (is_safe()) co_return answer_to(change, number);
    const auto more = progress();
    LEAT_CO_CHECK_OK(context.check("a staged write's way to the store"));
    if (is_over()) co_return moved();
    if (!deps_.view->is_pending(number)) break;
    Result<bool> waited = co_await more->wait(context.with_timeout(kWaitTime), "the store");
    static_cast<void>(waited);
  }
  const auto save = deps_.view->save(number);
  if (save && save->is_done && !save->stored.known()) {
    co_return error(StatusCode::kVersionChanged,
                    fmt::format("somebody else wrote {} in the store", change.key));
  }
  co_return answer_to(change, number);
}

Task<uint64_t> StagingPrimary::wait_sent(Context context, std::string key, uint64_t number) {
  const Clock::time_point end = Clock::now() + kWaitTime;
  if (number == 0) number = deps_.view->position();
  sender_.hurry(number);
  while (true) {
    const auto more = progress();
    const uint64_t left = deps_.view->pending_below(key, number);
    if (left == 0 || Clock::now() >= end || context.cancelled() || is_over()) co_return left;
    Result<bool> waited =
        co_await more->wait(context.with_timeout(end - Clock::now()), "the store");
    static_cast<void>(waited);
  }
}

Task<Result<>> StagingPrimary::hand_over(Context context) {
  while (true) {
    LEAT_CO_CHECK_OK(context.check("a hand-over of staged writes"));
    const StagingRecord now = record();
    std::vector<WorkerId> others;
    {
      std::lock_guard lock(mutex_);
      if (ended_) co_return Result<>();
      for (const WorkerId& member : now.members) {
        if (member != deps_.self && !behind_.contains(member)) others.push_back(member);
      }
      copies_ = std::max<uint32_t>(copies_, 2);
      leaves_ = true;
    }
    if (!others.empty()) {
      const WorkerId next = others.front();
      end({StatusCode::kBusy, "another worker takes the staged writes of this mount"});
      co_return co_await change_members(context, std::move(others), next);
    }
    wake_loop();
    Result<> slept = co_await sleep_for(context, options_.member_interval / 4);
    if (!slept) co_return slept;
  }
}

// --- the loop ------------------------------------------------------------------------------------

std::shared_ptr<SharedPromise<uint64_t>> StagingPrimary::push(StagedEvent event) {
  Item item{std::move(event), SharedPromise<uint64_t>::make()};
  auto done = item.done;
  {
    std::lock_guard lock(mutex_);
    if (ended_) {
      done->set(moved());
      return done;
    }
    waiting_.push_back(std::move(item));
  }
  wake_loop();
  return done;
}

void StagingPrimary::wake_loop() {
  std::shared_ptr<SharedPromise<bool>> wake;
  {
    std::lock_guard lock(mutex_);
    wake = std::exchange(wake_, SharedPromise<bool>::make());
  }
  wake->set(true);
}

std::shared_ptr<SharedPromise<bool>> StagingPrimary::progress() const {
  std::lock_guard lock(mutex_);
  return progress_;
}

void StagingPrimary::note_progress() {
  std::shared_ptr<SharedPromise<bool>> before;
  {
    std::lock_guard lock(mutex_);
    before = std::exchange(progress_, SharedPromise<bool>::make());
  }
  before->set(true);
}

void StagingPrimary::end(const Status& why) {
  std::deque<Item> waiting;
  {
    std::lock_guard lock(mutex_);
    if (!ended_) ended_ = why;
    waiting.swap(waiting_);
  }
  for (const Item& item : waiting) item.done->set(moved());
  note_progress();
}

// Changes of one name do not share a batch, so that each is checked against the one before it.
std::vector<StagingPrimary::Item> StagingPrimary::take() {
  std::vector<Item> items;
  std::lock_guard lock(mutex_);
  while (!waiting_.empty() && items.size() < kBatchMax) {
    const StagedEvent& next = waiting_.front().event;
    const bool is_alone = next.change.kind == StagedKind::kRename;
    const bool collides = std::ranges::any_of(items, [&](const Item& item) {
      return item.event.kind == StagedEvent::Kind::kAppend &&
             next.kind == StagedEvent::Kind::kAppend && touches(item.event.change, next.change);
    });
    if (collides || (is_alone && !items.empty())) break;
    items.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    if (is_alone) break;
  }
  return items;
}

Task<> StagingPrimary::run(Gate::Holder) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Clock::time_point ticked{};
  uint32_t ticked_copies = 1;
  while (!context.cancelled()) {
    std::shared_ptr<SharedPromise<bool>> wake;
    {
      std::lock_guard lock(mutex_);
      if (ended_) break;
      wake = wake_;
    }
    std::vector<Item> items = take();
    uint32_t copies;
    {
      std::lock_guard lock(mutex_);
      copies = copies_;
    }
    // A writer that wants more copies than those before it does not wait for the next look.
    if (copies > ticked_copies || Clock::now() - ticked >= options_.member_interval) {
      co_await tick(context);
      ticked = Clock::now();
      ticked_copies = copies;
    }
    if (!items.empty()) co_await commit(context, std::move(items));
    bool is_idle;
    {
      std::lock_guard lock(mutex_);
      is_idle = waiting_.empty() && !ended_;
    }
    if (!is_idle) continue;
    Result<bool> waited =
        co_await wake->wait(context.with_timeout(options_.member_interval), "staged writes");
    static_cast<void>(waited);
  }
  end({StatusCode::kCancelled, "this worker is ending"});
}

Result<> StagingPrimary::check(const StagedChange& change) const {
  const StagedPlace place = deps_.view->find(change.key, deps_.view->mark());
  using Kind = StagedPlace::Kind;
  const bool is_here = place.kind == Kind::kContent || place.shown.known();
  const bool demands_absence =
      change.condition.absent || (change.kind == StagedKind::kRename && change.exclusive);
  if (demands_absence && place.kind == Kind::kContent) {
    return error(StatusCode::kExists, change.key + " exists");
  }
  const Version& wanted = change.condition.version;
  if (!wanted.known()) return {};
  const Version now =
      place.kind == Kind::kContent ? staged_version(deps_.view->log(), place.number) : place.shown;
  const bool differs = is_here ? now != wanted
                               : place.kind == Kind::kMissing ||
                                     staged_number(deps_.view->log(), wanted).has_value();
  // A version of the store itself is compared when the change is sent.
  const bool is_stored = place.kind == Kind::kStore && !is_staged_version(wanted);
  if (!differs || is_stored) return {};
  return error(StatusCode::kVersionChanged,
               fmt::format("somebody else changed {} in the cluster", change.key));
}

// A worker appends its change again if it got no answer.
std::optional<uint64_t> StagingPrimary::number_of_repeated(const StagedChange& change) const {
  const auto known = contents_.find(change.content);
  if (known == contents_.end()) return std::nullopt;
  const auto save = deps_.view->save(known->second);
  if (!save || save->change->key != change.key) return std::nullopt;
  if (save->change->attributes != change.attributes) return std::nullopt;
  return known->second;
}

void StagingPrimary::note_recent(const std::vector<StagedEvent>& events) {
  std::lock_guard lock(mutex_);
  recent_.insert(recent_.end(), events.begin(), events.end());
  while (recent_.size() > kRecentMax) recent_.pop_front();
}

StagedEvents StagingPrimary::events_after(const Id128& log, uint64_t position) const {
  StagedEvents events{.log = deps_.view->log(), .term = term_};
  if (log == events.log) {
    std::lock_guard lock(mutex_);
    if (!recent_.empty() && position + 1 >= recent_.front().position) {
      events.position = recent_.back().position;
      for (const StagedEvent& one : recent_) {
        if (one.position > position) events.events.push_back(one);
      }
      return events;
    }
  }
  if (log == events.log && position == deps_.view->position()) {
    events.position = position;
    return events;
  }
  events = deps_.view->whole();
  events.term = term_;
  return events;
}

Task<> StagingPrimary::commit(Context context, std::vector<Item> items) {
  StagedEvents events{.log = deps_.view->log(), .term = term_};
  uint64_t position = deps_.view->position();
  std::vector<Item> appended;
  for (Item& item : items) {
    if (item.event.kind == StagedEvent::Kind::kAppend) {
      if (const auto known = number_of_repeated(item.event.change)) {
        item.done->set(*known);
        continue;
      }
      if (const Result<> checked = check(item.event.change); !checked) {
        item.done->set(Error(checked.error()));
        continue;
      }
      item.event.number = position + 1;
    }
    item.event.position = ++position;
    events.events.push_back(item.event);
    appended.push_back(std::move(item));
  }
  if (appended.empty()) co_return;
  events.position = position;
  const Result<> written = co_await replicate(context, events);
  if (!written) {
    for (const Item& item : appended) item.done->set(Error(written.error()));
    co_return;
  }
  const Result<> applied = deps_.view->apply(events);
  LEAT_CHECK(applied);
  note_recent(events.events);
  bool lacks_members;
  {
    std::lock_guard lock(mutex_);
    lacks_members = record_.members.size() < copies_;
  }
  // A member was lost: another one gets all before the writers have their answers.
  if (lacks_members) co_await tick(context);
  for (const Item& item : appended) {
    if (item.event.kind == StagedEvent::Kind::kAppend) {
      appended_total.add();
      const StagedChange& change = item.event.change;
      if (!change.content.is_zero()) contents_[change.content] = item.event.number;
    }
    item.done->set(item.event.number);
  }
  note_progress();
  sender_.wake();
}

// --- what the sender needs -----------------------------------------------------------------------

Task<Result<>> StagingPrimary::note(Context context, StagedEvent event) {
  const auto pushed = push(std::move(event));
  Result<uint64_t> done = co_await pushed->wait(context, "an event of a staging log");
  if (!done) co_return Error(done.error());
  co_return Result<>();
}

Task<Result<SourceObject>> StagingPrimary::send_content(Context context, StagedChangePtr change) {
  const auto is_self = [this](const WorkerId& holder) { return holder == deps_.self; };
  if (change->content.is_zero() || std::ranges::any_of(change->holders, is_self)) {
    Result<SourceObject> own = co_await deps_.send_own(context, change);
    if (own || own.error().code() != StatusCode::kNotFound) co_return own;
  }
  Status why(StatusCode::kUnavailable, "no worker that has the content responds");
  const StagingRecord now = record();
  for (const WorkerId& holder : change->holders) {
    const PeerPtr peer = is_self(holder) ? nullptr : deps_.peers.find(holder);
    StagingPeer* const staging = peer == nullptr ? nullptr : peer->staging();
    if (staging == nullptr) continue;
    StagedSend request{.mount = now.mount, .store = now.store, .change = *change};
    PeerReply<SourceObject> reply = co_await staging->send_content(context, std::move(request));
    if (reply.result) co_return std::move(reply.result);
    why = reply.result.error();
  }
  co_return error(why);
}

Task<> StagingPrimary::sent(Context context, StagedChangePtr change) {
  note_progress();
  if (change->content.is_zero()) co_return;
  // A save with other attributes has the same content.
  for (const auto& [number, other] : deps_.view->pending()) {
    if (other->content == change->content) co_return;
  }
  co_await deps_.contents.drop(context, std::move(change));
}

}  // namespace leat
