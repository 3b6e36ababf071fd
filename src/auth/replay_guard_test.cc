// SPDX-License-Identifier: Apache-2.0
// Checks the window against a set of all counters seen, and the sessions against the promise that
// no request is accepted twice.
#include "auth/replay_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "wire/random_test.h"

namespace leat {
namespace {

using Window = ReplayWindow::Verdict;
using Verdict = ReplayGuard::Verdict;

TEST(ReplayWindow, AgreesWithASetOfWhatWasSeen) {
  testing::Random random;
  for (int round = 0; round < 20; ++round) {
    ReplayWindow window;
    std::set<uint64_t> seen;
    uint64_t greatest = random.coin() ? random.upto(UINT64_MAX / 2) : random.upto(10'000);
    for (int i = 0; i < 3000; ++i) {
      const uint64_t spread = random.coin() ? 70 : 3 * ReplayWindow::kCounters;
      const uint64_t back = std::min(greatest, random.upto(spread));
      const uint64_t counter = random.coin() ? greatest - back : greatest + random.upto(spread / 4);
      const uint64_t top = seen.empty() ? 0 : *seen.rbegin();
      Window expected = Window::kNew;
      if (!seen.empty() && counter + ReplayWindow::kCounters <= top) {
        expected = Window::kOld;
      } else if (seen.contains(counter)) {
        expected = Window::kSeen;
      }
      ASSERT_EQ(window.take(counter), expected) << counter << " of " << top;
      if (expected == Window::kNew) seen.insert(counter);
      greatest = std::max(greatest, counter);
    }
  }
}

TEST(ReplayWindow, TakesWhatComesInAnotherOrder) {
  ReplayWindow window;
  EXPECT_EQ(window.take(5000), Window::kNew);
  EXPECT_EQ(window.take(905), Window::kNew);
  EXPECT_EQ(window.take(904), Window::kOld);
  EXPECT_EQ(window.take(905), Window::kSeen);
  EXPECT_EQ(window.take(5000), Window::kSeen);
  EXPECT_EQ(window.take(UINT64_MAX), Window::kNew);
  EXPECT_EQ(window.take(UINT64_MAX), Window::kSeen);
  EXPECT_EQ(window.take(0), Window::kOld);
}

TEST(ReplayGuard, SessionsAreApart) {
  ReplayGuard guard({});
  EXPECT_EQ(guard.take({1, 1}, 7, 100, 100), Verdict::kNew);
  EXPECT_EQ(guard.take({1, 2}, 7, 100, 100), Verdict::kNew);
  EXPECT_EQ(guard.take({2, 1}, 7, 100, 100), Verdict::kNew);
  EXPECT_EQ(guard.take({1, 1}, 7, 100, 100), Verdict::kSeen);
  EXPECT_EQ(guard.sessions(), 3u);
}

TEST(ReplayGuard, EvictedSessionRequestsStayRejected) {
  ReplayGuard guard({.idle_s = 600});
  EXPECT_EQ(guard.take({1, 1}, 7, 1000, 1000), Verdict::kNew);
  EXPECT_EQ(guard.take({1, 2}, 7, 1600, 1600), Verdict::kNew);
  EXPECT_EQ(guard.sessions(), 2u);
  EXPECT_EQ(guard.take({1, 3}, 7, 1601, 1601), Verdict::kNew);
  EXPECT_EQ(guard.sessions(), 2u);
  // The date alone would not reject it after the clock was set back.
  EXPECT_EQ(guard.take({1, 1}, 7, 1000, 1100), Verdict::kEvicted);
  // The session continues with a later date.
  EXPECT_EQ(guard.take({1, 1}, 8, 1602, 1602), Verdict::kNew);
  EXPECT_EQ(guard.take({1, 1}, 7, 1000, 1602), Verdict::kEvicted);
}

TEST(ReplayGuard, WhenFullTheOldestGoesAndIsNotTakenTwice) {
  ReplayGuard guard({.sessions_max = 2});
  EXPECT_EQ(guard.take({1, 1}, 7, 1000, 1000), Verdict::kNew);
  EXPECT_EQ(guard.take({1, 2}, 7, 1005, 1001), Verdict::kNew);
  EXPECT_EQ(guard.take({1, 1}, 8, 1002, 1002), Verdict::kNew);  // so the other one is the oldest
  EXPECT_EQ(guard.take({1, 3}, 7, 1006, 1006), Verdict::kNew);
  EXPECT_EQ(guard.sessions(), 2u);
  EXPECT_EQ(guard.take({1, 2}, 7, 1005, 1006), Verdict::kEvicted);
  EXPECT_EQ(guard.take({1, 1}, 9, 1002, 1006), Verdict::kEvicted);  // evicted meanwhile
  EXPECT_EQ(guard.take({1, 3}, 8, 1006, 1006), Verdict::kNew);
}

TEST(ReplayGuard, NothingIsEverTakenTwice) {
  testing::Random random;
  ReplayGuard guard({.sessions_max = 8, .idle_s = 40});
  std::set<std::tuple<uint64_t, uint64_t, int64_t>> taken;
  int64_t now = 1000;
  for (int i = 0; i < 50'000; ++i) {
    now += static_cast<int64_t>(random.upto(4));
    if (random.upto(200) == 7) now -= 30;  // the clock is set back
    const int64_t date = now - 20 + static_cast<int64_t>(random.upto(40));
    const uint64_t session = random.upto(12), counter = random.upto(5000);
    if (guard.take({1, session}, counter, date, now) == Verdict::kNew) {
      ASSERT_TRUE(taken.emplace(session, counter, date).second);
    }
    ASSERT_LE(guard.sessions(), 8u);
    if (taken.empty()) continue;
    const auto [old_session, old_counter, old_date] = *std::next(
        taken.begin(), static_cast<long>(random.upto(std::min<size_t>(taken.size() - 1, 50))));
    ASSERT_NE(guard.take({1, old_session}, old_counter, old_date, now), Verdict::kNew);
  }
}

TEST(ReplayGuard, OfManyThreadsOneHasEachRequest) {
  ReplayGuard guard({});
  constexpr uint64_t kRequests = 4000;
  std::atomic<uint64_t> taken = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kRequests; ++i) {
        if (guard.take({1, i % 3}, i, 1, 1) == Verdict::kNew) taken.fetch_add(1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(taken.load(), kRequests);
}

}  // namespace
}  // namespace leat
