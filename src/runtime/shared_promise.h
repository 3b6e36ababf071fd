// SPDX-License-Identifier: Apache-2.0
// SharedPromise<T>: a value that is set once and awaited by any number of coroutines. Single flight
// and callbacks from foreign threads build on it. Thread-safe.
//
// If the context of a waiter ends, that waiter returns kCancelled or kTimedOut. The value and the
// other waiters are not affected.
#pragma once

#include <atomic>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "runtime/context.h"
#include "runtime/executor_post_guard.h"
#include "runtime/task.h"

namespace leat {

template <class T>
class SharedPromise : public std::enable_shared_from_this<SharedPromise<T>> {
 public:
  static std::shared_ptr<SharedPromise> make() {
    return std::shared_ptr<SharedPromise>(new SharedPromise());
  }

  // Sets the value and resumes every waiter on its own executor. Call only once.
  void set(Result<T> value) {
    std::vector<std::shared_ptr<Waiter>> waiters;
    {
      std::lock_guard lock(mutex_);
      LEAT_CHECK(!value_);
      value_ = std::move(value);
      waiters.swap(waiters_);
    }
    for (auto& waiter : waiters) waiter->wake();
  }

  bool ready() const {
    std::lock_guard lock(mutex_);
    return value_.has_value();
  }

  // Returns the value if it is set.
  std::optional<Result<T>> peek() const {
    std::lock_guard lock(mutex_);
    return value_;
  }

  Task<Result<T>> wait(Context context, const char* what) {
    auto self = this->shared_from_this();  // the caller may release its reference during the wait
    if (auto now = peek()) co_return *std::move(now);
    if (auto alive = context.check(what); !alive) co_return Error(alive.error());

    auto executor = co_await boost::asio::this_coro::executor;
    auto waiter = std::make_shared<Waiter>();
    std::optional<std::stop_callback<std::function<void()>>> stop;
    std::shared_ptr<boost::asio::steady_timer> timer;
    if (context.deadline != Clock::time_point::max()) {
      timer = std::make_shared<boost::asio::steady_timer>(boost::asio::make_strand(executor));
      timer->expires_at(context.deadline);
    }
    // Another thread may resume this coroutine as soon as the waiter is armed. So arming is the
    // last access to the frame.
    auto initiate = [&](auto handler) {
      auto shared_handler = std::make_shared<decltype(handler)>(std::move(handler));
      waiter->resume = [executor, guard = ExecutorPostGuard::of(executor), shared_handler] {
        guard.post(executor, [shared_handler]() mutable { std::move (*shared_handler)(); });
      };
      bool already;
      {
        std::lock_guard lock(mutex_);
        already = value_.has_value();
        if (!already) waiters_.push_back(waiter);
      }
      if (already) waiter->wake();
      if (timer) {
        timer->async_wait([waiter](boost::system::error_code failed) {
          if (!failed) waiter->wake();
        });
      }
      stop.emplace(context.cancel, [waiter] { waiter->wake(); });
      std::shared_ptr<Waiter> last = waiter;
      last->arm();
    };
    co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void()>(
        initiate, boost::asio::use_awaitable);
    stop.reset();
    if (timer) {
      boost::asio::post(timer->get_executor(), [timer] { timer->cancel(); });
    }
    {
      std::lock_guard lock(mutex_);
      if (value_) co_return *value_;
      std::erase(waiters_, waiter);
    }
    auto ended = context.check(what);
    LEAT_CHECK(!ended);
    co_return Error(ended.error());
  }

 private:
  // Wakes its coroutine once, at the first of setter, deadline and cancellation. A wake before
  // arm() is deferred to it.
  struct Waiter {
    enum State { kArming, kArmed, kWoken };

    void arm() {
      int expected = kArming;
      if (!state.compare_exchange_strong(expected, kArmed)) resume();
    }
    void wake() {
      if (state.exchange(kWoken) == kArmed) resume();
    }

    std::atomic<int> state = kArming;
    std::function<void()> resume;
  };

  SharedPromise() = default;

  mutable std::mutex mutex_;
  std::optional<Result<T>> value_;
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

}  // namespace leat
