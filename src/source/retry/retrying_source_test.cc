// SPDX-License-Identifier: Apache-2.0
// Tests RetryingSource response by response. retrying_store_test.cc uses whole stores.
#include "source/retry/retrying_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>

#include "source/retry/scripted_source_test.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::ScriptedSource;
using testing::VirtualClock;

constexpr auto kOk = StatusCode{};
constexpr auto kDown = StatusCode::kUnavailable;
constexpr auto kSlow = StatusCode::kThrottled;

class RetryingSourceTest : public ::testing::Test {
 protected:
  RetryingSourceTest() {
    options_.timer = clock_;
    options_.seed = 7;
  }
  void open(ScriptedSource::Handler answer) {
    inner_ = std::make_shared<ScriptedSource>(std::move(answer));
    retrying_ = RetryingSource::make(inner_, options_);
  }
  void open(std::vector<StatusCode> codes) { open(testing::by_list(clock_, std::move(codes))); }

  Result<> read(Context context = {}) {
    ReadRequest request{.key = "k", .range = {0, buffer_.size()}, .if_version = {}};
    return clock_->value_of(
        retrying_->read(context, request, std::as_writable_bytes(std::span(buffer_))));
  }
  Context within(Clock::duration time) const {
    Context context;
    context.deadline = clock_->now() + time;
    return context;
  }

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  RetryOptions options_;
  std::shared_ptr<ScriptedSource> inner_;
  std::shared_ptr<RetryingSource> retrying_;
  std::string buffer_ = std::string(10, '.');
};

TEST_F(RetryingSourceTest, IsTheSourceThatItHolds) {
  open(std::vector<StatusCode>{});
  EXPECT_EQ(retrying_->id(), inner_->id());
  EXPECT_EQ(retrying_->name(), inner_->name());
  EXPECT_TRUE(retrying_->capabilities().conditional_read);
  EXPECT_EQ(inner_->concurrency_hint(0), std::numeric_limits<unsigned>::max());
  EXPECT_EQ(retrying_->concurrency_hint(0), options_.pacer.concurrency.start);
}

TEST_F(RetryingSourceTest, TemporaryFailureIsRetried) {
  open({kDown, kSlow, kDown});
  const uint64_t before = source_metrics::retries.value();
  const uint64_t throttled_before = source_metrics::retries_throttled.value();
  ASSERT_TRUE(read());
  EXPECT_EQ(buffer_, "xxxxxxxxxx");
  EXPECT_EQ(inner_->requests(), 4u);
  EXPECT_EQ(source_metrics::retries.value() - before, 2u);
  EXPECT_EQ(source_metrics::retries_throttled.value() - throttled_before, 1u);
}

TEST_F(RetryingSourceTest, StatsAndListingsAreRetriedToo) {
  open({kDown, kOk, kDown, kOk});
  EXPECT_TRUE(clock_->value_of(retrying_->stat({}, {.key = "k"})));
  EXPECT_TRUE(clock_->value_of(retrying_->list({}, {.prefix = "", .token = ""})));
  EXPECT_EQ(inner_->requests(), 4u);
}

TEST_F(RetryingSourceTest, DefiniteResponsesAreNotRetried) {
  for (StatusCode code :
       {StatusCode::kNotFound, StatusCode::kVersionChanged, StatusCode::kPermissionDenied,
        StatusCode::kOutOfRange, StatusCode::kInvalidArgument, StatusCode::kUnsupported,
        StatusCode::kCancelled, StatusCode::kTimedOut, StatusCode::kInternal}) {
    open({code});
    auto done = read();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), code);
    EXPECT_THAT(done.error().message(), ::testing::Not(HasSubstr("attempt")));
    EXPECT_EQ(inner_->requests(), 1u) << to_string(code);
  }
}

