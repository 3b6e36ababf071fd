// SPDX-License-Identifier: Apache-2.0
#include "vfs/inspection_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TreeRig;
using testing::TreeRigOptions;

constexpr Freshness kSecond{.mode = Freshness::Mode::kMaxAge, .max_age = 1s, .negative_ttl = 1s};

// Two files: one counts how often it was created, the other reports errors.
TreeRigOptions inspection_rig_options(Freshness freshness = kSecond) {
  TreeRigOptions options{.freshness = freshness, .uid = 7, .gid = 8, .umask = 027};
  options.inspection = [](const FileSystem& files) -> std::vector<VirtualFile> {
    auto made = std::make_shared<int>(0);
    return {{"number", [made] { return fmt::format("number {}\n", ++*made); }},
            {"errors", [&files] {
               std::string text;
               for (const PathError& error : files.errors()) {
                 text += error.path + ": " + error.reason + "\n";
               }
               return text;
             }}};
  };
  options.inspection_options.lookup_timeout = 1h;  // a slow store is not one that does not respond
  return options;
}

std::vector<std::string> names_in(TreeRig& rig, NodeId node) {
  std::vector<std::string> names;
  const auto open = rig.open_directory(node).value();
  Listing::Cursor cursor = open->from(0);
  while (cursor.next()) names.emplace_back(cursor.view().name);
  return names;
}

std::string content(TreeRig& rig, const std::string& name) {
  const NodeId directory = rig.node(kRootNode, ".leat");
  const Result<NodeAttributes> found = rig.lookup(directory, name);
  if (!found) return found.error().to_string();
  const auto file = rig.open(found->node).value();
  std::string text = rig.read(*file, 0, kMiB).value();
  EXPECT_EQ(text.size(), found->size);
  rig.files->forget(found->node, 1);
  return text;
}

TEST(InspectionDirectory, IsFoundByNameAndInNoListing) {
  TreeRig rig(inspection_rig_options());
  rig.source->put("d/x", "one");
  EXPECT_THAT(names_in(rig, kRootNode), ElementsAre("d"));
  const Result<NodeAttributes> found = rig.lookup(kRootNode, ".leat");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, FileKind::kDirectory);
  EXPECT_EQ(found->mode, static_cast<mode_t>(S_IFDIR | 0750));
  EXPECT_EQ(found->uid, 7u);
  EXPECT_EQ(found->gid, 8u);
  EXPECT_EQ(found->valid_for, Clock::duration::zero());
  EXPECT_EQ(rig.node(kRootNode, ".leat"), found->node);
  EXPECT_EQ(rig.attributes(found->node)->node, found->node);
  EXPECT_THAT(names_in(rig, found->node), ElementsAre("errors", "number"));
  EXPECT_EQ(rig.lookup(found->node, "x").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(rig.lookup(rig.node(kRootNode, "d"), ".leat").error().code(), StatusCode::kNotFound)
      << "only in the root";
  EXPECT_TRUE(rig.files->attribute_names(found->node).empty());
}

TEST(InspectionDirectory, IsAbsentIfNotEnabled) {
  TreeRig rig;
  rig.source->put("x", "one");
  EXPECT_EQ(rig.lookup(kRootNode, ".leat").error().code(), StatusCode::kNotFound);
}

TEST(InspectionDirectory, EachLookupIsASnapshotToItsEnd) {
  TreeRig rig(inspection_rig_options());
  const NodeId directory = rig.node(kRootNode, ".leat");
  const Result<NodeAttributes> first = rig.lookup(directory, "number");
  const Result<NodeAttributes> second = rig.lookup(directory, "number");
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->node, second->node);
  EXPECT_EQ(first->mode, static_cast<mode_t>(S_IFREG | 0640));
  EXPECT_EQ(first->size, 9u);
  const auto one = rig.open(first->node).value(), two = rig.open(second->node).value();
  EXPECT_EQ(rig.read(*one, 0, 100).value(), "number 1\n");
  EXPECT_EQ(rig.read(*two, 0, 100).value(), "number 2\n");
  EXPECT_EQ(rig.read(*one, 7, 1).value(), "1");
  EXPECT_EQ(rig.read(*one, 7, 100).value(), "1\n");
  EXPECT_EQ(rig.read(*one, 9, 1).value(), "");
  EXPECT_EQ(rig.attributes(first->node)->size, 9u);
  EXPECT_EQ(one->backing(), nullptr);
  rig.files->forget(first->node, 1);
  EXPECT_EQ(rig.read(*one, 0, 100).value(), "number 1\n") << "as long as it is open";
  EXPECT_EQ(rig.open(first->node).error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(rig.attributes(first->node).error().code(), StatusCode::kVersionChanged);
  rig.files->forget(first->node, 5);
  rig.files->forget(directory, 100);
  EXPECT_EQ(content(rig, "number"), "number 3\n");
}

