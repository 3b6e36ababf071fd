// SPDX-License-Identifier: Apache-2.0
// Tests SteadySource response by response. steady_store_test.cc uses whole stores.
#include "source/steady/steady_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stop_token>

#include "source/source_metrics.h"
#include "source/steady/scripted_source_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::ScriptedSource;
using testing::VirtualClock;

constexpr auto kOk = StatusCode{};
constexpr auto kDown = StatusCode::kUnavailable;
constexpr auto kSlow = StatusCode::kThrottled;

class SteadySourceTest : public ::testing::Test {
 protected:
  SteadySourceTest() {
    options_.clock = clock_;
    options_.seed = 7;
  }
  void open(ScriptedSource::Answer answer) {
    inner_ = std::make_shared<ScriptedSource>(std::move(answer));
    steady_ = SteadySource::make(inner_, options_);
  }
  void open(std::vector<StatusCode> codes) { open(testing::by_list(clock_, std::move(codes))); }

  Result<> read(Context context = {}) {
    ReadRequest request{.key = "k", .range = {0, buffer_.size()}, .if_version = {}};
    return clock_->value_of(
        steady_->read(context, request, std::as_writable_bytes(std::span(buffer_))));
  }
  Context within(Clock::duration time) const {
    Context context;
    context.deadline = clock_->now() + time;
    return context;
  }

  std::shared_ptr<VirtualClock> clock_ = std::make_shared<VirtualClock>();
  SteadyOptions options_;
  std::shared_ptr<ScriptedSource> inner_;
  std::shared_ptr<SteadySource> steady_;
  std::string buffer_ = std::string(10, '.');
};

TEST_F(SteadySourceTest, IsTheSourceThatItHolds) {
  open(std::vector<StatusCode>{});
  EXPECT_EQ(steady_->id(), inner_->id());
  EXPECT_EQ(steady_->name(), inner_->name());
  EXPECT_TRUE(steady_->capabilities().conditional_read);
  EXPECT_EQ(inner_->window(), std::numeric_limits<unsigned>::max());
  EXPECT_EQ(steady_->window(), options_.pace.window_max);
}

TEST_F(SteadySourceTest, ATemporaryFailureIsTriedAgainFromTheStart) {
  open({kDown, kSlow, kDown});
  const uint64_t before = source_metrics::retries.value();
  const uint64_t throttled_before = source_metrics::retries_throttled.value();
  ASSERT_TRUE(read());
  EXPECT_EQ(buffer_, "xxxxxxxxxx");
  EXPECT_EQ(inner_->requests(), 4u);
  EXPECT_EQ(source_metrics::retries.value() - before, 2u);
  EXPECT_EQ(source_metrics::retries_throttled.value() - throttled_before, 1u);
}

TEST_F(SteadySourceTest, StatsAndListingsAreTriedAgainToo) {
  open({kDown, kOk, kDown, kOk});
  EXPECT_TRUE(clock_->value_of(steady_->stat({}, {.key = "k"})));
  EXPECT_TRUE(clock_->value_of(steady_->list({}, {.prefix = "", .token = ""})));
  EXPECT_EQ(inner_->requests(), 4u);
}

TEST_F(SteadySourceTest, AnswersAreNeverTriedAgain) {
  for (StatusCode code :
       {StatusCode::kNotFound, StatusCode::kChanged, StatusCode::kPermissionDenied,
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

TEST_F(SteadySourceTest, DelaysDoubleWithJitter) {
  options_.attempts_max = 9;
  open(std::vector<StatusCode>(20, kDown));
  std::vector<double> began;
  auto answer = testing::by_list(clock_, std::vector<StatusCode>(20, kDown));
  open([&began, answer, this](ScriptedSource::Asked asked) {
    began.push_back(clock_->seconds());
    return answer(std::move(asked));
  });
  options_.circuit.failures = 1000;
  steady_ = SteadySource::make(inner_, options_);
  EXPECT_FALSE(read());
  ASSERT_EQ(began.size(), 9u);
  double delay = 0.1;
  for (size_t i = 1; i < began.size(); ++i, delay = std::min(2 * delay, 5.0)) {
    double waited = began[i] - began[i - 1] - 0.01;
    EXPECT_GE(waited, delay / 2 - 1e-6) << i;
    EXPECT_LE(waited, delay + 1e-6) << i;
  }
}

TEST_F(SteadySourceTest, TellsHowOftenItTriedWhenItGivesUp) {
  options_.attempts_max = 3;
  open({kDown, kDown, kDown});
  auto done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), kDown);
  EXPECT_EQ(done.error().message(), "cannot read scripted://bucket/k: unavailable (3 attempts)");
}

TEST_F(SteadySourceTest, DoesNotWaitForADeadlineThatComesFirst) {
  open(std::vector<StatusCode>(20, kDown));
  auto done = read(within(500ms));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), kDown);
  EXPECT_LT(clock_->seconds(), 0.5);
  EXPECT_THAT(done.error().message(), HasSubstr("the next one would come after the deadline"));
}

