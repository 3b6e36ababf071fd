// SPDX-License-Identifier: Apache-2.0
#include "prefetch/epoch_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kRoot = 1;

// A tree of `directories` with `files` each below one root.
class EpochDetectorTest : public ::testing::Test {
 protected:
  // Reads in this order; returns the number of files until a detection, or nothing.
  std::optional<size_t> read(const std::vector<uint64_t>& order, uint64_t directories,
                             uint64_t files) {
    for (size_t count = 0; count < order.size(); ++count) {
      now_ += 4ms;
      const uint64_t directory = order[count] / files;
      const double position =
          static_cast<double>(order[count] % files) / static_cast<double>(files);
      std::vector<EpochDetector::Level> levels{{100 + directory, position, files}};
      if (directories > 1) {
        levels.push_back(
            {kRoot, (static_cast<double>(directory) + position) / static_cast<double>(directories),
             directories * files});
      }
      if (const auto at = detector_.observe(now_, levels)) {
        detected_ = levels[*at].directory;
        return count + 1;
      }
    }
    return std::nullopt;
  }
  std::vector<uint64_t> in_order(uint64_t first, uint64_t end) {
    std::vector<uint64_t> order(end - first);
    std::iota(order.begin(), order.end(), first);
    return order;
  }
  std::vector<uint64_t> shuffled(uint64_t first, uint64_t end) {
    std::vector<uint64_t> order = in_order(first, end);
    std::ranges::shuffle(order, random_);
    return order;
  }
  // Readers that each read a contiguous part in order, in turn.
  static std::vector<uint64_t> in_shards(uint64_t files, uint64_t readers) {
    std::vector<uint64_t> order;
    for (uint64_t at = 0; at < files / readers; ++at) {
      for (uint64_t reader = 0; reader < readers; ++reader) {
        order.push_back(reader * (files / readers) + at);
      }
    }
    return order;
  }

  std::mt19937_64 random_{3};
  EpochDetector::Clock::time_point now_{1000h};
  EpochDetector detector_;
  uint64_t detected_ = 0;
};

TEST_F(EpochDetectorTest, RandomEpochIsDetectedInHalfAPerCent) {
  for (const auto& [directories, files] :
       {std::pair<uint64_t, uint64_t>{1, 10'000}, {1000, 13}, {10, 1300}, {100, 10'000}}) {
    for (int epoch = 0; epoch < 50; ++epoch) {
      detector_ = EpochDetector();
      const auto at = read(shuffled(0, directories * files), directories, files);
      ASSERT_TRUE(at) << directories << " × " << files;
      EXPECT_LE(*at, directories * files / 200) << directories << " × " << files;
      EXPECT_EQ(detected_, directories == 1 ? 100 : kRoot);
    }
  }
}

TEST_F(EpochDetectorTest, TheDeepestTreeIsDetected) {
  ASSERT_TRUE(read(shuffled(3000, 4000), 100, 1000));
  EXPECT_EQ(detected_, 103u) << "only the directory that is read";
}

TEST_F(EpochDetectorTest, NameOrderIsNotDetected) {
  EXPECT_FALSE(read(in_order(0, 10'000), 1, 10'000)) << "one directory";
  EXPECT_FALSE(read(in_order(0, 13'000), 1000, 13)) << "grep of a tree of small directories";
  EXPECT_FALSE(read(in_order(0, 12'000), 10, 1200));
  EXPECT_FALSE(read(in_order(0, 320), 1, 320)) << "the smallest tree";
}

TEST_F(EpochDetectorTest, NameOrderWithFewMissesIsNotDetected) {
  std::vector<uint64_t> order = in_order(0, 10'000);
  std::erase_if(order, [&](uint64_t) { return random_() % 10 != 0; });
  EXPECT_FALSE(read(order, 1, 10'000)) << "prefetch has the others";
  EXPECT_FALSE(read(order, 100, 100));
}

TEST_F(EpochDetectorTest, ReadersOfShardsInOrderAreNotDetected) {
  EXPECT_FALSE(read(in_shards(12'000, 8), 1, 12'000));
  EXPECT_FALSE(read(in_shards(12'000, 8), 10, 1200));
}

TEST_F(EpochDetectorTest, AFewFilesAreNotDetected) {
  std::vector<uint64_t> few = shuffled(0, 10'000);
  few.resize(39);
  EXPECT_FALSE(read(few, 1, 10'000));
  now_ += 31s;
  EXPECT_FALSE(read(few, 1, 10'000)) << "the files before the pause do not count";
}

TEST_F(EpochDetectorTest, ASmallTreeIsNotDetected) {
  EXPECT_FALSE(read(shuffled(0, 300), 1, 300));
}

TEST_F(EpochDetectorTest, RandomReadsAfterOthersInOrderAreDetected) {
  EXPECT_FALSE(read(in_order(0, 5000), 1, 10'000));
  const auto at = read(shuffled(5000, 10'000), 1, 10'000);
  ASSERT_TRUE(at);
  EXPECT_LE(*at, 2 * 40u + 1);
}

TEST_F(EpochDetectorTest, ManyDirectoriesTakeLittleMemory) {
  detector_ = EpochDetector({.directories_max = 8});
  for (uint64_t directory = 0; directory < 1000; ++directory) {
    const EpochDetector::Level level{directory, 0.5, 10'000};
    now_ += 1ms;
    EXPECT_FALSE(detector_.observe(now_, {&level, 1}));
  }
  EXPECT_TRUE(read(shuffled(0, 10'000), 1, 10'000));
}

}  // namespace
}  // namespace leat