TEST_F(RetryingSourceTest, DelaysDoubleWithJitter) {
  options_.attempts_max = 9;
  open(std::vector<StatusCode>(20, kDown));
  std::vector<double> began;
  auto answer = testing::by_list(clock_, std::vector<StatusCode>(20, kDown));
  open([&began, answer, this](ScriptedSource::Attempt attempt) {
    began.push_back(clock_->seconds());
    return answer(std::move(attempt));
  });
  options_.breaker.failures = 1000;
  retrying_ = RetryingSource::make(inner_, options_);
  EXPECT_FALSE(read());
  ASSERT_EQ(began.size(), 9u);
  double delay = 0.1;
  for (size_t i = 1; i < began.size(); ++i, delay = std::min(2 * delay, 5.0)) {
    double waited = began[i] - began[i - 1] - 0.01;
    EXPECT_GE(waited, delay / 2 - 1e-6) << i;
    EXPECT_LE(waited, delay + 1e-6) << i;
  }
}

TEST_F(RetryingSourceTest, ErrorNamesTheNumberOfAttempts) {
  options_.attempts_max = 3;
  open({kDown, kDown, kDown});
  auto done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), kDown);
  EXPECT_EQ(done.error().message(), "cannot read scripted://bucket/k: unavailable (3 attempts)");
}

TEST_F(RetryingSourceTest, DoesNotWaitForADeadlineThatComesFirst) {
  open(std::vector<StatusCode>(20, kDown));
  auto done = read(within(500ms));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), kDown);
  EXPECT_LT(clock_->seconds(), 0.5);
  EXPECT_THAT(done.error().message(), HasSubstr("the next one would start after the deadline"));
}

TEST_F(RetryingSourceTest, ThrottlingCostsNoBudgetAndNoAttempts) {
  options_.attempts_max = 2;
  options_.throttle_timeout = 5min;
  open(std::vector<StatusCode>(300, kSlow));
  ASSERT_TRUE(read());
  EXPECT_EQ(inner_->requests(), 301u);
}

TEST_F(RetryingSourceTest, BeingThrottledForEverEndsAsWell) {
  open(std::vector<StatusCode>(100'000, kSlow));
  auto done = read(within(10s));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), kSlow);
  EXPECT_LE(clock_->seconds(), 10);
  done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), kSlow);
  EXPECT_NEAR(clock_->seconds(), 40, 5);
  EXPECT_THAT(done.error().message(), HasSubstr("attempts; over 30 s)"));
}

