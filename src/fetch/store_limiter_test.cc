// SPDX-License-Identifier: Apache-2.0
#include "fetch/store_limiter.h"

#include <gtest/gtest.h>

#include <latch>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "runtime/executor.h"
#include "source/source.h"

namespace leat {
namespace {

using Permit = StoreLimiter::Permit;

std::vector<Permit> take_prefetch(StoreLimiter& limiter, unsigned concurrency) {
  std::vector<Permit> permits;
  while (auto permit = limiter.try_prefetch(0, concurrency)) {
    permits.push_back(*std::move(permit));
    if (permits.size() > 1000) break;
  }
  return permits;
}

// Waits in the executor; null if the context ended first.
std::optional<Permit> acquire(Executor& executor, StoreLimiter& limiter,
                              FairSemaphore::Request request, Context context = {},
                              unsigned concurrency = 16) {
  std::optional<Permit> taken;
  std::latch done(1);
  struct Run {
    static Task<> take(StoreLimiter* limiter, FairSemaphore::Request request, Context context,
                       unsigned concurrency, std::optional<Permit>* taken, std::latch* done) {
      auto permit = co_await limiter->acquire(context, request, concurrency);
      if (permit) taken->emplace(*std::move(permit));
      done->count_down();
    }
  };
  executor.spawn(Run::take(&limiter, request, std::move(context), concurrency, &taken, &done));
  done.wait();
  return taken;
}

Context ended() {
  std::stop_source stop;
  stop.request_stop();
  return Context::background().with_cancel(stop.get_token());
}

TEST(StoreLimiter, PrefetchLeavesAQuarterToDemandReads) {
  Executor executor({.threads = 1});
  StoreLimiter limiter(16);
  std::vector<Permit> prefetch = take_prefetch(limiter, 16);
  EXPECT_EQ(prefetch.size(), 12u);
  // Also for requests that wait instead of giving up.
  EXPECT_FALSE(acquire(executor, limiter, {.low_priority = true}, ended()));
  std::vector<Permit> demand;
  while (demand.size() <= 16) {
    auto permit =
        acquire(executor, limiter, {.tenant = 1}, demand.size() < 4 ? Context{} : ended());
    if (!permit) break;
    demand.push_back(*std::move(permit));
  }
  EXPECT_EQ(demand.size(), 4u);
}

TEST(StoreLimiter, PrefetchKeepsToItsShareOfAnyLimit) {
  const std::pair<unsigned, unsigned> shares[] = {{1, 1}, {2, 1}, {3, 2}, {4, 3}, {8, 6}, {64, 48}};
  for (auto [requests, share] : shares) {
    StoreLimiter limiter(requests);
    EXPECT_EQ(take_prefetch(limiter, requests).size(), share) << requests;
  }
}

TEST(StoreLimiter, PrefetchKeepsToItsShareOfConcurrency) {
  StoreLimiter limiter(16);
  // A store with a present concurrency of 8.
  EXPECT_EQ(take_prefetch(limiter, 8).size(), 6u);
  EXPECT_EQ(take_prefetch(limiter, 1).size(), 1u);
}

TEST(StoreLimiter, DemandReadsCountAgainstPrefetchLimit) {
  Executor executor({.threads = 1});
  StoreLimiter limiter(16);
  auto demand = acquire(executor, limiter, {});
  ASSERT_TRUE(demand);
  EXPECT_EQ(take_prefetch(limiter, 8).size(), 5u);
}

TEST(StoreLimiter, FollowsTheConcurrencyOfTheSource) {
  StoreLimiter limiter(1024);
  std::vector<Permit> held = take_prefetch(limiter, 400);
  EXPECT_EQ(held.size(), 300u);
  held.clear();
  EXPECT_EQ(take_prefetch(limiter, 4000).size(), 768u);
  EXPECT_EQ(take_prefetch(limiter, 8).size(), 6u);
}

// A source that fails everything takes one request. It must hear of the others: each may wait there
// for its own time.
TEST(StoreLimiter, ReadsOfAFailingStoreWaitInTheSource) {
  Executor executor({.threads = 1});
  StoreLimiter limiter(1024);
  std::vector<Permit> held;
  while (auto permit = acquire(executor, limiter, {}, held.size() < 32 ? Context{} : ended(), 1)) {
    held.push_back(*std::move(permit));
  }
  EXPECT_EQ(held.size(), 32u);
}

TEST(StoreLimiter, AWaiterContinuesWhenTheSourceTakesMore) {
  Executor executor({.threads = 1});
  StoreLimiter limiter(1024);
  std::vector<Permit> held;
  for (int i = 0; i < 40; ++i) held.push_back(*acquire(executor, limiter, {}, {}, 32));
  std::latch granted(1);
  struct Run {
    static Task<> take(StoreLimiter* limiter, std::latch* granted) {
      auto permit = co_await limiter->acquire({}, {}, 32);
      EXPECT_TRUE(permit);
      granted->count_down();
    }
  };
  executor.spawn(Run::take(&limiter, &granted));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(granted.try_wait());
  limiter.update(0, 64);
  granted.wait();
}

TEST(StoreLimiter, LargeRequestsLeaveSmallOnesAlone) {
  Executor executor({.threads = 1});
  StoreLimiter limiter(4);
  std::vector<Permit> large;
  for (int i = 0; i < 4; ++i) {
    large.push_back(*acquire(executor, limiter, {.cost = kSmallRequestBytes + 1}));
  }
  EXPECT_FALSE(acquire(executor, limiter, {.cost = kSmallRequestBytes + 1}, ended()));
  EXPECT_TRUE(acquire(executor, limiter, {.cost = kSmallRequestBytes}));
}

TEST(StoreLimiter, ReleasedPermitMakesRoom) {
  StoreLimiter limiter(4);
  std::vector<Permit> prefetch = take_prefetch(limiter, 4);
  ASSERT_EQ(prefetch.size(), 3u);
  prefetch.pop_back();
  EXPECT_EQ(take_prefetch(limiter, 4).size(), 1u);
}

}  // namespace
}  // namespace leat
