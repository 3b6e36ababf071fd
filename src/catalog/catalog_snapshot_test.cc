// SPDX-License-Identifier: Apache-2.0
// Mounts with names from a snapshot, and the exchange of snapshots.
#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "catalog/catalog_fixture_test.h"
#include "catalog/snapshot/snapshot_writer.h"
#include "catalog/snapshot_mount.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CatalogSnapshotTest : public CatalogTest {
 protected:
  CatalogSnapshotTest()
      : folder_(::testing::TempDir() + "/leat_catalog_snapshot_" + Id128::random().to_hex()) {
    std::filesystem::create_directories(folder_);
  }
  ~CatalogSnapshotTest() override { std::filesystem::remove_all(folder_); }

  // A snapshot of the bucket below `prefix`, without counting its listings.
  SnapshotPtr snapshot(const std::string& prefix = "") { return snapshot_of(*bucket_, prefix); }
  SnapshotPtr snapshot_of(MemorySource& source, const std::string& prefix) {
    SnapshotHead head;
    head.store = source.id();
    head.source = source.name() + "/" + prefix;
    head.prefix = prefix;
    const std::string path = folder_ + "/" + Id128::random().to_hex();
    SnapshotWriter writer({.path = path}, head);
    ListRequest request{.prefix = prefix, .recursive = true, .token = {}};
    do {
      auto page =
          executor_.block_on(source.MemorySource::list(Context::background(), request)).value();
      for (const SourceObject& object : page.objects) {
        SnapshotEntry entry;
        entry.path = object.key.substr(prefix.size());
        if (entry.path.ends_with('/')) entry.path.pop_back();
        entry.kind = object.kind;
        entry.size = object.size;
        entry.version = object.version;
        entry.mtime_ns = object.mtime->time_since_epoch().count();
        entry.local = object.local;
        EXPECT_TRUE(writer.add(entry));
      }
      request.token = page.next_token;
    } while (!request.token.empty());
    EXPECT_TRUE(writer.finish());
    return Snapshot::open(path).value();
  }
  void mount_snapshot(std::string path, SnapshotPtr snapshot, std::string prefix = "",
                      CacheMode cache = CacheMode::kAuto) {
    MountEntry entry;
    entry.path = std::move(path);
    entry.source.scheme = "memory";
    entry.source.bucket = bucket_->name();
    entry.source.prefix = std::move(prefix);
    entry.policy.cache = cache;
    entry.policy.pool = PoolId{7};
    auto mounted = catalog_->mount(std::move(entry), bucket_, std::move(snapshot));
    ASSERT_TRUE(mounted) << mounted.error().to_string();
  }
  Result<> use(std::string path, SnapshotPtr snapshot) {
    return executor_.block_on(catalog_->use_snapshot(std::move(path), std::move(snapshot)));
  }
  uint64_t requests() const { return bucket_->lists() + bucket_->stats(); }

  const std::string folder_;
};

// Each host has its own id for a cluster; the snapshot is one file for all of them.
TEST_F(CatalogSnapshotTest, OneOfAClusterServesWhoeverMountsIt) {
  bucket_->put("train/a/one", "1");
  bucket_->put("train/two", "22");
  SnapshotHead head;
  head.store = cluster_names_id();
  head.source = "leat://c/train/";
  head.prefix = "train/";
  const std::string path = folder_ + "/shared";
  SnapshotWriter writer({.path = path}, head);
  for (const std::string name : {"a/one", "two"}) {
    auto object =
        executor_.block_on(bucket_->stat(Context::background(), {"train/" + name})).value();
    SnapshotEntry entry;
    entry.path = name;
    entry.size = object.size;
    entry.version = object.version;
    ASSERT_TRUE(writer.add(entry));
  }
  ASSERT_TRUE(writer.finish());
  const SnapshotPtr shared = Snapshot::open(path).value();
  MountEntry entry{.path = "/m", .source = {}, .policy = {}};
  entry.source.prefix = "train/a/";
  entry.source.scheme = "memory";
  EXPECT_EQ(catalog_->mount(entry, bucket_, shared).error().code(), StatusCode::kInvalidArgument);
  entry.source.scheme = "leat";
  ASSERT_TRUE(catalog_->mount(entry, bucket_, shared));
  const uint64_t before = requests();
  auto found = executor_.block_on(catalog_->lookup(Context::background(), "/m/one"));
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->ref->store, bucket_->id()) << "reads go to the mount's own source";
  EXPECT_EQ(found->ref->key, "train/a/one");
  auto listing = executor_.block_on(catalog_->list(Context::background(), "/m"));
  ASSERT_TRUE(listing);
  auto cursor = (*listing)->from(0);
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.entry().ref->id, found->ref->id);
  EXPECT_EQ(requests(), before);
}

