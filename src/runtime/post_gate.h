// SPDX-License-Identifier: Apache-2.0
// PostGate: who is posting to an executor from outside. What is posted may run, and end whatever
// waited for it, before the poster has left the executor's queue; so an executor that goes waits
// until nobody is in there.
#pragma once

#include <atomic>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <memory>
#include <thread>
#include <utility>

namespace leat {

class PostGate {
 public:
  // Of the context behind `executor`.
  template <class AnyExecutor>
  static PostGate of(const AnyExecutor& executor) {
    auto& context = boost::asio::query(executor, boost::asio::execution::context);
    return PostGate(boost::asio::use_service<Service>(context).inside);
  }

  template <class AnyExecutor, class Call>
  void post(const AnyExecutor& executor, Call call) const {
    auto inside = inside_;  // `this` may be gone when the call has run
    inside->fetch_add(1);
    boost::asio::post(executor, std::move(call));
    inside->fetch_sub(1);
  }

  // Returns when nobody is inside; nobody may come any more.
  void wait_empty() const {
    while (inside_->load() != 0) std::this_thread::yield();
  }

 private:
  using Inside = std::shared_ptr<std::atomic<int>>;

  struct Service : boost::asio::execution_context::service {
    using key_type = Service;
    static inline boost::asio::execution_context::id id;
    explicit Service(boost::asio::execution_context& context) : service(context) {}
    void shutdown() override {}
    const Inside inside = std::make_shared<std::atomic<int>>(0);
  };

  explicit PostGate(Inside inside) : inside_(std::move(inside)) {}

  Inside inside_;
};

}  // namespace leat
