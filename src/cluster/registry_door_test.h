// SPDX-License-Identifier: Apache-2.0
// RegistryDoor: a registry that cannot be reached while its door is closed; closing it ends the
// watches. Changes that went through before are made.
#pragma once

#include <mutex>
#include <stop_token>

#include "cluster/registry.h"

namespace leat::testing {

class RegistryDoor : public Registry {
 public:
  explicit RegistryDoor(Registry& behind) : behind_(behind) {}

  void open() { reset(false); }
  void close() { reset(true); }

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
    Result<> ended = co_await behind_.watch(context.with_cancel(ending.get_token()), prefix, after,
                                            std::move(sink));
    if (closing.stop_requested()) co_return unreachable();
    co_return ended;
  }

 private:
  static Error unreachable() { return error(StatusCode::kUnavailable, "the door is closed"); }
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
};

}  // namespace leat::testing
