// SPDX-License-Identifier: Apache-2.0
// The first candidate that puts the key leads while its lease is valid. Leadership is read from the
// registry's entry, so a lost answer to our claim does not matter.
#include "cluster/election.h"

#include <algorithm>
#include <mutex>

#include "cluster/registry_cache.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

// Poll interval without events: our lease may have ended by our clock, or our claim may have
// failed.
constexpr Clock::duration kPollInterval = std::chrono::milliseconds(500);

using Signal = SharedPromise<bool>;

class ElectionImpl : public Election {
 public:
  ElectionImpl(Registry& registry, RegistrySession& session, ElectionOptions options,
               Executor& executor)
      : registry_(registry), session_(session), options_(std::move(options)) {
    RegistryCacheOptions cache_options;
    cache_options.changed = [this](const RegistryView&) { wake(); };
    cache_ = RegistryCache::start(registry, options_.key, std::move(cache_options), executor);
  }

  std::optional<RegistryChange::Condition> condition() const override {
    const auto entry = claim();
    const RegistryLease ours = session_.lease();
    if (!entry || ours == 0 || entry->lease != ours) return std::nullopt;
    return RegistryChange::Condition{entry->key, entry->changed};
  }

  std::string leader() const override {
    const auto entry = claim();
    return entry ? entry->value : std::string();
  }

  Task<> stop(Context context) override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of an election");
    static_cast<void>(ended);
    if (auto ours = condition()) {
      RegistryChange change{.conditions = {*ours}, .removals = {options_.key}};
      // without an answer the lease ends by itself
      Result<RegistryRevision> resigned = co_await registry_.commit(context, std::move(change));
      static_cast<void>(resigned);
    }
    co_await cache_->stop();
    notify(false);
  }

  // Runs until stop().
  Task<> campaign() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    while (!context.cancelled()) {
      const std::shared_ptr<Signal> news = signal();
      const bool known = cache_->view()->revision != 0;
      const RegistryLease lease = session_.lease();
      if (known && lease != 0 && !claim()) {
        RegistryChange change{.conditions = {{options_.key, 0}},
                              .puts = {{options_.key, options_.name, lease}}};
        Result<RegistryRevision> claimed = co_await registry_.commit(context, std::move(change));
        static_cast<void>(claimed);  // the cache shows the outcome
      }
      notify(leads());
      Result<bool> woken = co_await news->wait(context.with_timeout(kPollInterval), "an election");
      static_cast<void>(woken);
    }
    ended_->set(true);
  }

 private:
  std::optional<RegistryEntry> claim() const {
    const auto view = cache_->view();
    const auto found = std::ranges::find(view->entries, options_.key, &RegistryEntry::key);
    if (found == view->entries.end()) return std::nullopt;
    return *found;
  }

  void wake() {
    std::shared_ptr<Signal> waiters;
    {
      std::lock_guard lock(mutex_);
      waiters = std::exchange(news_, Signal::make());
    }
    waiters->set(true);
  }
  std::shared_ptr<Signal> signal() const {
    std::lock_guard lock(mutex_);
    return news_;
  }

  // Called from stand(), and from stop() after its end.
  void notify(bool leads) {
    if (std::exchange(notified_, leads) != leads && options_.changed) options_.changed(leads);
  }

  Registry& registry_;
  RegistrySession& session_;
  const ElectionOptions options_;
  std::stop_source stopping_;
  const std::shared_ptr<Signal> ended_ = Signal::make();
  bool notified_ = false;

  mutable std::mutex mutex_;
  std::shared_ptr<Signal> news_ = Signal::make();

  std::unique_ptr<RegistryCache> cache_;  // last, because it calls us
};

}  // namespace

std::unique_ptr<Election> Election::start(Registry& registry, RegistrySession& session,
                                          ElectionOptions options, Executor& executor) {
  auto election = std::make_unique<ElectionImpl>(registry, session, std::move(options), executor);
  executor.spawn(election->campaign());
  return election;
}

}  // namespace leat
