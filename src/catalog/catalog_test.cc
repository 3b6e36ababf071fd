// SPDX-License-Identifier: Apache-2.0
// Mounts, listings, names: the entry of a path.
#include "catalog/catalog.h"

#include <gmock/gmock.h>

#include "catalog/catalog_fixture_test.h"
#include "telemetry/metric_values_test.h"

namespace leat::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CatalogTest, DirectoryIsListedOnceThenCached) {
  bucket_->put("a/one", "1");
  bucket_->put("a/sub/two", "22");
  bucket_->put("top", "333");
  mount("/m", bucket_);
  EXPECT_THAT(names("/m"), ElementsAre("a/", "top"));
  EXPECT_THAT(names("/m/a"), ElementsAre("one", "sub/"));
  EXPECT_EQ(bucket_->lists(), 2u);

  auto one = catalog_->try_lookup("/m/a/one");
  ASSERT_TRUE(one && *one);
  EXPECT_EQ((*one)->info.size, 1u);
  EXPECT_EQ((*one)->key(), "a/one");
  EXPECT_EQ((*one)->ref->key, "a/one");
  EXPECT_EQ((*one)->ref->size, (*one)->info.size);
  EXPECT_TRUE((*one)->info.mtime);
  EXPECT_EQ((*one)->mount->entry.path, "/m");
  EXPECT_EQ(lookup("/m/a/sub")->key(), "a/sub/");
  EXPECT_TRUE(lookup("/m/a/sub")->info.is_directory());
  EXPECT_THAT(names("/m/a"), ElementsAre("one", "sub/"));
  EXPECT_EQ(bucket_->lists(), 2u);
  EXPECT_EQ(bucket_->stats(), 0u);
}

TEST_F(CatalogTest, TheLastListingIsThereHoweverOld) {
  bucket_->put("a/one", "1");
  mount("/m", bucket_);
  EXPECT_EQ(catalog_->last_list("/m/a"), nullptr);
  EXPECT_THAT(names("/m/a"), ElementsAre("one"));
  pass(std::chrono::hours(1));
  EXPECT_EQ(catalog_->try_list("/m/a"), nullptr);
  const ListingPtr last = catalog_->last_list("/m/a");
  ASSERT_NE(last, nullptr);
  Listing::Cursor cursor = last->from(0);
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.entry().info.name, "one");
  EXPECT_FALSE(cursor.next());
  EXPECT_EQ(bucket_->lists(), 1u);
  EXPECT_EQ(catalog_->last_list("/m/none"), nullptr);
}

TEST_F(CatalogTest, LookupListsOnlyTheParent) {
  bucket_->put("a/b/c/d", "x");
  mount("/m", bucket_);
  EXPECT_FALSE(catalog_->try_lookup("/m/a/b/c/d"));
  EXPECT_EQ(lookup("/m/a/b/c/d")->info.size, 1u);
  EXPECT_EQ(bucket_->lists(), 1u);
  EXPECT_EQ(bucket_->stats(), 0u);
}

TEST_F(CatalogTest, WhatIsMissingOrAFileIsSaidSo) {
  bucket_->put("a/file", "x");
  mount("/m", bucket_);
  EXPECT_EQ(code_of("/m/none"), StatusCode::kNotFound);
  EXPECT_EQ(code_of("/m/none/deeper"), StatusCode::kNotFound);
  EXPECT_EQ(code_of("/m/a/file/deeper"), StatusCode::kNotDirectory);
  EXPECT_EQ(code_of("/elsewhere"), StatusCode::kNotFound);
  EXPECT_EQ(code_of("/elsewhere/deep"), StatusCode::kNotFound);
  EXPECT_THAT(names("/m/a/file"), ElementsAre("<not_directory>"));
  EXPECT_THAT(names("/m/nothing/here"), ElementsAre("<not_found>"));
  EXPECT_THAT(names("/elsewhere"), ElementsAre("<not_found>"));
  EXPECT_THAT(lookup("/m/a/none").error().message(), HasSubstr("/m/a/none"));
}

TEST_F(CatalogTest, AMissingDirectoryIsRememberedForItsAge) {
  mount("/m", bucket_);
  EXPECT_THAT(names("/m/none"), ElementsAre("<not_found>"));
  uint64_t lists = bucket_->lists(), stats = bucket_->stats();
  EXPECT_THAT(names("/m/none"), ElementsAre("<not_found>"));
  EXPECT_EQ(code_of("/m/none/x"), StatusCode::kNotFound);
  EXPECT_EQ(bucket_->lists(), lists);
  EXPECT_EQ(bucket_->stats(), stats);
  bucket_->put("none/x", "x");
  pass(std::chrono::seconds(6));
  EXPECT_THAT(names("/m/none"), ElementsAre("x"));
}

