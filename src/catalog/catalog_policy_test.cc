// SPDX-License-Identifier: Apache-2.0
// Policy changes of mounts in use, policies of paths, moves, refresh.
#include <gmock/gmock.h>

#include "catalog/catalog_fixture_test.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Policy with_freshness(const std::string& text) {
  Policy policy;
  policy.freshness = Freshness::parse(text).value();
  return policy;
}

class CatalogPolicyTest : public CatalogTest {
 protected:
  void set_policy(std::string path, Policy policy) {
    Result<> set = executor_.block_on(catalog_->set_policy(std::move(path), std::move(policy)));
    EXPECT_TRUE(set) << set.error().to_string();
  }
  RefreshResult refresh(std::string path) {
    return executor_.block_on(catalog_->refresh(Context::background(), std::move(path))).value();
  }
  RefreshResult refresh_name(std::string path) {
    return executor_.block_on(catalog_->refresh_name(Context::background(), std::move(path)))
        .value();
  }
  static std::vector<std::string> changes_of(const RefreshResult& result) {
    std::vector<std::string> all;
    for (const NamedChange& one : result.first) {
      all.push_back(std::string(to_string(one.kind)) + " " + one.name + (one.directory ? "/" : ""));
    }
    return all;
  }
};

TEST_F(CatalogPolicyTest, PolicyChangeKeepsCacheWithNewAge) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_, "", "max-age=60s");
  const CatalogEntry before = lookup("/m/d/x").value();
  const uint64_t asked = bucket_->arrived();
  set_policy("/m", with_freshness("immutable"));
  EXPECT_THAT(take_changes(), ElementsAre("/:m", "/m:**")) << "mounted; the whole of it";
  const CatalogEntry after = lookup("/m/d/x").value();
  EXPECT_EQ(after.ref, before.ref);
  EXPECT_EQ(after.fresh_until, Clock::time_point::max());
  EXPECT_EQ(bucket_->arrived(), asked);
  EXPECT_FALSE(is_latest(before.mount.get()));
  EXPECT_EQ(latest(before.mount), after.mount);
  pass(3h);
  EXPECT_TRUE(catalog_->try_lookup("/m/d/x"));
  set_policy("/m", with_freshness("max-age=1s"));
  EXPECT_FALSE(catalog_->try_lookup("/m/d/x")) << "it was asked for hours ago";
}

TEST_F(CatalogPolicyTest, WaitingLookupGetsTheNewPolicy) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_, "", "max-age=60s");
  bucket_->hold();
  std::optional<Result<CatalogEntry>> found;
  std::thread waiting([&] { found = lookup("/m/d/x"); });
  bucket_->await_arrivals(1);
  set_policy("/m", with_freshness("immutable"));
  bucket_->release();
  waiting.join();
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((**found).fresh_until, Clock::time_point::max());
  EXPECT_TRUE(is_latest((**found).mount.get()));
}

TEST_F(CatalogPolicyTest, AnotherCacheModeMakesOtherFileRefs) {
  bucket_->put("d/x", "1");
  bucket_->put("e/y", "1");
  mount("/m", bucket_);
  EXPECT_EQ(lookup("/m/d/x")->ref->cache, CacheUse::kDisk);
  EXPECT_EQ(lookup("/m/e/y")->ref->cache, CacheUse::kDisk);
  Policy policy = with_freshness("max-age=60s");
  PathPolicy never = policy;
  never.cache = CacheMode::kNever;
  policy.paths = {{"d", never}};
  const uint64_t asked = bucket_->arrived();
  set_policy("/m", policy);
  EXPECT_EQ(lookup("/m/e/y")->ref->cache, CacheUse::kDisk);
  EXPECT_EQ(bucket_->arrived(), asked);
  EXPECT_EQ(lookup("/m/d/x")->ref->cache, CacheUse::kMemory);
}

TEST_F(CatalogPolicyTest, APathIsBelievedForItsOwnTime) {
  for (const char* key : {"a/x", "a/now", "b/x"}) bucket_->put(key, "1");
  mount("/m", bucket_, "", "max-age=60s");
  Policy policy = with_freshness("max-age=60s");
  policy.paths = {{"a", with_freshness("immutable")}, {"a/now", with_freshness("validate")}};
  set_policy("/m", policy);
  for (const char* path : {"/m/a/x", "/m/a/now", "/m/b/x"}) EXPECT_TRUE(lookup(path));
  pass(61s);
  EXPECT_TRUE(catalog_->try_lookup("/m/a/x"));
  EXPECT_FALSE(catalog_->try_lookup("/m/a/now"));
  EXPECT_FALSE(catalog_->try_lookup("/m/b/x"));
  // Each entry of the listing has its own freshness.
  for (const CatalogEntry& entry : entries(**list("/m/a"))) {
    EXPECT_EQ(entry.fresh_until == Clock::time_point::max(), entry.info.name == "x");
  }
  const uint64_t asked = bucket_->arrived();
  EXPECT_TRUE(lookup_for_open("/m/a/x"));
  EXPECT_EQ(bucket_->arrived(), asked);
  EXPECT_TRUE(lookup_for_open("/m/a/now"));
  EXPECT_GT(bucket_->arrived(), asked) << "asked about at each open";
}

