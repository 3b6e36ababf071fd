// SPDX-License-Identifier: Apache-2.0
// Nodes: changes by others, invalidations, lookup counts, and the nodes of the file system below.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::OpenedFile;
using testing::outcome;
using testing::WritableRig;

constexpr Freshness kValidate{.mode = Freshness::Mode::kValidate};
constexpr Freshness kImmutable{.mode = Freshness::Mode::kImmutable};

class WrittenNodesOf : public ::testing::Test {
 protected:
  // Requests the names from the store, as a notification of it does.
  void refresh(const std::string& path) {
    EXPECT_TRUE(rig.executor.block_on(rig.catalog->refresh(Context::background(), path)));
  }
  // Records what the kernel is to forget, "parent/name=node".
  void record_invalidations() {
    rig.files->set_invalidation_listener([this](const KernelInvalidation& name) {
      std::lock_guard lock(mutex);
      invalidated.push_back(fmt::format("{}/{}={}", name.parent, name.name, name.node));
    });
  }
  std::vector<std::string> taken() {
    std::lock_guard lock(mutex);
    return std::exchange(invalidated, {});
  }

  std::mutex mutex;
  std::vector<std::string> invalidated;
  WritableRig rig;
};

// ---- changes by others

TEST_F(WrittenNodesOf, ChangeByOthersIsAnotherNode) {
  rig.source->put("x", "one");
  const NodeId before = rig.node(kRootNode, "x");
  rig.source->put("x", "three");
  EXPECT_EQ(rig.peek(kRootNode, "x"), before) << "still fresh";
  rig.advance(61s);
  const NodeAttributes now = rig.lookup(kRootNode, "x").value();
  EXPECT_NE(now.node, before);
  EXPECT_EQ(now.size, 5u);
  EXPECT_EQ(rig.content(kRootNode, "x"), "three");
}

TEST_F(WrittenNodesOf, ReplacedNodeKeepsItsOpenVersion) {
  rig.source->put("x", "one");
  const OpenedFile file = rig.open_name(kRootNode, "x").value();
  EXPECT_EQ(rig.read_open(file), "one");
  rig.source->put("x", "three");
  rig.advance(61s);
  EXPECT_EQ(rig.content(kRootNode, "x"), "three");
  EXPECT_EQ(rig.read_open(file), "one");
  EXPECT_EQ(rig.attributes(file.node)->size, 3u);
  EXPECT_TRUE(rig.close(file));
}

// A write that no save would send must not succeed.
TEST_F(WrittenNodesOf, ReplacedNodeIsNotOpenedForWriting) {
  rig.source->put("x", "one");
  const OpenedFile reader = rig.open_name(kRootNode, "x").value();
  EXPECT_EQ(rig.read_open(reader), "one");
  rig.source->put("x", "three");
  rig.advance(61s);
  EXPECT_NE(rig.peek(kRootNode, "x"), reader.node);
  const auto opened = rig.open(reader.node, O_WRONLY);
  EXPECT_EQ(outcome(opened), "changed") << "so that the kernel looks the name up";
  if (opened) {
    const OpenedFile writer{reader.node, *opened};
    EXPECT_TRUE(rig.write(writer, 0, "ours"));
    EXPECT_NE(outcome(rig.flush(writer)), "ok") << "the write is lost";
    static_cast<void>(rig.close(writer));
  }
  EXPECT_TRUE(rig.close(reader));
}

TEST_F(WrittenNodesOf, TruncationOfReplacedNodeFails) {
  rig.source->put("x", "one");
  const OpenedFile reader = rig.open_name(kRootNode, "x").value();
  rig.source->put("x", "three");
  rig.advance(61s);
  EXPECT_NE(rig.peek(kRootNode, "x"), reader.node);
  EXPECT_NE(outcome(rig.set(reader.node, {.size = 1})), "ok");
  EXPECT_EQ(rig.stored("x"), "three");
  EXPECT_TRUE(rig.close(reader));
}

TEST_F(WrittenNodesOf, RemovalByOthersEndsTheName) {
  rig.source->put("x", "one");
  rig.source->put("y", "one");
  const OpenedFile file = rig.open_name(kRootNode, "x").value();
  EXPECT_EQ(rig.read_open(file), "one");
  rig.source->MemorySource::remove("x");
  rig.advance(61s);
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_EQ(rig.read_open(file), "one");
  EXPECT_TRUE(rig.close(file));
  const OpenedFile fresh = rig.create(kRootNode, "x").value();
  EXPECT_NE(fresh.node, file.node);
  EXPECT_TRUE(rig.close(fresh));
}

