// SPDX-License-Identifier: Apache-2.0
// A compaction that cannot make its copies durable yet keeps them and tries again.
#include <gtest/gtest.h>

#include "cache/store_fixture_test.h"
#include "telemetry/metric_values_test.h"

namespace leat {
namespace {

constexpr uint64_t kObjectBytes = 100 * kKiB;
constexpr size_t kObjects = 10, kLive = 2;

// Fails the first sync of the segments' names after compaction has begun.
class UnnamedDisk : public FaultyDisk {
 public:
  using FaultyDisk::FaultyDisk;
  std::atomic<int> failed = 0;

  Result<Buffer> read_file(const std::string& path, size_t bytes_max) override {
    // The opening reads the index first, then compaction.
    if (path.ends_with("00000001.index") && ++index_reads_ == 2) fails_ = true;
    return FaultyDisk::read_file(path, bytes_max);
  }
  Result<> sync_directory(const std::string& path) override {
    if (path.ends_with("/segments") && fails_.exchange(false)) {
      ++failed;
      return error(StatusCode::kInternal, "sync " + path);
    }
    return FaultyDisk::sync_directory(path);
  }

 private:
  std::atomic<int> index_reads_ = 0;
  std::atomic<bool> fails_ = false;
};

double moved() {
  return leat::testing::metric("leat_cache_compaction_moved_bytes_total");
}

TEST(CompactionRetry, AFailedSyncOfNamesMovesNothingTwice) {
  TempDirectory directory;
  PageStoreOptions options = TestStore::options(directory.path());
  std::vector<FileRefPtr> refs;
  for (size_t i = 0; i < kObjects; ++i) {
    refs.push_back(object(fmt::format("{}", i), kObjectBytes));
  }
  {
    TestStore store(options);
    for (const auto& ref : refs) ASSERT_TRUE(store.write_whole(ref));
    for (size_t i = kLive; i < kObjects; ++i) store->drop(refs[i]->id);
    store.close();
  }
  const double before = moved();
  options.compact_interval = std::chrono::milliseconds(1);
  Executor below({.threads = 1});
  auto disk = std::make_shared<UnnamedDisk>(make_disk(below));
  TestStore store(options, disk);
  ASSERT_TRUE(store.ok());
  const std::string source = directory.path() + "/segments/00000001.data";
  until([&] { return !std::filesystem::exists(source); });
  EXPECT_EQ(disk->failed, 1);
  EXPECT_EQ(moved() - before, static_cast<double>(kLive * kObjectBytes));
  for (size_t i = 0; i < kLive; ++i) EXPECT_TRUE(store.holds(refs[i])) << i;
}

}  // namespace
}  // namespace leat