TEST_F(CatalogPolicyTest, WhatComesIntoAnImmutableDirectoryIsTold) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_, "", "immutable");
  EXPECT_THAT(names("/m/d"), ElementsAre("x"));
  take_changes();
  bucket_->put("d/y", "1");
  const RefreshResult result = refresh("/m/d");
  settle();
  EXPECT_THAT(changes_of(result), ElementsAre("added y"));
  EXPECT_THAT(take_changes(), ElementsAre("/m/d:y"));
  EXPECT_THAT(names("/m/d"), ElementsAre("x", "y"));
  pass(10s);
  bucket_->put("d/z", "1");
  EXPECT_TRUE(lookup("/m/d/z")) << "looked up by name, which is how it is found";
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("/m/d:z"));
  set_policy("/m", with_freshness("max-age=60s"));
  take_changes();
  bucket_->put("d/zz", "1");
  refresh("/m/d");
  settle();
  EXPECT_THAT(take_changes(), IsEmpty()) << "nobody keeps such a listing";
}

class NotifyingSource : public MemorySource {
 public:
  bool notifies_of_changes() const override { return true; }
};

TEST_F(CatalogPolicyTest, NewNamesOfNotifyingSourceAreTold) {
  const auto source = std::make_shared<NotifyingSource>();
  source->put("d/x", "1");
  mount("/m", source, "", "max-age=60s");
  EXPECT_THAT(names("/m/d"), ElementsAre("x"));
  take_changes();
  source->put("d/y", "1");
  refresh("/m/d");
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("/m/d:y"));
}

TEST_F(CatalogPolicyTest, NewNamesAreNotifiedWhenRequested) {
  make_catalog({.notify_on_create = true});
  bucket_->put("d/x", "1");
  mount("/m", bucket_, "", "max-age=60s");
  EXPECT_THAT(names("/m/d"), ElementsAre("x"));
  take_changes();
  bucket_->put("d/y", "1");
  refresh("/m/d");
  settle();
  EXPECT_THAT(take_changes(), ElementsAre("/m/d:y"));
}

TEST_F(CatalogPolicyTest, RefreshSaysWhatCameChangedAndWent) {
  for (const char* key : {"d/same", "d/other", "d/gone", "d/sub/x"}) bucket_->put(key, "1");
  mount("/m", bucket_, "", "immutable");
  names("/m/d");
  names("/m/d/sub");
  EXPECT_THAT(catalog_->cached_directories("/m"), ElementsAre("/m/d", "/m/d/sub"));
  take_changes();
  bucket_->put("d/other", "22");
  bucket_->put("d/new", "1");
  bucket_->remove("d/gone");
  bucket_->remove("d/sub/x");
  const RefreshResult result = refresh("/m/d");
  settle();
  EXPECT_THAT(changes_of(result),
              ElementsAre("removed gone", "added new", "changed other", "removed sub/"));
  EXPECT_EQ(result.added + result.changed + result.removed, 4u);
  EXPECT_THAT(take_changes(), ElementsAre("-/m/d:gone", "-/m/d:sub", "/m/d:new", "/m/d:other"));
  EXPECT_THAT(catalog_->cached_directories("/m"), ElementsAre("/m/d"));
  EXPECT_EQ(changes_of(refresh("/m/d")).size(), 0u);
  // A read reported the change before; a refresh reports it nevertheless.
  bucket_->put("d/other", "333");
  catalog_->report_changed("/m/d/other");
  pass(1ms);
  EXPECT_THAT(changes_of(refresh("/m/d")), ElementsAre("changed other"));
}

TEST_F(CatalogPolicyTest, RefreshOfANameAsksAboutThatAlone) {
  bucket_->put("d/x", "1");
  bucket_->put("d/y", "1");
  mount("/m", bucket_, "", "immutable");
  EXPECT_EQ(changes_of(refresh_name("/m/d/x")).size(), 0u) << "nothing is known of it";
  names("/m/d");
  bucket_->put("d/x", "22");
  bucket_->put("d/y", "22");
  bucket_->put("d/z", "1");
  EXPECT_THAT(changes_of(refresh_name("/m/d/x")), ElementsAre("changed x"));
  EXPECT_EQ(lookup("/m/d/x")->info.size, 2u);
  EXPECT_EQ(lookup("/m/d/y")->info.size, 1u);
  EXPECT_THAT(changes_of(refresh_name("/m/d/z")), ElementsAre("added z"));
  bucket_->remove("d/x");
  EXPECT_THAT(changes_of(refresh_name("/m/d/x")), ElementsAre("removed x"));
}

