// SPDX-License-Identifier: Apache-2.0
// ExecutorPostGuard: guards posts to an executor from other threads. A posted call may run, and end
// the coroutine behind it, before the poster has left the executor's queue. So an executor that
// shuts down waits for all posters inside; later posters are rejected. Thread-safe; may outlive the
// executor.
#pragma once

#include <atomic>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace leat {

class ExecutorPostGuard {
  // 2 × posters inside, + 1 once closed.
  using Inside = std::shared_ptr<std::atomic<int64_t>>;

 public:
  // The executor lives while this lives.
  class Token {
   public:
    Token(Token&&) = default;
    ~Token() {
      if (inside_ != nullptr) inside_->fetch_sub(2);
    }

   private:
    friend class ExecutorPostGuard;
    explicit Token(Inside inside) : inside_(std::move(inside)) {}

    Inside inside_;
  };

  // Returns the guard of the context behind `executor`.
  template <class AnyExecutor>
  static ExecutorPostGuard of(const AnyExecutor& executor) {
    auto& context = boost::asio::query(executor, boost::asio::execution::context);
    return ExecutorPostGuard(boost::asio::use_service<Service>(context).inside);
  }

  // Returns nothing if the executor was destroyed, or shuts down.
  std::optional<Token> enter() const {
    Token token(inside_);  // also undoes a rejected entry
    if (inside_->fetch_add(2) % 2 == 1) return std::nullopt;
    return token;
  }

  // Posts `call`. If the executor was destroyed, `call` neither runs nor is destroyed. The
  // coroutine that it would resume refers to the executor, and its destruction would access that.
  template <class AnyExecutor, class Call>
  void post(const AnyExecutor& executor, Call call) const {
    std::optional<Token> token = enter();  // counts by itself: `this` may be destroyed by the call
    if (token) {
      boost::asio::post(executor, std::move(call));
    } else {
      retain(std::move(call));
    }
  }

  // Rejects further posters, and returns when none is inside.
  void close() const {
    inside_->fetch_or(1);
    while (inside_->load() != 1) std::this_thread::yield();
  }

 private:
  struct Service : boost::asio::execution_context::service {
    using key_type = Service;
    static inline boost::asio::execution_context::id id;
    explicit Service(boost::asio::execution_context& context) : service(context) {}
    void shutdown() override {}
    const Inside inside = std::make_shared<std::atomic<int64_t>>(0);
  };

  explicit ExecutorPostGuard(Inside inside) : inside_(std::move(inside)) {}

  // Retains `call` until the process ends.
  static void retain(std::move_only_function<void()> call);

  Inside inside_;
};

}  // namespace leat