TEST_F(WrittenNodesOf, ChangeByOthersIsOpenedForWriting) {
  WritableRig checked({.freshness = kValidate});
  checked.source->put("x", "one");
  const NodeId before = checked.node(kRootNode, "x");
  checked.source->put("x", "three");
  const OpenedFile file = checked.open_name(kRootNode, "x", O_RDWR).value();
  EXPECT_NE(file.node, before);
  ASSERT_TRUE(checked.write(file, 0, "T"));
  EXPECT_EQ(outcome(checked.close(file)), "ok");
  EXPECT_EQ(checked.stored("x"), "Three");
}

TEST_F(WrittenNodesOf, FileBecomesADirectory) {
  rig.source->put("x", "one");
  const NodeId file = rig.node(kRootNode, "x");
  rig.source->MemorySource::remove("x");
  rig.source->put("x/y", "two");
  rig.advance(61s);
  const NodeAttributes now = rig.lookup(kRootNode, "x").value();
  EXPECT_EQ(now.kind, FileKind::kDirectory);
  EXPECT_NE(now.node, file);
  EXPECT_EQ(rig.content(now.node, "y"), "two");
}

TEST_F(WrittenNodesOf, ImmutableMountShowsItsOwnWrites) {
  WritableRig fixed({.freshness = kImmutable});
  fixed.source->put("x", "one");
  EXPECT_EQ(fixed.list(kRootNode), "x:3");
  const NodeId node = fixed.node(kRootNode, "x");
  const OpenedFile file = fixed.open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(fixed.write(file, 3, "!"));
  EXPECT_EQ(outcome(fixed.close(file)), "ok");
  EXPECT_EQ(fixed.peek(kRootNode, "x"), node);
  EXPECT_EQ(fixed.content(kRootNode, "x"), "one!");
  EXPECT_TRUE(fixed.close(fixed.create(kRootNode, "y").value()));
  EXPECT_EQ(fixed.list(kRootNode), "x:4 y:0");
  EXPECT_EQ(fixed.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(fixed.list(kRootNode), "y:0");
}

TEST_F(WrittenNodesOf, EarlierMissIsForgottenByCreate) {
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_TRUE(rig.close(rig.create(kRootNode, "x").value()));
  EXPECT_NE(rig.peek(kRootNode, "x"), 0u);
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_TRUE(rig.make_directory(kRootNode, "x"));
  EXPECT_NE(rig.peek(kRootNode, "x"), 0u);
}

// ---- invalidations

TEST_F(WrittenNodesOf, InvalidationHasOurNumbers) {
  rig.source->put("d/x", "one");
  // The numbers of the two differ from here on.
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(rig.close(rig.create(kRootNode, "other").value()));
  const NodeId d = rig.node(kRootNode, "d"), x = rig.node(d, "x");
  record_invalidations();
  rig.source->put("d/x", "three");
  refresh("/data/d");
  EXPECT_THAT(taken(), ::testing::Contains(fmt::format("{}/x={}", d, x)));
  EXPECT_NE(rig.peek(d, "x"), x);
}

TEST_F(WrittenNodesOf, RemovalIsInvalidated) {
  rig.source->put("d/x", "one");
  rig.source->put("d/y", "one");
  const NodeId d = rig.node(kRootNode, "d"), x = rig.node(d, "x");
  record_invalidations();
  rig.source->MemorySource::remove("d/x");
  refresh("/data/d");
  EXPECT_THAT(taken(), ::testing::Contains(fmt::format("{}/x={}", d, x)));
  EXPECT_EQ(rig.peek(d, "x"), 0u);
}

TEST_F(WrittenNodesOf, WrittenNameIsNotInvalidated) {
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const OpenedFile file = rig.open_name(d, "x", O_RDWR).value();
  ASSERT_TRUE(rig.write(file, 0, "ONE"));
  record_invalidations();
  rig.source->put("d/x", "theirs");
  refresh("/data/d");
  for (const std::string& name : taken()) EXPECT_FALSE(name.contains("/x=")) << name;
  EXPECT_EQ(rig.peek(d, "x"), file.node) << "what is written here wins until it is saved";
  EXPECT_EQ(rig.read_open(file), "ONE");
  EXPECT_EQ(outcome(rig.close(file)), "conflict");
  EXPECT_EQ(rig.content(d, "x"), "theirs");
}

TEST_F(WrittenNodesOf, OwnSaveInvalidatesNothing) {
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const OpenedFile file = rig.open_name(d, "x", O_RDWR).value();
  record_invalidations();
  ASSERT_TRUE(rig.write(file, 0, "ONE"));
  ASSERT_TRUE(rig.flush(file));
  EXPECT_TRUE(rig.close(file));
  for (const std::string& name : taken()) EXPECT_FALSE(name.contains("/x=")) << name;
}

TEST_F(WrittenNodesOf, ConflictIsInvalidated) {
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const OpenedFile file = rig.open_name(d, "x", O_RDWR).value();
  ASSERT_TRUE(rig.write(file, 0, "ONE"));
  rig.source->put("d/x", "theirs");
  record_invalidations();
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_THAT(taken(), ::testing::Contains(fmt::format("{}/x={}", d, file.node)));
  EXPECT_TRUE(rig.close(file));
}

TEST_F(WrittenNodesOf, UnheldNamesAreNotInvalidated) {
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  rig.peek(d, "x");
  rig.files->forget(d, 1);
  EXPECT_EQ(rig.files->nodes(), 1u);
  record_invalidations();
  rig.source->put("d/x", "three");
  refresh("/data/d");
  for (const std::string& name : taken()) EXPECT_TRUE(name.starts_with("1/")) << name;
}

// ---- lookup counts

TEST_F(WrittenNodesOf, ForgetDropsNodesOfBoth) {
  rig.source->put("d/x", "one");
  const uint64_t below = rig.below().nodes();
  const NodeId d = rig.node(kRootNode, "d"), x = rig.node(d, "x");
  EXPECT_EQ(rig.node(d, "x"), x);
  EXPECT_EQ(rig.files->nodes(), 3u);
  rig.files->forget(d, 1);
  EXPECT_EQ(rig.files->nodes(), 3u) << "held by its child";
  rig.files->forget(x, 1);
  EXPECT_EQ(rig.files->nodes(), 3u);
  rig.files->forget(x, 1);
  EXPECT_EQ(rig.files->nodes(), 1u);
  EXPECT_EQ(rig.below().nodes(), below);
  EXPECT_EQ(outcome(rig.attributes(x)), "changed");
  EXPECT_EQ(outcome(rig.lookup(d, "x")), "changed");
  rig.files->forget(x, 1);
}

TEST_F(WrittenNodesOf, OpenFileHoldsItsNode) {
  rig.source->put("x", "one");
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  rig.files->forget(file.node, 1);
  ASSERT_TRUE(rig.write(file, 0, "ONE"));
  EXPECT_EQ(rig.attributes(file.node)->size, 3u);
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.files->nodes(), 1u);
  EXPECT_EQ(rig.stored("x"), "ONE");
}

