// SPDX-License-Identifier: Apache-2.0
#include "peer/remote_map.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "base/id128.h"
#include "cluster/view_signal.h"
#include "telemetry/log.h"

namespace leat {
namespace {

// Errors that waiting does not repair. A worker with TLS answers kInvalidArgument to a client
// without TLS.
bool is_refusal(StatusCode code) {
  return code == StatusCode::kPermissionDenied || code == StatusCode::kInvalidArgument;
}

class RemoteMapImpl : public RemoteMap {
 public:
  explicit RemoteMapImpl(RemoteMapOptions options) : options_(std::move(options)) {}

  ClusterViewPtr view() const override { return signal_.view(); }
  Task<Result<ClusterViewPtr>> newer(Context context, RegistryRevision after) override {
    return signal_.newer(std::move(context), after);
  }

  Task<Result<>> first_view(Context context) override {
    while (view()->revision == 0) {
      std::shared_ptr<SharedResult<bool>> next;
      {
        std::lock_guard lock(mutex_);
        if (refused_) {
          co_return error(Status(trouble_->code(), "the cluster turns us away", *trouble_));
        }
        next = turn_;
      }
      Result<bool> turned = co_await next->wait(context, "an answer of the cluster");
      if (turned) continue;
      const auto why = trouble();
      if (!why) co_return Error(turned.error());
      co_return error(Status(turned.error().code(), "no worker of the cluster answers", *why));
    }
    co_return Result<>();
  }

  std::optional<Status> trouble() const override {
    std::lock_guard lock(mutex_);
    return trouble_;
  }

  void ask_anew() override { anew_ = true; }

  Task<> stop() override {
    stopping_.request_stop();
    Result<bool> ended = co_await ended_->wait(Context::background(), "the end of a map");
    static_cast<void>(ended);
  }

  // Runs until stop().
  Task<> follow() {
    const Context context = Context::background().with_cancel(stopping_.get_token());
    Clock::duration pause = options_.pause_min;
    // Clients start at random workers and leave one that has no news for long: it may be cut off
    // from the registry.
    size_t turn = Id128::random().hash64();
    for (size_t silent = 0, behind = 0, failed = 0, refusals = 0; !context.cancelled();) {
      const std::vector<std::string> addresses = known_addresses();
      const std::string address = addresses[turn % addresses.size()];
      const RegistryRevision seen = view()->revision;
      const bool anew = anew_.exchange(false);
      Result<ClusterViewPtr> news = co_await options_.ask(context, address, anew ? 0 : seen);
      if (context.cancelled()) break;
      if (anew && !news) anew_ = true;
      const bool refused = !news && is_refusal(news.error().code());
      refusals = refused ? refusals + 1 : 0;
      note(news ? std::nullopt : std::optional(news.error()), refusals >= addresses.size());
      if (news) {
        const bool is_behind = *news != nullptr && (*news)->revision < seen;
        behind = is_behind ? behind + 1 : 0;
        take(*news, anew, behind >= kBehindMin);
        pause = options_.pause_min;
        failed = 0;
        silent = *news == nullptr ? silent + 1 : 0;
        if (silent >= kSilentMax) {
          silent = 0;
          ++turn;
        }
        continue;
      }
      behind = 0;
      // Tries all addresses once before a pause.
      ++turn;
      if (++failed % addresses.size() != 0) continue;
      Result<> slept = co_await sleep_for(context, pause);
      static_cast<void>(slept);
      pause = std::min(pause * 2, options_.pause_max);
    }
    ended_->set(true);
  }

 private:
  static constexpr size_t kSilentMax = 3;
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

  void take(const ClusterViewPtr& news, bool anew, bool restored) {
    if (news == nullptr) return;
    if (news->revision <= view()->revision && !anew && !restored) return;
    if (restored) {
      log::warning("the cluster's view: revision {} after {}: its registry was restored",
                   news->revision, view()->revision);
    }
    signal_.set(news);
    wake_first();
    if (options_.changed) options_.changed(news);
  }

  void note(std::optional<Status> why, bool refused) {
    {
      std::lock_guard lock(mutex_);
      if (why && !trouble_) log::info("the cluster's view: {}; asking another", why->to_string());
      trouble_ = std::move(why);
      refused_ = refused;
    }
    if (refused) wake_first();
  }

  // Wakes the waiters for a first view; they check again.
  void wake_first() {
    std::shared_ptr<SharedResult<bool>> turn;
    {
      std::lock_guard lock(mutex_);
      turn = std::exchange(turn_, SharedResult<bool>::make());
    }
    turn->set(true);
  }

  const RemoteMapOptions options_;
  ViewSignal signal_;
  std::stop_source stopping_;
  const std::shared_ptr<SharedResult<bool>> ended_ = SharedResult<bool>::make();
  std::atomic<bool> anew_ = false;
  mutable std::mutex mutex_;  // leaf
  std::optional<Status> trouble_;
  bool refused_ = false;  // by all workers in turn
  std::shared_ptr<SharedResult<bool>> turn_ = SharedResult<bool>::make();
};

}  // namespace

std::unique_ptr<RemoteMap> RemoteMap::start(RemoteMapOptions options, Executor& executor) {
  LEAT_CHECK(!options.seeds.empty());
  auto map = std::make_unique<RemoteMapImpl>(std::move(options));
  executor.spawn(map->follow());
  return map;
}

}  // namespace leat
