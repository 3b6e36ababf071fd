// SPDX-License-Identifier: Apache-2.0
// VirtualClock: time that advances only when no other work is ready. Coroutines run on one thread,
// the one that calls run(), so a test of minutes takes milliseconds and is repeatable.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "source/retry/timer.h"

namespace leat::testing {

class VirtualClock : public Timer {
 public:
  Clock::time_point now() const override { return now_; }
  Clock::time_point start() const { return start_; }
  double seconds() const { return std::chrono::duration<double>(now_ - start_).count(); }

  Task<Result<bool>> wait(Context context, Event event, Clock::time_point until,
                          const char* what) override {
    if (auto ended = check(context, what); !ended) co_return Error(ended.error());
    if (event->ready()) co_return true;
    if (until <= now_) co_return false;
    // The alarm ends the wait like a cancellation; the code below distinguishes them.
    std::stop_source alarm;
    std::stop_callback forward(context.cancel, [&alarm] { alarm.request_stop(); });
    const std::pair at(std::min(until, context.deadline), ++alarms_made_);
    if (at.first != Clock::time_point::max()) alarms_.emplace(at, alarm);
    Context watched;
    watched.cancel = alarm.get_token();
    Result<bool> set = co_await event->wait(watched, what);
    alarms_.erase(at);
    if (set) co_return true;
    if (auto ended = check(context, what); !ended) co_return Error(ended.error());
    co_return false;
  }
  Task<Result<>> pause(Context context, Clock::duration duration) {
    Result<bool> over =
        co_await wait(context, SharedPromise<bool>::make(), now_ + duration, "a pause");
    if (!over) co_return Error(over.error());
    co_return Result<>();
  }

  void spawn(Task<> task) {
    boost::asio::co_spawn(io_, std::move(task), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
  }
  // Runs until `end`, or, without it, until no coroutine waits for time.
  void run(std::optional<Clock::time_point> end = std::nullopt) {
    for (;;) {
      io_.restart();
      io_.poll();
      if (alarms_.empty()) break;
      auto next = alarms_.begin();
      if (end && next->first.first > *end) break;
      now_ = std::max(now_, next->first.first);
      std::stop_source alarm = next->second;
      alarms_.erase(next);
      alarm.request_stop();
    }
    if (end) now_ = std::max(now_, *end);
  }
  void run_for(Clock::duration duration) { run(now_ + duration); }

  // Returns the value of a task that ends within its waits.
  template <class T>
  T value_of(Task<T> task) {
    auto value = std::make_shared<std::optional<T>>();
    spawn(keep(std::move(task), value));
    run();
    LEAT_CHECK(value->has_value());
    return **std::move(value);
  }

 private:
  template <class T>
  static Task<> keep(Task<T> task, std::shared_ptr<std::optional<T>> value) {
    value->emplace(co_await std::move(task));
  }
  Result<> check(const Context& context, const char* what) const {
    if (context.cancelled() || now_ < context.deadline) {
      Context timeless = context;
      timeless.deadline = Clock::time_point::max();
      return timeless.check(what);
    }
    return error(StatusCode::kTimedOut, std::string(what) + " ran out of time");
  }

  // Far ahead of the machine's clock, so that a deadline in virtual time is never past in real
  // time. A whole hour, so that counts by time slots are equal in each run.
  const Clock::time_point start_ =
      std::chrono::ceil<std::chrono::hours>(Clock::now()) + std::chrono::hours(24);
  Clock::time_point now_ = start_;
  boost::asio::io_context io_{1};
  std::map<std::pair<Clock::time_point, uint64_t>, std::stop_source> alarms_;
  uint64_t alarms_made_ = 0;
};

}  // namespace leat::testing
