// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/upload_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/mount_entry.h"
#include "telemetry/log.h"

namespace leat {
namespace {

bool is_at(const PendingChange& change, std::string_view path) {
  return path == "/" || path.empty() || is_at_or_below(change.path, path);
}

// Returns whether it renames something at or below `path`, or a directory around it.
bool renames_at(const PendingChange& change, std::string_view path) {
  return change.kind == ChangeKind::kRename &&
         (is_at(change, path) || is_at_or_below(change.from, path) ||
          is_at_or_below(path, change.path) || is_at_or_below(path, change.from));
}

bool concerns(const PendingChange& change, std::string_view path) {
  return is_at(change, path) || renames_at(change, path);
}

}  // namespace

void UploadQueue::insert(QueuedChangePtr change, bool begun, bool held) {
  std::lock_guard lock(mutex_);
  (change->local ? local_bytes_ : bytes_) += change->size;
  const Clock::time_point due = Clock::now() + options_.delay;
  const uint64_t number = change->number;
  entries_[number] = {
      .change = std::move(change), .due = due, .running = {}, .begun = begun, .held = held};
}

void UploadQueue::add(QueuedChangePtr change, bool begun) {
  insert(std::move(change), begun, /*held=*/false);
  pump();
}

void UploadQueue::add_held(QueuedChangePtr change) {
  insert(std::move(change), /*begun=*/false, /*held=*/true);
}

void UploadQueue::take_out(uint64_t number) {
  const auto found = entries_.find(number);
  const PendingChange& change = *found->second.change;
  (change.local ? local_bytes_ : bytes_) -= change.size;
  entries_.erase(found);
}

Task<UploadQueue::Withdrawn> UploadQueue::withdraw(uint64_t number) {
  std::shared_ptr<Running> running;
  QueuedChangePtr change;
  bool begun = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(number);
    if (found == entries_.end()) co_return Withdrawn{};
    change = found->second.change;
    running = found->second.running;
    begun = found->second.begun;
    if (running) {
      running->withdrawn = true;
    } else {
      found->second.held = true;
    }
  }
  if (!running) co_return Withdrawn{.change = std::move(change), .begun = begun};
  running->cancel.request_stop();
  const Result<bool> out = co_await running->ended->wait(Context::background(), "an upload to end");
  if (out && *out) co_return Withdrawn{.change = std::move(change), .begun = true};
  co_return Withdrawn{};
}

QueuedChangePtr UploadQueue::withdraw_newest(uint64_t number) {
  std::lock_guard lock(mutex_);
  if (entries_.empty() || entries_.rbegin()->first != number) return nullptr;
  Entry& entry = entries_.rbegin()->second;
  if (entry.running || entry.begun || entry.held) return nullptr;
  entry.held = true;
  return entry.change;
}

void UploadQueue::put_back(uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(number);
    if (found != entries_.end()) found->second.held = false;
  }
  pump();
}

void UploadQueue::release(uint64_t number) {
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    if (!entries_.contains(number)) return;
    take_out(number);
    ended = take_ended(/*all=*/false);
  }
  end(ended, true);
  pump();
}

QueuedChangePtr UploadQueue::find(uint64_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : found->second.change;
}

UploadQueue::Ended UploadQueue::take_ended(bool all) {
  Ended ended{.progress = std::exchange(progress_, SharedPromise<bool>::make())};
  std::erase_if(waiters_, [&](const WaiterPtr& waiter) {
    const bool ends = all || !waits_for(*waiter);
    if (ends) ended.drains.push_back(waiter);
    return ends;
  });
  return ended;
}

void UploadQueue::end(const Ended& ended, const Result<bool>& result) {
  for (const WaiterPtr& waiter : ended.drains) waiter->done->set(result);
  ended.progress->set(result);
}

Error UploadQueue::ending() const {
  return error(StatusCode::kCancelled, "the mount ends; its next one sends what is left");
}

std::vector<QueuedChangePtr> UploadQueue::changes_below(std::string_view path) const {
  std::vector<QueuedChangePtr> changes;
  std::lock_guard lock(mutex_);
  for (const auto& [number, entry] : entries_) {
    const bool renames = entry.change->kind == ChangeKind::kRename;
    if (!renames && is_at(*entry.change, path)) changes.push_back(entry.change);
  }
  return changes;
}