TEST_F(CatalogTest, EmptyBucketAndMarkerAreEmptyDirectories) {
  mount("/m", bucket_);
  EXPECT_THAT(names("/m"), IsEmpty());
  auto marked = std::make_shared<MemorySource>("marked");
  marked->put("empty/", "");
  marked->put("full/", "");
  marked->put("full/x", "x");
  mount("/marked", marked);
  EXPECT_THAT(names("/marked"), ElementsAre("empty/", "full/"));
  EXPECT_THAT(names("/marked/empty"), IsEmpty());
  EXPECT_THAT(names("/marked/full"), ElementsAre("x"));
}

TEST_F(CatalogTest, RealDirectoriesDecideByThemselves) {
  auto real = std::make_shared<DirectorySource>();
  real->put("empty/", "");
  real->put("d/file", "x");
  mount("/r", real);
  EXPECT_THAT(names("/r"), ElementsAre("d/", "empty/"));
  EXPECT_THAT(names("/r/empty"), IsEmpty());
  EXPECT_THAT(names("/r/none"), ElementsAre("<not_found>"));
  EXPECT_EQ(code_of("/r/d/none"), StatusCode::kNotFound);
  pass(std::chrono::seconds(6));
  real->put("d/none/", "");
  EXPECT_TRUE(lookup("/r/d/none")->info.is_directory());
}

TEST_F(CatalogTest, APrefixIsTheRootOfItsMount) {
  bucket_->put("data/train/x", "x");
  bucket_->put("secret", "x");
  mount("/m", bucket_, "data/");
  EXPECT_THAT(names("/m"), ElementsAre("train/"));
  EXPECT_EQ(lookup("/m/train/x")->key(), "data/train/x");
  EXPECT_EQ(lookup("/m")->key(), "data/");
}

TEST_F(CatalogTest, MountPointHidesNameInParent) {
  auto inner = std::make_shared<MemorySource>("inner");
  inner->put("deep", "x");
  bucket_->put("a/hidden/x", "x");
  bucket_->put("a/plain", "x");
  bucket_->put("b", "a file where a directory has to lead to a mount");
  mount("/data/m", bucket_);
  mount("/data/m/a/hidden", inner);
  mount("/data/m/b/c/d", inner);
  mount("/data/other", inner);

  EXPECT_THAT(names("/"), ElementsAre("data/"));
  EXPECT_THAT(names("/data"), ElementsAre("m/", "other/"));
  EXPECT_THAT(names("/data/m"), ElementsAre("a/", "b/"));
  EXPECT_THAT(names("/data/m/a"), ElementsAre("hidden/", "plain"));
  EXPECT_THAT(names("/data/m/a/hidden"), ElementsAre("deep"));
  EXPECT_THAT(names("/data/m/b"), ElementsAre("c/"));
  EXPECT_EQ(lookup("/data/m/a/hidden")->mount->entry.path, "/data/m/a/hidden");
  EXPECT_EQ(lookup("/data/m/a/plain")->mount->entry.path, "/data/m");
  EXPECT_EQ(lookup("/data")->mount, nullptr);
  EXPECT_TRUE(lookup("/data")->info.is_directory());
  EXPECT_EQ(lookup("/")->info.name, "");
  EXPECT_TRUE(lookup("/data/m/b/c")->info.is_directory());
  EXPECT_EQ(catalog_->mounts().size(), 4u);
}

TEST_F(CatalogTest, AMountPointIsFreshForATime) {
  mount("/data/m", bucket_);
  EXPECT_GT(lookup("/data")->fresh_until, Clock::time_point(Clock::duration(now_.load())));
  EXPECT_GT(lookup("/data/m")->fresh_until, Clock::time_point(Clock::duration(now_.load())));
}