TEST(InspectionDirectory, ARealNameWins) {
  TreeRig rig(inspection_rig_options());
  rig.source->put("a", "one");
  const NodeId virtual_one = rig.node(kRootNode, ".leat");
  rig.source->put(".leat/mine", "my own");
  rig.advance(2s);
  const NodeId real = rig.node(kRootNode, ".leat");
  EXPECT_NE(real, virtual_one);
  EXPECT_THAT(names_in(rig, kRootNode), ElementsAre(".leat", "a"));
  EXPECT_EQ(rig.read(*rig.open(rig.node(real, "mine")).value(), 0, 100).value(), "my own");
  rig.source->fail_next(StatusCode::kUnavailable, 1000);
  rig.advance(2s);
  EXPECT_EQ(rig.lookup(kRootNode, ".leat").error().code(), StatusCode::kUnavailable)
      << "nothing replaces it";
  rig.source->fail_next(StatusCode::kUnavailable, 0);
  rig.source->remove(".leat/mine");
  rig.advance(20s);
  EXPECT_EQ(rig.node(kRootNode, ".leat"), virtual_one);
}

TEST(InspectionDirectory, IsThereWhileTheStoreFails) {
  TreeRig rig(inspection_rig_options());
  rig.source->put("x", "one");
  rig.source->fail_next(StatusCode::kPermissionDenied, 1000);
  EXPECT_EQ(content(rig, "number"), "number 1\n");
  const uint64_t requests = rig.source->lists() + rig.source->stats();
  EXPECT_EQ(content(rig, "number"), "number 2\n");
  EXPECT_EQ(rig.source->lists() + rig.source->stats(), requests)
      << "for a while it gets no request";
  rig.source->fail_next(StatusCode::kPermissionDenied, 0);
  rig.source->put(".leat", "my own");
  rig.advance(6s);
  EXPECT_EQ(rig.lookup(kRootNode, ".leat")->kind, FileKind::kFile);
}

TEST(InspectionDirectory, IsThereWhileTheStoreDoesNotAnswer) {
  TreeRigOptions options = inspection_rig_options();
  options.inspection_options.lookup_timeout = 0s;
  TreeRig rig(std::move(options));
  EXPECT_EQ(content(rig, "number"), "number 1\n");
}

TEST(InspectionDirectory, ReportsWhyALookupFailed) {
  TreeRig rig(inspection_rig_options());
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  rig.files->record_error(d, "x", Status(StatusCode::kUnavailable, "it rained"));
  rig.files->record_error(kRootNode, {}, Status(StatusCode::kThrottled, "too many"));
  EXPECT_EQ(content(rig, "errors"), "d/x: it rained\n.: too many\n");
  EXPECT_THAT(rig.files->attribute_value(d, "user.leat.last_error").value(),
              HasSubstr("it rained"));
  rig.files->record_error(rig.node(kRootNode, ".leat"), {}, Status(StatusCode::kBusy, "its own"));
  EXPECT_THAT(content(rig, "errors"), Not(HasSubstr("its own")));
}

TEST(InspectionDirectory, TakesNoChange) {
  TreeRig rig(inspection_rig_options());
  const NodeId directory = rig.node(kRootNode, ".leat");
  const NodeId file = rig.node(directory, "number");
  for (int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC}) {
    EXPECT_EQ(rig.open(file, flags).error().code(), StatusCode::kReadOnly) << flags;
  }
  const Status refused = rig.files->reject_change(directory, "remove 'number' from");
  EXPECT_EQ(refused.code(), StatusCode::kReadOnly);
  EXPECT_THAT(refused.message(), HasSubstr("remove 'number' from .leat"));
  EXPECT_EQ(content(rig, "errors"), "");
}

TEST(InspectionDirectory, HeldContentIsBounded) {
  TreeRigOptions options = inspection_rig_options();
  options.inspection = [](const FileSystem&) -> std::vector<VirtualFile> {
    return {{"large", [] { return std::string(10 * kMiB, 'x'); }}};
  };
  TreeRig rig(std::move(options));
  const NodeId directory = rig.node(kRootNode, ".leat");
  std::vector<std::shared_ptr<OpenFile>> open;
  while (const Result<NodeAttributes> found = rig.lookup(directory, "large")) {
    open.push_back(rig.open(found->node).value());
    rig.files->forget(found->node, 1);
    ASSERT_LT(open.size(), 100u);
  }
  EXPECT_EQ(open.size(), 6u);
  EXPECT_EQ(rig.lookup(directory, "large").error().code(), StatusCode::kBusy);
  open.clear();
  EXPECT_TRUE(rig.lookup(directory, "large"));
}

}  // namespace
}  // namespace leat
