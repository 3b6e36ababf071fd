// SPDX-License-Identifier: Apache-2.0
// Renames that the store gets later: what it has, and what it gets under the name before.
#include <fcntl.h>
#include <sys/stat.h>

#include "vfs/writing/write_behind_test.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;

class QueuedRenames : public WriteBehind {
 protected:
  NodeId node(const std::string& name) { return rig->node(kRootNode, name); }
  std::string read(const std::string& directory, const std::string& name) {
    return rig->content(node(directory), name);
  }
  // The same after a restart, and when the store has all of it.
  void expect_in_all_states(const std::function<void()>& expectations) {
    expectations();
    start();
    expectations();
    ASSERT_TRUE(rig->drain());
    expectations();
    start();
    expectations();
  }
};

TEST_F(QueuedRenames, StoredFileIsRenamedAtOnce) {
  rig->bucket().put("old", "hello");
  ASSERT_EQ(rig->rename(kRootNode, "old", kRootNode, "new"), "ok");
  EXPECT_EQ(rig->keys(), "old");
  EXPECT_EQ(rig->unsent().changes, 1u);
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(kRootNode), "new:5");
    EXPECT_EQ(rig->content(kRootNode, "new"), "hello");
    EXPECT_EQ(rig->peek(kRootNode, "old"), 0u);
  });
  EXPECT_EQ(rig->keys(), "new");
}

// After a restart the store has to be asked for what the node was.
TEST_F(QueuedRenames, AttributesStayAfterARestart) {
  writing.bucket->changed.attributes = true;
  const auto link = rig->executor.block_on(
      rig->changes().make_symlink(Context::background(), kRootNode, "link", "target", {}));
  ASSERT_TRUE(link);
  put("file", "hello");
  ASSERT_TRUE(rig->set(node("file"), {.mode = 0600}));
  ASSERT_TRUE(rig->drain());
  ASSERT_EQ(rig->rename(kRootNode, "link", kRootNode, "moved"), "ok");
  ASSERT_EQ(rig->rename(kRootNode, "file", kRootNode, "other"), "ok");
  expect_in_all_states([&] {
    const Result<NodeAttributes> moved = rig->lookup(kRootNode, "moved");
    ASSERT_TRUE(moved) << moved.error().to_string();
    EXPECT_TRUE(S_ISLNK(moved->mode));
    const Result<std::string> target =
        rig->executor.block_on(rig->changes().read_symlink(Context::background(), moved->node));
    EXPECT_EQ(target.value_or("(none)"), "target");
    rig->files->forget(moved->node, 1);
    const Result<NodeAttributes> other = rig->lookup(kRootNode, "other");
    ASSERT_TRUE(other) << other.error().to_string();
    EXPECT_EQ(other->mode & 07777, 0600u);
    EXPECT_EQ(other->uid, 7u);
    rig->files->forget(other->node, 1);
  });
}

TEST_F(QueuedRenames, SentFileIsRenamedAfterWhatIsBefore) {
  put("old", "hello");
  ASSERT_TRUE(rig->drain());
  put("before", "x");
  ASSERT_EQ(rig->rename(kRootNode, "old", kRootNode, "new"), "ok");
  EXPECT_EQ(rig->keys(), "old");
  record_writes();
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(sent().front(), "write before");
  EXPECT_EQ(rig->keys(), "before new");
  EXPECT_EQ(rig->content(kRootNode, "new"), "hello");
}

TEST_F(QueuedRenames, StoredDirectoryIsRenamedAtOnce) {
  rig->bucket().put("d/a", "1");
  rig->bucket().put("d/deep/b", "22");
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig->stored("d/a"), "1");
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(kRootNode), "e/");
    EXPECT_EQ(rig->list(node("e")), "a:1 deep/");
    EXPECT_EQ(read("e", "a"), "1");
    EXPECT_EQ(rig->content(rig->node(node("e"), "deep"), "b"), "22");
    EXPECT_EQ(rig->peek(kRootNode, "d"), 0u);
  });
  EXPECT_EQ(rig->stored("e/deep/b"), "22");
  EXPECT_EQ(rig->stored("d/a"), "(none)");
}

