// SPDX-License-Identifier: Apache-2.0
// Tests of the log and of its document.
#include "peer/invalidation/invalidation_log.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <future>
#include <map>

#include "runtime/executor.h"
#include "wire/random_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using Kind = Invalidation::Kind;
using Answer = Result<std::optional<Invalidations>>;

Invalidation object(std::string key) {
  return {"/data", std::move(key), Kind::kObject};
}

class InvalidationLogTest : public ::testing::Test {
 protected:
  std::future<Answer> ask(uint64_t after, Context context = Context::background(),
                          Clock::duration wait = 1h) {
    return boost::asio::co_spawn(executor_.any(), log_.wait_after(context, after, wait),
                                 boost::asio::use_future);
  }
  Invalidations answer_of(std::future<Answer> asked) {
    Answer answer = asked.get();
    EXPECT_TRUE(answer) << answer.error().to_string();
    EXPECT_TRUE(answer && *answer);
    return answer && *answer ? **answer : Invalidations{};
  }

  Executor executor_{{.threads = 2}};
  InvalidationLog log_{
      {.entries_max = 5, .mounts = [] { return std::vector<std::string>{"/data", "/out"}; }}};
};

TEST_F(InvalidationLogTest, ReturnsLaterInvalidations) {
  const uint64_t begin = log_.number();
  log_.append({object("a"), object("b")});
  log_.append({{"/out", "d/", Kind::kDirectory}});
  EXPECT_EQ(
      answer_of(ask(begin)),
      (Invalidations{begin + 3, {object("a"), object("b"), {"/out", "d/", Kind::kDirectory}}}));
  EXPECT_EQ(answer_of(ask(begin + 2)),
            (Invalidations{begin + 3, {{"/out", "d/", Kind::kDirectory}}}));
}

TEST_F(InvalidationLogTest, UnknownNumberReturnsAllMayHaveChanged) {
  const std::vector<Invalidation> all = {{"/data", "", Kind::kAll}, {"/out", "", Kind::kAll}};
  const uint64_t begin = log_.number();
  for (const uint64_t number : {uint64_t{0}, begin - 1, begin + 1, UINT64_MAX}) {
    EXPECT_EQ(answer_of(ask(number)), (Invalidations{begin, all})) << number;
  }
  for (int i = 0; i < 6; ++i) log_.append({object("k")});
  EXPECT_EQ(answer_of(ask(begin)), (Invalidations{begin + 6, all}));
  EXPECT_EQ(answer_of(ask(begin + 1)).items.size(), 5u);
  log_.append(std::vector<Invalidation>(20, object("k")));
  EXPECT_EQ(answer_of(ask(begin + 6)), (Invalidations{begin + 26, all}));
  EXPECT_EQ(answer_of(ask(begin + 21)).items.size(), 5u);
}

TEST_F(InvalidationLogTest, AllWaitersAreWoken) {
  const uint64_t begin = log_.number();
  std::vector<std::future<Answer>> waiting;
  for (int i = 0; i < 500; ++i) waiting.push_back(ask(begin));
  log_.append({object("a")});
  for (auto& one : waiting) {
    EXPECT_EQ(answer_of(std::move(one)), (Invalidations{begin + 1, {object("a")}}));
  }
}

TEST_F(InvalidationLogTest, ReturnsNothingAfterTimeoutOrContext) {
  const uint64_t begin = log_.number();
  Answer quiet = ask(begin, Context::background(), 1ms).get();
  ASSERT_TRUE(quiet);
  EXPECT_EQ(*quiet, std::nullopt);
  std::stop_source stop;
  auto waiting = ask(begin, Context::background().with_cancel(stop.get_token()));
  stop.request_stop();
  EXPECT_EQ(waiting.get().error().code(), StatusCode::kCancelled);
  auto late = ask(begin, Context::background().with_timeout(1ms));
  EXPECT_EQ(late.get().error().code(), StatusCode::kTimedOut);
}

TEST_F(InvalidationLogTest, NumbersOfAnotherProcessAreUnknown) {
  InvalidationLog other({.mounts = [] { return std::vector<std::string>{}; }});
  EXPECT_NE(log_.number(), other.number());
  EXPECT_LT(other.number(), uint64_t{1} << 52);
}

