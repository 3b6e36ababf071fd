// SPDX-License-Identifier: Apache-2.0
#include "cluster/registry_session.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "base/check.h"
#include "runtime/shared_promise.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr int kRenewalsInTtl = 3;
constexpr int kAttemptsInTtl = 10;

using Signal = SharedPromise<bool>;

class RegistrySessionImpl : public RegistrySession {
 public:
  RegistrySessionImpl(Registry& registry, RegistrySessionOptions options)
      : registry_(registry), options_(std::move(options)) {}

  void put(std::string key, std::string value) override {
    change([&] {
      removals_.erase(key);
      unwritten_.insert(key);
      entries_[key] = std::move(value);
    });
  }

  void remove(std::string key) override {
    change([&] {
      if (entries_.erase(key) == 0) return;
      unwritten_.erase(key);
      removals_.insert(std::move(key));
    });
  }

  void republish() override {
    change([&] {
      for (const auto& [key, value] : entries_) unwritten_.insert(key);
    });
  }

  RegistryLease lease() const override {
    std::lock_guard lock(mutex_);
    return Clock::now() < valid_until_ ? lease_ : 0;
  }

  std::optional<Status> trouble() const override {
    std::lock_guard lock(mutex_);
    return trouble_;
  }

  Task<> stop(Context context) override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of a session");
    static_cast<void>(ended);
    const RegistryLease held = lease_;
    if (held == 0) co_return;
    set_lease(0, Clock::time_point());
    // without an answer it ends by itself
    Result<> revoked = co_await registry_.revoke(context, held);
    static_cast<void>(revoked);
  }

  // Runs until stop().
  Task<> renew_loop() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    while (!context.cancelled()) {
      Result<> renewed = co_await renew_once(context);
      if (context.cancelled()) break;
      record_outcome(renewed);
      const auto interval =
          Clock::duration(options_.ttl) / (renewed ? kRenewalsInTtl : kAttemptsInTtl);
      co_await wait_for_work(context, interval, renewed.has_value());
    }
    ended_->set(true);
  }

 private:
  template <class F>
  void change(F made) {
    std::shared_ptr<Signal> waiters;
    {
      std::lock_guard lock(mutex_);
      made();
      waiters = std::exchange(work_, Signal::make());
    }
    waiters->set(true);
  }

  // Renews or takes a lease, and writes pending entries.
  Task<Result<>> renew_once(Context context) {
    const Context limited = context.with_timeout(options_.ttl);
    const Clock::time_point sent_at = Clock::now();
    if (lease_ != 0) {
      Result<std::chrono::seconds> left = co_await registry_.keep_alive(limited, lease_);
      if (left) {
        set_lease(lease_, sent_at + *left);
      } else if (left.error().code() == StatusCode::kNotFound) {
        log::warning("registry: our lease has expired; requesting another one");
        set_lease(0, Clock::time_point());
      } else {
        co_return Error(left.error());
      }
    }
    if (lease_ == 0) {
      const Clock::time_point begun = Clock::now();
      LEAT_CO_TRY(const RegistryLease granted, co_await registry_.grant(limited, options_.ttl));
      write_all();
      set_lease(granted, begun + options_.ttl);
    }
    co_return co_await write(limited);
  }

  void write_all() {
    std::lock_guard lock(mutex_);
    for (const auto& [key, value] : entries_) unwritten_.insert(key);
    removals_.clear();  // they ended with the lease
  }

  // Changes made meanwhile are written the next time.
  Task<Result<>> write(Context context) {
    RegistryChange change;
    std::set<std::string> written;
    {
      std::lock_guard lock(mutex_);
      written.swap(unwritten_);
      for (const std::string& key : written) {
        change.puts.push_back({key, entries_.at(key), lease_});
      }
      change.removals.assign(removals_.begin(), removals_.end());
      removals_.clear();
    }
    if (change.puts.empty() && change.removals.empty()) co_return Result<>();
    const std::vector<std::string> removed = change.removals;
    Result<RegistryRevision> made = co_await registry_.commit(context, std::move(change));
    if (made) co_return Result<>();
    std::lock_guard lock(mutex_);
    for (const std::string& key : written) {
      if (entries_.contains(key)) unwritten_.insert(key);
    }
    for (const std::string& key : removed) {
      if (!entries_.contains(key)) removals_.insert(key);
    }
    co_return Error(made.error());
  }

  // Returns at once if there are pending writes, unless the last write has failed.
  Task<> wait_for_work(Context context, Clock::duration interval, bool at_once) {
    std::shared_ptr<Signal> work;
    {
      std::lock_guard lock(mutex_);
      if (at_once && !(unwritten_.empty() && removals_.empty())) co_return;
      work = work_;
    }
    Result<bool> woken = co_await work->wait(context.with_timeout(interval), "work for a session");
    static_cast<void>(woken);
  }

  void set_lease(RegistryLease lease, Clock::time_point valid_until) {
    bool changed;
    {
      std::lock_guard lock(mutex_);
      changed = lease_ != lease;
      lease_ = lease;
      valid_until_ = valid_until;
    }
    if (changed && options_.changed) options_.changed(lease);
  }

  void record_outcome(const Result<>& renewed) {
    std::lock_guard lock(mutex_);
    if (renewed) {
      trouble_.reset();
      return;
    }
    if (!trouble_) {
      log::warning("registry: our lease is not renewed: {}; trying again",
                   renewed.error().to_string());
    }
    trouble_ = renewed.error();
  }

  Registry& registry_;
  const RegistrySessionOptions options_;
  std::stop_source stopping_;
  const std::shared_ptr<Signal> ended_ = Signal::make();

  mutable std::mutex mutex_;
  // Written by renew_loop() only, and by stop() after its end.
  RegistryLease lease_ = 0;
  Clock::time_point valid_until_{};
  std::map<std::string, std::string> entries_;
  std::set<std::string> unwritten_;
  std::set<std::string> removals_;
  std::optional<Status> trouble_;
  std::shared_ptr<Signal> work_ = Signal::make();
};

}  // namespace

std::unique_ptr<RegistrySession> RegistrySession::start(Registry& registry,
                                                        RegistrySessionOptions options,
                                                        Executor& executor) {
  LEAT_CHECK(options.ttl >= std::chrono::seconds(1));
  auto session = std::make_unique<RegistrySessionImpl>(registry, std::move(options));
  executor.spawn(session->renew_loop());
  return session;
}

}  // namespace leat