std::vector<QueuedChangePtr> UploadQueue::changes_of(const WrittenNode& node,
                                                     std::string_view path) const {
  std::vector<QueuedChangePtr> changes;
  const bool renamed = has_renames(path);
  std::lock_guard lock(mutex_);
  for (const auto& [number, entry] : entries_) {
    const QueuedChange& change = *entry.change;
    if (change.path != path || change.kind == ChangeKind::kRename) continue;
    const bool removes = change.kind == ChangeKind::kRemove;
    if (removes ? change.directory == node.is_directory() && !renamed
                : change.node.get() == &node) {
      changes.push_back(entry.change);
    } else {
      // It needs the removals before it.
      std::erase_if(changes,
                    [](const QueuedChangePtr& one) { return one->kind == ChangeKind::kRemove; });
    }
  }
  return changes;
}

std::vector<QueuedChangePtr> UploadQueue::saves_of(const std::vector<WrittenNodePtr>& nodes) const {
  const std::set<WrittenNodePtr> wanted(nodes.begin(), nodes.end());
  std::vector<QueuedChangePtr> saves;
  std::lock_guard lock(mutex_);
  for (const auto& [number, entry] : entries_) {
    const QueuedChange& change = *entry.change;
    if (change.kind == ChangeKind::kSave && wanted.contains(change.node)) {
      saves.push_back(entry.change);
    }
  }
  return saves;
}

bool UploadQueue::has_changes(std::string_view path) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_,
                             [&](const auto& one) { return concerns(*one.second.change, path); });
}

bool UploadQueue::has_renames(std::string_view path) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(entries_,
                             [&](const auto& one) { return renames_at(*one.second.change, path); });
}

bool UploadQueue::has_unsent() const {
  return std::ranges::any_of(entries_, [](const auto& one) { return !one.second.change->local; });
}

bool UploadQueue::waits_for(const Waiter& waiter) const {
  for (const auto& [number, entry] : entries_) {
    if (number > waiter.last) return false;
    if (!entry.change->local && concerns(*entry.change, waiter.path)) return true;
  }
  return false;
}

Task<Result<>> UploadQueue::drain(Context context, std::string path) {
  auto waiter = std::make_shared<Waiter>();
  waiter->path = std::move(path);
  {
    std::lock_guard lock(mutex_);
    if (!entries_.empty()) waiter->last = entries_.rbegin()->first;
    if (!waits_for(*waiter)) co_return Result<>();
    if (gate_.closed()) co_return ending();
    waiters_.push_back(waiter);
    hurried_ = std::max(hurried_, waiter->last);
    retry_at_ = {};
  }
  pump();
  const Result<bool> done = co_await waiter->done->wait(context, "changes to reach the store");
  if (!done) {
    std::lock_guard lock(mutex_);
    std::erase(waiters_, waiter);
    co_return Error(done.error());
  }
  co_return Result<>();
}

Task<Result<>> UploadQueue::reserve(Context context, uint64_t bytes) {
  for (;;) {
    std::shared_ptr<SharedPromise<bool>> progress;
    {
      std::lock_guard lock(mutex_);
      const uint64_t held = bytes_ + local_bytes_;
      if (held == 0 || held + bytes <= options_.bytes_max) co_return Result<>();
      if (gate_.closed()) co_return ending();
      if (!has_unsent()) {
        co_return error(StatusCode::kNoSpace,
                        fmt::format("files that are never sent take {} of the {} that may be "
                                    "staged; remove some, or raise cache.staging",
                                    format_bytes(local_bytes_), format_bytes(options_.bytes_max)));
      }
      hurried_ = entries_.rbegin()->first;
      progress = progress_;
    }
    pump();
    const Result<bool> freed = co_await progress->wait(context, "space for written files");
    if (freed) continue;
    if (context.cancelled() || context.expired()) co_return Error(freed.error());
    co_return error(
        Status(StatusCode::kNoSpace,
               fmt::format("{} wait for the store, and more than {} may not be staged",
                           format_bytes(unsent().bytes), format_bytes(options_.bytes_max)),
               freed.error()));
  }
}

UnsentChanges UploadQueue::unsent() const {
  std::lock_guard lock(mutex_);
  UnsentChanges unsent{.bytes = bytes_, .local_bytes = local_bytes_, .failure = failure_};
  for (const auto& [number, entry] : entries_) {
    if (entry.change->local) continue;
    ++unsent.changes;
    if (!unsent.oldest) unsent.oldest = entry.change->since;
  }
  return unsent;
}

