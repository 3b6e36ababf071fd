// SPDX-License-Identifier: Apache-2.0
// Tests RetryingSource under concurrent stress: callers that give up, deadlines, failures of all
// kinds. Virtual time makes a run repeatable, so promptness is asserted; real threads serve the
// race detectors. LEAT_TEST_SEED=… repeats a run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <random>
#include <stop_token>

#include "runtime/executor.h"
#include "runtime/gate.h"
#include "source/retry/retrying_source.h"
#include "source/retry/scripted_source_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::ScriptedSource;
using testing::VirtualClock;

unsigned test_seed() {
  const char* given = std::getenv("LEAT_TEST_SEED");
  unsigned seed = given ? static_cast<unsigned>(std::stoul(given)) : std::random_device()();
  std::cout << "seed: LEAT_TEST_SEED=" << seed << std::endl;
  return seed;
}

class Stress {
 public:
  // `unit`: approximate duration of a request at the store.
  Stress(std::shared_ptr<Timer> clock, Clock::duration unit, unsigned seed)
      : clock_(std::move(clock)), unit_(unit), random_(seed) {
    RetryOptions options;
    options.timer = clock_;
    options.seed = seed + 1;
    options.backoff_min = unit;
    options.backoff_max = 20 * unit;
    options.attempt_timeout_min = options.list_timeout_min = 10 * unit;
    options.attempt_timeout_max = 40 * unit;
    options.pacer.concurrency.max = 16;
    options.pacer.requests_per_second = 0.8e9 * 8 / static_cast<double>(unit.count());
    options.pacer.bytes_per_second = static_cast<uint64_t>(options.pacer.requests_per_second * 60);
    options.breaker = {
        .failures = 20, .failing_min = 2 * unit, .open_min = 4 * unit, .open_max = 8 * unit};
    inner_ = std::make_shared<ScriptedSource>(
        [this](ScriptedSource::Attempt attempt) { return answer(this, std::move(attempt)); });
    retrying_ = RetryingSource::make(inner_, options);
  }

  // One caller with sequential requests.
  static Task<> caller(Stress* stress, int requests) {
    for (int i = 0; i < requests; ++i) {
      (void)co_await stress->pause({}, stress->pick(10));
      Context context;
      std::stop_source stop;
      auto stopped = SharedPromise<bool>::make();
      auto gave_up_at = std::make_shared<std::atomic<Clock::time_point>>(Clock::time_point::max());
      const uint64_t kind = stress->pick(4);
      if (kind == 0) context.deadline = stress->clock_->now() + stress->pick(40) * stress->unit_;
      if (kind == 1) {
        context.cancel = stop.get_token();
        boost::asio::co_spawn(co_await boost::asio::this_coro::executor,
                              give_up(stress, stop, stopped, gave_up_at, stress->pick(40)),
                              boost::asio::detached);
      }
      Result<> done = co_await stress->ask(context);
      stress->check(context, done, gave_up_at->load());
      if (kind == 1) (void)co_await stopped->wait({}, "the caller's other half");
    }
  }

  uint64_t pick(uint64_t below) {
    std::lock_guard lock(mutex_);
    return random_() % below;
  }
  // From now on the store follows the script.
  void heal() { healed_ = true; }

  void expect_nothing_left() const {
    EXPECT_EQ(retrying_->pacer().in_flight(), 0u);
    EXPECT_EQ(retrying_->pacer().waiting(), 0u);
    EXPECT_EQ(inner_->in_flight(), 0u);
    EXPECT_LE(inner_->in_flight_max(), 16u);
    EXPECT_LE(retrying_->concurrency_hint(0), 16u);
  }
  std::string told() const {
    return fmt::format("{} requests wanted, {} asked, {} served, {} given up\n", wanted_.load(),
                       inner_->requests(), served_.load(), given_up_.load());
  }
  uint64_t served() const { return served_; }

 private:
  Task<Result<bool>> pause(Context context, uint64_t units) {
    return clock_->wait(context, SharedPromise<bool>::make(),
                        clock_->now() + static_cast<Clock::rep>(units) * unit_, "a pause");
  }

  static Task<> give_up(Stress* stress, std::stop_source stop, Timer::Event stopped,
                        std::shared_ptr<std::atomic<Clock::time_point>> at, uint64_t units) {
    (void)co_await stress->pause({}, units);
    at->store(stress->clock_->now());
    stop.request_stop();
    stopped->set(true);
  }

