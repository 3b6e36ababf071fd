// SPDX-License-Identifier: Apache-2.0
// Freshness of cached metadata, requests when it is stale, and change notifications.
#include <gmock/gmock.h>

#include "catalog/catalog_fixture_test.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(CatalogTest, MaxAgeIsBelievedToItsEndAndNotLonger) {
  bucket_->put("x", "1");
  mount("/m", bucket_);
  FileRefPtr first = lookup("/m/x")->ref;
  bucket_->put("x", "22");
  pass(60s - 1ns);
  EXPECT_EQ(lookup("/m/x")->ref, first);
  EXPECT_EQ(lookup_for_open("/m/x")->ref, first);
  EXPECT_EQ(bucket_->lists(), 1u);
  pass(1ns);
  EXPECT_FALSE(catalog_->try_lookup("/m/x"));
  EXPECT_EQ(lookup_for_open("/m/x")->info.size, 2u);
  EXPECT_EQ(bucket_->lists(), 2u);
  EXPECT_EQ(bucket_->stats(), 0u);
}

TEST_F(CatalogTest, ASmallDirectoryIsListedAgainAtOnce) {
  for (int i = 0; i < 1000; ++i) bucket_->put(fmt::format("{:04}", i), "x");
  mount("/m", bucket_);
  EXPECT_TRUE(lookup("/m/0000"));
  pass(60s);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(lookup(fmt::format("/m/{:04}", i)));
  EXPECT_EQ(bucket_->lists(), 2u);
  EXPECT_EQ(bucket_->stats(), 0u);
}

TEST_F(CatalogTest, ManySingleChecksCauseRelisting) {
  for (int i = 0; i < 20'000; ++i) bucket_->put(fmt::format("{:05}", i), "x");
  mount("/m", bucket_);
  EXPECT_TRUE(lookup("/m/00000"));
  EXPECT_EQ(bucket_->lists(), 20u);
  pass(60s);
  for (int i = 0; i < 19; ++i) EXPECT_TRUE(lookup(fmt::format("/m/{:05}", i)));
  EXPECT_EQ(bucket_->stats(), 19u);
  EXPECT_EQ(bucket_->lists(), 20u);
  // The checked name is fresh again, without another request.
  EXPECT_TRUE(catalog_->try_lookup("/m/00003"));
  for (int i = 19; i < 500; ++i) EXPECT_TRUE(lookup(fmt::format("/m/{:05}", i)));
  EXPECT_EQ(bucket_->stats(), 19u);
  EXPECT_EQ(bucket_->lists(), 40u);
}

TEST_F(CatalogTest, MissingNamesExpireAndAreCheckedAlone) {
  bucket_->put("x", "x");
  mount("/m", bucket_);
  EXPECT_EQ(code_of("/m/new"), StatusCode::kNotFound);
  bucket_->put("new", "n");
  bucket_->put("dir/below", "n");
  EXPECT_EQ(code_of("/m/new"), StatusCode::kNotFound);
  EXPECT_EQ(bucket_->lists(), 1u);
  pass(5s);
  EXPECT_EQ(lookup("/m/new")->info.size, 1u);
  EXPECT_EQ(bucket_->stats(), 2u) << "is it a directory, is it a file";
  EXPECT_EQ(bucket_->lists(), 1u);
  EXPECT_TRUE(lookup("/m/dir")->info.is_directory());
  EXPECT_THAT(names("/m"), ElementsAre("dir/", "new", "x"));

  uint64_t before = bucket_->stats() + bucket_->lists();
  EXPECT_EQ(code_of("/m/none"), StatusCode::kNotFound);
  uint64_t after = bucket_->stats() + bucket_->lists();
  EXPECT_GT(after, before);
  pass(4s);
  EXPECT_EQ(code_of("/m/none"), StatusCode::kNotFound);
  EXPECT_EQ(bucket_->stats() + bucket_->lists(), after);
}

TEST_F(CatalogTest, ImmutableMountStillFindsNewNames) {
  bucket_->put("x", "1");
  mount("/m", bucket_, "", "immutable");
  FileRefPtr first = lookup("/m/x")->ref;
  EXPECT_EQ(lookup("/m/x")->fresh_until, Clock::time_point::max());
  EXPECT_EQ(code_of("/m/new"), StatusCode::kNotFound);
  bucket_->put("x", "22");
  bucket_->put("new", "n");
  pass(24h);
  EXPECT_EQ(lookup_for_open("/m/x")->ref, first);
  EXPECT_EQ(bucket_->stats(), 0u);
  EXPECT_TRUE(lookup("/m/new"));
  EXPECT_THAT(names("/m"), ElementsAre("new", "x"));
  EXPECT_EQ(bucket_->lists(), 1u);
}

TEST_F(CatalogTest, ValidateAsksAtEachOpenAndOnlyThen) {
  bucket_->put("x", "1");
  bucket_->put("d/y", "1");
  mount("/m", bucket_, "", "validate");
  FileRefPtr first = lookup("/m/x")->ref;
  EXPECT_EQ(lookup_for_open("/m/x")->ref, first);
  EXPECT_EQ(lookup_for_open("/m/x")->ref, first);
  EXPECT_EQ(bucket_->stats(), 2u);
  bucket_->put("x", "22");
  EXPECT_EQ(lookup("/m/x")->ref, first);
  EXPECT_EQ(lookup_for_open("/m/x")->info.size, 2u);
  EXPECT_EQ(lookup("/m/x")->info.size, 2u);
  bucket_->remove("x");
  EXPECT_EQ(lookup_for_open("/m/x").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(lookup_for_open("/m/d/y")->info.size, 1u);
  EXPECT_TRUE(lookup_for_open("/m/d")->info.is_directory());
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("-/m:x", "/:m", "/m:x"));
}

TEST_F(CatalogTest, FirstOpenUnderValidateChecksTheFile) {
  bucket_->put("d/y", "1");
  bucket_->put("d/sub/z", "1");
  mount("/m", bucket_, "", "validate");
  EXPECT_EQ(lookup_for_open("/m/d/y")->info.size, 1u);
  EXPECT_EQ(bucket_->lists(), 1u);
  EXPECT_EQ(bucket_->stats(), 1u) << "the listing alone does not answer an open";
  mount("/n", bucket_, "", "validate");
  EXPECT_TRUE(lookup_for_open("/n/d/sub")->info.is_directory());
  EXPECT_EQ(bucket_->lists(), 2u);
  EXPECT_EQ(bucket_->stats(), 1u) << "a directory has no version to check";
}

// A source that answers from memory, and receives change notifications or not.
class ToldSource : public MemorySource {
 public:
  std::atomic<bool> told = true;

  Clock::duration metadata_ttl_max() const override { return told ? Clock::duration::max() : 10s; }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    Result<ListPage> page = co_await MemorySource::list(std::move(context), std::move(request));
    if (page) page->age = 30s;
    co_return page;
  }
};

