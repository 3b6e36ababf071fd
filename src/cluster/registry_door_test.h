// SPDX-License-Identifier: Apache-2.0
// RegistryDoor: a registry that is unreachable while its door is closed; closing it ends the
// watches. Changes made before stay. While it is stalled, a running watch takes no events, like a
// slow reader.
#pragma once

#include <mutex>
#include <stop_token>
#include <vector>

#include "cluster/registry.h"
#include "runtime/shared_result.h"

namespace leat::testing {

class RegistryDoor : public Registry {
 public:
  explicit RegistryDoor(Registry& behind) : behind_(behind) {}

  void open() { reset(false); }
  void close() { reset(true); }

  void stall() {
    std::lock_guard lock(mutex_);
    stalled_ = SharedResult<bool>::make();
  }
  void go_on() {
    std::shared_ptr<SharedResult<bool>> waited_for;
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
    if (closed()) co_return unreachable();
    co_return co_await behind_.list(context, prefix);
  }
  Task<Result<RegistryRevision>> commit(Context context, RegistryChange change) override {
    if (closed()) co_return unreachable();
    co_return co_await behind_.commit(context, std::move(change));
  }
  Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds ttl) override {
    if (closed()) co_return unreachable();
    co_return co_await behind_.grant(context, ttl);
  }
  Task<Result<std::chrono::seconds>> keep_alive(Context context, RegistryLease lease) override {
    if (closed()) co_return unreachable();
    co_return co_await behind_.keep_alive(context, lease);
  }
  Task<Result<>> revoke(Context context, RegistryLease lease) override {
    if (closed()) co_return unreachable();
    co_return co_await behind_.revoke(context, lease);
  }
  Task<Result<>> watch(Context context, std::string prefix, RegistryRevision after,
                       RegistrySink sink) override {
    const std::stop_token closing = closing_token();
    if (closed()) co_return unreachable();
    std::stop_source ending;
    std::stop_callback by_door(closing, [&ending] { ending.request_stop(); });
    std::stop_callback by_caller(context.cancel, [&ending] { ending.request_stop(); });
    const Context until_closed = context.with_cancel(ending.get_token());
    RegistrySink through = [this, until_closed, sink = std::move(sink)](RegistryEvents events) {
      return pass_on(this, until_closed, sink, std::move(events));
    };
    Result<> ended = co_await behind_.watch(until_closed, prefix, after, std::move(through));
    if (closing.stop_requested()) ended = unreachable();
    if (!ended) note(ended.error().code());
    co_return ended;
  }

 private:
  static Error unreachable() { return error(StatusCode::kUnavailable, "the door is closed"); }
  static Task<Result<>> pass_on(RegistryDoor* self, Context context, RegistrySink sink,
                                RegistryEvents events) {
    if (const auto stalled = self->stalled()) {
      LEAT_CO_TRY(const bool goes_on, co_await stalled->wait(context, "a reader that is too slow"));
      static_cast<void>(goes_on);
    }
    co_return co_await sink(std::move(events));
  }
  std::shared_ptr<SharedResult<bool>> stalled() const {
    std::lock_guard lock(mutex_);
    return stalled_;
  }
  void note(StatusCode watch_end) {
    std::lock_guard lock(mutex_);
    watch_ends_.push_back(watch_end);
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  std::stop_token closing_token() const {
    std::lock_guard lock(mutex_);
    return closing_.get_token();
  }
  void reset(bool closed) {
    std::stop_source before;
    {
      std::lock_guard lock(mutex_);
      closed_ = closed;
      std::swap(before, closing_);
    }
    if (closed) before.request_stop();
  }

  Registry& behind_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::stop_source closing_;
  std::shared_ptr<SharedResult<bool>> stalled_;  // null while not stalled
  std::vector<StatusCode> watch_ends_;
};

}  // namespace leat::testing
