// SPDX-License-Identifier: Apache-2.0
#include "cluster/registry_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <random>

#include "runtime/shared_promise.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Copies the state at each change: there are a few a minute, and readers keep the state they hold.
std::shared_ptr<const RegistryView> applied(const RegistryView& before,
                                            const RegistryEvents& changes) {
  auto after = std::make_shared<RegistryView>(before);
  after->revision = changes.revision;
  for (const RegistryEvent& change : changes.events) {
    auto at = std::ranges::lower_bound(after->entries, change.entry.key, {}, &RegistryEntry::key);
    const bool there = at != after->entries.end() && at->key == change.entry.key;
    if (change.kind == RegistryEvent::Kind::kRemoved) {
      if (there) after->entries.erase(at);
    } else if (there) {
      *at = change.entry;
    } else {
      after->entries.insert(at, change.entry);
    }
  }
  return after;
}

class RegistryCacheImpl : public RegistryCache {
 public:
  RegistryCacheImpl(Registry& registry, std::string prefix, RegistryCacheOptions options)
      : registry_(registry), prefix_(std::move(prefix)), options_(std::move(options)) {}

  std::shared_ptr<const RegistryView> view() const override {
    std::lock_guard lock(mutex_);
    return view_;
  }

  std::optional<Status> trouble() const override {
    std::lock_guard lock(mutex_);
    return trouble_;
  }

  Task<Result<>> first_view(Context context) override {
    Result<bool> seen = co_await first_->wait(context, "the first listing of the registry");
    if (seen) co_return Result<>();
    const auto why = trouble();
    if (!why) co_return Error(seen.error());
    co_return error(Status(seen.error().code(), seen.error().message(), *why));
  }

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended =
        co_await ended_->wait(Context::background(), "the end of a registry cache");
    static_cast<void>(ended);
  }

  // Runs until stop().
  Task<> follow() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    Clock::duration backoff = options_.backoff_min;
    while (!context.cancelled()) {
      const RegistryRevision before = view()->revision;
      Result<> ended = co_await follow_once(context);
      if (context.cancelled()) break;
      record_error(ended.error());
      if (view()->revision != before) backoff = options_.backoff_min;
      Result<> slept = co_await sleep_for(context, with_jitter(backoff));
      if (!slept) break;
      backoff = std::min(backoff * 2, options_.backoff_max);
    }
    ended_->set(true);
  }

 private:
  // Lists and watches; always returns an error. It lists each time: a watch alone would not notice
  // a registry that was restored from a backup and has passed the old revision since.
  Task<Result<>> follow_once(Context context) {
    const uint64_t generation = registry_.listing_generation();
    LEAT_CO_TRY(RegistryView listed, co_await registry_.list(context, prefix_));
    const RegistryRevision from = listed.revision;
    take_listing(std::move(listed));
    co_return co_await registry_.watch(
        context, prefix_, from,
        [this, generation](RegistryEvents events) { return take(std::move(events), generation); });
  }

  void take_listing(RegistryView listed) {
    const auto before = view();
    const bool first = before->revision == 0;
    if (listed.revision < before->revision) {
      log::warning("registry: '{}' is at revision {} after {}: it was restored, or is another one",
                   prefix_, listed.revision, before->revision);
    } else if (!first && listed.entries == before->entries) {
      return;
    }
    set_view(std::make_shared<const RegistryView>(std::move(listed)));
    if (!first && options_.relisted) options_.relisted();
  }

  Task<Result<>> take(RegistryEvents events, uint64_t generation) {
    if (registry_.listing_generation() != generation) {
      co_return error(StatusCode::kOutOfRange, "the listing is stale");
    }
    if (events.events.empty()) {
      std::lock_guard lock(mutex_);
      trouble_.reset();
    } else {
      set_view(applied(*view(), events));
    }
    co_return Result<>();
  }

  // Runs only on follow()'s coroutine, so callbacks are in order.
  void set_view(std::shared_ptr<const RegistryView> view) {
    {
      std::lock_guard lock(mutex_);
      view_ = view;
      trouble_.reset();
    }
    if (!first_->ready()) first_->set(true);
    if (options_.changed) options_.changed(*view);
  }

  void record_error(const Status& why) {
    // Compaction needs no report: the next listing repairs it at once.
    if (why.code() == StatusCode::kOutOfRange) return;
    std::lock_guard lock(mutex_);
    if (!trouble_) {
      log::warning("registry: changes of '{}' are not followed: {}; trying again", prefix_,
                   why.to_string());
    }
    trouble_ = why;
  }

  Clock::duration with_jitter(Clock::duration backoff) {
    return backoff - backoff * std::uniform_int_distribution<int>(0, 50)(random_) / 100;
  }

  Registry& registry_;
  const std::string prefix_;
  const RegistryCacheOptions options_;
  std::stop_source stopping_;
  const std::shared_ptr<SharedPromise<bool>> first_ = SharedPromise<bool>::make();
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
  // Used by follow() only.
  std::minstd_rand random_{std::random_device()()};

  mutable std::mutex mutex_;
  std::shared_ptr<const RegistryView> view_ = std::make_shared<const RegistryView>();
  std::optional<Status> trouble_;
};

}  // namespace

std::unique_ptr<RegistryCache> RegistryCache::start(Registry& registry, std::string prefix,
                                                    RegistryCacheOptions options,
                                                    Executor& executor) {
  auto cache = std::make_unique<RegistryCacheImpl>(registry, std::move(prefix), std::move(options));
  executor.spawn(cache->follow());
  return cache;
}

}  // namespace leat