TEST_F(CatalogSnapshotTest, AnswersWithoutARequestAndDoesNotAge) {
  bucket_->put("a/one", "1");
  bucket_->put("a/sub/two", "22");
  bucket_->put("empty/", "");
  bucket_->put("top", "333");
  mount_snapshot("/m", snapshot(), "", CacheMode::kNever);
  const uint64_t before = requests();
  bucket_->put("a/one", "new");
  bucket_->put("a/three", "3");
  bucket_->remove("top");
  pass(24h);
  EXPECT_THAT(names("/m"), ElementsAre("a/", "empty/", "top"));
  EXPECT_THAT(names("/m/a"), ElementsAre("one", "sub/"));
  EXPECT_THAT(names("/m/empty"), IsEmpty());
  auto one = catalog_->try_lookup("/m/a/one");
  ASSERT_TRUE(one && *one);
  EXPECT_EQ((*one)->info.name, "one");
  EXPECT_EQ((*one)->info.size, 1u);
  EXPECT_EQ((*one)->key(), "a/one");
  EXPECT_EQ((*one)->fresh_until, Clock::time_point::max());
  EXPECT_EQ((*one)->ref->cache, cache_use(CacheMode::kNever, /*local=*/false));
  EXPECT_EQ((*one)->ref->pool, PoolId{7});
  EXPECT_EQ((*one)->mount->entry.policy.freshness.to_string(), "snapshot");
  EXPECT_TRUE(lookup_for_open("/m/a/sub")->info.is_directory());
  EXPECT_EQ(lookup("/m/a/sub")->key(), "a/sub/");
  EXPECT_EQ((*list("/m"))->fresh_until(), Clock::time_point::max());

  EXPECT_EQ(code_of("/m/a/three"), StatusCode::kNotFound);
  EXPECT_EQ(code_of("/m/none/deeper"), StatusCode::kNotFound);
  EXPECT_EQ(code_of("/m/a/one/deeper"), StatusCode::kNotDirectory);
  EXPECT_EQ(code_of("/m/a/one/deeper/still"), StatusCode::kNotDirectory);
  EXPECT_THAT(names("/m/a/one"), ElementsAre("<not_directory>"));
  EXPECT_THAT(names("/m/none"), ElementsAre("<not_found>"));
  catalog_->invalidate("/m");
  catalog_->report_changed("/m/a/one");
  EXPECT_EQ(lookup_for_open("/m/a/one")->info.size, 1u);
  EXPECT_EQ(requests(), before);
  EXPECT_THAT(take_changes(), ElementsAre("/:m"));
}

TEST_F(CatalogSnapshotTest, GivesTheIdentityThatAListingGives) {
  bucket_->put("data/train/x", "x");
  bucket_->put("data/test/y", "x");
  mount("/plain", bucket_, "data/train/");
  mount_snapshot("/whole", snapshot("data/"), "data/train/");
  mount_snapshot("/bucket", snapshot(), "data/train/");
  const FileRefPtr plain = lookup("/plain/x")->ref;
  for (const char* path : {"/whole/x", "/bucket/x"}) {
    const FileRefPtr ref = lookup(path)->ref;
    EXPECT_EQ(ref->id, plain->id);
    EXPECT_EQ(ref->key, "data/train/x");
    EXPECT_EQ(ref->version, plain->version);
  }
  EXPECT_EQ(entries(**list("/whole")).at(0).ref->id, plain->id);
  EXPECT_THAT(names("/whole"), ElementsAre("x"));
  EXPECT_EQ(code_of("/whole/y"), StatusCode::kNotFound);
}

