// SPDX-License-Identifier: Apache-2.0
// Directories of earlier versions: all their objects are served, and new ones are written in the
// present format. test_data/ has one for each earlier format.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/read_file.h"
#include "cache/store_fixture_test.h"
#include "cache/superblock.h"

namespace leat {
namespace {

void unpack(const std::string& name, const std::string& into) {
  const std::string command =
      fmt::format("tar -xzf '{}/{}' -C '{}'", LEAT_CACHE_TEST_DATA, name, into);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(concurrency-mt-unsafe)
}

FileRefPtr sample(uint64_t number, uint64_t size) {
  static const StoreId store = make_store_id("s3", "localhost", "", "bucket");
  return std::make_shared<const FileRef>(
      FileRef::make(store, fmt::format("train/part-00000/sample-{:016}", number),
                    Version::etag("d41d8cd98f00b204e9800998ecf8427e"), size));
}

void expect_all_of_format_1(TestStore& store) {
  for (uint64_t i = 0; i < 8; ++i) {
    auto ref = i < 6 ? sample(i, 5000) : sample(i - 6, 1'100'000);
    Result<Bytes> bytes = store.read_whole(ref);
    ASSERT_TRUE(bytes) << ref->key << ": " << bytes.error().to_string();
    EXPECT_EQ(bytes->to_string(), std::string(ref->size, '\x5a')) << ref->key;
  }
}

// Before pools: .meta of format 1, headers of segments with zeros instead of the pool.
TEST(Upgrade, Format1) {
  TempDirectory directory;
  unpack("format_1.tar.gz", directory.path());
  auto options = TestStore::options(directory.path());
  auto of_pool = std::make_shared<FileRef>(*object("new", 300'000));
  of_pool->pool = pool_of_mount("/data");
  {
    TestStore store(options);
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    expect_all_of_format_1(store);
    ASSERT_TRUE(store.write_whole(of_pool));
    EXPECT_EQ(store->stats().corrupt_blocks, 0u);
    EXPECT_NE(store->backing(*sample(0, 1'100'000)), nullptr);
    store.close();
  }
  const std::string bytes = *read_file(directory.path() + "/superblock");
  auto superblock = Superblock::decode(std::as_bytes(std::span(bytes)), "");
  ASSERT_TRUE(superblock);
  EXPECT_EQ(superblock->incompatible, Superblock::kPools) << "earlier versions must not open it";
  TestStore again(options);
  expect_all_of_format_1(again);
  EXPECT_TRUE(again.holds(of_pool));
  auto pools = again->pools();
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_EQ(pools[0].id, PoolId::kNone);
  EXPECT_GT(pools[0].used_bytes, 2 * 1'100'000u);
  EXPECT_EQ(pools[1].id, of_pool->pool);
  EXPECT_GT(pools[1].used_bytes, 300'000u);
}

}  // namespace
}  // namespace leat
