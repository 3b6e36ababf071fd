// SPDX-License-Identifier: Apache-2.0
// HandleSet: what the kernel's file handles stand for. Owns them, because a connection that is
// aborted never releases its handles. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace leat {

template <class T>
class HandleSet {
 public:
  uint64_t add(T value) {
    auto owned = std::make_unique<T>(std::move(value));
    const auto handle = reinterpret_cast<uint64_t>(owned.get());
    std::lock_guard lock(mutex_);
    values_.emplace(handle, std::move(owned));
    return handle;
  }

  // Of a handle that was added and not removed, which is the kernel's promise: no lookup.
  static T& at(uint64_t handle) { return *reinterpret_cast<T*>(handle); }

  T remove(uint64_t handle) {
    std::unique_ptr<T> owned;
    {
      std::lock_guard lock(mutex_);
      auto found = values_.find(handle);
      LEAT_CHECK(found != values_.end());
      owned = std::move(found->second);
      values_.erase(found);
    }
    return std::move(*owned);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<T>> values_;
};

}  // namespace leat