TEST_F(SteadySourceTest, BeingThrottledCostsNeitherBudgetNorAttempts) {
  options_.attempts_max = 2;
  options_.patience = 5min;
  open(std::vector<StatusCode>(300, kSlow));
  ASSERT_TRUE(read());
  EXPECT_EQ(inner_->requests(), 301u);
}

TEST_F(SteadySourceTest, BeingThrottledForEverEndsAsWell) {
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

TEST_F(SteadySourceTest, WhenMostFailsRetriesAreHeldBack) {
  options_.attempts_max = 1000;
  options_.circuit.failures = 100'000;
  open(std::vector<StatusCode>(100'000, kDown));
  auto done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(inner_->requests(), 101u);
  EXPECT_THAT(done.error().message(),
              HasSubstr("(101 attempts; the store fails most requests; retries are held back)"));
  const uint64_t before = source_metrics::retries_held_back.value();
  EXPECT_THAT(read().error().message(), HasSubstr("(1 attempt; the store fails most"));
  EXPECT_EQ(source_metrics::retries_held_back.value() - before, 1u);
}

TEST_F(SteadySourceTest, AnOpenCircuitFailsAtOnceWithWhatFailedLast) {
  options_.attempts_max = 100;
  const uint64_t openings = source_metrics::circuit_openings.value();
  open(std::vector<StatusCode>(10, kDown));
  auto done = read();
  ASSERT_FALSE(done);
  EXPECT_EQ(inner_->requests(), 10u);
  EXPECT_EQ(source_metrics::circuit_openings.value() - openings, 1u);
  EXPECT_THAT(done.error().message(), HasSubstr("(10 attempts; the store has failed every"));
  EXPECT_THAT(done.error().message(), HasSubstr("is asked again in 1 s)"));
  EXPECT_EQ(steady_->window(), 1u);

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
  EXPECT_EQ(steady_->window(), options_.pace.window_max);
}

// Stalls until the terms' limit, `silent` times.
struct Staller {
  std::shared_ptr<VirtualClock> clock;
  uint64_t silent;
  bool after_first_byte = false;
  std::vector<int64_t> bounds_ms = {};

  static Task<Result<>> answer(Staller* self, ScriptedSource::Asked asked) {
    self->bounds_ms.push_back(asked.terms.first_byte_max.count());
    const bool stalls = asked.number <= self->silent;
    if (!stalls || self->after_first_byte) {
      Result<> paused = co_await self->clock->pause(asked.context, 20ms);
      if (!paused) co_return paused;
      asked.report(20ms);
    }
    if (!stalls) co_return Result<>();
    Result<> paused = co_await self->clock->pause(asked.context, self->after_first_byte
                                                                     ? asked.terms.silence_max
                                                                     : asked.terms.first_byte_max);
    if (!paused) co_return paused;
    co_return error(StatusCode::kUnavailable, "fell silent");
  }
};

TEST_F(SteadySourceTest, AStalledAttemptIsTriedAgainAtOnceAndFourLengthenTheNext) {
  for (bool after_first_byte : {false, true}) {
    Staller staller{clock_, 7, after_first_byte};
    open([&](ScriptedSource::Asked asked) { return Staller::answer(&staller, std::move(asked)); });
    const uint64_t silences = source_metrics::silences.value();
    const double before = clock_->seconds();
    ASSERT_TRUE(read());
    EXPECT_EQ(staller.bounds_ms,
              (std::vector<int64_t>{1000, 1000, 1000, 1000, 2000, 4000, 8000, 10000}));
    EXPECT_EQ(source_metrics::silences.value() - silences, 7u);
    EXPECT_NEAR(clock_->seconds() - before, 18, 0.2);
  }
}

TEST_F(SteadySourceTest, BoundsFollowTheStoresFirstBytes) {
  std::vector<int64_t> bounds;
  struct Slow {
    static Task<Result<>> answer(std::shared_ptr<VirtualClock> clock, ScriptedSource::Asked asked) {
      Result<> paused = co_await clock->pause(asked.context, 700ms);
      asked.report(700ms);
      co_return paused;
    }
  };
  open([&](ScriptedSource::Asked asked) {
    bounds.push_back(asked.terms.first_byte_max.count());
    return Slow::answer(clock_, std::move(asked));
  });
  ASSERT_TRUE(read());
  ASSERT_TRUE(read());
  EXPECT_EQ(bounds[0], 1000);
  EXPECT_GE(bounds[1], 2800);
  EXPECT_LE(bounds[1], 3400);

  // A stricter limit of the caller applies; the caller gets the last attempt's report.
  AttemptReport report;
  StatRequest request{.key = "k", .terms = {}};
  request.terms.first_byte_max = 2s;
  request.terms.report = &report;
  ASSERT_TRUE(clock_->value_of(steady_->stat({}, request)));
  EXPECT_EQ(bounds[2], 2000);
  EXPECT_EQ(report.first_byte, 700ms);
}

TEST_F(SteadySourceTest, RetryAfterHoldsTheWholeStore) {
  std::vector<double> began;
  struct Asker {
    static Task<Result<>> answer(ScriptedSource::Asked asked, Clock::duration retry_after) {
      if (asked.number > 1) co_return Result<>();
      asked.report(1ms, retry_after);
      co_return testing::scripted_failure(StatusCode::kThrottled);
    }
  };
  auto with = [&](Clock::duration retry_after) {
    began.clear();
    open([&began, retry_after, this](ScriptedSource::Asked asked) {
      began.push_back(clock_->seconds());
      return Asker::answer(std::move(asked), retry_after);
    });
  };
  with(7s);
  const double start = clock_->seconds();
  ASSERT_TRUE(read());
  EXPECT_NEAR(began.at(1) - start, 7, 0.001);

  with(3s);
  EXPECT_FALSE(read(within(1s)));
  EXPECT_EQ(steady_->window(), 1u);
  const double asked = began.at(0);
  ASSERT_TRUE(read()) << "another request";
  EXPECT_NEAR(began.at(1) - asked, 3, 0.001);

  with(1h);
  auto done = read(within(10s));
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message(), HasSubstr("the store asked to be left alone for 30 s more"));
}

TEST_F(SteadySourceTest, ACallerWhoGivesUpReturnsAtOnceWhereverItWaits) {
  options_.pace.window_min = options_.pace.window_max = 1;
  Staller staller{clock_, 1'000'000};
  open([&](ScriptedSource::Asked asked) { return Staller::answer(&staller, std::move(asked)); });
  struct Caller {
    static Task<> read(std::shared_ptr<SteadySource> steady, std::shared_ptr<VirtualClock> clock,
                       std::stop_token stop, std::vector<std::string>* told) {
      std::byte byte;
      Result<> done = co_await steady->read(
          Context().with_cancel(stop), ReadRequest{.key = "k", .range = {0, 1}, .if_version = {}},
          std::span(&byte, 1));
      told->push_back(fmt::format("{:.1f} {}", clock->seconds(), done.error().to_string()));
    }
  };
  std::stop_source in_store, in_window;
  std::vector<std::string> told;
  clock_->spawn(Caller::read(steady_, clock_, in_store.get_token(), &told));
  clock_->spawn(Caller::read(steady_, clock_, in_window.get_token(), &told));
  clock_->run_for(300ms);
  in_window.request_stop();
  clock_->run_for(100ms);
  in_store.request_stop();
  clock_->run();
  EXPECT_EQ(told, (std::vector<std::string>{"0.3 cannot read scripted://bucket/k: the wait for a "
                                            "turn at the store was cancelled",
                                            "0.4 a pause was cancelled"}));

  // Between two attempts.
  open(std::vector<StatusCode>(5, kDown));
  told.clear();
  std::stop_source in_pause;
  clock_->spawn(Caller::read(steady_, clock_, in_pause.get_token(), &told));
  clock_->run_for(20ms);
  in_pause.request_stop();
  clock_->run();
  EXPECT_EQ(told, (std::vector<std::string>{"0.4 cannot read scripted://bucket/k: the wait for the "
                                            "next attempt was cancelled after 1 attempt: cannot "
                                            "read scripted://bucket/k: unavailable"}));
  EXPECT_EQ(steady_->pace().in_flight(), 0u);
  EXPECT_EQ(steady_->pace().waiting(), 0u);
}

TEST_F(SteadySourceTest, AContextThatHasEndedAsksNothing) {
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
TEST_F(SteadySourceTest, ADeadlineInAnAttemptTellsWhatFailedBeforeIt) {
  open({kDown, StatusCode::kTimedOut});
  Status failure = read().error();
  EXPECT_EQ(failure.code(), StatusCode::kTimedOut);
  EXPECT_EQ(failure.to_string(),
            "cannot read scripted://bucket/k: timed_out after 2 attempts: "
            "cannot read scripted://bucket/k: unavailable");
}

TEST_F(SteadySourceTest, WindowAndRateAreSeenFromOutside) {
  open(std::vector<StatusCode>{});
  std::string text = metrics_text();
  const std::string labels =
      fmt::format("{{store=\"scripted://bucket\",store_id=\"{}\"}}", inner_->id().to_hex());
  EXPECT_THAT(text, HasSubstr("leat_source_window_requests" + labels + " 64"));
  EXPECT_THAT(text, HasSubstr("leat_source_rate_limit_requests_per_second" + labels + " 0"));
}

}  // namespace
}  // namespace leat
