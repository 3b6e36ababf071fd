// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/tree_sums.h"

#include <gtest/gtest.h>

#include "catalog/catalog_fixture_test.h"
#include "fetch/memory_page_store_test.h"

namespace leat::testing {
namespace {

class TreeSumsTest : public CatalogTest {
 protected:
  void SetUp() override {
    bucket_->put("top", "4444");
    bucket_->put("a/one", "1");
    bucket_->put("a/two", "22");
    bucket_->put("a/deep/three", "333");
    mount("/m", bucket_);
  }
  void cache(const std::string& path) {
    const FileRefPtr ref = lookup(path)->ref;
    ASSERT_TRUE(
        executor_.block_on(store_.write(Context::background(), ref, 0, Bytes(Buffer(ref->size)))));
  }
  TreeSum sum(std::string path, uint64_t names_max = 100) {
    return TreeSums(*catalog_, &store_).of(std::move(path), names_max);
  }

  MemoryPageStore store_;
};

TEST_F(TreeSumsTest, WhatWasNeverListedIsUnknown) {
  EXPECT_EQ(sum("/m"), (TreeSum{.partial = true}));
  EXPECT_EQ(bucket_->lists(), 0u);
}

TEST_F(TreeSumsTest, SumsAllThatIsInMemory) {
  names("/m");
  names("/m/a");
  EXPECT_EQ(sum("/m/a"), (TreeSum{.files = 2, .bytes = 3, .partial = true}));
  names("/m/a/deep");
  cache("/m/a/two");
  EXPECT_EQ(sum("/m/a"), (TreeSum{.files = 3, .bytes = 6, .cached_bytes = 2}));
  EXPECT_EQ(sum("/m"), (TreeSum{.files = 4, .bytes = 10, .cached_bytes = 2}));
  // Names expire; their cached sums are still useful.
  pass(std::chrono::hours(1));
  const auto lists = bucket_->lists();
  EXPECT_EQ(sum("/m"), (TreeSum{.files = 4, .bytes = 10, .cached_bytes = 2}));
  EXPECT_EQ(bucket_->lists(), lists);
}

TEST_F(TreeSumsTest, LooksAtSoManyNamesAtMost) {
  for (const char* path : {"/m", "/m/a", "/m/a/deep"}) names(path);
  EXPECT_EQ(sum("/m", 2), (TreeSum{.files = 1, .bytes = 4, .partial = true}));
  EXPECT_EQ(sum("/m", 6), (TreeSum{.files = 4, .bytes = 10}));
  EXPECT_EQ(sum("/m", 5).partial, true);
}

TEST_F(TreeSumsTest, WithoutACacheNothingIsCached) {
  names("/m/a/deep");
  EXPECT_EQ(TreeSums(*catalog_, nullptr).of("/m/a/deep", 100), (TreeSum{.files = 1, .bytes = 3}));
}

}  // namespace
}  // namespace leat::testing