  Task<Result<>> ask(Context context) {
    ++wanted_;
    const uint64_t kind = pick(10);
    if (kind == 0) {
      auto done = co_await retrying_->stat(context, StatRequest{.key = "k"});
      co_return done ? Result<>() : Result<>(Error(done.error()));
    }
    if (kind == 1) {
      auto done = co_await retrying_->list(context, ListRequest{.prefix = "", .token = ""});
      co_return done ? Result<>() : Result<>(Error(done.error()));
    }
    std::vector<std::byte> buffer(1 + pick(100));
    ReadRequest request{.key = "k", .range = {0, buffer.size()}, .if_version = {}};
    Result<> done = co_await retrying_->read(context, request, buffer);
    if (done) EXPECT_EQ(std::ranges::count(buffer, std::byte{'x'}), std::ssize(buffer));
    co_return done;
  }

  void check(const Context& context, const Result<>& done, Clock::time_point gave_up_at) {
    served_ += done ? 1 : 0;
    if (!done && (done.error().code() == StatusCode::kCancelled ||
                  done.error().code() == StatusCode::kTimedOut)) {
      ++given_up_;
    }
    if (dynamic_cast<VirtualClock*>(clock_.get()) == nullptr) return;
    EXPECT_LE(clock_->now(), context.deadline);
    EXPECT_LE(clock_->now(), gave_up_at) << "a caller who gave up was kept";
  }

  static Task<Result<>> answer(Stress* stress, ScriptedSource::Attempt attempt) {
    const uint64_t die = stress->healed_ ? 99 : stress->pick(100);
    const bool stalls = die < 5;
    if (stalls) {
      auto bound = attempt.timeouts.first_byte_timeout /
                   std::chrono::duration_cast<std::chrono::nanoseconds>(stress->unit_);
      auto over = co_await stress->pause(attempt.context, static_cast<uint64_t>(bound));
      if (!over) co_return Error(over.error());
      co_return testing::scripted_failure(StatusCode::kUnavailable);
    }
    auto over = co_await stress->pause(attempt.context, 1 + stress->pick(3));
    if (!over) co_return Error(over.error());
    // Rare periods, since each cuts the rate, which takes seconds of a real clock to grow again.
    const bool throttles = attempt.number % 1000 < 20 && !stress->healed_;
    attempt.report(stress->unit_, (throttles && die < 50 ? 3 : 0) * stress->unit_);
    if (throttles) co_return testing::scripted_failure(StatusCode::kThrottled);
    // Periods of complete failure.
    bool down = attempt.number % 300 >= 270 && !stress->healed_;
    if (die < 18 || down) co_return testing::scripted_failure(StatusCode::kUnavailable);
    if (die < 23) co_return testing::scripted_failure(StatusCode::kNotFound);
    co_return Result<>();
  }

  const std::shared_ptr<Timer> clock_;
  const Clock::duration unit_;
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::shared_ptr<ScriptedSource> inner_;
  std::shared_ptr<RetryingSource> retrying_;
  std::atomic<bool> healed_ = false;
  std::atomic<uint64_t> wanted_ = 0, served_ = 0, given_up_ = 0;
};

TEST(RetryingStress, NoCallerHangsInVirtualTime) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  auto clock = std::make_shared<VirtualClock>();
  Stress stress(clock, 10ms, seed);
  for (int i = 0; i < 100; ++i) clock->spawn(Stress::caller(&stress, 50));
  clock->run();
  std::cout << fmt::format("{:.0f} s: {}", clock->seconds(), stress.told());
  stress.expect_nothing_left();
}

Task<> then_leave(Task<> task, Gate::Holder token) {
  co_await std::move(task);
}

TEST(RetryingStress, NothingIsLeftOnThreads) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Stress stress(system_timer(), 100us, seed);
  Executor executor({.threads = 4});
  auto run = [&](int callers, int requests) {
    Gate activity;
    for (int i = 0; i < callers; ++i) {
      executor.spawn(then_leave(Stress::caller(&stress, requests), *activity.enter()));
    }
    activity.close();
    executor.block_on([](Gate* waited) -> Task<bool> {
      co_await waited->wait_idle();
      co_return true;
    }(&activity));
  };
  run(100, 30);
  stress.expect_nothing_left();
  stress.heal();
  const uint64_t served = stress.served();
  run(16, 100);
  EXPECT_GT(stress.served(), served);
  std::cout << stress.told();
  stress.expect_nothing_left();
}

}  // namespace
}  // namespace leat
