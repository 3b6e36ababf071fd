// SPDX-License-Identifier: Apache-2.0
// A reader's view of a mount with a changed policy while it is open.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "vfs/tree_rig_test.h"

namespace leat::testing {
namespace {

Policy policy_of(const std::string& freshness, uid_t uid = 0) {
  Policy policy;
  policy.freshness = Freshness::parse(freshness).value();
  policy.uid = uid;
  return policy;
}

void set_policy(TreeRig& rig, Policy policy) {
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->set_policy("/data", std::move(policy))));
}

TEST(PolicyOfAMount, ChangeInvalidatesAllHeldNodes) {
  TreeRig rig({.freshness = Freshness::parse("immutable").value()});
  rig.source->put("d/x", "1");
  const NodeId d = rig.node(kRootNode, "d"), x = rig.node(d, "x");
  ASSERT_TRUE(rig.open_directory(kRootNode));
  std::vector<KernelInvalidation> told;
  rig.files->set_invalidation_listener([&](const KernelInvalidation& one) { told.push_back(one); });
  set_policy(rig, policy_of("max-age=10s", 77));
  std::set<NodeId> nodes;
  for (const KernelInvalidation& one : told) {
    EXPECT_TRUE(one.expire_only && one.may_block);
    EXPECT_EQ(one.directory, one.node != x);
    nodes.insert(one.node);
  }
  EXPECT_EQ(nodes, (std::set<NodeId>{kRootNode, d, x}));
  EXPECT_EQ(rig.attributes(x)->uid, 77u) << "of an open file, too, which is not looked up again";
  EXPECT_EQ(rig.node(d, "x"), x);
  EXPECT_LE(rig.lookup(d, "x")->valid_for, std::chrono::seconds(10));
  EXPECT_EQ(rig.attributes(d)->uid, 77u);
  rig.files->set_invalidation_listener({});
}

TEST(PolicyOfAMount, OpenListingDoesNotRestoreOldPolicy) {
  TreeRig rig({.freshness = Freshness::parse("immutable").value()});
  rig.source->put("x", "1");
  auto open = rig.open_directory(kRootNode).value();
  set_policy(rig, policy_of("max-age=10s", 77));
  Listing::Cursor cursor = open->from(0);
  ASSERT_TRUE(cursor.next());
  const NodeAttributes old = rig.files->lookup_from_listing(kRootNode, cursor.entry());
  EXPECT_EQ(old.uid, 77u);
  EXPECT_EQ(old.valid_for, Clock::duration::zero());
  EXPECT_EQ(rig.attributes(old.node)->valid_for, Clock::duration::zero());
  EXPECT_GT(rig.lookup(kRootNode, "x")->valid_for, Clock::duration::zero());
}

TEST(PolicyOfAMount, AppliesToTheNextOpen) {
  TreeRig rig;
  rig.source->put("x", "some bytes");
  const NodeId x = rig.node(kRootNode, "x");
  Policy never = policy_of("max-age=60s");
  never.cache = CacheMode::kNever;
  set_policy(rig, never);
  const auto file = rig.open(rig.node(kRootNode, "x")).value();
  EXPECT_EQ(file->node(), x);
  EXPECT_EQ(file->ref()->cache, CacheUse::kMemory);
  EXPECT_EQ(rig.read(*file, 0, 100).value(), "some bytes");
  EXPECT_EQ(rig.store->cached_bytes(*file->ref()), 0u);
}

TEST(PolicyOfAPath, DecidesFreshnessOfItsNames) {
  TreeRig rig({.freshness = Freshness::parse("max-age=60s").value()});
  for (const char* key : {"a/x", "b/x"}) rig.source->put(key, "1");
  Policy policy = policy_of("max-age=60s");
  policy.freshness.negative_ttl = std::chrono::seconds(5);
  PathPolicy own = policy;
  own.freshness = Freshness::parse("immutable").value();
  own.freshness.negative_ttl = std::chrono::seconds(50);
  PathPolicy single = policy;
  single.freshness.negative_ttl = std::chrono::seconds(0);
  policy.paths = {{"a", own}, {"b/done", single}};
  set_policy(rig, policy);
  const NodeId a = rig.node(kRootNode, "a"), b = rig.node(kRootNode, "b");
  EXPECT_EQ(rig.lookup(a, "x")->valid_for, kForever);
  EXPECT_LT(rig.lookup(b, "x")->valid_for, kForever);
  EXPECT_EQ(rig.open_directory(a).value()->valid_for(), kForever);
  EXPECT_LT(rig.open_directory(b).value()->valid_for(), kForever);
  EXPECT_EQ(rig.files->negative_ttl(a, "none"), std::chrono::seconds(50));
  EXPECT_EQ(rig.files->negative_ttl(b, "none"), std::chrono::seconds(5));
  EXPECT_EQ(rig.files->negative_ttl(b, "done"), std::chrono::seconds(0));
}

TEST(PolicyOfAMount, NameRemovedFromKeptListingIsReported) {
  TreeRig rig({.freshness = Freshness::parse("immutable").value()});
  rig.source->put("d/x", "1");
  rig.source->put("d/y", "1");
  const NodeId d = rig.node(kRootNode, "d");
  ASSERT_TRUE(rig.open_directory(d));
  std::vector<std::string> told;
  rig.files->set_invalidation_listener([&](const KernelInvalidation& one) {
    told.push_back(one.name + (one.node != 0 ? "!" : ""));
  });
  rig.source->remove("d/x");
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->refresh(Context::background(), "/data/d")));
  while (told.empty()) std::this_thread::yield();  // sent right after the answer
  EXPECT_EQ(told, (std::vector<std::string>{"x"}));
  rig.files->set_invalidation_listener({});
}

}  // namespace
}  // namespace leat::testing
