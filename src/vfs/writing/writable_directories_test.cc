// SPDX-License-Identifier: Apache-2.0
// Directories of an object store: renamed by copies of their objects.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

using testing::OpenedFile;
using testing::outcome;
using testing::WritableRig;

TEST(CopiedDirectories, RenamedDirectoryKeepsItsNodes) {
  WritableRig rig;
  rig.source->put("d/x", "one");
  rig.source->put("d/sub/y", "two");
  const NodeId d = rig.node(kRootNode, "d");
  const NodeId x = rig.node(d, "x");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig.keys(), "e/ e/sub/y e/x");
  EXPECT_EQ(rig.peek(kRootNode, "d"), 0u);
  EXPECT_EQ(rig.peek(kRootNode, "e"), d);
  EXPECT_EQ(rig.peek(d, "x"), x);
  EXPECT_EQ(rig.content(d, "x"), "one");
  EXPECT_EQ(rig.content(rig.node(d, "sub"), "y"), "two");
}

TEST(CopiedDirectories, EmptyDirectoryIsRenamed) {
  WritableRig rig;
  const NodeId d = rig.make_directory(kRootNode, "d")->node;
  const NodeId sub = rig.make_directory(d, "sub")->node;
  ASSERT_TRUE(rig.make_directory(sub, "in"));
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig.keys(), "e/ e/sub/ e/sub/in/");
  EXPECT_EQ(rig.rename(sub, "in", kRootNode, "out"), "ok");
  EXPECT_EQ(rig.list(sub), "");
  EXPECT_EQ(rig.peek(d, "sub"), sub) << "it stays without names";
}

TEST(CopiedDirectories, WrittenFilesMoveWithDirectory) {
  WritableRig rig;
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const OpenedFile made = rig.create(d, "new").value();
  const OpenedFile changed = rig.open_name(d, "x", O_RDWR).value();
  ASSERT_TRUE(rig.write(made, 0, "text"));
  ASSERT_TRUE(rig.write(changed, 3, "!"));
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(outcome(rig.close(made)), "ok");
  EXPECT_EQ(outcome(rig.close(changed)), "ok");
  EXPECT_EQ(rig.stored("e/new"), "text");
  EXPECT_EQ(rig.stored("e/x"), "one!");
  EXPECT_EQ(rig.stored("d/x"), "(none)");
}

TEST(CopiedDirectories, FailedCopyChangesNothing) {
  WritableRig rig;
  rig.source->put("d/x", "one");
  rig.source->put("d/y", "two");
  const NodeId x = rig.node(rig.node(kRootNode, "d"), "x");
  rig.bucket().before = [](std::string_view operation, const std::string& key) -> Result<> {
    if (operation == "copy" && key == "e/y") return error(StatusCode::kUnavailable, "no answer");
    return {};
  };
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "unavailable");
  rig.bucket().before = {};
  EXPECT_EQ(rig.keys(), "d/x d/y");
  EXPECT_EQ(rig.peek(rig.node(kRootNode, "d"), "x"), x);
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig.keys(), "e/ e/x e/y");
}

TEST(CopiedDirectories, LargeDirectoryIsLeftToPrograms) {
  WritableRig rig;
  for (int number = 0; number < 1001; ++number) {
    rig.source->put(fmt::format("d/{}", number), "x");
  }
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "cross_device");
  EXPECT_EQ(rig.stored("d/1000"), "x");
  EXPECT_EQ(rig.peek(kRootNode, "e"), 0u);
}

TEST(CopiedDirectories, OnlyEmptyDirectoryIsReplaced) {
  WritableRig rig;
  rig.source->put("d/x", "one");
  rig.source->put("e/y", "two");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "not_empty");
  EXPECT_EQ(rig.remove_file(rig.node(kRootNode, "e"), "y"), "ok");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig.keys(), "e/ e/x");
}

TEST(CopiedDirectories, StoreWithoutCopiesRenamesNone) {
  WritableRig rig;
  rig.bucket().changed.copies = false;
  rig.bucket().changed.renames = false;
  rig.source->put("d/x", "one");
  EXPECT_EQ(rig.rename(kRootNode, "d", kRootNode, "e"), "cross_device");
}

}  // namespace
}  // namespace leat