TEST_F(CatalogSnapshotTest, OneOfSomethingElseIsRefused) {
  bucket_->put("data/x", "x");
  MountEntry entry;
  entry.path = "/m";
  entry.source.scheme = "memory";
  entry.policy.freshness.mode = Freshness::Mode::kSnapshot;
  EXPECT_EQ(catalog_->mount(entry, bucket_).error().code(), StatusCode::kInvalidArgument);
  mount("/m", bucket_);
  auto narrow = use("/m", snapshot("data/"));
  EXPECT_EQ(narrow.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(narrow.error().to_string(), HasSubstr("/m"));
  MemorySource other("other");
  EXPECT_EQ(use("/m", snapshot_of(other, "")).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(use("/none", snapshot()).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(lookup("/m")->mount->entry.policy.freshness.to_string(), "max-age=1m");
}

TEST_F(CatalogSnapshotTest, MountPointsStandOverIt) {
  auto inner = std::make_shared<MemorySource>("inner");
  inner->put("deep", "x");
  bucket_->put("a/hidden/x", "x");
  bucket_->put("a/plain", "x");
  mount_snapshot("/m", snapshot());
  mount("/m/a/hidden", inner);
  mount("/m/b/c", inner);
  EXPECT_THAT(names("/m"), ElementsAre("a/", "b/"));
  EXPECT_THAT(names("/m/a"), ElementsAre("hidden/", "plain"));
  EXPECT_THAT(names("/m/a/hidden"), ElementsAre("deep"));
  EXPECT_THAT(names("/m/b"), ElementsAre("c/"));
  EXPECT_EQ(code_of("/m/a/hidden/x"), StatusCode::kNotFound);
  take_changes();
  bucket_->put("a/hidden/x", "changed");
  bucket_->put("a/hidden/y", "new");
  EXPECT_TRUE(use("/m", snapshot()));
  EXPECT_THAT(take_changes(), ElementsAre("/m:*")) << "no name of it can be seen";
}

TEST_F(CatalogSnapshotTest, FoldersThatOnlyLedToAMountGoWithIt) {
  auto inner = std::make_shared<MemorySource>("inner");
  bucket_->put("a/plain", "x");
  mount_snapshot("/m", snapshot());
  mount("/m/a/b/c", inner);
  EXPECT_THAT(names("/m/a"), ElementsAre("b/", "plain"));
  take_changes();
  ASSERT_TRUE(catalog_->unmount("/m/a/b/c"));
  EXPECT_THAT(take_changes(), ElementsAre("-/m/a/b:c", "-/m/a:b", "/m:a"));
  EXPECT_THAT(names("/m/a"), ElementsAre("plain"));
}

TEST_F(CatalogSnapshotTest, ExchangingTellsWhatDiffers) {
  bucket_->put("a", "1");
  bucket_->put("d/changed", "1");
  bucket_->put("d/gone", "1");
  bucket_->put("d/same", "1");
  bucket_->put("gone/x", "1");
  bucket_->put("turns/into", "1");
  mount_snapshot("/m", snapshot());
  const ListingPtr held = *list("/m/d");
  Listing::Cursor cursor = held->from(0);
  ASSERT_TRUE(cursor.next());
  take_changes();
  bucket_->put("d/changed", "2");
  bucket_->remove("d/gone");
  bucket_->remove("gone/x");
  bucket_->remove("turns/into");
  bucket_->put("turns", "a file");
  bucket_->put("d/added", "1");
  ASSERT_TRUE(use("/m", snapshot()));
  EXPECT_THAT(take_changes(), ElementsAre("-/m/d:gone", "-/m/gone:x", "-/m/turns:into", "-/m:gone",
                                          "/m/d:added", "/m/d:changed", "/m:*", "/m:turns"));
  EXPECT_THAT(names("/m/d"), ElementsAre("added", "changed", "same"));
  EXPECT_FALSE(lookup("/m/turns")->info.is_directory());
  // An open cursor continues in the old snapshot.
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.view().name, "gone");
  EXPECT_TRUE(cursor.entry().ref);
}

TEST_F(CatalogSnapshotTest, GoingOverToOneTellsWhatWasKnownOtherwise) {
  bucket_->put("d/changed", "1");
  bucket_->put("d/gone", "1");
  bucket_->put("d/same", "1");
  mount("/m", bucket_, "", "immutable");
  EXPECT_EQ(names("/m/d").size(), 3u);
  bucket_->put("d/changed", "2");
  bucket_->remove("d/gone");
  take_changes();
  ASSERT_TRUE(use("/m", snapshot()));
  EXPECT_THAT(take_changes(), ElementsAre("-/m/d:gone", "/m/d:changed", "/m:**"));
  EXPECT_EQ(code_of("/m/d/gone"), StatusCode::kNotFound);
  EXPECT_EQ(lookup("/m/d/same")->mount->entry.policy.freshness.to_string(), "snapshot");
}

TEST_F(CatalogSnapshotTest, ChangesOfAnExchangeWaitForRoom) {
  bucket_->put("d/changed", "1");
  mount_snapshot("/m", snapshot());
  take_changes();
  bucket_->put("d/changed", "2");
  ASSERT_TRUE(use("/m", snapshot()));
  std::lock_guard lock(changes_mutex_);
  EXPECT_EQ(changes_.size(), 2u);
  for (const CatalogChange& change : changes_) EXPECT_TRUE(change.may_block) << change.name;
}

TEST_F(CatalogSnapshotTest, ReleasingItGoesBackToTheFreshnessBefore) {
  bucket_->put("d/sub/x", "1");
  bucket_->put("top", "1");
  mount("/m", bucket_, "", "validate");
  ASSERT_TRUE(use("/m", snapshot()));
  ASSERT_TRUE(use("/m", snapshot()));
  bucket_->put("d/sub/x", "22");
  take_changes();
  ASSERT_TRUE(use("/m", nullptr));
  EXPECT_THAT(take_changes(), ElementsAre("/m/d:sub", "/m:*", "/m:d", "/m:top"));
  EXPECT_FALSE(catalog_->try_lookup("/m/d/sub/x"));
  EXPECT_EQ(lookup("/m/d/sub/x")->info.size, 2u);
  EXPECT_EQ(lookup("/m")->mount->entry.policy.freshness.to_string(), "validate");
}

TEST_F(CatalogSnapshotTest, NewSnapshotAnswersLookupInFlight) {
  bucket_->put("d/x", "1");
  const SnapshotPtr taken = snapshot();
  bucket_->put("d/x", "changed");
  mount("/m", bucket_);
  bucket_->hold();
  std::optional<Result<CatalogEntry>> entry;
  std::jthread waiting([&] { entry = lookup("/m/d/x"); });
  bucket_->await_arrivals(1);
  ASSERT_TRUE(use("/m", taken));
  bucket_->release();
  waiting.join();
  ASSERT_TRUE(entry && *entry);
  EXPECT_EQ((*entry)->info.size, 1u);
}

TEST_F(CatalogSnapshotTest, AnyCursorPositionIsSafeToResume) {
  for (int i = 0; i < 300; ++i) bucket_->put(fmt::format("d/{:03}/deep/er", i * 2), "x");
  for (int i = 0; i < 300; ++i) bucket_->put(fmt::format("d/{:03}!", i * 2 + 1), "x");
  mount_snapshot("/m", snapshot());
  mount("/m/d/007", std::make_shared<MemorySource>("inner"));
  mount("/m/d/010", std::make_shared<MemorySource>("inner2"));
  const ListingPtr listing = *list("/m/d");
  std::vector<std::string> all;
  std::vector<uint64_t> positions = {0};
  for (Listing::Cursor cursor = listing->from(0); cursor.next();) {
    all.emplace_back(cursor.view().name);
    positions.push_back(cursor.position());
  }
  EXPECT_EQ(all.size(), 601u);
  EXPECT_TRUE(std::ranges::is_sorted(all));
  for (size_t i = 0; i < all.size(); ++i) {
    Listing::Cursor cursor = listing->from(positions[i]);
    ASSERT_TRUE(cursor.next());
    EXPECT_EQ(cursor.view().name, all[i]);
    EXPECT_EQ(cursor.position(), positions[i + 1]);
    Listing::Cursor after = listing->after(all[i]);
    ASSERT_EQ(after.next(), i + 1 < all.size());
    if (i + 1 < all.size()) EXPECT_EQ(after.view().name, all[i + 1]);
  }
  EXPECT_FALSE(listing->from(positions.back()).next());
  Listing::Cursor between = listing->after("0070");
  ASSERT_TRUE(between.next());
  EXPECT_EQ(between.view().name, *std::ranges::upper_bound(all, std::string("0070")));
  for (uint64_t wild = 0; wild < 4000; ++wild) {
    const uint64_t position = wild < 2000 ? wild : wild * 0x9e3779b97f4a7c15ull;
    for (Listing::Cursor cursor = listing->from(position); cursor.next();) {
      ASSERT_TRUE(std::ranges::binary_search(all, cursor.view().name)) << position;
      if (wild % 64 != 0) break;
    }
  }
  for (const char* odd : {"", "/", "a/b", "002/deep", "002/deep/er/x", "\xff\xff", "zzz"}) {
    for (Listing::Cursor cursor = listing->after(odd); cursor.next();) {
      ASSERT_TRUE(std::ranges::binary_search(all, cursor.view().name)) << odd;
    }
  }
}

TEST_F(CatalogSnapshotTest, LookupsGoOnWhileSnapshotsAreExchanged) {
  for (int i = 0; i < 200; ++i) bucket_->put(fmt::format("d/{:03}", i), "x");
  const SnapshotPtr one = snapshot();
  for (int i = 0; i < 200; i += 2) bucket_->put(fmt::format("d/{:03}", i), "22");
  const SnapshotPtr two = snapshot();
  mount_snapshot("/m", one);
  std::atomic<bool> done = false;
  std::atomic<uint64_t> wrong = 0, found = 0;
  auto reader = [&] {
    for (uint64_t i = 0; !done; ++i) {
      auto entry = catalog_->try_lookup(fmt::format("/m/d/{:03}", i % 200));
      if (!entry) continue;  // not cached at this moment
      if (!*entry || (*entry)->info.size > 2) ++wrong;
      auto listing = list("/m/d");
      if (!listing || entries(**listing).size() != 200) ++wrong;
      ++found;
    }
  };
  {
    std::jthread first(reader), second(reader);
    for (int i = 0; i < 30 || found == 0; ++i) {
      EXPECT_TRUE(use("/m", i % 3 == 0 ? two : i % 3 == 1 ? one : nullptr));
      EXPECT_TRUE(list("/m/d"));
    }
    done = true;
  }
  EXPECT_GT(found, 0u);
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace leat::testing