// A program saves a directory, and a rename publishes it when half of it is sent.
TEST_F(QueuedRenames, HalfSentDirectoryIsPublishedLast) {
  const NodeId made = rig->make_directory(kRootNode, "tmp")->node;
  put("a", "1", made);
  ASSERT_TRUE(rig->drain());
  put("b", "22", made);
  ASSERT_EQ(rig->rename(kRootNode, "tmp", kRootNode, "final"), "ok");
  EXPECT_EQ(rig->stored("tmp/b"), "(none)");
  record_writes();
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(node("final")), "a:1 b:2");
    EXPECT_EQ(read("final", "a"), "1");
    EXPECT_EQ(read("final", "b"), "22");
  });
  EXPECT_EQ(sent().front(), "write tmp/b");
  EXPECT_EQ(rig->stored("final/b"), "22");
  EXPECT_EQ(rig->stored("tmp/a"), "(none)");
}

TEST_F(QueuedRenames, ChangesAfterTheRename) {
  for (const char* name : {"a", "b", "c", "d"}) rig->bucket().put(fmt::format("d/{}", name), "old");
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  put("a", "new", node("e"));
  put("x", "more", node("e"));
  EXPECT_EQ(rig->remove_file(node("e"), "b"), "ok");
  EXPECT_EQ(rig->rename(node("e"), "c", node("e"), "c2"), "ok");
  EXPECT_EQ(rig->rename(node("e"), "d", kRootNode, "moved"), "ok");
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(kRootNode), "e/ moved:3");
    EXPECT_EQ(rig->list(node("e")), "a:3 c2:3 x:4");
    EXPECT_EQ(read("e", "a"), "new");
    EXPECT_EQ(read("e", "c2"), "old");
    EXPECT_EQ(read("e", "x"), "more");
    EXPECT_EQ(rig->content(kRootNode, "moved"), "old");
  });
  EXPECT_EQ(rig->stored("e/a"), "new");
  EXPECT_EQ(rig->stored("d/a"), "(none)");
  EXPECT_EQ(rig->stored("d/b"), "(none)");
  EXPECT_EQ(rig->stored("e/b"), "(none)");
}

TEST_F(QueuedRenames, NameIsUsedAgain) {
  rig->bucket().put("d/a", "first");
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  const NodeId again = rig->make_directory(kRootNode, "d")->node;
  EXPECT_EQ(rig->list(again), "");
  put("a", "second", again);
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "f"), "ok");
  put("d", "a file");
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(kRootNode), "d:6 e/ f/");
    EXPECT_EQ(read("e", "a"), "first");
    EXPECT_EQ(read("f", "a"), "second");
    EXPECT_EQ(rig->content(kRootNode, "d"), "a file");
  });
}

TEST_F(QueuedRenames, RenamedTwiceAndBack) {
  rig->bucket().put("d/a", "1");
  rig->bucket().put("f", "2");
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  ASSERT_EQ(rig->rename(kRootNode, "e", kRootNode, "d"), "ok");
  ASSERT_EQ(rig->rename(kRootNode, "f", kRootNode, "g"), "ok");
  ASSERT_EQ(rig->rename(kRootNode, "g", node("d"), "h"), "ok");
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "last"), "ok");
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(kRootNode), "last/");
    EXPECT_EQ(rig->list(node("last")), "a:1 h:1");
    EXPECT_EQ(read("last", "a"), "1");
    EXPECT_EQ(read("last", "h"), "2");
  });
  EXPECT_EQ(rig->stored("last/h"), "2");
}

TEST_F(QueuedRenames, TargetIsReplaced) {
  rig->bucket().put("a", "new");
  rig->bucket().put("b", "old one");
  rig->bucket().put("d/a", "1");
  ASSERT_EQ(rig->rename(kRootNode, "a", kRootNode, "b"), "ok");
  const NodeId empty = rig->make_directory(kRootNode, "empty")->node;
  EXPECT_EQ(rig->rename(kRootNode, "d", kRootNode, "empty"), "ok");
  EXPECT_NE(node("empty"), empty);
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(kRootNode), "b:3 empty/");
    EXPECT_EQ(rig->content(kRootNode, "b"), "new");
    EXPECT_EQ(read("empty", "a"), "1");
  });
  EXPECT_EQ(rig->stored("a"), "(none)");
}

// The store has the replaced directory under its name before, and so not yet under this one.
TEST_F(QueuedRenames, RenamedTargetIsReplacedByNew) {
  rig->bucket().put("x/", "");
  ASSERT_EQ(rig->rename(kRootNode, "x", kRootNode, "a"), "ok");
  const NodeId made = rig->make_directory(kRootNode, "d")->node;
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "a"), "ok");
  EXPECT_EQ(node("a"), made);
  put("f", "hello", made);
  expect_in_all_states([&] {
    EXPECT_EQ(rig->list(kRootNode), "a/");
    EXPECT_EQ(rig->list(node("a")), "f:5");
    EXPECT_EQ(rig->peek(kRootNode, "x"), 0u);
  });
}

