// SPDX-License-Identifier: Apache-2.0
// PostGate: who is posting to an executor from outside. What is posted may run, and end whatever
// waited for it, before the poster has left the executor's queue; so an executor that goes waits
// until nobody is in there, and who comes later finds the gate closed. Thread-safe; may outlive the
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

class PostGate {
  // 2 × those inside, + 1 once closed.
  using Inside = std::shared_ptr<std::atomic<int64_t>>;

 public:
  // The executor stays while this lives.
  class Token {
   public:
    Token(Token&&) = default;
    ~Token() {
      if (inside_ != nullptr) inside_->fetch_sub(2);
    }

   private:
    friend class PostGate;
    explicit Token(Inside inside) : inside_(std::move(inside)) {}

    Inside inside_;
  };

  // Of the context behind `executor`.
  template <class AnyExecutor>
  static PostGate of(const AnyExecutor& executor) {
    auto& context = boost::asio::query(executor, boost::asio::execution::context);
    return PostGate(boost::asio::use_service<Service>(context).inside);
  }

  // Nothing where the executor is gone, or about to go.
  std::optional<Token> enter() const {
    Token token(inside_);  // leaves in any case
    if (inside_->fetch_add(2) % 2 == 1) return std::nullopt;
    return token;
  }

  // Where the executor is gone `call` neither runs nor is it destroyed: the coroutine that it
  // would resume refers to the executor, and its end would touch it.
  template <class AnyExecutor, class Call>
  void post(const AnyExecutor& executor, Call call) const {
    std::optional<Token> token = enter();  // has a count of its own: `this` may go with the call
    if (token) {
      boost::asio::post(executor, std::move(call));
    } else {
      keep(std::move(call));
    }
  }

  // Returns when nobody is inside; nobody enters any more.
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

  explicit PostGate(Inside inside) : inside_(std::move(inside)) {}

  // Until the process ends.
  static void keep(std::move_only_function<void()> call);

  Inside inside_;
};

}  // namespace leat
