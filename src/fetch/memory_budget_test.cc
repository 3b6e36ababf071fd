// SPDX-License-Identifier: Apache-2.0
// Tests that the budget's count matches the heap of the process.
#include <gtest/gtest.h>

#include "fetch/fetcher.h"
#include "fetch/fetcher_rig_test.h"
#include "fetch/flight.h"
#include "fetch/heap_meter_test.h"

namespace leat {
namespace {

using testing::heap_bytes;
using testing::heap_bytes_of_system;
using testing::kHeapIsCounted;

constexpr uint64_t kBudget = 16 * kMiB;
constexpr uint64_t kTiny = 200;

Task<> read_files(Fetcher* fetcher, std::vector<FileRefPtr>* files) {
  for (FileRefPtr& file : *files) {
    Result<Bytes> bytes = co_await fetcher->read(Context::background(), file, {0, file->size});
    EXPECT_TRUE(bytes);
    file.reset();  // as a program that closes the file
  }
}

class MemoryBudgetTest : public testing::FetcherRig {
 protected:
  // Opens, reads and closes files of that size. Memory that was allocated before does not count:
  // the objects, and static data.
  void put_all(uint64_t files, uint64_t size) {
    const std::string content(size, 'x');
    for (uint64_t i = 0; i < files; ++i) source_->put(key(i), content);
    FileRefPtr first = put("first", content);
    executor_.block_on(fetcher_->read(Context::background(), first, {0, size}));
    refs_.reserve(files);
    heap_bytes();
  }
  void read_all(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      const SourceObject object = executor_.block_on(source_->stat({}, {key(i)})).value();
      refs_.push_back(std::make_shared<FileRef>(
          FileRef::make(source_->id(), object.key, object.version, object.size)));
    }
    executor_.block_on(read_files(fetcher_.get(), &refs_));
    refs_.clear();
  }
  static std::string key(uint64_t i) {
    return "train/part-0001/image-of-something-" + std::to_string(i);
  }

  std::vector<FileRefPtr> refs_;
};

TEST_F(MemoryBudgetTest, TinyRangesCountWithAllThatTheyTake) {
  start({.memory_bytes_max = kBudget}, /*with_store=*/false);
  put_all(10'000, kTiny);
  const int64_t before = heap_bytes();
  read_all(0, 10'000);
  const int64_t grown = heap_bytes() - before;
  const FetcherStats stats = fetcher_->stats();
  RecordProperty("bytes_each", static_cast<int>(grown / static_cast<int64_t>(stats.files)));
  EXPECT_LE(stats.memory_bytes, kBudget);
  EXPECT_GT(stats.memory_bytes, kBudget - held_bytes(kTiny));
  EXPECT_EQ(stats.memory_bytes, stats.files * held_bytes(kTiny));
  // No other code allocated: the heap grew at most by the counted bytes, and not by much less.
  EXPECT_LE(grown, static_cast<int64_t>(kBudget));
  if (kHeapIsCounted) EXPECT_GE(grown, static_cast<int64_t>(kBudget / 2));
}

TEST_F(MemoryBudgetTest, TinyRangesThatComeAndGoLeaveNoHoles) {
  start({.memory_bytes_max = kBudget}, /*with_store=*/false);
  put_all(30'000, kTiny);
  const int64_t before = heap_bytes_of_system();
  for (uint64_t from = 0; from < 30'000; from += 5'000) read_all(from, from + 5'000);
  EXPECT_LE(heap_bytes_of_system() - before, static_cast<int64_t>(2 * kBudget));
}

TEST_F(MemoryBudgetTest, BufferCountsWithItsRoundedSize) {
  start({.memory_bytes_max = kBudget}, /*with_store=*/false);
  constexpr uint64_t kSize = 3 * kBlockBytes;  // in a buffer of four
  put_all(200, kSize);
  const int64_t before = heap_bytes();
  read_all(0, 200);
  const FetcherStats stats = fetcher_->stats();
  EXPECT_LE(stats.memory_bytes, kBudget);
  EXPECT_EQ(stats.memory_bytes, stats.files * (4 * kBlockBytes + kFlightBytes));
  // malloc's header of each page-aligned buffer is not counted.
  EXPECT_LE(heap_bytes() - before, static_cast<int64_t>(kBudget + kBudget / 4));
}

}  // namespace
}  // namespace leat