TEST_F(WrittenNodesOf, ManyCyclesLeaveNoNode) {
  rig.source->put("keep", "one");
  const uint64_t below = rig.below().nodes();
  for (int i = 0; i < 50; ++i) {
    const NodeId d = rig.make_directory(kRootNode, "d")->node;
    const OpenedFile file = rig.create(d, "x").value();
    ASSERT_TRUE(rig.write(file, 0, "one"));
    ASSERT_TRUE(rig.flush(file));
    const OpenedFile reader = rig.open_name(d, "x").value();
    ASSERT_EQ(rig.rename(d, "x", kRootNode, "y"), "ok");
    EXPECT_EQ(rig.content(kRootNode, "y"), "one");
    ASSERT_TRUE(rig.close(file));
    ASSERT_EQ(rig.remove_file(kRootNode, "y"), "ok");
    ASSERT_TRUE(rig.close(reader));
    ASSERT_EQ(rig.remove_directory(kRootNode, "d"), "ok");
    rig.files->forget(d, 1);
    ASSERT_EQ(rig.files->nodes(), 1u) << i;
    ASSERT_EQ(rig.below().nodes(), below) << i;
  }
  EXPECT_EQ(rig.keys(), "keep");
}

TEST_F(WrittenNodesOf, FailedCallsLeaveNoNode) {
  rig.source->put("x", "one");
  rig.source->put("d/y", "one");
  const uint64_t below = rig.below().nodes();
  EXPECT_FALSE(rig.create(kRootNode, "x", O_RDWR | O_CREAT | O_EXCL));
  EXPECT_FALSE(rig.make_directory(kRootNode, "x"));
  EXPECT_NE(rig.remove_file(kRootNode, "d"), "ok");
  EXPECT_NE(rig.remove_directory(kRootNode, "x"), "ok");
  EXPECT_NE(rig.remove_directory(kRootNode, "d"), "ok");
  EXPECT_NE(rig.rename(kRootNode, "x", kRootNode, "d"), "ok");
  EXPECT_NE(rig.rename(kRootNode, "nothing", kRootNode, "x"), "ok");
  EXPECT_EQ(rig.files->nodes(), 1u);
  EXPECT_EQ(rig.below().nodes(), below);
}