TEST_F(CatalogTest, SourceTtlBoundsCachedNames) {
  const auto source = std::make_shared<ToldSource>();
  source->put("x", "1");
  mount("/m", source, "", "max-age=1h");
  source->told = false;
  const Clock::time_point asked = Clock::time_point(Clock::duration(now_.load()));
  EXPECT_EQ(lookup("/m/x")->fresh_until, asked + 10s) << "though it asked earlier than we did";
  EXPECT_EQ(list("/m").value()->fresh_until(), asked + 10s);
  source->put("x", "22");
  pass(9s);
  EXPECT_EQ(lookup("/m/x")->info.size, 1u);
  pass(1s);
  EXPECT_FALSE(catalog_->try_lookup("/m/x"));
  EXPECT_EQ(lookup("/m/x")->info.size, 2u);
  EXPECT_EQ(source->lists(), 2u);
  source->told = true;
  pass(59min);
  EXPECT_EQ(lookup("/m/x")->info.size, 2u);
  EXPECT_EQ(source->lists(), 2u);
  pass(30s);
  EXPECT_TRUE(lookup("/m/x"));
  EXPECT_EQ(source->lists(), 3u);
}

TEST_F(CatalogTest, ExpiredNamesAreThoseOfTheListing) {
  const auto source = std::make_shared<ToldSource>();
  source->put("x", "1");
  source->put("y", "1");
  mount("/m", source, "", "max-age=1h");
  EXPECT_EQ(names("/m"), (std::vector<std::string>{"x", "y"}));
  source->put("x", "22");
  ASSERT_TRUE(executor_.block_on(catalog_->refresh_name(Context::background(), "/m/x")));
  EXPECT_EQ(lookup("/m/x")->info.size, 2u);
  source->remove("x");
  catalog_->expire("/m");
  EXPECT_EQ(names("/m"), std::vector<std::string>{"y"}) << "though the listing has an age";
  EXPECT_FALSE(lookup("/m/x"));
}

// A source with limits of its own on freshness, which answers from its memory.
class ServedSource : public MemorySource {
 public:
  std::atomic<Clock::duration> present = Clock::duration::max(), missing = Clock::duration::max();
  std::atomic<Clock::duration> asked_age_max = Clock::duration::max();

  NameTtl ttl_max(std::string_view directory) const override {
    return directory == "free/" ? NameTtl() : NameTtl{present, missing};
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    asked_age_max = request.age_max;
    Result<ListPage> page = co_await MemorySource::list(std::move(context), std::move(request));
    if (page) page->age = 1s;
    co_return page;
  }
};

