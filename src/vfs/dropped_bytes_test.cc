// SPDX-License-Identifier: Apache-2.0
// Reactions of the file system after the cache dropped wrong bytes that its nodes may show.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <vector>

#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using testing::TreeRig;

class DroppedBytes : public ::testing::Test {
 protected:
  DroppedBytes() {
    rig_.source->put("a/one", "first");
    rig_.source->put("a/two", "second");
    directory_ = rig_.node(kRootNode, "a");
    one_ = rig_.node(directory_, "one");
    two_ = rig_.node(directory_, "two");
    rig_.files->set_invalidation_listener([this](const KernelInvalidation& notified) {
      if (notified.pages) notified_.push_back(notified);
    });
  }
  ~DroppedBytes() override { rig_.files->set_invalidation_listener({}); }
  FileId id_of(NodeId node) { return rig_.open(node).value()->ref()->id; }

  TreeRig rig_{{.freshness = {.mode = Freshness::Mode::kImmutable}}};
  NodeId directory_ = 0, one_ = 0, two_ = 0;
  std::vector<KernelInvalidation> notified_;
};

TEST_F(DroppedBytes, InvalidateEachNodeThatShowsThem) {
  rig_.files->bytes_dropped({id_of(one_)});
  ASSERT_EQ(notified_.size(), 1u);
  EXPECT_EQ(notified_[0].node, one_);
  EXPECT_EQ(notified_[0].parent, directory_);
  EXPECT_EQ(notified_[0].name, "one");
  EXPECT_TRUE(notified_[0].expire_only) << "none may be lost for want of room";
  // The node stays: open files continue.
  EXPECT_EQ(rig_.node(directory_, "one"), one_);
  EXPECT_TRUE(rig_.open(one_));
}

TEST_F(DroppedBytes, OfNoNodeNotifyNothing) {
  rig_.files->bytes_dropped({FileId{}});
  EXPECT_TRUE(notified_.empty());
}

TEST_F(DroppedBytes, RetiredNodeIsReplacedByAnother) {
  const auto open = rig_.open(one_).value();
  rig_.files->retire(one_);
  const auto opened = rig_.open(one_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), StatusCode::kVersionChanged) << opened.error().to_string();
  const NodeId next = rig_.node(directory_, "one");
  EXPECT_NE(next, one_);
  EXPECT_EQ(rig_.read(*rig_.open(next).value(), 0, 10).value(), "first");
  EXPECT_EQ(rig_.read(*open, 0, 10).value(), "first") << "what is open is served";
  EXPECT_EQ(rig_.node(directory_, "two"), two_);
  rig_.files->forget(one_, 100);
  EXPECT_EQ(rig_.node(directory_, "one"), next) << "the old node's end takes no name away";
}

}  // namespace
}  // namespace leat