// The removed directory goes first, and the open file in it returns no count of it again.
TEST_F(WrittenNodesOf, RemovedDirectoryIsForgottenOnce) {
  const NodeId first = rig.make_directory(kRootNode, "d")->node;
  const OpenedFile file = rig.create(first, "x").value();
  EXPECT_EQ(rig.remove_file(first, "x"), "ok");
  EXPECT_EQ(rig.remove_directory(kRootNode, "d"), "ok");
  const NodeId second = rig.make_directory(kRootNode, "d")->node;
  EXPECT_NE(second, first);
  rig.files->forget(first, 1);
  const uint64_t below = rig.below().nodes();
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.below().nodes(), below) << "the new directory has the same node below";
  EXPECT_EQ(rig.list(second), "");
  EXPECT_EQ(outcome(rig.create(second, "y")), "ok");
}

TEST_F(WrittenNodesOf, DirectoryOfMovedFileIsDropped) {
  rig.source->put("d/x", "one");
  rig.source->put("d/y", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const OpenedFile file = rig.open_name(d, "x").value();
  EXPECT_EQ(rig.rename(d, "x", kRootNode, "x"), "ok");
  rig.files->forget(d, 1);
  EXPECT_EQ(rig.files->nodes(), 2u);
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.files->nodes(), 1u);
}

// ---- more of the face

TEST_F(WrittenNodesOf, PathsAndExtendedAttributes) {
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d"), x = rig.node(d, "x");
  EXPECT_EQ(rig.files->path_of(kRootNode), "/data");
  EXPECT_EQ(rig.files->path_of(x), "/data/d/x");
  EXPECT_EQ(rig.files->path_of(d, "new"), "/data/d/new");
  EXPECT_EQ(rig.files->path_of(999), "");
  EXPECT_FALSE(rig.files->attribute_names(x).empty());
  EXPECT_TRUE(rig.files->attribute_value(x, "user.leat.source"));
  const OpenedFile file = rig.create(d, "new").value();
  EXPECT_THAT(rig.files->attribute_names(file.node), IsEmpty());
  EXPECT_EQ(outcome(rig.files->attribute_value(file.node, "user.leat.source")), "not_found");
  ASSERT_TRUE(rig.flush(file));
  EXPECT_EQ(rig.files->attribute_value(file.node, "user.leat.source"), "memory://bucket/d/new");
  EXPECT_TRUE(rig.close(file));
}

TEST_F(WrittenNodesOf, ErrorsOfUnsavedFilesAreRecorded) {
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const OpenedFile file = rig.create(d, "new").value();
  ASSERT_TRUE(rig.write(file, 0, "one"));
  rig.bucket().before = [](std::string_view operation, const std::string&) -> Result<> {
    if (operation != "write") return {};
    return error(StatusCode::kUnavailable, "as ordered");
  };
  EXPECT_EQ(outcome(rig.close(file)), "unavailable");
  const std::vector<PathError> errors = rig.files->errors();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].path, "d/new");
  EXPECT_EQ(errors[0].code, StatusCode::kUnavailable);
}

TEST_F(WrittenNodesOf, RootMayBeBelowTheMount) {
  WritableRig part({.root = "/data/d"});
  part.source->put("d/x", "one");
  EXPECT_EQ(part.content(kRootNode, "x"), "one");
  const OpenedFile file = part.create(kRootNode, "y").value();
  ASSERT_TRUE(part.write(file, 0, "two"));
  EXPECT_TRUE(part.close(file));
  EXPECT_EQ(part.keys(), "d/x d/y");
  EXPECT_EQ(part.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(part.remove_file(kRootNode, "y"), "ok");
  EXPECT_EQ(part.list(kRootNode), "");
}

TEST_F(WrittenNodesOf, NamesOfMountsAreBusy) {
  WritableRig whole({.root = "/"});
  EXPECT_EQ(outcome(whole.create(kRootNode, "x")), "read_only") << "nothing is mounted there";
  EXPECT_EQ(whole.remove_directory(kRootNode, "data"), "busy");
  EXPECT_EQ(whole.rename(kRootNode, "data", kRootNode, "other"), "busy");
  const NodeId data = whole.node(kRootNode, "data");
  EXPECT_TRUE(whole.close(whole.create(data, "x").value()));
  EXPECT_EQ(whole.keys(), "x");
}

}  // namespace
}  // namespace leat
