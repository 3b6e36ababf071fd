// SPDX-License-Identifier: Apache-2.0
#include "prefetch/name_order_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace leat {
namespace {

using Places = std::vector<uint64_t>;

Places places(uint64_t count) {
  Places all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

struct Outcome {
  uint64_t opens = 0;
  uint64_t returned = 0;    // places
  uint64_t in_time = 0;     // opens of returned places
  uint64_t never_read = 0;  // returned places without a later open; below the last one
  uint64_t calls = 0;       // of observe() with a result
  uint64_t most_out = 0;    // maximum of returned, unopened places

  double share() const { return static_cast<double>(in_time) / static_cast<double>(opens); }
};

Outcome run(NameOrderDetector& order, const Places& opens) {
  Outcome outcome{.opens = opens.size()};
  std::set<uint64_t> out;
  for (const uint64_t place : opens) {
    if (auto at = out.find(place); at != out.end()) {
      ++outcome.in_time;
      out.erase(at);
    }
    const std::optional<PlaceRun> ahead = order.observe(place);
    if (!ahead) continue;
    ++outcome.calls;
    for (uint32_t i = 0; i < ahead->count; ++i) {
      out.insert(ahead->first + uint64_t{i} * ahead->stride);
      ++outcome.returned;
    }
    outcome.most_out = std::max<uint64_t>(outcome.most_out, out.size());
  }
  const uint64_t last = opens.empty() ? 0 : *std::ranges::max_element(opens);
  outcome.never_read = static_cast<uint64_t>(std::distance(out.begin(), out.lower_bound(last)));
  return outcome;
}

Outcome run(const Places& opens) {
  NameOrderDetector order;
  return run(order, opens);
}

// Workers of about the same speed: the next one is drawn at random.
Places interleave(std::vector<Places> workers, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<size_t> at(workers.size());
  Places opens;
  for (;;) {
    std::vector<size_t> left;
    for (size_t worker = 0; worker < workers.size(); ++worker) {
      if (at[worker] < workers[worker].size()) left.push_back(worker);
    }
    if (left.empty()) return opens;
    const size_t worker = left[random() % left.size()];
    opens.push_back(workers[worker][at[worker]++]);
  }
}

TEST(NameOrderDetector, FollowsOneReaderAfterThreeNames) {
  NameOrderDetector order;
  EXPECT_FALSE(order.observe(10));
  EXPECT_FALSE(order.observe(11));
  EXPECT_EQ(order.observe(12), (PlaceRun{13, 1, 4}));
}

TEST(NameOrderDetector, OneReaderFindsNearlyAllNamesAhead) {
  const Outcome outcome = run(places(10'000));
  EXPECT_GT(outcome.share(), 0.99);
  EXPECT_LE(outcome.never_read, 256u);  // behind the last name
  EXPECT_LT(outcome.calls, 10'000u / 32);
}

TEST(NameOrderDetector, PrefetchedNamesNeverExceedOpenedOnes) {
  NameOrderDetector order;
  uint64_t given = 0;
  for (uint64_t place = 0; place < 2000; ++place) {
    if (auto ahead = order.observe(place)) given += ahead->count;
    EXPECT_LE(given, place + place + 8) << place;
    EXPECT_LE(given, place + 257) << place;
  }
}

TEST(NameOrderDetector, FollowsThreadsThatShareOneList) {
  std::mt19937_64 random(1);
  Places opens = places(10'000);
  for (size_t at = 0; at + 4 < opens.size(); at += 2) {
    std::swap(opens[at + random() % 4], opens[at + random() % 4]);
  }
  EXPECT_GT(run(opens).share(), 0.98);
}

TEST(NameOrderDetector, FollowsWorkersThatTakeEveryNthName) {
  for (const uint64_t workers : {2, 4, 8, 16}) {
    std::vector<Places> own(workers);
    for (uint64_t place = 0; place < 10'000; ++place) own[place % workers].push_back(place);
    const Outcome outcome = run(interleave(own, workers));
    EXPECT_GT(outcome.share(), 0.9) << workers;
    EXPECT_LE(outcome.never_read, 600u) << workers;
  }
}

// Threads that wait for a disk drift far apart.
TEST(NameOrderDetector, FollowsWorkersOfDifferentSpeed) {
  std::mt19937_64 random(4);
  std::vector<Places> own(4);
  for (uint64_t place = 0; place < 12'000; ++place) own[place % 4].push_back(place);
  const uint64_t speeds[] = {10, 8, 7, 5};
  std::vector<size_t> at(4);
  Places opens;
  while (opens.size() < 12'000) {
    const size_t worker = random() % 4;
    if (random() % 10 >= speeds[worker] || at[worker] == own[worker].size()) continue;
    opens.push_back(own[worker][at[worker]++]);
  }
  const Outcome outcome = run(opens);
  EXPECT_GT(outcome.share(), 0.9);
}

TEST(NameOrderDetector, FollowsOneHostThatTakesEveryNthName) {
  for (const uint64_t hosts : {2, 3, 8, 16, 32}) {
    Places own;
    for (uint64_t place = 5; place < 40'000; place += hosts) own.push_back(place);
    const Outcome outcome = run(own);
    EXPECT_GT(outcome.share(), 0.97) << hosts;
    EXPECT_LE(outcome.never_read, 256u) << hosts;
  }
}

TEST(NameOrderDetector, FollowsWorkersThatTakeBatchesInTurn) {
  for (const auto& [workers, batch] : {std::pair<uint64_t, uint64_t>{2, 32}, {4, 64}, {8, 64}}) {
    std::vector<Places> own(workers);
    for (uint64_t place = 0; place < 20'000; ++place) {
      own[place / batch % workers].push_back(place);
    }
    const Outcome outcome = run(interleave(own, batch));
    EXPECT_GT(outcome.share(), 0.85) << workers << " × " << batch;
    EXPECT_LE(outcome.never_read, 1000u) << workers << " × " << batch;
  }
}

TEST(NameOrderDetector, FollowsProcessesWithPartsOfTheirOwn) {
  std::vector<Places> own(4);
  for (uint64_t place = 0; place < 20'000; ++place) own[place / 5000].push_back(place);
  EXPECT_GT(run(interleave(own, 3)).share(), 0.9);
}

TEST(NameOrderDetector, FollowsTheSameSliceEachEpoch) {
  NameOrderDetector order;
  Places slice(3000);
  std::iota(slice.begin(), slice.end(), 7000);
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_GT(run(order, slice).share(), 0.97) << epoch;
}

TEST(NameOrderDetector, FollowsEpochsOfASmallDirectory) {
  NameOrderDetector order;
  order.end_at(100);
  for (int epoch = 0; epoch < 4; ++epoch) EXPECT_GT(run(order, places(100)).share(), 0.8) << epoch;
}

TEST(NameOrderDetector, ReadersOfAllNamesAtOnceGetLittleTwice) {
  const Outcome outcome = run(interleave(std::vector<Places>(4, places(5000)), 9));
  EXPECT_LE(outcome.returned, 2 * 5000u);
  EXPECT_LE(outcome.never_read, 256u);
}

TEST(NameOrderDetector, RandomOrderPrefetchesNothing) {
  uint64_t given = 0, opens = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    NameOrderDetector order;
    for (int epoch = 0; epoch < 3; ++epoch) {
      Places all = places(10'000);
      std::ranges::shuffle(all, random);
      given += run(order, all).returned;
      opens += all.size();
    }
  }
  EXPECT_LT(given, opens / 1000);
}

TEST(NameOrderDetector, RandomOrderOfFewNamesPrefetchesLittle) {
  uint64_t given = 0, opens = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    NameOrderDetector order;
    for (int epoch = 0; epoch < 3; ++epoch) {
      Places all = places(100);
      std::ranges::shuffle(all, random);
      given += run(order, all).returned;
      opens += all.size();
    }
  }
  EXPECT_LT(given, opens / 50);
}

TEST(NameOrderDetector, RandomDrawsPrefetchNothing) {
  std::mt19937_64 random(11);
  Places draws(100'000);
  for (uint64_t& draw : draws) draw = random() % 1'000'000;
  EXPECT_LT(run(draws).returned, 100u);
}

TEST(NameOrderDetector, DescendingOrderPrefetchesNothing) {
  Places all = places(10'000);
  std::ranges::reverse(all);
  EXPECT_EQ(run(all).returned, 0u);
}

TEST(NameOrderDetector, LeavesTheOrderWhenReadersDo) {
  NameOrderDetector order;
  run(order, places(3000));
  ASSERT_TRUE(order.ordered());
  Places rest(7000);
  std::iota(rest.begin(), rest.end(), 3000);
  std::mt19937_64 random(5);
  std::ranges::shuffle(rest, random);
  const Outcome after = run(order, rest);
  EXPECT_LT(after.returned, 64u + 256u);
  EXPECT_FALSE(order.ordered());
  EXPECT_EQ(order.window(), NameOrderDetectorOptions{}.window_min);
}

TEST(NameOrderDetector, WindowShrinksWhenMostNamesAreSkipped) {
  std::mt19937_64 random(5);
  Places some;
  for (uint64_t place = 0; place < 40'000; ++place) {
    if (random() % 16 == 0) some.push_back(place);
  }
  NameOrderDetector order;
  const Outcome outcome = run(order, some);
  EXPECT_LE(outcome.returned, outcome.opens * 2);
}

TEST(NameOrderDetector, CountsUsedAndWastedNames) {
  NameOrderDetector order;
  run(order, places(2000));
  EXPECT_EQ(order.used() + order.wasted() + (order.planned() - order.used() - order.wasted()),
            order.planned());
  EXPECT_GT(order.used(), 1900u);
  EXPECT_EQ(order.wasted(), 0u);
  // From far behind, so that the places returned last are passed over.
  Places behind(2000);
  std::iota(behind.begin(), behind.end(), 6000);
  run(order, behind);
  EXPECT_GT(order.wasted(), 0u);
  EXPECT_LE(order.wasted(), 256u);
}

TEST(NameOrderDetector, NamesFarBehindAnOpenWerePassedOver) {
  NameOrderDetector order;
  run(order, places(100));
  const uint64_t out = order.planned() - order.used();
  ASSERT_GT(out, 0u);
  for (uint64_t block = 1; block < 8; ++block) order.observe((block + 64) * 64);
  EXPECT_EQ(order.wasted(), out);
}

TEST(NameOrderDetector, NamesBehindTheEndDoNotCount) {
  constexpr uint64_t kEnd = 10 * 64 + 3;
  NameOrderDetector order;
  std::set<uint64_t> out;
  const auto open = [&](uint64_t place) {
    out.erase(place);
    const std::optional<PlaceRun> ahead = order.observe(place);
    for (uint32_t i = 0; ahead && i < ahead->count; ++i) {
      out.insert(ahead->first + uint64_t{i} * ahead->stride);
    }
  };
  for (uint64_t place = 0; place < 560; ++place) open(place);
  ASSERT_GT(*out.rbegin(), kEnd);
  order.end_at(kEnd);
  out.erase(out.lower_bound(kEnd), out.end());
  EXPECT_EQ(order.planned() - order.used(), out.size());
  for (uint64_t place = 560; place < kEnd; ++place) open(place);
  EXPECT_EQ(order.used(), order.planned());
  EXPECT_TRUE(out.empty());
}

// Each of these has no other open near it.
void open_lone_places(NameOrderDetector& order, uint64_t count) {
  for (uint64_t i = 1; i <= count; ++i) order.observe(20'000 + 1000 * i);
}

TEST(NameOrderDetector, OrderEndsWhenElevenOf32GoElsewhere) {
  NameOrderDetector order;
  run(order, places(100));
  open_lone_places(order, 10);
  EXPECT_TRUE(order.ordered());
  open_lone_places(order, 1);
  EXPECT_FALSE(order.ordered());
}

TEST(NameOrderDetector, EarlierPrefetchedNamesStillCount) {
  NameOrderDetector order;
  run(order, places(100));
  open_lone_places(order, 11);
  ASSERT_FALSE(order.ordered());
  ASSERT_GT(order.planned() - order.used(), 20u);
  uint64_t in_order = 0, given = 0;
  for (uint64_t place = 100'000; place < 100'200; ++place) {
    const std::optional<PlaceRun> ahead = order.observe(place);
    if (order.ordered()) ++in_order;
    if (!ahead) continue;
    given += ahead->count;
    EXPECT_LE(order.planned() - order.used() - order.wasted(), in_order + 4) << place;
  }
  EXPECT_GT(given, 0u);
}

// As the next batch of a worker that others have come near to.
TEST(NameOrderDetector, ASkipWithinPrefetchedNamesIsFollowed) {
  NameOrderDetector order;
  uint64_t end = 0;  // of the returned places
  for (uint64_t place = 0; place < 100; ++place) {
    if (const auto ahead = order.observe(place)) end = ahead->first + ahead->count;
  }
  ASSERT_GT(end, 140u);
  const std::optional<PlaceRun> ahead = order.observe(end - 5);
  ASSERT_TRUE(ahead);
  EXPECT_EQ(ahead->first, end);
}

TEST(NameOrderDetector, AWindowThatShrankGrowsByUseAlone) {
  std::mt19937_64 random(6);
  NameOrderDetector order;
  uint32_t window = order.window(), shrunk = 0;
  uint64_t since = 0;  // used() when the window got its size
  for (uint64_t place = 0; place < 50'000; ++place) {
    if (random() % 10 >= 4) continue;
    const uint64_t before = order.used();
    order.observe(place);
    if (order.window() == window) continue;
    if (order.window() > window) {
      EXPECT_GE(order.used() - since, window) << place;
      since = order.used();
    } else {
      ++shrunk;
      since = before;
    }
    window = order.window();
  }
  EXPECT_GT(shrunk, 0u);
}

TEST(NameOrderDetector, ContinuesInTheNextDirectory) {
  NameOrderDetector before;
  run(before, places(1000));
  NameOrderDetector next;
  next.follow(before.window(), 100);
  const Outcome outcome = run(next, places(1300));
  EXPECT_GT(next.used(), 1290u);
  EXPECT_LE(outcome.never_read, 256u);
}

}  // namespace
}  // namespace leat
