// SPDX-License-Identifier: Apache-2.0
// Tests RetryingSource with models of stores that throttle, stall, fail, slow down and queue, with
// 64 callers and minutes of virtual time. Each test prints its measurements.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <ranges>
#include <vector>

#include "source/retry/retrying_source.h"
#include "source/retry/scripted_source_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::ScriptedSource;
using testing::VirtualClock;
using Seconds = std::chrono::duration<double>;

// A store's behaviour, changed while it runs.
struct Store {
  std::shared_ptr<VirtualClock> clock;
  Clock::duration latency = 20ms;
  double requests_per_second = 0;  // more are throttled; zero: no limit
  double burst = 20;               // maximum burst
  unsigned stalls_one_in = 0;
  double failing = 0;     // share of failing requests
  unsigned parallel = 0;  // concurrent requests; further ones queue
  std::mt19937 random{11};

  double tokens = 0;
  Clock::time_point filled_at = Clock::time_point::min();
  unsigned in_flight = 0;
  uint64_t throttled = 0;

  bool takes() {
    if (requests_per_second == 0) return true;
    Clock::time_point now = clock->now();
    if (filled_at == Clock::time_point::min()) tokens = burst;
    if (filled_at != Clock::time_point::min()) {
      tokens = std::min(burst, tokens + Seconds(now - filled_at).count() * requests_per_second);
    }
    filled_at = now;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  }
  Clock::duration takes_now() const {
    if (parallel == 0) return latency;
    return latency * std::max(in_flight, parallel) / parallel;
  }

  static Task<Result<>> answer(Store* store, ScriptedSource::Attempt attempt) {
    if (!store->takes()) {
      ++store->throttled;
      const Clock::duration refusal = std::min<Clock::duration>(5ms, store->latency);
      Result<> paused = co_await store->clock->pause(attempt.context, refusal);
      if (!paused) co_return paused;
      attempt.report(refusal);
      co_return testing::scripted_failure(StatusCode::kThrottled);
    }
    const bool fails = std::uniform_real_distribution<>(0, 1)(store->random) < store->failing;
    const bool stalls = store->stalls_one_in > 0 && attempt.number % store->stalls_one_in == 0;
    ++store->in_flight;
    Clock::duration needed = stalls ? Clock::duration(1h) : store->takes_now();
    Result<> paused = co_await store->clock->pause(
        attempt.context, std::min<Clock::duration>(needed, attempt.timeouts.first_byte_timeout));
    --store->in_flight;
    if (!paused) co_return paused;
    if (needed > attempt.timeouts.first_byte_timeout) {
      co_return error(StatusCode::kUnavailable, "timed out");
    }
    attempt.report(needed);
    co_return testing::scripted_failure(fails ? StatusCode::kUnavailable : StatusCode{});
  }
};

class RetryingStoreTest : public ::testing::Test {
 protected:
  void open() {
    options_.timer = clock_;
    options_.seed = 7;
    inner_ = std::make_shared<ScriptedSource>([this](ScriptedSource::Attempt attempt) {
      return Store::answer(&store_, std::move(attempt));
    });
    retrying_ = RetryingSource::make(inner_, options_);
  }

  struct Ended {
    Clock::time_point at;
    Clock::duration took;
    int caller;
    Result<> result;
  };
  // Sends sequential requests until `end`, with a pause of `think`.
  static Task<> caller(RetryingStoreTest* test, int number, uint64_t bytes, Clock::duration think,
                       Clock::time_point end) {
    std::vector<std::byte> buffer(bytes);
    while (test->clock_->now() < end) {
      Clock::time_point began = test->clock_->now();
      ReadRequest request{.key = "k", .range = {0, bytes}, .if_version = {}};
      Result<> done = co_await test->retrying_->read({}, request, buffer);
      Clock::time_point now = test->clock_->now();
      test->ended_.push_back({now, now - began, number, std::move(done)});
      (void)co_await test->clock_->pause({}, think);
    }
  }
  // Runs that many callers for that time, to the end of their last request.
  void callers(int count, Clock::duration duration, Clock::duration think = 0ms,
               uint64_t bytes = 1) {
    Clock::time_point end = clock_->now() + duration;
    for (int i = 0; i < count; ++i) clock_->spawn(caller(this, i, bytes, think, end));
    clock_->run(end);
  }
  void finish() {
    clock_->run();
    EXPECT_EQ(retrying_->pacer().in_flight(), 0u);
    EXPECT_EQ(retrying_->pacer().waiting(), 0u);
    EXPECT_EQ(inner_->in_flight(), 0u);
  }

