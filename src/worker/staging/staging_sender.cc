// SPDX-License-Identifier: Apache-2.0
#include "worker/staging/staging_sender.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"
#include "runtime/semaphore.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace leat {
namespace {

Counter sent_total("leat_staging_sent_total", "Staged changes that reached the store");
Counter failures_total("leat_staging_failures_total",
                       "Attempts to send a staged change that failed, and are repeated");

// A save up to this size has no order of its own.
constexpr uint64_t kUnorderedBytes = 1 * kMiB;
// Copies and removals of a directory's rename at once.
constexpr unsigned kCopiesAtOnce = 32;
constexpr size_t kRemovedAtOnce = 1000;

bool is_ordered(const StagedChange& change) {
  return change.kind != StagedKind::kSave || change.size > kUnorderedBytes;
}

// No object has it.
Version lost_version() {
  return Version::etag("\"leat-lost\"");
}

bool is_absent(const Status& why) {
  return why.code() == StatusCode::kNotFound || why.code() == StatusCode::kNotDirectory;
}

// Whether the store itself renames it, so that no copies are seen.
bool renames_at_once(const Source& source, const StagedChange& rename) {
  const SourceCapabilities& store = source.capabilities();
  return store.renames && (!rename.key.ends_with('/') || store.real_directories);
}

// The last error of copies that run at the same time.
struct Failure {
  std::mutex mutex;  // leaf
  std::optional<Status> why;
};

Task<> copy_one(Gate::Holder, Semaphore::Permit, Context context, SourcePtr source,
                std::string from, std::string to, std::shared_ptr<Failure> failure) {
  Result<SourceObject> copied;
  if (from.ends_with('/')) {
    WriteRequest marker{.key = to};
    copied = co_await source->write(context, std::move(marker), {});
  } else {
    CopyRequest request{.from = from, .to = to};
    copied = co_await source->copy(context, std::move(request));
  }
  // An earlier attempt removed the old name.
  if (copied || is_absent(copied.error())) co_return;
  std::lock_guard lock(failure->mutex);
  failure->why = copied.error();
}

// All keys below a directory, and its marker.
Task<Result<std::vector<std::string>>> keys_below(Context context, SourcePtr source,
                                                  std::string directory) {
  std::vector<std::string> keys{directory};
  ListRequest request{.prefix = directory, .recursive = true};
  do {
    Result<ListPage> page = co_await source->list(context, request);
    if (!page && is_absent(page.error())) break;
    if (!page) co_return Error(page.error());
    for (const SourceObject& object : page->objects) keys.push_back(object.key);
    request.token = page->next_token;
  } while (!request.token.empty());
  co_return keys;
}

Task<Result<>> remove_keys(Context context, SourcePtr source, std::vector<std::string> keys) {
  for (size_t at = 0; at < keys.size(); at += kRemovedAtOnce) {
    RemoveRequest request;
    const size_t end = std::min(keys.size(), at + kRemovedAtOnce);
    for (size_t i = at; i < end; ++i) request.keys.push_back(keys[i]);
    LEAT_CO_CHECK_OK(co_await source->remove(context, std::move(request)));
  }
  co_return Result<>();
}

}  // namespace

// --- what is sent next ---------------------------------------------------------------------------

std::vector<StagingSender::Next> StagingSender::take_startable() {
  const auto pending = deps_.view->pending();
  const auto now = std::chrono::system_clock::now();
  std::vector<Next> startable;
  std::lock_guard lock(mutex_);
  if (Clock::now() < retry_at_) return startable;
  bool is_first = true;
  for (const auto& [number, change] : pending) {
    const bool is_running = running_.contains(number);
    const bool ordered = is_ordered(*change);
    if (ordered && !is_first) break;
    is_first = false;
    if (!is_running) {
      const bool is_due = number <= hurried_ || change->since + options_.delay <= now;
      if (!is_due || running_.size() >= options_.concurrent) break;
      // Two saves of one name reach the store one after the other.
      if (running_keys_.contains(change->key)) break;
      running_.insert(number);
      running_keys_.insert(change->key);
      startable.push_back({number, change});
    }
    if (ordered) break;
  }
  return startable;
}