// ---- sending

bool UploadQueue::begin(Entry& entry) {
  if (!running_paths_.insert(entry.change->path).second) return false;
  entry.running = std::make_shared<Running>();
  return true;
}

std::vector<QueuedChangePtr> UploadQueue::take_startable() {
  std::vector<QueuedChangePtr> startable;
  const Clock::time_point now = Clock::now();
  if (gate_.closed()) return startable;
  if (retry_at_ > now) {
    wake_at(retry_at_);
    return startable;
  }
  for (auto& [number, entry] : entries_) {
    const QueuedChange& change = *entry.change;
    if (entry.held) break;
    if (change.local) continue;
    if (entry.running && change.ordered) break;
    if (entry.running) continue;
    if (change.ordered && !running_paths_.empty()) break;
    if (running_paths_.size() >= options_.concurrent) break;
    if (entry.due > now && number > hurried_) {
      wake_at(entry.due);
      break;
    }
    if (!begin(entry)) break;
    startable.push_back(entry.change);
    if (change.ordered) break;
  }
  return startable;
}

void UploadQueue::pump() {
  // A task may begin at once, and takes the mutex.
  std::vector<std::pair<QueuedChangePtr, std::shared_ptr<Running>>> begun;
  std::optional<Clock::time_point> wake;
  {
    std::lock_guard lock(mutex_);
    for (QueuedChangePtr& change : take_startable()) {
      std::shared_ptr<Running> running = entries_[change->number].running;
      begun.emplace_back(std::move(change), std::move(running));
    }
    wake = std::exchange(wake_, std::nullopt);
  }
  for (auto& [change, running] : begun) {
    std::optional<Gate::Holder> holder = gate_.enter();
    if (holder) executor_.spawn(run(*std::move(holder), std::move(change), std::move(running)));
  }
  std::optional<Gate::Holder> holder = wake ? gate_.enter() : std::nullopt;
  if (holder) executor_.spawn(wake_later(*std::move(holder), *wake));
}

Task<> UploadQueue::run(Gate::Holder, QueuedChangePtr change, std::shared_ptr<Running> running) {
  const std::stop_callback stopping(stopping_.get_token(),
                                    [running] { running->cancel.request_stop(); });
  const Context context = Context::background().with_cancel(running->cancel.get_token());
  const Result<> sent = co_await send_(context, change);
  Ended ended;
  bool out = false, failed = false;
  {
    std::lock_guard lock(mutex_);
    running_paths_.erase(change->path);
    Entry& entry = entries_[change->number];
    entry.running = nullptr;
    entry.begun = true;
    out = !sent && running->withdrawn;
    failed = !sent && !out;
    if (sent) take_out(change->number);
    if (out) entry.held = true;
    if (sent) {
      failures_ = 0;
      failure_ = std::nullopt;
    } else if (failed && !stopping_.stop_requested()) {
      if (!failure_) {
        log::warning("{} is not in the store yet, and is tried again: {}", change->path,
                     sent.error().to_string());
      }
      failure_ = sent.error();
      const Clock::duration pause = options_.pause_min * (1U << std::min(failures_++, 16U));
      retry_at_ = Clock::now() + std::min(pause, options_.pause_max);
    }
    ended = take_ended(failed);
  }
  running->ended->set(out);
  end(ended, failed ? Result<bool>(Error(sent.error())) : Result<bool>(true));
  pump();
}

void UploadQueue::wake_at(Clock::time_point when) {
  if (wakes_at_ && *wakes_at_ <= when) return;
  wakes_at_ = wake_ = when;
}

Task<> UploadQueue::wake_later(Gate::Holder, Clock::time_point when) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  const Result<> slept = co_await sleep_for(context, when - Clock::now());
  {
    std::lock_guard lock(mutex_);
    if (wakes_at_ == when) wakes_at_ = std::nullopt;
  }
  if (slept) pump();
}

Task<> UploadQueue::stop() {
  stopping_.request_stop();
  gate_.close();
  Ended ended;
  {
    std::lock_guard lock(mutex_);
    ended = take_ended(/*all=*/true);
  }
  end(ended, ending());
  co_await gate_.wait_idle();
}

}  // namespace leat