  // Successes in the time from `from` to `to`, since the start.
  uint64_t successes(Clock::duration from, Clock::duration to) const {
    return static_cast<uint64_t>(std::ranges::count_if(ended_, [&](const Ended& ended) {
      Clock::duration at = ended.at - clock_->start();
      return ended.result && at >= from && at < to;
    }));
  }
  double goodput(Clock::duration from, Clock::duration to) const {
    return static_cast<double>(successes(from, to)) / Seconds(to - from).count();
  }
  size_t failures() const {
    return static_cast<size_t>(
        std::ranges::count_if(ended_, [](const Ended& ended) { return !ended.result; }));
  }
  double slowest() const {
    double slowest = 0;
    for (const Ended& ended : ended_) slowest = std::max(slowest, Seconds(ended.took).count());
    return slowest;
  }

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  Store store_{clock_};
  RetryOptions options_;
  std::shared_ptr<ScriptedSource> inner_;
  std::shared_ptr<RetryingSource> retrying_;
  std::vector<Ended> ended_;
};

TEST_F(RetryingStoreTest, ThrottledTo200RequestsASecond) {
  struct Kind {
    double burst;
    Clock::duration latency;
  };
  for (auto [burst, latency] :
       {Kind{5, 20ms}, {20, 20ms}, {200, 20ms}, {20, 1ms}, {20, 100us}, {20, 200ms}}) {
    SCOPED_TRACE(fmt::format("burst {}, {} s", burst, Seconds(latency).count()));
    clock_ = std::make_shared<VirtualClock>();
    store_ = Store{.clock = clock_, .latency = latency, .requests_per_second = 200, .burst = burst};
    ended_.clear();
    open();
    callers(64, 60s);
    finish();
    std::cout << fmt::format(
        "burst {}: {:.0f}/s in the first 5 s, {:.0f}/s then, {:.1f} % throttled, slowest {:.2f} "
        "s\n",
        burst, goodput(0s, 5s), goodput(5s, 60s),
        100.0 * static_cast<double>(store_.throttled) / static_cast<double>(inner_->requests()),
        slowest());
    EXPECT_EQ(failures(), 0u);
    EXPECT_GE(goodput(0s, 5s), 180);
    EXPECT_GE(goodput(5s, 60s), 180);
    EXPECT_LE(store_.throttled * 10, inner_->requests());
    // No caller starves.
    std::map<int, int> served;
    for (const Ended& ended : ended_) ++served[ended.caller];
    auto [least, most] = std::ranges::minmax(served | std::views::values);
    EXPECT_EQ(served.size(), 64u);
    EXPECT_LE(most - least, most / 3);
  }
}

TEST_F(RetryingStoreTest, ALiftedLimitIsFoundAgain) {
  store_.requests_per_second = 50;
  open();
  callers(64, 20s);
  store_.requests_per_second = 1000;
  callers(64, 40s);
  finish();
  std::cout << fmt::format("{:.0f}/s of 50, then of 1000: {:.0f}/s in 15 s, {:.0f}/s then\n",
                           goodput(5s, 20s), goodput(20s, 35s), goodput(35s, 60s));
  EXPECT_EQ(failures(), 0u);
  EXPECT_GE(goodput(5s, 20s), 45);
  EXPECT_GE(goodput(35s, 60s), 900);
}

TEST_F(RetryingStoreTest, OneAttemptInTenStalls) {
  store_.stalls_one_in = 10;
  open();
  callers(64, 120s, 100ms);
  finish();
  std::cout << fmt::format("{} reads, slowest {:.2f} s, {} failed\n", ended_.size(), slowest(),
                           failures());
  EXPECT_EQ(failures(), 0u);
  EXPECT_LE(slowest(), 5);
}

