// SPDX-License-Identifier: Apache-2.0
// FaultyRegistry: a registry that the test can disconnect, which ends the watches. Changes made
// before stay. While it is stalled, a running watch takes no events, like a slow reader.
#pragma once

#include <mutex>
#include <stop_token>
#include <vector>

#include "cluster/registry.h"
#include "runtime/shared_promise.h"

namespace leat::testing {

class FaultyRegistry : public Registry {
 public:
  explicit FaultyRegistry(Registry& behind) : behind_(behind) {}

  void connect() { reset(false); }
  void disconnect() { reset(true); }

  void stall() {
    std::lock_guard lock(mutex_);
    stalled_ = SharedPromise<bool>::make();
  }
  void resume() {
    std::shared_ptr<SharedPromise<bool>> waited_for;
    {
      std::lock_guard lock(mutex_);
      waited_for = std::exchange(stalled_, nullptr);
    }
    waited_for->set(true);
  }
  // Returns the codes of all ended watches.
  std::vector<StatusCode> watch_ends() const {
    std::lock_guard lock(mutex_);
    return watch_ends_;
  }

  Task<Result<RegistryView>> list(Context context, std::string prefix) override {
    if (disconnected()) co_return unreachable();
    co_return co_await behind_.list(context, prefix);
  }
  Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) override {
    if (disconnected()) co_return unreachable();
    co_return co_await behind_.commit(context, std::move(change));
  }
  Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds ttl) override {
    if (disconnected()) co_return unreachable();
    co_return co_await behind_.grant(context, ttl);
  }
  Task<Result<std::chrono::seconds>> keep_alive(Context context, RegistryLease lease) override {
    if (disconnected()) co_return unreachable();
    co_return co_await behind_.keep_alive(context, lease);
  }
  Task<Result<>> revoke(Context context, RegistryLease lease) override {
    if (disconnected()) co_return unreachable();
    co_return co_await behind_.revoke(context, lease);
  }
  Task<Result<>> watch(Context context, std::string prefix, RegistryRevision after,
                       RegistrySink sink) override {
    const std::stop_token disconnecting = disconnect_token();
    if (disconnected()) co_return unreachable();
    std::stop_source ending;
    std::stop_callback by_disconnect(disconnecting, [&ending] { ending.request_stop(); });
    std::stop_callback by_caller(context.cancel, [&ending] { ending.request_stop(); });
    const Context until_disconnected = context.with_cancel(ending.get_token());
    RegistrySink through = [this, until_disconnected,
                            sink = std::move(sink)](RegistryEvents events) {
      return forward(this, until_disconnected, sink, std::move(events));
    };
    Result<> ended = co_await behind_.watch(until_disconnected, prefix, after, std::move(through));
    if (disconnecting.stop_requested()) ended = unreachable();
    if (!ended) record(ended.error().code());
    co_return ended;
  }

 private:
  static Error unreachable() {
    return error(StatusCode::kUnavailable, "the registry is disconnected");
  }
  static Task<Result<>> forward(FaultyRegistry* self, Context context, RegistrySink sink,
                                RegistryEvents events) {
    if (const auto stalled = self->stalled()) {
      LEAT_CO_TRY(const bool resumed, co_await stalled->wait(context, "a stalled reader"));
      static_cast<void>(resumed);
    }
    co_return co_await sink(std::move(events));
  }
  std::shared_ptr<SharedPromise<bool>> stalled() const {
    std::lock_guard lock(mutex_);
    return stalled_;
  }
  void record(StatusCode watch_end) {
    std::lock_guard lock(mutex_);
    watch_ends_.push_back(watch_end);
  }
  bool disconnected() const {
    std::lock_guard lock(mutex_);
    return disconnected_;
  }
  std::stop_token disconnect_token() const {
    std::lock_guard lock(mutex_);
    return disconnecting_.get_token();
  }
  void reset(bool disconnected) {
    std::stop_source before;
    {
      std::lock_guard lock(mutex_);
      disconnected_ = disconnected;
      std::swap(before, disconnecting_);
    }
    if (disconnected) before.request_stop();
  }

  Registry& behind_;
  mutable std::mutex mutex_;
  bool disconnected_ = false;
  std::stop_source disconnecting_;
  std::shared_ptr<SharedPromise<bool>> stalled_;  // null while not stalled
  std::vector<StatusCode> watch_ends_;
};

}  // namespace leat::testing