TEST_F(CatalogTest, UnmountEvictsMountAndShowsHiddenName) {
  auto inner = std::make_shared<MemorySource>("inner");
  inner->put("new", "x");
  bucket_->put("a/old", "x");
  mount("/m", bucket_);
  EXPECT_THAT(names("/m/a"), ElementsAre("old"));
  mount("/m/a", inner);
  EXPECT_THAT(names("/m/a"), ElementsAre("new"));
  EXPECT_EQ(code_of("/m/a/old"), StatusCode::kNotFound);
  EXPECT_NE(sources_.find(inner->id()), nullptr);
  take_changes();

  ASSERT_TRUE(catalog_->unmount("/m/a"));
  EXPECT_EQ(sources_.find(inner->id()), nullptr);
  EXPECT_THAT(take_changes(), ElementsAre("/m:a"));
  EXPECT_THAT(names("/m/a"), ElementsAre("old"));
  ASSERT_TRUE(catalog_->unmount("/m"));
  EXPECT_THAT(take_changes(), ElementsAre("-/:m"));
  EXPECT_EQ(code_of("/m/a/old"), StatusCode::kNotFound);
  EXPECT_EQ(catalog_->unmount("/m").error().code(), StatusCode::kNotFound);
}

TEST_F(CatalogTest, APathIsMountedOnce) {
  mount("/m", bucket_);
  MountEntry again;
  again.path = "/m";
  auto refused = catalog_->mount(again, bucket_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kExists);
  EXPECT_NE(sources_.find(bucket_->id()), nullptr);
  ASSERT_TRUE(catalog_->unmount("/m"));
  EXPECT_EQ(sources_.find(bucket_->id()), nullptr);
}

TEST_F(CatalogTest, NamesAreSortedBytewiseOverAllPages) {
  auto paged = std::make_shared<MemorySource>("paged", 1000);
  for (int i = 0; i < 20'000; ++i) paged->put(fmt::format("d/{:05}.png", i * 7 % 20'000), "x");
  paged->put("d/00001", "x");
  paged->put("d/00001/sub", "x");
  paged->put("d/00001!", "x");
  paged->put("d/\xff", "x");
  mount("/p", paged);
  ListingPtr listing = list("/p/d").value();
  const std::vector<CatalogEntry> all = entries(*listing);
  ASSERT_EQ(all.size(), 20'003u);
  auto by_name = [](const CatalogEntry& entry) -> std::string_view { return entry.info.name; };
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, by_name));
  EXPECT_EQ(paged->lists(), 21u);
  EXPECT_EQ(lookup("/p/d/12345.png")->key(), "d/12345.png");
  EXPECT_EQ(paged->lists(), 21u);
  // The key "d/00001" is an object and a prefix: the directory wins.
  EXPECT_TRUE(lookup("/p/d/00001")->info.is_directory());
}

TEST_F(CatalogTest, UnnameableKeysAreSkippedAndCounted) {
  bucket_->put("d/good", "x");
  bucket_->put("d//x", "x");
  bucket_->put("d/./x", "x");
  bucket_->put("d/..", "x");
  bucket_->put("d/" + std::string(256, 'l'), "x");
  bucket_->put("d/" + std::string(255, 'k'), "x");
  bucket_->put(std::string("d/n\0l", 5), "x");
  bucket_->put("d/\xf0\x9f\x90\x88 \n", "x");
  mount("/m", bucket_);
  double before = metric("leat_catalog_skipped_keys_total");
  EXPECT_THAT(names("/m/d"), ElementsAre("good", std::string(255, 'k'), "\xf0\x9f\x90\x88 \n"));
  EXPECT_EQ(metric("leat_catalog_skipped_keys_total") - before, 5);
  EXPECT_EQ((*list("/m/d"))->skipped(), 5u);
  EXPECT_EQ(code_of("/m/d/" + std::string(256, 'l')), StatusCode::kNotFound);
}

TEST_F(CatalogTest, LookupPrefersDirectoryOverObject) {
  bucket_->put("d/old", "x");
  mount("/m", bucket_);
  EXPECT_THAT(names("/m/d"), ElementsAre("old"));
  bucket_->put("d/new", "x");
  bucket_->put("d/new/below", "x");
  bucket_->put("d/file", "x");
  pass(std::chrono::seconds(6));
  EXPECT_TRUE(lookup("/m/d/new")->info.is_directory());
  EXPECT_FALSE(lookup("/m/d/file")->info.is_directory());
  catalog_->invalidate("/m");
  EXPECT_THAT(names("/m/d"), ElementsAre("file", "new/", "old"));
}