TEST_F(CatalogPolicyTest, NotedChangeNeedsNoRequest) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_, "", "max-age=60s");
  SourceObject written;
  written.key = "d/new";
  written.size = 3;
  written.version = Version::etag("\"3\"");
  catalog_->note_changed("/m/d/new", written);  // nothing is known of the directory
  EXPECT_THAT(names("/m/d"), ElementsAre("x"));
  const uint64_t asked = bucket_->arrived();
  catalog_->note_changed("/m/d/new", written);
  catalog_->note_changed("/m/d/x", std::nullopt);
  EXPECT_THAT(names("/m/d"), ElementsAre("new"));
  EXPECT_EQ(lookup("/m/d/new")->info.size, 3u);
  EXPECT_EQ(lookup("/m/d/x").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(bucket_->arrived(), asked);
  pass(61s);
  EXPECT_THAT(names("/m/d"), ElementsAre("x")) << "the store decides in the end";
}

TEST_F(CatalogPolicyTest, FailedRefreshKeepsFreshMetadata) {
  bucket_->put("d/x", "1");
  mount("/m", bucket_, "", "immutable");
  names("/m/d");
  bucket_->fail_next(StatusCode::kUnavailable, 1);
  auto refreshed = executor_.block_on(catalog_->refresh(Context::background(), "/m/d"));
  EXPECT_FALSE(refreshed);
  EXPECT_THAT(names("/m/d"), ElementsAre("x"));
}

TEST_F(CatalogPolicyTest, AMoveShowsTheSameAtAnotherPath) {
  bucket_->put("d/x", "1");
  mount("/m/old", bucket_);
  mount("/taken", std::make_shared<GatedSource>("other"));
  names("/m/old/d");
  take_changes();
  EXPECT_EQ(catalog_->move("/m/old", "/taken", {}).error().code(), StatusCode::kExists);
  EXPECT_EQ(catalog_->move("/m", "/n", {}).error().code(), StatusCode::kNotFound);
  EXPECT_THAT(names("/m/old/d"), ElementsAre("x"));
  ASSERT_TRUE(catalog_->move("/m/old", "/n", with_freshness("immutable")));
  EXPECT_THAT(take_changes(), ElementsAre("-/:m", "-/m:old", "/:n"));
  EXPECT_EQ(code_of("/m/old/d"), StatusCode::kNotFound);
  EXPECT_THAT(names("/n/d"), ElementsAre("x"));
  EXPECT_EQ(lookup("/n/d/x")->fresh_until, Clock::time_point::max());
  ASSERT_TRUE(catalog_->unmount("/n"));
  EXPECT_EQ(sources_.find(bucket_->id()), nullptr) << "it was counted once";
}

TEST_F(CatalogPolicyTest, ReportedChangeIsStaleInEveryMount) {
  bucket_->put("train/a/x", "1");
  mount("/all", bucket_);
  mount("/a", bucket_, "train/a/");
  mount("/b", bucket_, "train/b/");
  lookup("/all/train/a/x");
  lookup("/a/x");
  take_changes();
  bucket_->put("train/a/x", "22");
  catalog_->report_changed("/a/x");
  EXPECT_THAT(take_changes(), ElementsAre("/a:x", "/all/train/a:x"));
  EXPECT_EQ(lookup("/all/train/a/x")->info.size, 2u);
}

TEST_F(CatalogPolicyTest, ChangesWhileManyReadLoseNothing) {
  for (int i = 0; i < 20; ++i) bucket_->put("d/" + std::to_string(i), "1");
  mount("/m", bucket_);
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      for (uint64_t i = r; !stop; ++i) {
        Result<CatalogEntry> found = lookup("/m/d/" + std::to_string(i % 20));
        ASSERT_TRUE(found) << found.error().to_string();
        if (i % 7 == 0) ASSERT_EQ(names("/m/d").size(), 20u);
        if (i % 5 == 0) catalog_->invalidate("/m/d/" + std::to_string(i % 20));
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    set_policy("/m", with_freshness(i % 2 == 0 ? "immutable" : "max-age=0s"));
    bucket_->put("d/7", std::string(static_cast<size_t>(i) + 2, 'x'));
    catalog_->invalidate("/m/d/7");
    EXPECT_EQ(lookup("/m/d/7")->info.size, static_cast<uint64_t>(i) + 2);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace leat::testing
