// SPDX-License-Identifier: Apache-2.0
// A reader's view of a mount with names from a snapshot.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "catalog/snapshot/snapshot_builder.h"
#include "vfs/tree_rig_test.h"

namespace leat::testing {
namespace {

SnapshotPtr take_snapshot(TreeRig& rig) {
  const std::string path = ::testing::TempDir() + "/leat_vfs_" + Id128::random().to_hex();
  StoreUrl url{.scheme = "memory", .bucket = "bucket", .prefix = "", .options = {}};
  auto head = rig.executor.block_on(
      build_snapshot(Context::background(), rig.source, url, rig.executor, {.path = path}));
  EXPECT_TRUE(head) << head.error().to_string();
  SnapshotPtr snapshot = Snapshot::open(path).value();
  std::filesystem::remove(path);
  return snapshot;
}

TEST(SnapshotMount, ShowsItsStateRemovedVersionsAreStale) {
  TreeRig rig;
  rig.source->put("cached", "old");
  rig.source->put("gone", "old");
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->use_snapshot("/data", take_snapshot(rig))));
  const auto cached = rig.open(rig.node(kRootNode, "cached")).value();
  EXPECT_EQ(rig.read(*cached, 0, 10).value(), "old");
  rig.source->put("cached", "newer");
  rig.source->put("gone", "newer");
  rig.advance(std::chrono::hours(100));
  // Cached bytes are served as long as the snapshot is used; versions are never mixed.
  EXPECT_EQ(rig.read(*rig.open(rig.node(kRootNode, "cached")).value(), 0, 10).value(), "old");
  const NodeId gone = rig.node(kRootNode, "gone");
  const auto open = rig.open(gone).value();
  EXPECT_EQ(rig.attributes(gone)->valid_for, kForever);
  EXPECT_EQ(rig.read(*open, 0, 10).error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(rig.attributes(gone)->valid_for, Clock::duration::zero())
      << "the name is looked up again";
  EXPECT_EQ(rig.node(kRootNode, "gone"), gone);
  EXPECT_EQ(rig.read(*rig.open(gone).value(), 0, 10).error().code(), StatusCode::kVersionChanged);
}

TEST(SnapshotMount, NextSnapshotShowsAtOnceOldOpensStay) {
  TreeRig rig;
  rig.source->put("d/x", "old");
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->use_snapshot("/data", take_snapshot(rig))));
  const NodeId d = rig.node(kRootNode, "d"), x = rig.node(d, "x");
  const auto open = rig.open(x).value();
  EXPECT_EQ(rig.read(*open, 0, 10).value(), "old");
  EXPECT_EQ(rig.attributes(x)->valid_for, kForever);
  const auto listed = rig.open_directory(d).value();
  EXPECT_EQ(listed->valid_for(), kForever) << "a kernel may keep it";
  EXPECT_TRUE(listed->is_latest());
  std::vector<std::string> told;
  std::vector<NodeId> listings;
  rig.files->set_invalidation_listener([&](const KernelInvalidation& name) {
    name.parent != 0 ? told.push_back(name.name) : listings.push_back(name.node);
  });
  rig.source->put("d/x", "newer");
  rig.source->put("d/y", "new");
  EXPECT_EQ(rig.lookup(d, "y").error().code(), StatusCode::kNotFound);
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->use_snapshot("/data", take_snapshot(rig))));
  EXPECT_EQ(told, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(listings, (std::vector<NodeId>{kRootNode, d})) << "of which the kernel may keep names";
  EXPECT_FALSE(listed->is_latest());
  EXPECT_TRUE(rig.open_directory(d).value()->is_latest());
  const NodeId newer = rig.node(d, "x");
  EXPECT_NE(newer, x);
  EXPECT_EQ(rig.read(*rig.open(newer).value(), 0, 10).value(), "newer");
  EXPECT_TRUE(rig.lookup(d, "y"));
  EXPECT_EQ(rig.read(*open, 0, 10).value(), "old");
  rig.files->set_invalidation_listener({});
}

TEST(SnapshotMount, RevalidationReportsItsRootOnly) {
  TreeRig rig;
  rig.source->put("d/x", "old");
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->use_snapshot("/data", take_snapshot(rig))));
  rig.node(rig.node(kRootNode, "d"), "x");
  std::vector<NodeId> told;
  rig.files->set_invalidation_listener(
      [&](const KernelInvalidation& name) { told.push_back(name.node); });
  rig.files->revalidate_held("/data");
  EXPECT_EQ(told, (std::vector<NodeId>{kRootNode})) << "what is in it does not change";
  rig.files->set_invalidation_listener({});
}

}  // namespace
}  // namespace leat::testing