TEST_F(RetryingStoreTest, FailingStoreIsSparedAndRecoversSoon) {
  store_.failing = 1;
  open();
  callers(64, 180s, 100ms);
  double asked = static_cast<double>(inner_->requests()),
         wanted = static_cast<double>(ended_.size());
  EXPECT_LE(asked, 1.3 * wanted);
  store_.failing = 0;
  Clock::duration healed = clock_->now() - clock_->start();
  callers(64, 20s, 100ms);
  finish();
  auto first =
      std::ranges::find_if(ended_, [](const Ended& ended) { return ended.result.has_value(); });
  ASSERT_NE(first, ended_.end());
  double until_first = Seconds(first->at - clock_->start() - healed).count();
  std::cout << fmt::format(
      "{:.4f} requests for each wanted; first success {:.2f} s after healing\n", asked / wanted,
      until_first);
  EXPECT_LE(until_first, 5.1);
  for (const Ended& ended : ended_) {
    if (ended.at > first->at + 100ms) EXPECT_TRUE(ended.result);
  }
}

TEST_F(RetryingStoreTest, WithoutTheCircuitTheBudgetAloneSparesIt) {
  options_.breaker.failures = 1'000'000'000;
  for (double failing : {1.0, 0.5}) {
    SCOPED_TRACE(failing);
    clock_ = std::make_shared<VirtualClock>();
    store_ = Store{.clock = clock_, .failing = failing};
    ended_.clear();
    open();
    callers(64, 60s, 100ms);
    finish();
    double asked = static_cast<double>(inner_->requests());
    double wanted = static_cast<double>(ended_.size());
    std::cout << fmt::format("{:.0f} % fail: {:.3f} requests for each of {} wanted\n",
                             100 * failing, asked / wanted, ended_.size());
    EXPECT_LE(asked, 1.3 * wanted);
  }
}

TEST_F(RetryingStoreTest, OneFailureInTwentyIsNotSeen) {
  store_.failing = 0.05;
  open();
  callers(64, 60s, 50ms);
  finish();
  EXPECT_EQ(failures(), 0u);
  std::cout << fmt::format("{} reads, slowest {:.2f} s\n", ended_.size(), slowest());
}

TEST_F(RetryingStoreTest, AStoreThatBecomesSlowIsWaitedFor) {
  for (Clock::duration offset : {0s, 3s, 8s}) {
    SCOPED_TRACE(Seconds(offset).count());
    clock_ = std::make_shared<VirtualClock>();
    store_ = Store{.clock = clock_, .latency = 50ms};
    ended_.clear();
    open();
    clock_->run_for(offset);
    callers(16, 120s, 10ms);
    EXPECT_EQ(failures(), 0u);
    store_.latency = 3s;
    callers(16, 10s, 10ms);
    size_t at_first = failures(), of = ended_.size();
    callers(16, 120s, 10ms);
    finish();
    std::cout << fmt::format("{} failed in the first 10 s, {} of {} later\n", at_first,
                             failures() - at_first, ended_.size() - of);
    EXPECT_EQ(failures(), at_first) << "learnt within 10 s";
  }
}

TEST_F(RetryingStoreTest, QueueInTheStoreShrinksTheLimit) {
  store_.latency = 50ms;
  store_.parallel = 8;
  open();
  callers(4, 10s, 100ms);
  EXPECT_EQ(retrying_->concurrency_hint(0), 64u);
  callers(64, 40s);
  unsigned window = retrying_->concurrency_hint(0);
  finish();
  std::cout << fmt::format("window {} for a store that does 8 at a time; {:.0f}/s of 160\n", window,
                           goodput(30s, 50s));
  EXPECT_LE(window, 24u);
  EXPECT_GE(goodput(30s, 50s), 0.9 * 160);
}

TEST_F(RetryingStoreTest, CeilingsHold) {
  options_.pacer.requests_per_second = 300;
  open();
  callers(64, 10s);
  EXPECT_NEAR(static_cast<double>(inner_->requests()), 3000, 60);
  std::cout << fmt::format("{} requests of 3000\n", inner_->requests());
  finish();

  options_.pacer = {.bytes_per_second = 20'000'000};
  ended_.clear();
  open();
  Clock::duration from = clock_->now() - clock_->start();
  callers(64, 10s, 0ms, 100'000);
  EXPECT_NEAR(goodput(from, from + 10s) * 100'000, 20e6, 0.02 * 20e6);
  EXPECT_LE(successes(from, from + 100ms) * 100'000, 4'100'000u);
  finish();
  std::cout << fmt::format("{:.2f} MB/s of 20\n", goodput(from, from + 10s) / 10);
}

}  // namespace
}  // namespace leat