void StagingSender::wake() {
  for (Next& next : take_startable()) {
    auto holder = gate_.enter();
    if (!holder) return;
    executor_.spawn(run(*std::move(holder), std::move(next)));
  }
  const bool has_pending = deps_.view->totals().changes > 0;
  std::lock_guard lock(mutex_);
  if (!has_pending || wakes_) return;
  auto holder = gate_.enter();
  if (!holder) return;
  wakes_ = true;
  const Clock::duration pause = retry_at_ - Clock::now();
  executor_.spawn(wake_later(
      *std::move(holder),
      std::clamp(pause, Clock::duration(options_.delay / 4), Clock::duration(options_.pause_max))));
}

Task<> StagingSender::wake_later(Gate::Holder, Clock::duration after) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> slept = co_await sleep_for(context, after);
  {
    std::lock_guard lock(mutex_);
    wakes_ = false;
  }
  if (slept) wake();
}

void StagingSender::hurry(uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    hurried_ = std::max(hurried_, number);
  }
  wake();
}

std::optional<Status> StagingSender::trouble() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

Task<> StagingSender::stop() {
  stopping_.request_stop();
  gate_.close();
  co_await gate_.wait_idle();
}

Task<> StagingSender::run(Gate::Holder, Next next) {
  const Context context = Context::background().with_cancel(stopping_.get_token());
  Result<> sent = co_await send(context, next);
  {
    std::lock_guard lock(mutex_);
    running_.erase(next.number);
    running_keys_.erase(next.change->key);
    if (sent) {
      failures_ = 0;
      failure_.reset();
      retry_at_ = {};
    } else {
      failure_ = sent.error();
      const auto pause = options_.pause_min * (1U << std::min(failures_++, 10U));
      retry_at_ = Clock::now() + std::min<Clock::duration>(pause, options_.pause_max);
    }
  }
  if (!sent && !context.cancelled()) {
    failures_total.add();
    log::warning("a staged change of {} in {} is sent again: {}", next.change->key, deps_.mount,
                 sent.error().to_string());
  }
  wake();
}

// --- one change ----------------------------------------------------------------------------------

Task<> StagingSender::wait_renames(Context context) const {
  std::shared_ptr<SharedPromise<bool>> renaming;
  {
    std::lock_guard lock(mutex_);
    renaming = renaming_;
  }
  if (renaming == nullptr) co_return;
  Result<bool> ended = co_await renaming->wait(std::move(context), "a rename in the store");
  static_cast<void>(ended);
}

Task<Result<>> StagingSender::send(Context context, Next next) {
  const SourcePtr source = deps_.source();
  const bool is_at_once = source != nullptr && next.change->kind == StagedKind::kRename &&
                          renames_at_once(*source, *next.change);
  if (!is_at_once) co_return co_await send_and_note(context, next);
  {
    std::lock_guard lock(mutex_);
    renaming_ = SharedPromise<bool>::make();
  }
  Result<> sent = co_await send_and_note(context, next);
  std::shared_ptr<SharedPromise<bool>> renaming;
  {
    std::lock_guard lock(mutex_);
    renaming.swap(renaming_);
  }
  renaming->set(true);
  co_return sent;
}

Task<Result<>> StagingSender::send_and_note(Context context, Next next) {
  const SourcePtr source = deps_.source();
  if (source == nullptr) {
    co_return error(StatusCode::kUnavailable,
                    fmt::format("the mount at {} is not served by this worker", deps_.mount));
  }
  const StagedChange& change = *next.change;
  Result<Version> done = Version();
  switch (change.kind) {
    case StagedKind::kSave:
      done = co_await send_save(context, next.change);
      break;
    case StagedKind::kRename:
      done = co_await send_rename(context, source, next);
      break;
    case StagedKind::kRemove: {
      RemoveRequest request{.keys = {change.key}};
      Result<> removed = co_await source->remove(context, std::move(request));
      if (!removed && !is_absent(removed.error())) done = Error(removed.error());
      break;
    }
    case StagedKind::kMakeDirectory: {
      WriteRequest request{.key = change.key, .attributes = change.attributes};
      Result<SourceObject> made = co_await source->write(context, std::move(request), {});
      if (!made && made.error().code() != StatusCode::kExists) done = Error(made.error());
      break;
    }
  }
  if (!done) co_return Error(done.error());
  StagedEvent event{.kind = StagedEvent::Kind::kDone, .number = next.number, .version = *done};
  LEAT_CO_CHECK_OK(co_await deps_.note(context, std::move(event)));
  sent_total.add();
  co_await deps_.sent(context, next.change);
  co_return Result<>();
}

