// SPDX-License-Identifier: Apache-2.0
// Mode `through`: renames of directories with more names than one call copies.
#include <algorithm>

#include "vfs/writing/write_behind_test.h"

namespace leat::testing {
namespace {

class LargeDirectories : public WriteBehind {
 protected:
  static constexpr int kNames = 1500;

  LargeDirectories() : WriteBehind(WriteMode::kThrough) {
    writing.bucket->changed.renames = false;
    for (int number = 0; number < kNames; ++number) {
      rig->bucket().put(fmt::format("d/{}", number), "x");
    }
  }

  void expect_renamed() {
    EXPECT_EQ(rig->peek(kRootNode, "d"), 0u);
    const NodeId e = rig->node(kRootNode, "e");
    EXPECT_EQ(rig->content(e, "0"), "x");
    const std::string names = rig->list(e);
    EXPECT_EQ(std::ranges::count(names, ':'), kNames);
  }
  void expect_in_store() {
    EXPECT_EQ(rig->unsent().changes, 0u);
    EXPECT_EQ(rig->bucket().object_count(), kNames + 1u) << "with the marker";
    EXPECT_EQ(rig->stored(fmt::format("e/{}", kNames - 1)), "x");
    EXPECT_EQ(rig->stored("d/0"), "(none)");
  }
};

TEST_F(LargeDirectories, RenameReturnsWhenStoreHasIt) {
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  expect_in_store();
  expect_renamed();
  put("more", "text", rig->node(kRootNode, "e"));
  EXPECT_EQ(rig->stored("e/more"), "text") << "at once";
}

TEST_F(LargeDirectories, RestartGoesOnWithRename) {
  std::atomic<int> left = 700;
  writing.bucket->before = [&](std::string_view operation, const std::string&) -> Result<> {
    if (operation != "copy" || --left >= 0) return {};
    return error(StatusCode::kUnavailable, "no answer");
  };
  EXPECT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "unavailable");
  EXPECT_EQ(rig->unsent().changes, 1u);
  expect_renamed();
  EXPECT_EQ(rig->stored("d/0"), "x") << "all copies come first";
  start();
  EXPECT_EQ(rig->unsent().changes, 1u);
  expect_renamed();
  writing.bucket->before = {};
  ASSERT_TRUE(rig->drain());
  expect_renamed();
  expect_in_store();
}

TEST_F(LargeDirectories, FewNamesNeedNoJournal) {
  rig->bucket().put("few/a", "x");
  EXPECT_EQ(rig->rename(kRootNode, "few", kRootNode, "other"), "ok");
  EXPECT_FALSE(WriteJournal::exists(writing.journal));
}

}  // namespace
}  // namespace leat::testing