TEST_F(CatalogTest, TheSmallerAgeOfMountAndSourceHolds) {
  const auto source = std::make_shared<ServedSource>();
  source->present = Clock::duration(4s);
  source->missing = Clock::duration(1s);
  source->put("x", "1");
  source->put("free/y", "1");
  mount("/m", source, "", "max-age=60s");
  const Clock::time_point asked = Clock::time_point(Clock::duration(now_.load()));
  EXPECT_EQ(lookup("/m/x")->fresh_until, asked + 3s) << "of its age a second is over";
  EXPECT_EQ(source->asked_age_max.load(), Clock::duration(2s));
  EXPECT_EQ(list("/m").value()->fresh_until(), asked + 3s);
  EXPECT_EQ(lookup("/m/free/y")->fresh_until, asked + 59s);
  EXPECT_FALSE(lookup("/m/coming"));
  source->put("x", "22");
  source->put("coming", "1");
  pass(1s);
  EXPECT_TRUE(lookup("/m/coming")) << "its own age would be 5 s";
  pass(2s);
  EXPECT_EQ(lookup("/m/x")->info.size, 2u);
  mount("/short", source, "", "max-age=2s");
  const Clock::time_point later = Clock::time_point(Clock::duration(now_.load()));
  EXPECT_EQ(lookup("/short/x")->fresh_until, later + 1s);
}

TEST_F(CatalogTest, ImmutableNamesIgnoreSourceTtl) {
  const auto source = std::make_shared<ToldSource>();
  source->told = false;
  source->put("x", "1");
  mount("/m", source, "", "immutable");
  EXPECT_EQ(lookup("/m/x")->fresh_until, Clock::time_point::max());
  pass(24h);
  EXPECT_TRUE(lookup("/m/x"));
  EXPECT_EQ(source->lists(), 1u);
}

TEST_F(CatalogTest, StaleMetadataIsNotServedOnStoreError) {
  bucket_->put("x", "1");
  mount("/m", bucket_);
  mount("/v", bucket_, "", "validate");
  EXPECT_TRUE(lookup("/m/x"));
  EXPECT_TRUE(lookup_for_open("/v/x"));
  bucket_->fail_next(StatusCode::kUnavailable, 1'000'000);
  EXPECT_TRUE(lookup_for_open("/m/x"));
  EXPECT_EQ(lookup_for_open("/v/x").error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(lookup("/v/x"));
  pass(60s);
  EXPECT_EQ(lookup_for_open("/m/x").error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(names("/m"), ElementsAre("<unavailable>"));
  bucket_->fail_next(StatusCode::kUnavailable, 0);
  EXPECT_TRUE(lookup_for_open("/m/x"));
}

TEST_F(CatalogTest, AnUnchangedVersionKeepsItsFileRef) {
  for (int i = 0; i < 3000; ++i) bucket_->put(fmt::format("{:04}", i), "x");
  mount("/m", bucket_);
  ListingPtr first = list("/m").value();
  bucket_->put("0007", "changed");
  pass(60s);
  // One by a single check, all by the listing after it.
  EXPECT_EQ(lookup("/m/0003")->ref, entries(*first)[3].ref);
  ListingPtr second = list("/m").value();
  const std::vector<CatalogEntry> before = entries(*first), after = entries(*second);
  ASSERT_EQ(after.size(), 3000u);
  for (size_t i = 0; i < 3000; ++i) {
    EXPECT_EQ(before[i].ref == after[i].ref, i != 7) << i;
  }
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("/:m", "/m:0007"));
}

// As a program that makes files asks before each.
TEST_F(CatalogTest, ManyMissingNamesNeedOneListing) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_, "", "max-age=60s");
  names("/m/d");
  pass(10s);  // longer than a name is known to be missing
  const uint64_t lists = bucket_->lists();
  for (int number = 0; number < 7; ++number) lookup(fmt::format("/m/d/{}", number));
  EXPECT_EQ(bucket_->lists(), lists) << "each was checked";
  const uint64_t asked = bucket_->arrived();
  for (int number = 7; number < 100; ++number) {
    EXPECT_EQ(lookup(fmt::format("/m/d/{}", number)).error().code(), StatusCode::kNotFound);
  }
  EXPECT_EQ(bucket_->lists(), lists + 1);
  EXPECT_EQ(bucket_->arrived(), asked + 1);
}

TEST_F(CatalogTest, CheckedFileKeepsFileRefInNextListing) {
  bucket_->put("x", "x");
  mount("/m", bucket_);
  EXPECT_EQ(code_of("/m/new"), StatusCode::kNotFound);
  bucket_->put("new", "n");
  pass(6s);
  FileRefPtr ref = lookup("/m/new")->ref;
  pass(60s);
  EXPECT_THAT(names("/m"), ElementsAre("new", "x"));
  EXPECT_EQ(bucket_->lists(), 2u);
  EXPECT_EQ(lookup("/m/new")->ref, ref);
}

