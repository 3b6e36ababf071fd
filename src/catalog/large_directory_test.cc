// SPDX-License-Identifier: Apache-2.0
// Directories with names in a file instead of in memory: the behaviour is the same.
#include <gmock/gmock.h>

#include <filesystem>

#include "catalog/catalog_fixture_test.h"
#include "telemetry/metric_values_test.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class LargeDirectoryTest : public CatalogTest {
 protected:
  LargeDirectoryTest() { make_catalog(options(100)); }

  static CatalogOptions options(uint64_t in_memory) {
    return {.names_in_memory_max = in_memory, .scratch_directory = ::testing::TempDir()};
  }
  static double names_in_memory() { return metric("leat_catalog_names"); }
};

TEST_F(LargeDirectoryTest, AnswersAsOneInMemoryDoes) {
  for (int i = 0; i < 3000; ++i) bucket_->put(fmt::format("d/{:04}", i), "x");
  for (const char* key : {"d/0005/below", "d/0007!", "d/sub/x", "d/empty/", "d//odd"}) {
    bucket_->put(key, "x");
  }
  auto plain = std::make_shared<MemorySource>();
  mount("/m", bucket_);
  mount("/m/d/mounted", plain);
  const std::vector<std::string> large = names("/m/d");
  EXPECT_LE(names_in_memory(), 10);
  EXPECT_EQ((*list("/m/d"))->skipped(), 2u);
  const FileRefPtr ref = lookup("/m/d/0042")->ref;
  EXPECT_EQ(entries(**list("/m/d")).at(43).ref->id, ref->id);
  EXPECT_EQ(code_of("/m/d/none"), StatusCode::kNotFound);
  EXPECT_TRUE(lookup("/m/d/0005")->info.is_directory());

  make_catalog({});
  mount("/m", bucket_);
  mount("/m/d/mounted", plain);
  EXPECT_EQ(names("/m/d"), large);
  EXPECT_EQ((*list("/m/d"))->skipped(), 2u);
  EXPECT_EQ(lookup("/m/d/0042")->ref->id, ref->id);
  settle();
  EXPECT_GE(names_in_memory(), 3000);
}

TEST_F(LargeDirectoryTest, ChangesAreToldAndSinglesStandOverIt) {
  for (int i = 0; i < 3000; ++i) bucket_->put(fmt::format("d/{:04}", i), "x");
  mount("/m", bucket_);
  EXPECT_EQ(names("/m/d").size(), 3000u);
  const ListingPtr held = *list("/m/d");
  take_changes();
  bucket_->put("d/0007", "changed");
  bucket_->remove("d/0008");
  bucket_->put("d/new", "x");
  catalog_->report_changed("/m/d/0007");
  EXPECT_EQ(lookup("/m/d/0007")->info.size, 7u);
  EXPECT_THAT(take_changes(), ElementsAre("/m/d:0007"));
  EXPECT_EQ(entries(**list("/m/d")).at(7).info.size, 7u);
  pass(60s);
  EXPECT_EQ(names("/m/d").size(), 3000u);
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("-/m/d:0008"));
  EXPECT_EQ(entries(*held).size(), 3000u);
  // It shrinks below the limit of names in memory, and grows again.
  for (int i = 50; i < 3000; ++i) bucket_->remove(fmt::format("d/{:04}", i));
  pass(60s);
  EXPECT_EQ(names("/m/d").size(), 50u);
  for (int i = 50; i < 300; ++i) bucket_->put(fmt::format("d/{:04}", i), "x");
  pass(60s);
  EXPECT_EQ(names("/m/d").size(), 300u);
}

TEST_F(LargeDirectoryTest, MissingScratchDirectoryFailsListing) {
  CatalogOptions nowhere = options(100);
  nowhere.scratch_directory = "/nonexistent/leat";
  make_catalog(std::move(nowhere));
  for (int i = 0; i < 200; ++i) bucket_->put(fmt::format("d/{:04}", i), "x");
  mount("/m", bucket_);
  auto failed = list("/m/d");
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().to_string(), ::testing::HasSubstr("/nonexistent/leat"));
}

TEST_F(LargeDirectoryTest, ThreeHundredThousandNamesAreInTheFile) {
  make_catalog(options(100'000));
  auto paged = std::make_shared<MemorySource>("paged", 300'000);
  for (int i = 0; i < 300'000; ++i) paged->put(fmt::format("{:06}.jpg", i), "");
  mount("/m", paged);
  uint64_t count = 0;
  const ListingPtr listing = *list("/m");
  for (Listing::Cursor cursor = listing->from(0); cursor.next();) ++count;
  EXPECT_EQ(count, 300'000u);
  EXPECT_LE(names_in_memory(), 10);
  EXPECT_EQ(lookup("/m/123456.jpg")->key(), "123456.jpg");
}

}  // namespace
}  // namespace leat::testing