TEST_F(QueuedRenames, NewOverRenamedMovesOn) {
  rig->bucket().put("x/", "");
  ASSERT_EQ(rig->rename(kRootNode, "x", kRootNode, "a"), "ok");
  ASSERT_TRUE(rig->make_directory(kRootNode, "d"));
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "a"), "ok");
  // The store gets the first rename, and then fails.
  std::atomic<int> markers = 0;
  writing.bucket->before = [&](std::string_view operation, const std::string& key) -> Result<> {
    if (operation != "write" || key != "a/" || ++markers == 1) return {};
    return error(StatusCode::kUnavailable, "no answer");
  };
  EXPECT_FALSE(rig->drain());
  EXPECT_EQ(rig->stored("x/"), "(none)");
  ASSERT_EQ(rig->rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig->list(kRootNode), "b/");
  writing.bucket->before = {};
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->list(kRootNode), "b/");
  EXPECT_EQ(rig->keys(), "b/");
}

TEST_F(QueuedRenames, OpenFilesGoOn) {
  rig->bucket().put("d/read", "hello");
  rig->bucket().put("d/written", "hello");
  const OpenedFile reader = rig->open_name(node("d"), "read").value();
  const OpenedFile writer = rig->open_name(node("d"), "written", O_RDWR).value();
  ASSERT_TRUE(rig->write(writer, 0, "J"));
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  ASSERT_TRUE(rig->write(writer, 5, "!"));
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->read_open(reader), "hello");
  EXPECT_TRUE(rig->close(reader));
  EXPECT_TRUE(rig->close(writer));
  EXPECT_EQ(read("e", "written"), "Jello!");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("e/written"), "Jello!");
  EXPECT_EQ(rig->list(node("e")), "read:5 written:6");
}

TEST_F(QueuedRenames, AttemptsAreRepeated) {
  constexpr const char* kLost[] = {"copy", "remove", "write"};
  for (const char* lost : kLost) {
    rig->bucket().put(fmt::format("{}-d/a", lost), "1");
    rig->bucket().put(fmt::format("{}-d/b", lost), "2");
  }
  for (const char* lost : kLost) {
    const std::string name = fmt::format("{}-d", lost), to = fmt::format("{}-e", lost);
    ASSERT_EQ(rig->rename(kRootNode, name, kRootNode, to), "ok");
    std::atomic<int> failures = 2;
    writing.bucket->after = [&](std::string_view operation, const std::string&) -> Result<> {
      if (operation != lost || failures-- <= 0) return {};
      return error(StatusCode::kUnavailable, "the answer is lost");
    };
    EXPECT_FALSE(rig->drain());
    EXPECT_EQ(read(to, "a"), "1");
    start();
    EXPECT_EQ(read(to, "a"), "1");
    while (!rig->drain()) {
    }
    EXPECT_EQ(rig->list(node(to)), "a:1 b:1");
    EXPECT_EQ(rig->stored(to + "/b"), "2");
    EXPECT_EQ(rig->stored(name + "/a"), "(none)");
  }
}

// Somebody else removed it: the queue goes on.
TEST_F(QueuedRenames, SourceIsGone) {
  rig->bucket().put("old", "hello");
  ASSERT_EQ(rig->rename(kRootNode, "old", kRootNode, "new"), "ok");
  put("later", "x");
  rig->bucket().remove("old");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->list(kRootNode), "later:1");
  EXPECT_EQ(rig->keys(), "later");
}

TEST_F(QueuedRenames, RemovedAfterTheRename) {
  rig->bucket().put("x", "1");
  const NodeId made = rig->make_directory(kRootNode, "d")->node;
  ASSERT_EQ(rig->rename(kRootNode, "x", made, "x"), "ok");  // so that d is renamed in the store
  put("new", "22", made);
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  EXPECT_EQ(rig->remove_file(node("e"), "new"), "ok");
  EXPECT_EQ(rig->remove_file(node("e"), "x"), "ok");
  expect_in_all_states([&] { EXPECT_EQ(rig->list(node("e")), ""); });
  EXPECT_EQ(rig->remove_directory(kRootNode, "e"), "ok");
  expect_in_all_states([&] { EXPECT_EQ(rig->list(kRootNode), ""); });
  EXPECT_EQ(rig->keys(), "");
}

}  // namespace
}  // namespace leat::testing