// The store is asked for the version that it gave to an earlier change of this log.
WriteCondition StagingSender::condition_of(const StagedChange& change) const {
  WriteCondition condition = change.condition;
  const auto number = staged_number(deps_.view->log(), condition.version);
  if (!number) {
    // A version of a former log: the store's is not known any more.
    if (is_staged_version(condition.version)) condition.version = {};
    return condition;
  }
  const auto save = deps_.view->save(*number);
  condition.version = save ? save->stored : Version();
  // The save before is beside the name, so this one goes there, too.
  if (save && save->is_done && !save->stored.known()) condition.version = lost_version();
  return condition;
}

Task<Result<Version>> StagingSender::send_save(Context context, StagedChangePtr change) {
  auto sent = std::make_shared<StagedChange>(*change);
  sent->condition = condition_of(*change);
  LEAT_CO_TRY(const SourceObject object, co_await deps_.send_content(context, std::move(sent)));
  co_return object.version;
}

Task<Result<Version>> StagingSender::send_rename(Context context, SourcePtr source, Next next) {
  const StagedChange& change = *next.change;
  const bool is_directory = change.key.ends_with('/');
  const bool is_copied = deps_.view->is_copied(next.number);
  if (renames_at_once(*source, change)) {
    RenameRequest request{.from = change.from, .to = change.key};
    Result<> renamed = co_await source->rename(context, std::move(request));
    // An earlier attempt may have done it.
    if (!renamed && !is_absent(renamed.error())) co_return Error(renamed.error());
  } else if (is_directory) {
    if (!is_copied) LEAT_CO_CHECK_OK(co_await copy_directory(context, source, next));
    LEAT_CO_TRY(auto old_keys, co_await keys_below(context, source, change.from));
    LEAT_CO_CHECK_OK(co_await remove_keys(context, source, std::move(old_keys)));
  } else {
    if (!is_copied) {
      CopyRequest request{.from = change.from, .to = change.key};
      Result<SourceObject> copied = co_await source->copy(context, std::move(request));
      if (!copied && !is_absent(copied.error())) co_return Error(copied.error());
      StagedEvent event{.kind = StagedEvent::Kind::kCopied, .number = next.number};
      LEAT_CO_CHECK_OK(co_await deps_.note(context, std::move(event)));
    }
    LEAT_CO_CHECK_OK(co_await remove_keys(context, source, {change.from}));
  }
  if (is_directory) co_return Version();
  StatRequest request{.key = change.key};
  Result<SourceObject> now = co_await source->stat(context, std::move(request));
  if (!now && !is_absent(now.error())) co_return Error(now.error());
  co_return now ? now->version : Version();
}

Task<Result<>> StagingSender::copy_directory(Context context, SourcePtr source, Next next) {
  const StagedChange& change = *next.change;
  LEAT_CO_TRY(const std::vector<std::string> keys,
              co_await keys_below(context, source, change.from));
  auto failure = std::make_shared<Failure>();
  Semaphore at_once(kCopiesAtOnce);
  Gate copies;
  for (const std::string& key : keys) {
    auto permit = co_await at_once.acquire(context, 1, "copies of a directory");
    if (!permit) break;
    std::string to = change.key + key.substr(change.from.size());
    executor_.spawn(copy_one(*copies.enter(), *std::move(permit), context, source, key,
                             std::move(to), failure));
  }
  copies.close();
  co_await copies.wait_idle();
  LEAT_CO_CHECK_OK(context.check("a rename of a directory"));
  if (failure->why) co_return error(*failure->why);
  StagedEvent event{.kind = StagedEvent::Kind::kCopied, .number = next.number};
  co_return co_await deps_.note(context, std::move(event));
}

}  // namespace leat
