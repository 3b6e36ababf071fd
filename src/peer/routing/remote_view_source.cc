// SPDX-License-Identifier: Apache-2.0
#include "peer/routing/remote_view_source.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "base/id128.h"
#include "cluster/view_watch.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Errors that waiting does not repair. A worker with TLS answers kInvalidArgument to a client
// without TLS.
bool is_rejection(StatusCode code) {
  return code == StatusCode::kPermissionDenied || code == StatusCode::kInvalidArgument;
}

class RemoteViewSourceImpl : public RemoteViewSource {
 public:
  explicit RemoteViewSourceImpl(RemoteViewSourceOptions options) : options_(std::move(options)) {}

  ClusterViewPtr view() const override { return watch_.view(); }
  Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) override {
    return watch_.newer(std::move(context), after);
  }

  Task<Result<>> first_view(Context context) override {
    while (view()->revision == 0) {
      std::shared_ptr<SharedPromise<bool>> next;
      {
        std::lock_guard lock(mutex_);
        if (rejected_) {
          co_return error(Status(trouble_->code(), "the cluster rejects us", *trouble_));
        }
        next = attempt_;
      }
      Result<bool> attempted = co_await next->wait(context, "an answer of the cluster");
      if (attempted) continue;
      const auto why = trouble();
      if (!why) co_return Error(attempted.error());
      co_return error(Status(attempted.error().code(), "no worker of the cluster answers", *why));
    }
    co_return Result<>();
  }

  std::optional<Status> trouble() const override {
    std::lock_guard lock(mutex_);
    return trouble_;
  }

  void force_refresh() override { refresh_ = true; }

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of a view source");
    static_cast<void>(ended);
  }

  // Runs until stop().
  Task<> follow() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    Clock::duration backoff = options_.backoff_min;
    // Clients start at random workers and leave one that has no news for long: it may be cut off
    // from the registry.
    size_t worker = Id128::random().hash64();
    for (size_t quiet = 0, behind = 0, failed = 0, rejections = 0; !context.cancelled();) {
      const std::vector<std::string> addresses = known_addresses();
      const std::string address = addresses[worker % addresses.size()];
      const RegistryRevision seen = view()->revision;
      const bool refresh = refresh_.exchange(false);
      Result<ClusterViewPtr> received =
          co_await options_.poll(context, address, refresh ? 0 : seen);
      if (context.cancelled()) break;
      if (refresh && !received) refresh_ = true;
      const bool rejected = !received && is_rejection(received.error().code());
      rejections = rejected ? rejections + 1 : 0;
      record_outcome(received ? std::nullopt : std::optional(received.error()),
                     rejections >= addresses.size());
      if (received) {
        const bool is_behind = *received != nullptr && (*received)->revision < seen;
        behind = is_behind ? behind + 1 : 0;
        take(*received, refresh, behind >= kBehindMin);
        backoff = options_.backoff_min;
        failed = 0;
        quiet = *received == nullptr ? quiet + 1 : 0;
        if (quiet >= kQuietMax) {
          quiet = 0;
          ++worker;
        }
        continue;
      }
      behind = 0;
      // Tries all addresses once before a pause.
      ++worker;
      if (++failed % addresses.size() != 0) continue;
      Result<> slept = co_await sleep_for(context, backoff);
      static_cast<void>(slept);
      backoff = std::min(backoff * 2, options_.backoff_max);
    }
    ended_->set(true);
  }

 private:
  static constexpr size_t kQuietMax = 3;
  // A poll takes 8 s; a worker notices after 12 s that it lags behind.
  static constexpr size_t kBehindMin = 2;

  // Returns the addresses of all workers in the view, then the seeds.
  std::vector<std::string> known_addresses() const {
    std::vector<std::string> addresses;
    std::set<std::string> seen;
    auto add = [&](const std::string& address) {
      if (seen.insert(address).second) addresses.push_back(address);
    };
    for (const auto& [id, worker] : view()->workers) add(worker.address);
    for (const std::string& seed : options_.seeds) add(seed);
    return addresses;
  }

  void take(const ClusterViewPtr& received, bool refresh, bool restored) {
    if (received == nullptr) return;
    if (received->revision <= view()->revision && !refresh && !restored) return;
    if (restored) {
      log::warning("the cluster's view: revision {} after {}: its registry was restored",
                   received->revision, view()->revision);
    }
    watch_.set(received);
    wake_first();
    if (options_.changed) options_.changed(received);
  }

  void record_outcome(std::optional<Status> why, bool rejected) {
    {
      std::lock_guard lock(mutex_);
      if (why && !trouble_)
        log::info("the cluster's view: {}; trying another worker", why->to_string());
      trouble_ = std::move(why);
      rejected_ = rejected;
    }
    if (rejected) wake_first();
  }

  // Wakes the waiters for a first view; they check again.
  void wake_first() {
    std::shared_ptr<SharedPromise<bool>> attempt;
    {
      std::lock_guard lock(mutex_);
      attempt = std::exchange(attempt_, SharedPromise<bool>::make());
    }
    attempt->set(true);
  }

  const RemoteViewSourceOptions options_;
  ViewWatch watch_;
  std::stop_source stopping_;
  const std::shared_ptr<SharedPromise<bool>> ended_ = SharedPromise<bool>::make();
  std::atomic<bool> refresh_ = false;
  mutable std::mutex mutex_;  // leaf
  std::optional<Status> trouble_;
  bool rejected_ = false;  // by all workers in turn
  std::shared_ptr<SharedPromise<bool>> attempt_ = SharedPromise<bool>::make();
};

}  // namespace

std::unique_ptr<RemoteViewSource> RemoteViewSource::start(RemoteViewSourceOptions options,
                                                          Executor& executor) {
  LEAT_CHECK(!options.seeds.empty());
  auto source = std::make_unique<RemoteViewSourceImpl>(std::move(options));
  executor.spawn(source->follow());
  return source;
}

}  // namespace leat
