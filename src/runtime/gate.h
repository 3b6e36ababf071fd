// SPDX-License-Identifier: Apache-2.0
// Gate: counts operations in flight, so that its owner can reject new ones and wait for the rest at
// shutdown (as seastar::gate). Thread-safe; holders may outlive it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/context.h"
#include "runtime/shared_promise.h"
#include "runtime/task.h"

namespace leat {

class Gate {
  struct State {
    std::atomic<uint64_t> value = 0;  // 2 × holders, + 1 once closed
    std::shared_ptr<SharedPromise<bool>> idle = SharedPromise<bool>::make();
  };

 public:
  // An operation is in flight while this lives.
  class Holder {
   public:
    Holder() = default;
    Holder(Holder&& other) noexcept : state_(std::move(other.state_)) {}
    Holder& operator=(Holder&& other) noexcept {
      std::swap(state_, other.state_);
      return *this;
    }
    ~Holder() {
      if (state_ != nullptr && state_->value.fetch_sub(2) == 3) state_->idle->set(true);
    }

    // Adds an operation, also after close(): an operation in flight may start another that it needs
    // to finish.
    Holder another() const {
      LEAT_CHECK(state_ != nullptr);
      state_->value.fetch_add(2);
      return Holder(state_);
    }

   private:
    friend class Gate;
    explicit Holder(std::shared_ptr<State> state) : state_(std::move(state)) {}

    std::shared_ptr<State> state_;
  };

  // Returns nothing after close().
  std::optional<Holder> enter() {
    uint64_t value = state_->value.load();
    do {
      if (value % 2 == 1) return std::nullopt;
    } while (!state_->value.compare_exchange_weak(value, value + 2));
    return Holder(state_);
  }

  // Makes enter() reject from now on. May be called again.
  void close() {
    if (state_->value.fetch_or(1) == 0) state_->idle->set(true);
  }
  bool closed() const { return state_->value.load() % 2 == 1; }
  bool idle() const { return state_->value.load() <= 1; }

  // After close(): returns when the last holder is released.
  Task<> wait_idle() {
    LEAT_CHECK(closed());
    std::shared_ptr<State> state = state_;
    auto idle = co_await state->idle->wait(Context::background(), "a shutdown");
    LEAT_CHECK(idle.has_value());
  }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace leat