TEST_F(RetryingSourceTest, RetriesEndWithTheBudget) {
  options_.attempts_max = 1000;
  options_.breaker.failures = 100'000;
  open(std::vector<StatusCode>(100'000, kDown));
  auto done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(inner_->requests(), 101u);
  EXPECT_THAT(
      done.error().message(),
      HasSubstr("(101 attempts; the store fails most requests; the retry budget is exhausted)"));
  const uint64_t before = source_metrics::retry_budget_exhausted.value();
  EXPECT_THAT(read().error().message(), HasSubstr("(1 attempt; the store fails most"));
  EXPECT_EQ(source_metrics::retry_budget_exhausted.value() - before, 1u);
}

TEST_F(RetryingSourceTest, OpenCircuitFailsWithTheLastError) {
  options_.attempts_max = 100;
  const uint64_t openings = source_metrics::circuit_opened.value();
  open(std::vector<StatusCode>(10, kDown));
  auto done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(inner_->requests(), 10u);
  EXPECT_EQ(source_metrics::circuit_opened.value() - openings, 1u);
  EXPECT_THAT(done.error().message(), HasSubstr("(10 attempts; the store has failed every"));
  EXPECT_THAT(done.error().message(), HasSubstr("is probed again in 1 s)"));
  EXPECT_EQ(retrying_->concurrency_hint(0), 1u);

  const double before = clock_->seconds();
  done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(clock_->seconds(), before) << "at once";
  EXPECT_EQ(inner_->requests(), 10u);
  EXPECT_EQ(done.error().code(), kDown);
  EXPECT_THAT(done.error().to_string(),
              HasSubstr("cannot read scripted://bucket/k: the store has"));
  EXPECT_THAT(done.error().to_string(), HasSubstr(": unavailable"));

  clock_->run_for(1s);
  EXPECT_TRUE(read());
  EXPECT_TRUE(read());
  EXPECT_EQ(retrying_->concurrency_hint(0), options_.pacer.concurrency.start);
}

// Stalls until the timeout, `silent` times.
struct Staller {
  std::shared_ptr<VirtualClock> clock;
  uint64_t silent;
  bool after_first_byte = false;
  std::vector<int64_t> bounds_ms = {};

  static Task<Result<>> answer(Staller* self, ScriptedSource::Attempt attempt) {
    self->bounds_ms.push_back(attempt.timeouts.first_byte_timeout.count());
    const bool stalls = attempt.number <= self->silent;
    if (!stalls || self->after_first_byte) {
      Result<> paused = co_await self->clock->pause(attempt.context, 20ms);
      if (!paused) co_return paused;
      attempt.report(20ms);
    }
    if (!stalls) co_return Result<>();
    Result<> paused = co_await self->clock->pause(
        attempt.context, self->after_first_byte ? attempt.timeouts.idle_timeout
                                                : attempt.timeouts.first_byte_timeout);
    if (!paused) co_return paused;
    co_return error(StatusCode::kUnavailable, "timed out");
  }
};

TEST_F(RetryingSourceTest, StalledAttemptIsRetriedAtOnce) {
  for (bool after_first_byte : {false, true}) {
    Staller staller{clock_, 7, after_first_byte};
    open([&](ScriptedSource::Attempt attempt) {
      return Staller::answer(&staller, std::move(attempt));
    });
    const uint64_t timeouts = source_metrics::timeouts.value();
    const double before = clock_->seconds();
    ASSERT_TRUE(read());
    EXPECT_EQ(staller.bounds_ms,
              (std::vector<int64_t>{1000, 1000, 1000, 1000, 2000, 4000, 8000, 10000}));
    EXPECT_EQ(source_metrics::timeouts.value() - timeouts, 7u);
    EXPECT_NEAR(clock_->seconds() - before, 18, 0.2);
  }
}

TEST_F(RetryingSourceTest, BoundsFollowTheStoresFirstBytes) {
  std::vector<int64_t> bounds;
  struct Slow {
    static Task<Result<>> answer(std::shared_ptr<VirtualClock> clock,
                                 ScriptedSource::Attempt attempt) {
      Result<> paused = co_await clock->pause(attempt.context, 700ms);
      attempt.report(700ms);
      co_return paused;
    }
  };
  open([&](ScriptedSource::Attempt attempt) {
    bounds.push_back(attempt.timeouts.first_byte_timeout.count());
    return Slow::answer(clock_, std::move(attempt));
  });
  ASSERT_TRUE(read());
  ASSERT_TRUE(read());
  EXPECT_EQ(bounds[0], 1000);
  EXPECT_GE(bounds[1], 2800);
  EXPECT_LE(bounds[1], 3400);

  // A stricter limit of the caller applies; the caller gets the last attempt's report.
  AttemptReport report;
  StatRequest request{.key = "k", .timeouts = {}};
  request.timeouts.first_byte_timeout = 2s;
  request.timeouts.report = &report;
  ASSERT_TRUE(clock_->value_of(retrying_->stat({}, request)));
  EXPECT_EQ(bounds[2], 2000);
  EXPECT_EQ(report.first_byte, 700ms);
}

TEST_F(RetryingSourceTest, RetryAfterHoldsTheWholeStore) {
  std::vector<double> began;
  struct Asker {
    static Task<Result<>> answer(ScriptedSource::Attempt attempt, Clock::duration retry_after) {
      if (attempt.number > 1) co_return Result<>();
      attempt.report(1ms, retry_after);
      co_return testing::scripted_failure(StatusCode::kThrottled);
    }
  };
  auto with = [&](Clock::duration retry_after) {
    began.clear();
    open([&began, retry_after, this](ScriptedSource::Attempt attempt) {
      began.push_back(clock_->seconds());
      return Asker::answer(std::move(attempt), retry_after);
    });
  };
  with(7s);
  const double start = clock_->seconds();
  ASSERT_TRUE(read());
  EXPECT_NEAR(began.at(1) - start, 7, 0.001);

  with(3s);
  EXPECT_FALSE(read(within(1s)));
  EXPECT_EQ(retrying_->concurrency_hint(0), 1u);
  const double asked = began.at(0);
  ASSERT_TRUE(read()) << "another request";
  EXPECT_NEAR(began.at(1) - asked, 3, 0.001);

  with(1h);
  auto done = read(within(10s));
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("the store requested a pause of 30 s more"));
}

TEST_F(RetryingSourceTest, CancelledCallerReturnsAtOnce) {
  options_.pacer.concurrency = {.min = 1, .start = 1, .max = 1};
  Staller staller{clock_, 1'000'000};
  open([&](ScriptedSource::Attempt attempt) {
    return Staller::answer(&staller, std::move(attempt));
  });
  struct Caller {
    static Task<> read(std::shared_ptr<RetryingSource> retrying,
                       std::shared_ptr<VirtualClock> clock, std::stop_token stop,
                       std::vector<std::string>* told) {
      std::byte byte;
      Result<> done = co_await retrying->read(
          Context().with_cancel(stop), ReadRequest{.key = "k", .range = {0, 1}, .if_version = {}},
          std::span(&byte, 1));
      told->push_back(fmt::format("{:.1f} {}", clock->seconds(), done.error().to_string()));
    }
  };
  std::stop_source in_store, in_window;
  std::vector<std::string> told;
  clock_->spawn(Caller::read(retrying_, clock_, in_store.get_token(), &told));
  clock_->spawn(Caller::read(retrying_, clock_, in_window.get_token(), &told));
  clock_->run_for(300ms);
  in_window.request_stop();
  clock_->run_for(100ms);
  in_store.request_stop();
  clock_->run();
  EXPECT_EQ(told, (std::vector<std::string>{"0.3 cannot read scripted://bucket/k: the wait for the "
                                            "store\'s request limit was cancelled",
                                            "0.4 a pause was cancelled"}));

  // Between two attempts.
  open(std::vector<StatusCode>(5, kDown));
  told.clear();
  std::stop_source in_pause;
  clock_->spawn(Caller::read(retrying_, clock_, in_pause.get_token(), &told));
  clock_->run_for(20ms);
  in_pause.request_stop();
  clock_->run();
  EXPECT_EQ(told, (std::vector<std::string>{"0.4 cannot read scripted://bucket/k: the wait for the "
                                            "next attempt was cancelled after 1 attempt: cannot "
                                            "read scripted://bucket/k: unavailable"}));
  EXPECT_EQ(retrying_->pacer().in_flight(), 0u);
  EXPECT_EQ(retrying_->pacer().waiting(), 0u);
}

TEST_F(RetryingSourceTest, EndedContextSendsNothing) {
  open(std::vector<StatusCode>{});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(read(Context().with_cancel(stop.get_token())).error().code(), StatusCode::kCancelled);
  Context late;
  late.deadline = Clock::now() - 1s;
  EXPECT_EQ(read(late).error().code(), StatusCode::kTimedOut);
  EXPECT_THAT(read(late).error().message(), HasSubstr("cannot read scripted://bucket/k: "));
  EXPECT_EQ(inner_->requests(), 0u);
}

// The caller needs to know what used the time up.
TEST_F(RetryingSourceTest, DeadlineErrorNamesTheFailureBefore) {
  open({kDown, StatusCode::kTimedOut});
  Status failure = read().error();
  EXPECT_EQ(failure.code(), StatusCode::kTimedOut);
  EXPECT_EQ(failure.to_string(),
            "cannot read scripted://bucket/k: timed_out after 2 attempts: "
            "cannot read scripted://bucket/k: unavailable");
}

TEST_F(RetryingSourceTest, LimitAndRateAreObservable) {
  open(std::vector<StatusCode>{});
  std::string text = metrics_text();
  const std::string labels =
      fmt::format("store=\"scripted://bucket\",store_id=\"{}\"", inner_->id().to_hex());
  for (const char* size : {"small", "large"}) {
    EXPECT_THAT(text, HasSubstr(fmt::format("leat_source_concurrency_limit{{{},size=\"{}\"}} 64",
                                            labels, size)));
  }
  EXPECT_THAT(text, HasSubstr("leat_source_rate_limit_requests_per_second{" + labels + "} 0"));
}

}  // namespace
}  // namespace leat