// A store that rejects names with a leading space, as S3's client does.
class PickySource : public MemorySource {
 public:
  using MemorySource::MemorySource;
  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    if (request.key.contains("/ ")) co_return Error(refusal());
    co_return co_await MemorySource::stat(std::move(context), std::move(request));
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    if (request.prefix.contains("/ ")) co_return Error(refusal());
    co_return co_await MemorySource::list(std::move(context), std::move(request));
  }

 private:
  static Status refusal() { return {StatusCode::kUnsupported, "the key cannot be addressed"}; }
};

TEST_F(CatalogTest, UnaddressableNameDoesNotExist) {
  auto picky = std::make_shared<PickySource>("picky");
  picky->put("d/x", "x");
  mount("/m", picky);
  EXPECT_EQ(code_of("/m/d/ x"), StatusCode::kNotFound);
  pass(std::chrono::seconds(6));
  EXPECT_EQ(code_of("/m/d/ x"), StatusCode::kNotFound);
  EXPECT_EQ(code_of("/m/d/ x/deeper"), StatusCode::kNotFound);
  EXPECT_THAT(names("/m/d/ x"), ElementsAre("<not_found>"));
}

// A store with more keys than it can list: it skips one key on each page.
class HalfMuteSource : public MemorySource {
 public:
  HalfMuteSource() : MemorySource("mute", 2) {}
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    Result<ListPage> page = co_await MemorySource::list(context, std::move(request));
    if (page) page->skipped = 1;
    co_return page;
  }
};

TEST_F(CatalogTest, AListingSaysHowManyKeysItLeavesOut) {
  auto mute = std::make_shared<HalfMuteSource>();
  for (const char* key : {"d/a", "d/b", "d/c", "d/c/below", "d//"}) mute->put(key, "x");
  mount("/m", mute);
  EXPECT_THAT(names("/m/d"), ElementsAre("a", "b", "c/"));
  // Three pages, "d//" and the object "d/c".
  EXPECT_EQ((*list("/m/d"))->skipped(), 5u);
  EXPECT_THAT(names("/m/none"), IsEmpty()) << "something is there, though nothing can be shown";
}

TEST_F(CatalogTest, LookupsAndListingsAreCounted) {
  bucket_->put("x", "x");
  mount("/m", bucket_);
  double hits = metric("leat_catalog_lookups_total", R"(result="hit")");
  double misses = metric("leat_catalog_lookups_total", R"(result="miss")");
  double listings = metric("leat_catalog_listings_total");
  EXPECT_TRUE(lookup("/m/x"));
  EXPECT_TRUE(lookup("/m/x"));
  EXPECT_TRUE(catalog_->try_lookup("/m/x"));
  EXPECT_EQ(metric("leat_catalog_lookups_total", R"(result="hit")") - hits, 2);
  EXPECT_EQ(metric("leat_catalog_lookups_total", R"(result="miss")") - misses, 1);
  EXPECT_EQ(metric("leat_catalog_listings_total") - listings, 1);
}

TEST_F(CatalogTest, LeastRecentlyUsedDirectoriesAreEvicted) {
  make_catalog({.names_max = 1000});
  for (int d = 0; d < 20; ++d) {
    for (int i = 0; i < 100; ++i) bucket_->put(fmt::format("d{:02}/{}", d, i), "x");
  }
  mount("/m", bucket_);
  for (int d = 0; d < 20; ++d) {
    EXPECT_EQ(names(fmt::format("/m/d{:02}", d)).size(), 100u);
    EXPECT_TRUE(lookup("/m/d00/1"));  // keeps it in use
    settle();
  }
  EXPECT_LE(metric("leat_catalog_names"), 1000);
  EXPECT_GE(metric("leat_catalog_names"), 500);
  EXPECT_TRUE(catalog_->try_lookup("/m/d00/1"));
  EXPECT_TRUE(catalog_->try_lookup("/m/d19/1"));
  EXPECT_FALSE(catalog_->try_lookup("/m/d02/1"));
  EXPECT_TRUE(lookup("/m/d02/1"));
}

TEST_F(CatalogTest, AStoreThatDoesNotAnswerIsNamed) {
  mount("/m", bucket_);
  bucket_->put("a/x", "x");
  bucket_->fail_next(StatusCode::kUnavailable, 1);
  Result<CatalogEntry> failed = lookup("/m/a/x");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.error().to_string(), HasSubstr("/m/a/x"));
  EXPECT_THAT(failed.error().to_string(), HasSubstr(bucket_->name()));
  // The failure is not cached.
  EXPECT_TRUE(lookup("/m/a/x"));
}

}  // namespace
}  // namespace leat::testing