// Each of several followers sees all changes in order, or learns that it missed some.
TEST_F(InvalidationLogTest, FollowersMissNothingWhileManyAppend) {
  InvalidationLog log(
      {.entries_max = 100'000, .mounts = [] { return std::vector<std::string>{}; }});
  const uint64_t begin = log.number();
  constexpr int kWriters = 3, kEach = 1000;
  auto follow = [&] {
    std::map<std::string, int> next;
    int seen = 0;
    for (uint64_t at = begin; seen < kWriters * kEach;) {
      Answer answer = executor_.block_on(log.wait_after(Context::background(), at, 1h));
      if (!answer || !*answer) return false;
      if ((*answer)->number != at + (*answer)->items.size()) return false;
      at = (*answer)->number;
      for (const Invalidation& change : (*answer)->items) {
        if (change.key != std::to_string(next[change.mount]++)) return false;
        ++seen;
      }
    }
    return true;
  };
  std::vector<std::future<bool>> followers;
  for (int i = 0; i < 3; ++i) followers.push_back(std::async(std::launch::async, follow));
  std::vector<std::future<void>> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.push_back(std::async(std::launch::async, [&log, w] {
      for (int i = 0; i < kEach; ++i) {
        log.append({{"/" + std::to_string(w), std::to_string(i), Kind::kObject}});
      }
    }));
  }
  for (auto& follower : followers) EXPECT_TRUE(follower.get());
}

TEST(Invalidations, RandomDocumentsComeBack) {
  testing::Random random;
  for (int i = 0; i < 200; ++i) {
    Invalidations changes{random.upto(UINT64_MAX), {}};
    for (uint64_t left = random.upto(8); left > 0; --left) {
      const std::string name = "k" + random.bytes(20, std::string_view("\0/", 2));
      switch (random.upto(2)) {
        case 0:
          changes.items.push_back({"/m", name, Kind::kObject});
          break;
        case 1:
          changes.items.push_back({"/m", name + "/", Kind::kDirectory});
          break;
        default:
          changes.items.push_back({"/m/n", "", Kind::kAll});
      }
    }
    ASSERT_EQ(decode_invalidations(encode_invalidations(changes)), changes);
  }
  EXPECT_EQ(encode_invalidations({7, {{"/data", "a", Kind::kObject}, {"/data", "", Kind::kAll}}}),
            R"({"number":7,"changes":[{"mount":"/data","key":"a","kind":"object"},)"
            R"({"mount":"/data","kind":"all"}]})");
}

TEST(Invalidations, WhatIsNotKnownHereMayBeEverything) {
  auto changes =
      decode_invalidations(R"({"number":1,"changes":[{"mount":"/d","key":"k","kind":"owner"}]})");
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->items[0], (Invalidation{"/d", "", Kind::kAll}));
  for (const char* text :
       {"", "[]", R"({"changes":[{"mount":"/d"}]})", R"({"changes":[{"kind":"all"}]})",
        R"({"changes":[{"mount":"d","kind":"all"}]})",
        R"({"changes":[{"mount":"/d","kind":"object"}]})",
        R"({"changes":[{"mount":"/d","kind":"object","key":"../x"}]})",
        R"({"changes":[{"mount":"/d","kind":"directory","key":"x"}]})", R"({"number":-1})"}) {
    EXPECT_FALSE(decode_invalidations(text)) << text;
  }
}

TEST(Invalidations, QueriesComeBack) {
  const HttpRequest http = to_http(InvalidationsQuery{7, std::chrono::milliseconds(20)});
  auto query = invalidations_query_from(http);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->after, 7u);
  EXPECT_EQ(query->wait, 20ms);
  HttpRequest bare;
  EXPECT_EQ(invalidations_query_from(bare)->wait, kInvalidationsWait);
  bare.query["wait-ms"] = "99999999";
  EXPECT_EQ(invalidations_query_from(bare)->wait, kInvalidationsWaitMax);
  bare.query["wait-ms"] = "-1";
  EXPECT_FALSE(invalidations_query_from(bare));
}

}  // namespace
}  // namespace leat
