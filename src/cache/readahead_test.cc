// SPDX-License-Identifier: Apache-2.0
#include "cache/readahead.h"

#include <gtest/gtest.h>

#include <future>

#include "cache/page_cache_test.h"

namespace leat {
namespace {

std::vector<FileRefPtr> small_objects(TestStore& store, size_t count) {
  std::vector<FileRefPtr> refs;
  for (size_t i = 0; i < count; ++i) {
    refs.push_back(object("small" + std::to_string(i), 50'000));
    EXPECT_TRUE(store.write_whole(refs.back()));
  }
  EXPECT_TRUE(store.flush());
  return refs;
}

uint64_t cold_bytes(TestStore& store, const std::vector<FileRefPtr>& refs) {
  auto promise = std::make_shared<std::promise<uint64_t>>();
  store->readahead(refs, [promise](uint64_t bytes) { promise->set_value(bytes); });
  return promise->get_future().get();
}

TEST(Readahead, SmallObjectsAreReadIntoThePageCache) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  const std::vector<FileRefPtr> refs = small_objects(store, 20);
  for (const FileRefPtr& ref : refs) EXPECT_TRUE(store.holds(ref));  // verified from here on
  ASSERT_TRUE(drop_page_cache(directory.path()));
  EXPECT_GE(cold_bytes(store, refs), 20u * 50'000);
  for (const FileRefPtr& ref : refs) EXPECT_TRUE(store.holds(ref));
}

TEST(Readahead, MissingObjectsReadNothing) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  EXPECT_EQ(cold_bytes(store, {object("never", 1000), object("large", 5 * kMiB)}), 0u);
}

TEST(Readahead, IsNotCountedAsARead) {
  TempDirectory directory;
  TestStore store(TestStore::options(directory.path()));
  const std::vector<FileRefPtr> refs = small_objects(store, 3);
  const auto before = store->stats();
  cold_bytes(store, refs);
  EXPECT_EQ(store->stats().used_bytes, before.used_bytes);
  EXPECT_EQ(store->stats().corrupt_blocks, 0u);
}

TEST(Readahead, FailingDiskLosesNothing) {
  TempDirectory directory;
  Executor executor;
  auto disk = std::make_shared<FaultyDisk>(make_disk(executor));
  TestStore store(TestStore::options(directory.path()), disk);
  const std::vector<FileRefPtr> refs = small_objects(store, 3);
  disk->fault = [](FaultyDisk::Call call, uint64_t) {
    return call == FaultyDisk::Call::kRead ? EIO : 0;
  };
  store->readahead(refs, {});
  EXPECT_TRUE(store.flush());
  disk->fault = nullptr;
  for (const FileRefPtr& ref : refs) EXPECT_TRUE(store.holds(ref));
}

TEST(Readahead, NearbyExtentsAreMerged) {
  class Nothing : public FdOwner {
    std::string data_name() const override { return "data"; }
    std::string side_name() const override { return "side"; }
  };
  const auto one = std::make_shared<Nothing>(), other = std::make_shared<Nothing>();
  const std::vector<FileExtent> merged = merge_extents(
      {{one, 8 * kMiB, 1000}, {one, 4096, 4096}, {other, 0, 10}, {one, 12'288, 4096}});
  ASSERT_EQ(merged.size(), 3u);
  uint64_t bytes = 0;
  for (const FileExtent& extent : merged) bytes += extent.size;
  EXPECT_EQ(bytes, 1000u + 12'288 - 4096 + 4096 + 10);
}

}  // namespace
}  // namespace leat