TEST_F(CatalogTest, AListingShowsTheFileThatACheckFound) {
  bucket_->put("x", "1");
  mount("/m", bucket_);
  EXPECT_TRUE(lookup("/m/x"));
  bucket_->put("new", "four");
  pass(6s);
  const FileRefPtr ref = lookup("/m/new")->ref;
  const ListingPtr listing = list("/m").value();
  EXPECT_EQ(bucket_->lists(), 1u);
  Listing::Cursor cursor = listing->from(0);
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.view().name, "new");
  EXPECT_EQ(cursor.view().size, 4u);
  EXPECT_EQ(*cursor.view().version, ref->version);
}

TEST_F(CatalogTest, ChangesAndDeletionsAreToldOnce) {
  bucket_->put("d/changed", "1");
  bucket_->put("d/gone", "1");
  bucket_->put("d/same", "1");
  bucket_->put("d/sub/x", "1");
  bucket_->put("d/turns", "1");
  mount("/m", bucket_);
  EXPECT_EQ(names("/m/d").size(), 5u);
  EXPECT_THAT(names("/m/d/sub"), ElementsAre("x"));
  take_changes();
  bucket_->put("d/changed", "2");
  bucket_->remove("d/gone");
  bucket_->remove("d/sub/x");
  bucket_->remove("d/turns");
  bucket_->put("d/turns/into", "a directory");
  bucket_->put("d/added", "1");
  pass(60s);
  EXPECT_THAT(names("/m/d"), ElementsAre("added", "changed", "same", "turns/"));
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("-/m/d:gone", "-/m/d:sub", "/m/d:changed", "/m/d:turns"));
  EXPECT_THAT(names("/m/d/sub"), ElementsAre("<not_found>"));
  pass(60s);
  EXPECT_EQ(names("/m/d").size(), 4u);
  settle();
  EXPECT_THAT(take_changes(), IsEmpty());
}

TEST_F(CatalogTest, ADirectoryThatHasGoneTellsOfAllItsNames) {
  bucket_->put("d/a", "1");
  bucket_->put("d/b", "1");
  mount("/m", bucket_);
  EXPECT_EQ(names("/m/d").size(), 2u);
  take_changes();
  bucket_->remove("d/a");
  bucket_->remove("d/b");
  pass(60s);
  EXPECT_THAT(names("/m/d"), ElementsAre("<not_found>"));
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("-/m/d:a", "-/m/d:b"));
}

TEST_F(CatalogTest, ReportedChangeNotifiesAndIsChecked) {
  bucket_->put("x", "1");
  bucket_->put("y", "1");
  mount("/m", bucket_);
  EXPECT_EQ(names("/m").size(), 2u);
  FileRefPtr other = lookup("/m/y")->ref;
  take_changes();
  bucket_->put("x", "22");
  catalog_->report_changed("/m/x");
  catalog_->report_changed("/m/x");
  catalog_->report_changed("/m/unknown");
  EXPECT_THAT(take_changes(), ElementsAre("/m:x"));
  EXPECT_FALSE(catalog_->try_lookup("/m/x"));
  EXPECT_TRUE(catalog_->try_lookup("/m/y"));
  EXPECT_EQ(lookup("/m/x")->info.size, 2u);
  EXPECT_EQ(bucket_->stats(), 1u);
  EXPECT_EQ(bucket_->lists(), 1u);
  settle();
  EXPECT_THAT(take_changes(), IsEmpty());
  EXPECT_EQ(lookup("/m/y")->ref, other);
}

TEST_F(CatalogTest, InvalidateAffectsOnlyThePathBelow) {
  bucket_->put("a/x", "1");
  bucket_->put("b/y", "1");
  mount("/m", bucket_, "", "immutable");
  FileRefPtr x = lookup("/m/a/x")->ref;
  EXPECT_TRUE(lookup("/m/b/y"));
  EXPECT_EQ(names("/m").size(), 2u);
  EXPECT_EQ(bucket_->lists(), 3u);
  catalog_->invalidate("/m/a");
  EXPECT_FALSE(catalog_->try_lookup("/m/a/x"));
  EXPECT_TRUE(catalog_->try_lookup("/m/b/y"));
  EXPECT_EQ(lookup("/m/a/x")->ref, x);
  EXPECT_EQ(bucket_->lists(), 4u);
  EXPECT_FALSE(catalog_->try_lookup("/m/a"));
  EXPECT_TRUE(lookup("/m/a")->info.is_directory());

  bucket_->put("a/x", "22");
  catalog_->invalidate("/m/a/x");
  EXPECT_EQ(lookup("/m/a/x")->info.size, 2u);
  catalog_->invalidate("/");
  EXPECT_FALSE(catalog_->try_lookup("/m/b/y"));
}

}  // namespace
}  // namespace leat::testing
