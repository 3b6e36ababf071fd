// SPDX-License-Identifier: Apache-2.0
// A writable mount of a local directory: hard links, symbolic links, special files, files without a
// name, exchanged names, extended attributes.
#include "vfs/writing/writable_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "source/file/file_source.h"
#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::OpenedFile;
using testing::outcome;
using testing::WritableRig;

constexpr NewName kOwner{.mode = 0640, .uid = 0, .gid = 0};

class WrittenLinks : public ::testing::Test {
 protected:
  WrittenLinks() : folder_(fs::temp_directory_path() / ("leat-links-" + Id128::random().to_hex())) {
    fs::create_directories(folder_);
    MountEntry entry{.path = "/data/local",
                     .source = {.scheme = "file",
                                .bucket = "",
                                .prefix = folder_.string().substr(1) + "/",
                                .options = {}},
                     .policy = {}};
    auto source = std::make_shared<FileSource>("", FileSource::kPageEntries, FileAccess::kExact);
    EXPECT_TRUE(rig.catalog->mount(std::move(entry), std::move(source)));
  }
  ~WrittenLinks() override { fs::remove_all(folder_); }

  PosixChanges& posix() { return rig.changes().posix(); }
  template <class T>
  T wait(Task<T> task) {
    return rig.executor.block_on(std::move(task));
  }
  void put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  std::string stored(const std::string& name) {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A file of the owner of this process.
  OpenedFile create(const std::string& name) {
    Result<CreatedFile> made =
        wait(rig.changes().create({}, kRootNode, name, owner_, O_RDWR | O_CREAT));
    EXPECT_TRUE(made) << (made ? "" : made.error().to_string());
    return {made->attributes.node, made->file};
  }
  void make(const std::string& name, const std::string& text) {
    const OpenedFile file = create(name);
    EXPECT_TRUE(rig.write(file, 0, text));
    EXPECT_TRUE(rig.close(file));
  }
  Result<NodeAttributes> link(NodeId node, const std::string& name) {
    return wait(posix().link({}, node, kRootNode, name));
  }
  NodeAttributes shown(const std::string& name) {
    Result<NodeAttributes> found = rig.lookup(kRootNode, name);
    EXPECT_TRUE(found) << name << ": " << (found ? "" : found.error().to_string());
    return found.value_or(NodeAttributes{});
  }

  const fs::path folder_;
  const NewName owner_{.mode = 0640, .uid = ::geteuid(), .gid = ::getegid()};
  WritableRig rig{{.root = "/data/local"}};
};

// ---- hard links

TEST_F(WrittenLinks, NamesShowOneNode) {
  make("a", "one");
  const NodeAttributes before = shown("a");
  const auto linked = link(before.node, "b");
  ASSERT_TRUE(linked) << linked.error().to_string();
  EXPECT_EQ(linked->node, before.node);
  EXPECT_EQ(linked->links, 2u);
  EXPECT_EQ(shown("b").node, before.node);
  EXPECT_EQ(shown("a").links, 2u);
  EXPECT_EQ(rig.content(kRootNode, "b"), "one");
  EXPECT_EQ(outcome(link(before.node, "b")), "exists");
}

TEST_F(WrittenLinks, LinksMadeByOthersShowOneNode) {
  put("a", "one");
  fs::create_hard_link(folder_ / "a", folder_ / "b");
  EXPECT_EQ(shown("a").node, shown("b").node);
  EXPECT_EQ(shown("a").links, 2u);
}

TEST_F(WrittenLinks, WriteByOneNameShowsByTheOther) {
  make("a", "one");
  ASSERT_TRUE(link(shown("a").node, "b"));
  const OpenedFile file = rig.open_name(kRootNode, "b", O_RDWR).value();
  ASSERT_TRUE(rig.write(file, 0, "three"));
  EXPECT_EQ(rig.content(kRootNode, "a"), "three") << "before the close";
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(stored("a"), "three");
  EXPECT_EQ(fs::hard_link_count(folder_ / "a"), 2u);
  EXPECT_EQ(rig.content(kRootNode, "a"), "three");
  EXPECT_EQ(shown("a").node, shown("b").node);
}

TEST_F(WrittenLinks, AttributesAreThoseOfTheFile) {
  make("a", "one");
  const NodeId node = shown("a").node;
  ASSERT_TRUE(link(node, "b"));
  ASSERT_TRUE(rig.set(node, {.mode = 0600}));
  EXPECT_EQ(shown("b").mode & 07777, 0600u);
  EXPECT_EQ(shown("b").node, node);
  rig.advance(61s);
  EXPECT_EQ(shown("a").node, node) << "also when the names are requested again";
}

// The names of the first change are not requested again before the second.
TEST_F(WrittenLinks, ChangesFollowEachOther) {
  make("f", "one");
  const NodeId node = shown("f").node;
  ASSERT_TRUE(link(node, "a"));
  ASSERT_TRUE(link(node, "b"));
  ASSERT_TRUE(rig.set(node, {.mode = 0601}));
  EXPECT_EQ(shown("a").node, node);
  ASSERT_TRUE(rig.set(node, {.mode = 0602}));
  for (const char* name : {"f", "a", "b"}) {
    EXPECT_EQ(shown(name).node, node) << name;
    EXPECT_EQ(shown(name).links, 3u) << name;
  }
}

TEST_F(WrittenLinks, RemovedNameLeavesTheOther) {
  make("a", "one");
  const NodeId node = shown("a").node;
  ASSERT_TRUE(link(node, "b"));
  EXPECT_EQ(rig.remove_file(kRootNode, "a"), "ok");
  EXPECT_EQ(rig.peek(kRootNode, "a"), 0u);
  EXPECT_EQ(shown("b").node, node);
  EXPECT_EQ(shown("b").links, 1u);
  const OpenedFile file = rig.open_name(kRootNode, "b", O_RDWR).value();
  ASSERT_TRUE(rig.write(file, 0, "two"));
  EXPECT_EQ(rig.remove_file(kRootNode, "b"), "ok");
  EXPECT_EQ(rig.attributes(node)->links, 0u);
  EXPECT_EQ(rig.read_open(file), "two");
  EXPECT_TRUE(rig.close(file));
}

TEST_F(WrittenLinks, RenameReplacesOneName) {
  make("a", "one");
  make("x", "two");
  const NodeId node = shown("a").node;
  ASSERT_TRUE(link(node, "b"));
  EXPECT_EQ(rig.rename(kRootNode, "x", kRootNode, "a"), "ok");
  EXPECT_EQ(shown("b").node, node);
  EXPECT_EQ(shown("b").links, 1u);
  EXPECT_EQ(rig.content(kRootNode, "b"), "one");
  EXPECT_EQ(rig.rename(kRootNode, "b", kRootNode, "c"), "ok");
  EXPECT_EQ(shown("c").node, node);
}

TEST_F(WrittenLinks, RenameOntoAnotherNameDoesNothing) {
  make("a", "one");
  ASSERT_TRUE(link(shown("a").node, "b"));
  EXPECT_EQ(rig.rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(shown("a").links, 2u);
  EXPECT_EQ(shown("a").node, shown("b").node);
}

TEST_F(WrittenLinks, LinkSavesAnOpenFile) {
  const OpenedFile file = create("a");
  ASSERT_TRUE(rig.write(file, 0, "one"));
  ASSERT_TRUE(link(file.node, "b"));
  EXPECT_EQ(stored("b"), "one");
  ASSERT_TRUE(rig.write(file, 3, " two"));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(stored("a"), "one two");
  EXPECT_EQ(stored("b"), "one two");
}

TEST_F(WrittenLinks, DirectoriesHaveNoOtherNames) {
  const auto made = wait(rig.changes().make_directory({}, kRootNode, "d", owner_));
  ASSERT_TRUE(made);
  EXPECT_EQ(outcome(link(made->node, "e")), "unsupported");
}

TEST_F(WrittenLinks, ForgottenNamesAreReleased) {
  make("a", "one");
  const NodeId node = shown("a").node;
  ASSERT_TRUE(link(node, "b"));
  const uint64_t held = rig.files->nodes();
  rig.files->forget(node, 100);
  EXPECT_EQ(rig.files->nodes(), held - 1);
  EXPECT_EQ(shown("a").node, shown("b").node) << "and found again";
}

// ---- links and special files

TEST_F(WrittenLinks, SymbolicLinksAreThoseOfTheDirectory) {
  const auto made = wait(rig.changes().make_symlink({}, kRootNode, "s", "no/where", owner_));
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_TRUE(S_ISLNK(made->mode));
  EXPECT_EQ(made->size, 8u);
  EXPECT_EQ(fs::read_symlink(folder_ / "s"), "no/where");
  EXPECT_EQ(wait(rig.changes().read_symlink({}, made->node)).value(), "no/where");
  EXPECT_EQ(rig.rename(kRootNode, "s", kRootNode, "t"), "ok");
  EXPECT_TRUE(S_ISLNK(shown("t").mode));
  EXPECT_EQ(rig.remove_file(kRootNode, "t"), "ok");
  EXPECT_FALSE(fs::is_symlink(folder_ / "t"));
}

TEST_F(WrittenLinks, SpecialFilesHaveTheirTypes) {
  for (const mode_t type : {S_IFIFO, S_IFSOCK}) {
    const std::string name = std::to_string(type);
    const auto made = wait(posix().make_special({}, kRootNode, name, owner_, type, 0));
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_EQ(made->mode, type | 0640);
    rig.files->forget(made->node, 1);
    EXPECT_EQ(shown(name).mode, type | 0640) << "as of the store";
    ASSERT_TRUE(rig.set(shown(name).node, {.mode = 0600}));
    EXPECT_EQ(shown(name).mode, type | 0600);
  }
}

TEST_F(WrittenLinks, ObjectStoresHaveNone) {
  WritableRig objects;
  const OpenedFile file = objects.create(kRootNode, "a").value();
  PosixChanges& changes = objects.changes().posix();
  auto run = [&](auto task) { return outcome(objects.executor.block_on(std::move(task))); };
  EXPECT_EQ(run(changes.link({}, file.node, kRootNode, "b")), "unsupported");
  EXPECT_EQ(run(changes.make_special({}, kRootNode, "p", kOwner, S_IFIFO, 0)), "unsupported");
  EXPECT_EQ(run(changes.set_attribute({}, file.node, "user.x", "1", 0)), "unsupported");
  EXPECT_EQ(run(objects.changes().rename({}, {.parent = kRootNode,
                                              .name = "a",
                                              .new_parent = kRootNode,
                                              .new_name = "a",
                                              .exchange = true})),
            "invalid_argument");
  EXPECT_TRUE(objects.close(file));
}

// ---- files without a name

TEST_F(WrittenLinks, FileWithoutANameGetsOne) {
  const auto made = wait(posix().create_unnamed({}, kRootNode, owner_));
  ASSERT_TRUE(made) << made.error().to_string();
  const OpenedFile file{made->attributes.node, made->file};
  EXPECT_EQ(made->attributes.links, 0u);
  ASSERT_TRUE(rig.write(file, 0, "text"));
  EXPECT_EQ(rig.list(kRootNode), "");
  const auto named = link(file.node, "n");
  ASSERT_TRUE(named) << named.error().to_string();
  EXPECT_EQ(named->links, 1u);
  EXPECT_EQ(stored("n"), "text");
  EXPECT_EQ(shown("n").node, file.node);
  ASSERT_TRUE(rig.close(file));
}

TEST_F(WrittenLinks, ObjectStoreNamesAFile) {
  WritableRig objects;
  const auto made =
      objects.executor.block_on(objects.changes().posix().create_unnamed({}, kRootNode, kOwner));
  const OpenedFile file{made->attributes.node, made->file};
  ASSERT_TRUE(objects.write(file, 0, "text"));
  EXPECT_EQ(objects.keys(), "");
  ASSERT_TRUE(
      objects.executor.block_on(objects.changes().posix().link({}, file.node, kRootNode, "n")));
  EXPECT_EQ(objects.stored("n"), "text");
  ASSERT_TRUE(objects.close(file));
}

TEST_F(WrittenLinks, FileWithoutANameLeavesNothing) {
  const uint64_t before = rig.files->nodes();
  const auto made = wait(posix().create_unnamed({}, kRootNode, owner_));
  const OpenedFile file{made->attributes.node, made->file};
  ASSERT_TRUE(rig.write(file, 0, "text"));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.files->nodes(), before);
  EXPECT_TRUE(fs::is_empty(folder_));
}

// ---- exchanged names

TEST_F(WrittenLinks, NamesAreExchanged) {
  make("a", "one");
  make("b", "two");
  const NodeId first = shown("a").node, second = shown("b").node;
  const OpenedFile file = rig.open_name(kRootNode, "a", O_RDWR).value();
  ASSERT_TRUE(rig.write(file, 3, "+"));
  RenameOp op{
      .parent = kRootNode, .name = "a", .new_parent = kRootNode, .new_name = "b", .exchange = true};
  EXPECT_EQ(outcome(wait(rig.changes().rename({}, op))), "ok");
  EXPECT_EQ(shown("a").node, second);
  EXPECT_EQ(shown("b").node, first);
  EXPECT_EQ(stored("b"), "one+");
  ASSERT_TRUE(rig.write(file, 4, "+"));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(stored("b"), "one++");
  EXPECT_EQ(rig.content(kRootNode, "a"), "two");
  op.new_name = "none";
  EXPECT_EQ(outcome(wait(rig.changes().rename({}, op))), "not_found");
}

// ---- directories

TEST_F(WrittenLinks, DirectoriesCountTheirDirectories) {
  const auto outer = wait(rig.changes().make_directory({}, kRootNode, "d", owner_));
  ASSERT_TRUE(outer);
  EXPECT_EQ(outer->links, 2u);
  ASSERT_TRUE(wait(rig.changes().make_directory({}, outer->node, "e", owner_)));
  EXPECT_EQ(rig.attributes(outer->node)->links, 3u);
  EXPECT_EQ(rig.rename(outer->node, "e", kRootNode, "f"), "ok");
  EXPECT_EQ(rig.attributes(outer->node)->links, 2u);
}

TEST_F(WrittenLinks, SetGroupIdGivesTheGroup) {
  const auto made = wait(rig.changes().make_directory({}, kRootNode, "d", owner_));
  ASSERT_TRUE(made);
  ASSERT_TRUE(rig.set(made->node, {.mode = S_ISGID | 0770}));
  NewName other = owner_;
  other.gid = owner_.gid + 1;
  const auto inner = wait(rig.changes().make_directory({}, made->node, "e", other));
  ASSERT_TRUE(inner) << inner.error().to_string();
  EXPECT_EQ(inner->gid, owner_.gid);
  EXPECT_EQ(inner->mode & 07777, S_ISGID | 0640u);
}

TEST_F(WrittenLinks, RootHasTheAttributesOfTheDirectory) {
  fs::permissions(folder_, fs::perms(0700));
  EXPECT_EQ(rig.attributes(kRootNode)->mode, S_IFDIR | 0700u);
  ASSERT_TRUE(rig.set(kRootNode, {.mode = 0750}));
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms(0750));
}

// ---- extended attributes

TEST_F(WrittenLinks, ExtendedAttributesAreThoseOfTheFile) {
  const OpenedFile file = create("a");
  ASSERT_TRUE(rig.write(file, 0, "one"));
  EXPECT_EQ(outcome(wait(posix().attribute({}, file.node, "user.x"))), "not_found");
  const auto set = wait(posix().set_attribute({}, file.node, "user.x", "1", 0));
  ASSERT_TRUE(set) << set.error().to_string();
  ASSERT_TRUE(rig.write(file, 3, " two"));
  ASSERT_TRUE(rig.close(file));
  const NodeId node = shown("a").node;
  EXPECT_EQ(wait(posix().attribute({}, node, "user.x")).value(), "1");
  EXPECT_THAT(wait(posix().attributes({}, node)).value(), ::testing::ElementsAre("user.x"));
  EXPECT_EQ(rig.content(kRootNode, "a"), "one two");
  EXPECT_EQ(outcome(wait(posix().remove_attribute({}, node, "user.x"))), "ok");
  EXPECT_EQ(outcome(wait(posix().remove_attribute({}, node, "user.x"))), "not_found");
}

}  // namespace
}  // namespace leat
