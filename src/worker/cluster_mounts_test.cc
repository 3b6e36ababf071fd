// SPDX-License-Identifier: Apache-2.0
// The mounts of a view, as one worker's catalog serves them.
#include "worker/cluster_mounts.h"

#include <gtest/gtest.h>

#include "fetch/memory_page_store_test.h"
#include "runtime/executor.h"

namespace leat {
namespace {

using std::chrono::seconds;

// Remembers the policies of pools.
class PoolRecorder : public testing::MemoryPageStore {
 public:
  std::map<std::string, PoolPolicy> policies;  // by name
  void set_pool_policy(PoolId, const PoolPolicy& policy) override {
    policies[policy.name] = policy;
  }
};

class ClusterMountsTest : public ::testing::Test {
 protected:
  ~ClusterMountsTest() override { executor_.block_on(catalog_->stop()); }

  // A mount as the worker that added it wrote it.
  static ClusterMount mount(const std::string& path, const std::string& source,
                            std::map<std::string, std::string> options = {}) {
    ClusterMount mount{.path = path, .source = source, .options = std::move(options)};
    const auto opened = open_cluster_mount(mount, LocalPaths({"/"})).value();
    mount.store = opened.source->id();
    mount.prefix = opened.entry.source.prefix;
    mount.replicas = opened.replicas;
    return mount;
  }
  void follow(const std::vector<ClusterMount>& mounts) {
    auto view = std::make_shared<ClusterView>();
    view->revision = ++revision_;
    for (const ClusterMount& one : mounts) view->mounts[one.path] = one;
    executor_.block_on(mounts_.follow(std::move(view)));
  }
  std::vector<std::string> served() const {
    std::vector<std::string> paths;
    for (const MountPtr& one : catalog_->mounts()) paths.push_back(one->entry.path);
    std::ranges::sort(paths);
    return paths;
  }
  std::optional<StatusCode> trouble(const std::string& path) const {
    const auto trouble = mounts_.trouble(path);
    if (!trouble) return std::nullopt;
    return trouble->code();
  }

  using Paths = std::vector<std::string>;

