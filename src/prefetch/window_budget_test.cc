// SPDX-License-Identifier: Apache-2.0
#include "prefetch/window_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "prefetch/stream.h"

namespace leat {
namespace {

constexpr uint64_t kRead = 128 * kKiB;

class WindowBudgetTest : public ::testing::Test {
 protected:
  std::function<WindowBudget::Time()> clock() {
    return [this] { return now_; };
  }
  WindowBudget::Time now_{std::chrono::hours(1)};
};

uint64_t bytes_of(const std::vector<ByteRange>& ranges) {
  uint64_t sum = 0;
  for (const ByteRange& range : ranges) sum += range.size;
  return sum;
}

// A sequential reader, and whether it waits each time.
struct Reader {
  Reader(WindowBudget& budget, bool waits) : table(64 * kGiB, {}, &budget), always_waits(waits) {}
  // Bytes prefetched ahead of the reader after it has read `bytes` more.
  uint64_t go_on(uint64_t bytes) {
    for (uint64_t to = at + bytes; at < to; at += kRead) {
      for (const ByteRange& range : table.observe({at, kRead})) planned = range.end();
      if (always_waits) table.on_stall({at, kRead});
    }
    return planned > at ? planned - at : 0;
  }
  StreamTable table;
  const bool always_waits;
  uint64_t at = 0, planned = 0;
};

TEST_F(WindowBudgetTest, SmallDemandIsMetOthersShareTheRest) {
  WindowBudget budget(100 * kMiB, clock());
  WindowBudget::Share small, large, larger;
  EXPECT_EQ(budget.request(small, 10 * kMiB), 10 * kMiB);
  EXPECT_EQ(budget.request(large, 64 * kMiB), 64 * kMiB);
  EXPECT_FALSE(budget.tight());
  EXPECT_EQ(budget.request(larger, 80 * kMiB), 45 * kMiB);
  EXPECT_TRUE(budget.tight());
  EXPECT_EQ(budget.request(large, 64 * kMiB), 45 * kMiB);
  EXPECT_EQ(budget.request(small, 10 * kMiB), 10 * kMiB);
  larger = {};
  EXPECT_EQ(budget.request(large, 64 * kMiB), 64 * kMiB);
  EXPECT_EQ(budget.streams(), 2u);
}

TEST_F(WindowBudgetTest, TooManyStreamsGetNoWindow) {
  WindowBudget budget(128 * kMiB, clock());
  std::vector<WindowBudget::Share> shares(200);
  for (auto& share : shares) budget.request(share, 2 * kMiB);
  for (auto& share : shares) EXPECT_EQ(budget.request(share, 2 * kMiB), 0u);
  EXPECT_EQ(budget.granted_bytes(), 0u);
  shares.resize(100);
  for (auto& share : shares) {
    EXPECT_EQ(budget.request(share, 2 * kMiB), 128 * kMiB / 100);
  }
}

TEST_F(WindowBudgetTest, IdleStreamLosesItsShare) {
  WindowBudget budget(64 * kMiB, clock());
  WindowBudget::Share idle, busy;
  budget.request(idle, 64 * kMiB);
  EXPECT_EQ(budget.request(busy, 64 * kMiB), 32 * kMiB);
  now_ += WindowBudget::kIdle;
  budget.request(busy, 64 * kMiB);
  EXPECT_EQ(budget.request(busy, 64 * kMiB), 64 * kMiB);
  EXPECT_EQ(budget.streams(), 1u);
  EXPECT_EQ(budget.request(idle, 64 * kMiB), 32 * kMiB);
}

TEST_F(WindowBudgetTest, StreamsInUseAreThoseThatReadLately) {
  WindowBudget budget(64 * kMiB, clock());
  WindowBudget::Share idle, busy, other;
  budget.request(idle, 8 * kMiB);
  now_ += WindowBudget::kIdle;
  budget.request(busy, 16 * kMiB);
  budget.request(other, 8 * kMiB);
  EXPECT_EQ(budget.streams(), 3u);
  EXPECT_EQ(budget.use().streams, 2u);
  EXPECT_EQ(budget.use().window_bytes, 24 * kMiB);
  // The grant counts, not the want.
  EXPECT_EQ(budget.request(busy, 128 * kMiB), 56 * kMiB);
  EXPECT_EQ(budget.use().window_bytes, 64 * kMiB);
}

TEST_F(WindowBudgetTest, TheSumOfAllSharesStaysWithinIt) {
  const auto seed =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  WindowBudget budget(97 * kMiB, clock());
  std::vector<WindowBudget::Share> shares(300);
  std::vector<uint64_t> wants(shares.size());
  for (int step = 0; step < 20'000; ++step) {
    const size_t i = random() % shares.size();
    if (random() % 3 == 0) {
      shares[i] = {};
      wants[i] = 0;
    } else {
      wants[i] = (1 + random() % 64) * kMiB;
      budget.request(shares[i], wants[i]);
    }
    ASSERT_LE(budget.granted_bytes(), 97 * kMiB) << seed;
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (wants[i] > 0) sum += budget.request(shares[i], wants[i]);
  }
  EXPECT_LE(sum, 97 * kMiB) << seed;
}

TEST_F(WindowBudgetTest, ALoneReaderGetsTheLargestWindow) {
  WindowBudget budget(192 * kMiB, clock());
  Reader reader(budget, false);
  EXPECT_GE(reader.go_on(256 * kMiB), 48 * kMiB);
}

TEST_F(WindowBudgetTest, WindowStaysWhileDemandIsMet) {
  WindowBudget budget(64 * kMiB, clock());
  Reader reader(budget, false);
  reader.go_on(256 * kMiB);
  for (int i = 0; i < 256; ++i) ASSERT_GE(reader.go_on(kMiB), 16 * kMiB) << i;
}

TEST_F(WindowBudgetTest, ShortMemoryGrowsOnlyStalledStreams) {
  WindowBudget budget(64 * kMiB, clock());
  Reader patient(budget, false), starved(budget, true);
  uint64_t of_patient = 0, of_starved = 0;
  for (int i = 0; i < 64; ++i) {
    of_patient = patient.go_on(8 * kMiB);
    of_starved = starved.go_on(8 * kMiB);
  }
  EXPECT_LE(of_patient, 16 * kMiB);
  EXPECT_GE(of_starved, 24 * kMiB);
  EXPECT_LE(of_patient + of_starved, 64 * kMiB + 2 * kRead);
}

TEST_F(WindowBudgetTest, TwoHundredReadersGetEqualWindows) {
  WindowBudget budget(kGiB, clock());
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 200; ++i) readers.push_back(std::make_unique<Reader>(budget, true));
  std::vector<uint64_t> ahead(readers.size());
  readers[0]->go_on(256 * kMiB);  // long before the others
  for (int round = 0; round < 64; ++round) {
    for (size_t i = 0; i < readers.size(); ++i) ahead[i] = readers[i]->go_on(2 * kMiB);
  }
  uint64_t sum = 0;
  for (uint64_t bytes : ahead) {
    EXPECT_GE(bytes, 3 * kMiB);
    EXPECT_LE(bytes, 6 * kMiB);
    sum += bytes;
  }
  EXPECT_LE(sum, kGiB);
}

TEST_F(WindowBudgetTest, RandomReadsTakeNoShare) {
  WindowBudget budget(kGiB, clock());
  StreamTable table(64 * kGiB, {}, &budget);
  uint64_t planned = 0;
  for (uint64_t i = 1; i < 10'000; ++i) {
    planned += bytes_of(table.observe({i * 7919 * kMiB % (64 * kGiB), 4 * kKiB}));
  }
  EXPECT_EQ(budget.streams(), 0u);
  EXPECT_EQ(planned, 0u);
}

}  // namespace
}  // namespace leat
