// SPDX-License-Identifier: Apache-2.0
#include "catalog/invalidation_applier.h"

#include <gmock/gmock.h>

#include "catalog/catalog_fixture_test.h"

namespace leat::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InvalidationApplierTest : public CatalogTest {
 protected:
  ~InvalidationApplierTest() override { executor_.block_on(applier_.stop()); }

  // Creates directories "000" … of one file each, and lists them in that order.
  void create_directories(size_t count) {
    for (size_t i = 0; i < count; ++i) bucket_->put(fmt::format("{:05}/x", i), "1");
    mount("/m", bucket_);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_THAT(names(fmt::format("/m/{:05}", i)), ElementsAre("x"));
    }
  }
  // Waits until the catalog has sent that many changes.
  std::vector<std::string> changes(size_t count) {
    std::vector<std::string> all;
    while (all.size() < count) {
      std::ranges::move(take_changes(), std::back_inserter(all));
      std::this_thread::yield();
    }
    return all;
  }

  InvalidationApplier applier_{*catalog_, executor_};
};

TEST_F(InvalidationApplierTest, ListsWhatIsConcernedAndNothingElse) {
  create_directories(20);
  bucket_->put("00003/sub/y", "1");
  catalog_->invalidate("/m/00003");
  ASSERT_THAT(names("/m/00003"), ElementsAre("sub/", "x"));
  ASSERT_THAT(names("/m/00003/sub"), ElementsAre("y"));
  bucket_->put("00003/x", "22");
  take_changes();
  const uint64_t before = bucket_->arrived();
  applier_.apply({{.path = "/m/00003"}, {.path = "/m/unknown"}});
  EXPECT_THAT(changes(1), ElementsAre("/m/00003:x"));
  EXPECT_EQ(bucket_->arrived() - before, 1u);
  // Directories below it stay fresh.
  ASSERT_THAT(names("/m/00003/sub"), ElementsAre("y"));
  EXPECT_EQ(bucket_->arrived() - before, 1u);
  // Everything at and below a path.
  applier_.apply({{.path = "/m/00003", .all = true}});
  bucket_->await_arrivals(before + 3);
  settle();
  EXPECT_EQ(bucket_->arrived() - before, 3u);
}

TEST_F(InvalidationApplierTest, OfTenThousandThoseThatAreUsedComeFirst) {
  constexpr size_t kMany = 10'000;
  create_directories(kMany);
  // Two directories used long after the others.
  ASSERT_TRUE(lookup("/m/00007/x"));
  ASSERT_TRUE(lookup("/m/05000/x"));
  bucket_->put("00007/x", "22");
  bucket_->put("05000/x", "22");
  take_changes();
  bucket_->hold();
  const uint64_t before = bucket_->arrived();
  applier_.apply({{.path = "/m", .all = true}});
  // That many at once, and no more.
  bucket_->await_arrivals(before + InvalidationApplier::kConcurrentListings);
  settle();
  EXPECT_EQ(bucket_->arrived() - before, InvalidationApplier::kConcurrentListings);
  // A report that arrives while all others wait comes before them.
  bucket_->put("00001/x", "333");
  applier_.apply({{.path = "/m/00001"}});
  bucket_->release_held();
  bucket_->await_arrivals(before + 2 * InvalidationApplier::kConcurrentListings);
  bucket_->release_held();
  std::vector<std::string> first = changes(3);
  const uint64_t asked = bucket_->arrived() - before;
  EXPECT_THAT(first, ::testing::UnorderedElementsAre("/m/00001:x", "/m/00007:x", "/m/05000:x"));
  EXPECT_LE(asked, 3 * InvalidationApplier::kConcurrentListings) << "they did not wait for all";
  bucket_->release();
  bucket_->await_arrivals(before + kMany);
  // Lookups do not wait for it either: no stale entry is served.
  settle();
}

TEST_F(InvalidationApplierTest, OneThatHangsHoldsNoOtherUp) {
  create_directories(2);
  bucket_->hold();
  const uint64_t before = bucket_->arrived();
  applier_.apply({{.path = "/m/00000"}});
  bucket_->await_arrivals(before + 1);
  applier_.apply({{.path = "/m/00001"}});
  settle();
  EXPECT_EQ(bucket_->arrived() - before, 2u);
  bucket_->release();
}

TEST_F(InvalidationApplierTest, InvalidationExpiresMetadataAtOnce) {
  create_directories(200);
  bucket_->put("00150/x", "22");
  bucket_->hold();
  applier_.apply({{.path = "/m", .all = true}});
  EXPECT_EQ(catalog_->try_list("/m/00150"), nullptr);
  EXPECT_FALSE(catalog_->try_lookup("/m/00150/x"));
  bucket_->release();
  EXPECT_EQ(lookup("/m/00150/x")->info.size, 2u);
}

TEST_F(InvalidationApplierTest, ItsEndWaitsForNobody) {
  create_directories(100);
  bucket_->hold();
  applier_.apply({{.path = "/m", .all = true}});
  bucket_->await_arrivals(100 + InvalidationApplier::kConcurrentListings);
  executor_.block_on(applier_.stop());
  applier_.apply({{.path = "/m", .all = true}});
  settle();
  EXPECT_EQ(bucket_->arrived(), 100 + InvalidationApplier::kConcurrentListings);
  bucket_->release();
}

}  // namespace
}  // namespace leat::testing