  Executor executor_{{.threads = 2}};
  SourceTable sources_;
  PoolRecorder store_;
  LocalPaths local_{{"/srv"}};
  RegistryRevision revision_ = 0;
  std::vector<std::string> wrapped_;
  const std::unique_ptr<Catalog> catalog_ = Catalog::create({}, sources_, executor_);
  ClusterMounts mounts_{*catalog_, &store_, local_,
                        [this](const ClusterMount& mount, SourcePtr source) {
                          wrapped_.push_back(mount.path);
                          return source;
                        }};
};

TEST_F(ClusterMountsTest, MountsOfTheViewAreServed) {
  EXPECT_EQ(mounts_.policy_of("/a"), nullptr);
  const ClusterMount a = mount("/a", "file:///srv/a"), b = mount("/b", "file:///srv/b");
  follow({a, b});
  EXPECT_EQ(served(), (Paths{"/a", "/b"}));
  EXPECT_NE(mounts_.policy_of("/a"), nullptr);
  EXPECT_EQ(mounts_.policy_of("/a/below"), nullptr);
  EXPECT_FALSE(trouble("/a"));
  EXPECT_EQ(wrapped_, (Paths{"/a", "/b"}));
  EXPECT_NE(sources_.find(a.store), nullptr);
}

TEST_F(ClusterMountsTest, MountIsServedUntilItIsRemoved) {
  const ClusterMount a = mount("/a", "file:///srv/a"), b = mount("/b", "file:///srv/b");
  follow({a, b});
  follow({b});
  EXPECT_EQ(served(), Paths{"/b"});
  EXPECT_EQ(mounts_.policy_of("/a"), nullptr);
  EXPECT_NE(mounts_.policy_of("/b"), nullptr);
  follow({});
  EXPECT_EQ(served(), Paths());
}

TEST_F(ClusterMountsTest, UnchangedMountIsKept) {
  const ClusterMount a = mount("/a", "file:///srv/a");
  follow({a});
  const MountPtr before = catalog_->mounts().front();
  const auto policy = mounts_.policy_of("/a");
  follow({a, mount("/b", "file:///srv/b")});
  follow({a});
  EXPECT_EQ(catalog_->mounts().front(), before);
  EXPECT_EQ(mounts_.policy_of("/a"), policy);
  EXPECT_EQ(wrapped_, (Paths{"/a", "/b"}));
}

TEST_F(ClusterMountsTest, ChangedMountIsOpenedAgain) {
  follow({mount("/a", "file:///srv/a")});
  const auto before = mounts_.policy_of("/a");
  follow({mount("/a", "file:///srv/other", {{"freshness", "immutable"}})});
  EXPECT_EQ(served(), Paths{"/a"});
  EXPECT_EQ(catalog_->mounts().front()->entry.source.prefix, "srv/other/");
  EXPECT_EQ(mounts_.policy_of("/a")->freshness.mode, Freshness::Mode::kImmutable);
  EXPECT_EQ(before->freshness.mode, Freshness::Mode::kMaxAge) << "readers keep theirs";
}

TEST_F(ClusterMountsTest, DeniedMountIsTroubleAndRetried) {
  const ClusterMount denied = mount("/a", "file:///home/a"), b = mount("/b", "file:///srv/b");
  follow({denied, b});
  EXPECT_EQ(served(), Paths{"/b"});
  EXPECT_EQ(trouble("/a"), StatusCode::kPermissionDenied);
  EXPECT_TRUE(mounts_.trouble("/a")->message().contains("worker.local_paths"));
  EXPECT_EQ(mounts_.policy_of("/a"), nullptr);
  EXPECT_FALSE(trouble("/b"));
  follow({denied, b});
  EXPECT_EQ(trouble("/a"), StatusCode::kPermissionDenied);
  local_ = LocalPaths({"/srv", "/home"});
  follow({denied, b});
  EXPECT_EQ(served(), (Paths{"/a", "/b"}));
  EXPECT_FALSE(trouble("/a"));
  EXPECT_NE(mounts_.policy_of("/a"), nullptr);
}

TEST_F(ClusterMountsTest, MountOfAnotherStoreIsTrouble) {
  ClusterMount a = mount("/a", "file:///srv/a");
  a.store = make_store_id("s3", "elsewhere", "", "bucket");
  follow({a});
  EXPECT_EQ(served(), Paths());
  EXPECT_EQ(trouble("/a"), StatusCode::kInvalidArgument);
  EXPECT_TRUE(mounts_.trouble("/a")->message().contains("another store here"));
  EXPECT_EQ(mounts_.policy_of("/a"), nullptr);
}

TEST_F(ClusterMountsTest, UnreadableMountDoesNotStopOthers) {
  ClusterMount newer = mount("/a", "file:///srv/a");
  newer.options["freshness"] = "by-moonlight";
  ClusterMount scheme = mount("/b", "file:///srv/b");
  scheme.source = "gopher://host/b";
  follow({newer, scheme, mount("/c", "file:///srv/c")});
  EXPECT_EQ(served(), Paths{"/c"});
  EXPECT_EQ(trouble("/a"), StatusCode::kInvalidArgument);
  EXPECT_EQ(trouble("/b"), StatusCode::kInvalidArgument);
}

TEST_F(ClusterMountsTest, TroubleEndsWithTheMount) {
  const ClusterMount b = mount("/b", "file:///srv/b");
  follow({mount("/a", "file:///home/a"), b});
  ASSERT_TRUE(trouble("/a"));
  follow({b});
  EXPECT_FALSE(trouble("/a")) << "nothing is mounted there any more";
}

TEST_F(ClusterMountsTest, MountThatFailsAfterAChangeIsNotServed) {
  follow({mount("/a", "file:///srv/a")});
  follow({mount("/a", "file:///home/a")});
  EXPECT_EQ(served(), Paths()) << "the old store is not the mounted one";
  EXPECT_EQ(trouble("/a"), StatusCode::kPermissionDenied);
  follow({mount("/a", "file:///srv/a")});
  EXPECT_EQ(served(), Paths{"/a"});
  EXPECT_FALSE(trouble("/a"));
}

TEST_F(ClusterMountsTest, PoolPoliciesReachTheCache) {
  follow({mount("/a", "file:///srv/a", {{"quota", "1GiB"}, {"priority", "high"}})});
  ASSERT_TRUE(store_.policies.contains("/a"));
  EXPECT_EQ(store_.policies["/a"].quota_bytes, kGiB);
  EXPECT_EQ(store_.policies["/a"].priority, Priority::kHigh);
}

TEST_F(ClusterMountsTest, MountsWithoutACacheAreServed) {
  const std::unique_ptr<Catalog> catalog = Catalog::create({}, sources_, executor_);
  ClusterMounts mounts(*catalog, nullptr, local_,
                       [](const ClusterMount&, SourcePtr source) { return source; });
  auto view = std::make_shared<ClusterView>();
  view->revision = 1;
  view->mounts["/a"] = mount("/a", "file:///srv/a", {{"quota", "1GiB"}});
  executor_.block_on(mounts.follow(std::move(view)));
  EXPECT_NE(mounts.policy_of("/a"), nullptr);
  executor_.block_on(catalog->stop());
}

// --- entries -------------------------------------------------------------------------------------

TEST(ClusterMountEntryTest, WorkersUseHalfOfTheLifetimes) {
  ClusterMount mount{.path = "/a", .source = "file:///etc"};
  mount.options = {{"freshness", "max-age=10s"}, {"negative_ttl", "4s"}};
  const auto entry = cluster_mount_entry(mount);
  ASSERT_TRUE(entry) << entry.error().to_string();
  EXPECT_EQ(entry->path, "/a");
  EXPECT_EQ(entry->source.prefix, "etc/");
  EXPECT_EQ(entry->policy.freshness.max_age, seconds(5));
  EXPECT_EQ(entry->policy.freshness.negative_ttl, seconds(2));
}

TEST(ClusterMountEntryTest, FilesAreCachedUnlessConfigured) {
  ClusterMount mount{.path = "/a", .source = "file:///srv/a"};
  EXPECT_EQ(cluster_mount_entry(mount)->policy.cache, CacheMode::kAlways);
  mount.options["cache"] = "never";
  EXPECT_EQ(cluster_mount_entry(mount)->policy.cache, CacheMode::kNever);
}

TEST(ClusterMountEntryTest, IsolatedMountsShareNoStore) {
  ClusterMount a{.path = "/a", .source = "file:///srv/x"}, b{.path = "/b", .source = a.source};
  const LocalPaths local({"/srv"});
  const auto store = [&](const ClusterMount& mount) {
    return open_cluster_mount(mount, local).value().source->id();
  };
  EXPECT_EQ(store(a), store(b));
  a.options["isolated"] = "true";
  b.options["isolated"] = "true";
  EXPECT_NE(store(a), store(b));
}

TEST(ClusterMountEntryTest, ReplicasAreNoOptionOfTheStore) {
  ClusterMount mount{.path = "/a", .source = "file:///srv/a"};
  mount.options["replicas"] = "4";
  const auto opened = open_cluster_mount(mount, LocalPaths({"/srv"}));
  ASSERT_TRUE(opened) << opened.error().to_string();
  EXPECT_EQ(opened->replicas, kReplicasMax);
  EXPECT_FALSE(opened->entry.source.options.contains("replicas"));
  for (const char* wrong : {"", "0", "5", "10", "-1", "x"}) {
    mount.options["replicas"] = wrong;
    const auto refused = open_cluster_mount(mount, LocalPaths({"/srv"}));
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace leat
