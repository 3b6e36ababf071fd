// SPDX-License-Identifier: Apache-2.0
// Writes that the store gets later (write=back) or never (local).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "vfs/writing/write_behind_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::FaultyBucket;
using testing::OpenedFile;
using testing::pattern;
using testing::WriteBehind;

TEST_F(WriteBehind, CloseDoesNotWaitForStore) {
  put("x", "hello");
  EXPECT_EQ(rig->stored("x"), "(none)");
  EXPECT_EQ(rig->content(kRootNode, "x"), "hello");
  EXPECT_EQ(rig->list(kRootNode), "x:5");
  EXPECT_EQ(rig->unsent().changes, 1u);
  EXPECT_EQ(rig->unsent().bytes, 5u);
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "hello");
  EXPECT_EQ(rig->unsent().changes, 0u);
  EXPECT_EQ(rig->content(kRootNode, "x"), "hello");
}

TEST_F(WriteBehind, SentByItselfAfterDelay) {
  start(1ms);
  put("x", "hello");
  for (int wait = 0; wait < 500 && rig->unsent().changes > 0; ++wait)
    std::this_thread::sleep_for(10ms);
  EXPECT_EQ(rig->stored("x"), "hello");
}

TEST_F(WriteBehind, RestartKeepsAndSends) {
  const std::string large = pattern(300'000, 1);
  put("small", "hello");
  put("large", large);
  start();
  EXPECT_EQ(rig->list(kRootNode), "large:300000 small:5");
  EXPECT_EQ(rig->content(kRootNode, "small"), "hello");
  EXPECT_EQ(rig->content(kRootNode, "large"), large);
  EXPECT_EQ(rig->unsent().bytes, 300'005u);
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("small"), "hello");
  EXPECT_EQ(rig->stored("large"), large);
  start();
  EXPECT_EQ(rig->unsent().changes, 0u);
}

TEST_F(WriteBehind, SurvivesPowerCut) {
  put("small", "hello");
  put("large", pattern(300'000, 1));
  put("gone", "x");
  ASSERT_EQ(rig->remove_file(kRootNode, "gone"), "ok");
  // A machine without power has what is on the disk now.
  const std::string copy = directory_.path() + "/copy";
  std::filesystem::copy(writing.journal, copy, std::filesystem::copy_options::recursive);
  writing.journal = copy;
  writing.bucket = std::make_shared<FaultyBucket>();
  start();
  EXPECT_EQ(rig->list(kRootNode), "large:300000 small:5");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("large"), pattern(300'000, 1));
  EXPECT_EQ(rig->keys(), "large small");
}

TEST_F(WriteBehind, RemovedBeforeItIsSent) {
  put("x", "hello");
  put("y", "there");
  ASSERT_EQ(rig->remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(rig->list(kRootNode), "y:5");
  EXPECT_EQ(rig->peek(kRootNode, "x"), 0u);
  record_writes();
  ASSERT_TRUE(rig->drain());
  EXPECT_THAT(sent(), ElementsAre("write y"));
}

TEST_F(WriteBehind, StoredFileIsHiddenUntilStoreRemovesIt) {
  rig->bucket().put("x", "old");
  rig->bucket().put("y", "stays");
  ASSERT_EQ(rig->remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(rig->stored("x"), "old");
  EXPECT_EQ(rig->peek(kRootNode, "x"), 0u);
  EXPECT_EQ(rig->list(kRootNode), "y:5");
  start();
  EXPECT_EQ(rig->peek(kRootNode, "x"), 0u) << "after a restart";
  EXPECT_EQ(rig->list(kRootNode), "y:5");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "(none)");
  EXPECT_EQ(rig->peek(kRootNode, "x"), 0u);
}

TEST_F(WriteBehind, RemovedAndMadeAgain) {
  rig->bucket().put("x", "old");
  ASSERT_EQ(rig->remove_file(kRootNode, "x"), "ok");
  put("x", "new");
  EXPECT_EQ(rig->content(kRootNode, "x"), "new");
  EXPECT_EQ(rig->list(kRootNode), "x:3");
  start();
  EXPECT_EQ(rig->content(kRootNode, "x"), "new");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "new");
  EXPECT_EQ(rig->content(kRootNode, "x"), "new");
}

TEST_F(WriteBehind, RenamePublishesAfterWhatItNames) {
  record_writes();
  put("metadata.tmp", "names part");
  put("part", pattern(2 << 20, 1));
  put("other", "x");
  ASSERT_EQ(rig->rename(kRootNode, "metadata.tmp", kRootNode, "metadata"), "ok");
  put("later", "y");
  EXPECT_EQ(rig->content(kRootNode, "metadata"), "names part");
  EXPECT_EQ(rig->peek(kRootNode, "metadata.tmp"), 0u);
  start();
  EXPECT_EQ(rig->list(kRootNode), "later:1 metadata:10 other:1 part:2097152");
  ASSERT_TRUE(rig->drain());
  const std::vector<std::string> order = sent();
  ASSERT_EQ(order.size(), 4u) << "no object under a temporary name";
  EXPECT_EQ(order[2], "write metadata");
  EXPECT_EQ(order[3], "write later");
}

TEST_F(WriteBehind, RenameReplacesStoredFile) {
  rig->bucket().put("latest", "old");
  put("latest.tmp", "new");
  ASSERT_EQ(rig->rename(kRootNode, "latest.tmp", kRootNode, "latest"), "ok");
  EXPECT_EQ(rig->content(kRootNode, "latest"), "new");
  EXPECT_EQ(rig->stored("latest"), "old");
  start();
  EXPECT_EQ(rig->content(kRootNode, "latest"), "new");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("latest"), "new");
  EXPECT_EQ(rig->keys(), "latest");
}

TEST_F(WriteBehind, RenameWhileItIsSent) {
  start(0ms);
  std::atomic<bool> begun = false, go = false;
  writing.bucket->before = [&](std::string_view operation, const std::string& key) {
    if (operation != "write" || key != "x.tmp") return Result<>();
    begun = true;
    while (!go) std::this_thread::sleep_for(1ms);
    return Result<>();
  };
  put("x.tmp", "hello");
  while (!begun) std::this_thread::sleep_for(1ms);
  std::jthread renaming([&] {
    std::this_thread::sleep_for(20ms);
    go = true;
  });
  ASSERT_EQ(rig->rename(kRootNode, "x.tmp", kRootNode, "x"), "ok");
  EXPECT_EQ(rig->content(kRootNode, "x"), "hello");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "x");
  EXPECT_EQ(rig->stored("x"), "hello");
  EXPECT_EQ(rig->list(kRootNode), "x:5");
}

TEST_F(WriteBehind, TwoRenamesReplaceTheSameName) {
  put("a", "first");
  put("b", "second");
  put("c", "third");
  ASSERT_EQ(rig->rename(kRootNode, "b", kRootNode, "a"), "ok");
  ASSERT_EQ(rig->rename(kRootNode, "c", kRootNode, "a"), "ok");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "a");
  EXPECT_EQ(rig->stored("a"), "third");
}

TEST_F(WriteBehind, RenamesRaceWithUploads) {
  start(0ms);
  for (int number = 0; number < 150; ++number) {
    const std::string name = fmt::format("d{}", number);
    const NodeId made = rig->make_directory(kRootNode, name + ".tmp")->node;
    put("f.tmp", name, made);
    std::this_thread::sleep_for(std::chrono::microseconds(number * 20));
    ASSERT_EQ(rig->rename(made, "f.tmp", made, "f"), "ok");
    ASSERT_EQ(rig->rename(kRootNode, name + ".tmp", kRootNode, name), "ok");
  }
  ASSERT_TRUE(rig->drain());
  for (int number = 0; number < 150; ++number) {
    const std::string name = fmt::format("d{}", number);
    EXPECT_EQ(rig->stored(name + "/f"), name);
    EXPECT_EQ(rig->content(rig->node(kRootNode, name), "f"), name);
    EXPECT_EQ(rig->stored(name + "/f.tmp"), "(none)");
    EXPECT_EQ(rig->peek(kRootNode, name + ".tmp"), 0u);
  }
}

TEST_F(WriteBehind, DirectoryIsRenamedWithWhatIsInIt) {
  const NodeId made = rig->make_directory(kRootNode, "tmp")->node;
  const NodeId inner = rig->make_directory(made, "deep")->node;
  put("a", "1", made);
  put("b", "22", inner);
  EXPECT_EQ(rig->bucket().changes(), 0u);
  EXPECT_EQ(rig->list(kRootNode), "tmp/");
  EXPECT_EQ(rig->list(made), "a:1 deep/");
  ASSERT_EQ(rig->rename(kRootNode, "tmp", kRootNode, "final"), "ok");
  EXPECT_EQ(rig->list(kRootNode), "final/");
  EXPECT_EQ(rig->list(made), "a:1 deep/");
  start();
  EXPECT_EQ(rig->list(kRootNode), "final/");
  const NodeId again = rig->node(kRootNode, "final");
  EXPECT_EQ(rig->content(rig->node(again, "deep"), "b"), "22");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("final/a"), "1");
  EXPECT_EQ(rig->stored("final/deep/b"), "22");
  EXPECT_EQ(rig->content(again, "a"), "1");
  EXPECT_EQ(rig->peek(kRootNode, "tmp"), 0u);
}

TEST_F(WriteBehind, DirectoryIsRemovedWhenEmpty) {
  const NodeId made = rig->make_directory(kRootNode, "d")->node;
  put("a", "1", made);
  EXPECT_EQ(rig->remove_directory(kRootNode, "d"), "not_empty");
  ASSERT_EQ(rig->remove_file(made, "a"), "ok");
  EXPECT_EQ(rig->remove_directory(kRootNode, "d"), "ok");
  EXPECT_EQ(rig->list(kRootNode), "");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "");
}

TEST_F(WriteBehind, StoredDirectoryIsRemoved) {
  rig->bucket().put("d/a", "1");
  const NodeId directory = rig->node(kRootNode, "d");
  ASSERT_EQ(rig->remove_file(directory, "a"), "ok");
  EXPECT_EQ(rig->remove_directory(kRootNode, "d"), "ok");
  EXPECT_EQ(rig->peek(kRootNode, "d"), 0u);
  EXPECT_EQ(rig->stored("d/a"), "1");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "");
  EXPECT_EQ(rig->peek(kRootNode, "d"), 0u);
}

TEST_F(WriteBehind, WriteAfterCloseLeavesWhatWasClosed) {
  put("x", "hello");
  put("y", "after x");
  const OpenedFile file = rig->open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig->write(file, 5, " world"));
  EXPECT_EQ(rig->read_open(file), "hello world");
  record_writes();
  ASSERT_TRUE(rig->changes().unsent().changes == 2);
  start();  // it was never closed: what was closed counts
  EXPECT_EQ(rig->content(kRootNode, "x"), "hello");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "hello");
}

TEST_F(WriteBehind, LaterContentWins) {
  put("x", "one");
  put("y", "between");
  put("x", "three");
  EXPECT_EQ(rig->content(kRootNode, "x"), "three");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "three");
  put("x", "four!");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "four!");
}

TEST_F(WriteBehind, ManySavesOfOneFileAreSentOnce) {
  record_writes();
  const OpenedFile file = rig->create(kRootNode, "log").value();
  for (int line = 0; line < 10; ++line) {
    ASSERT_TRUE(rig->write(file, static_cast<uint64_t>(line), "x"));
    ASSERT_TRUE(rig->flush(file));
  }
  EXPECT_EQ(rig->unsent().changes, 1u);
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->read_open(file), "xxxxxxxxxx");
  ASSERT_TRUE(rig->close(file));
  EXPECT_THAT(sent(), ElementsAre("write log"));
}

TEST_F(WriteBehind, ReaderGoesOnWhenItIsSent) {
  put("small", "hello");
  put("large", pattern(300'000, 1));
  const OpenedFile small = rig->open_name(kRootNode, "small").value();
  const OpenedFile large = rig->open_name(kRootNode, "large").value();
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->read_open(small), "hello");
  EXPECT_EQ(rig->read_open(large), pattern(300'000, 1));
  ASSERT_EQ(rig->remove_file(kRootNode, "large"), "ok");
  EXPECT_EQ(rig->read_open(large), pattern(300'000, 1));
  ASSERT_TRUE(rig->close(large));
  ASSERT_TRUE(rig->close(small));
}

TEST_F(WriteBehind, AttributesAreSentWithContent) {
  writing.bucket->changed.attributes = true;
  start();
  put("x", "hello");
  const NodeId node = rig->node(kRootNode, "x");
  ASSERT_TRUE(rig->set(node, {.mode = 0600, .mtime = WallTime(5s)}));
  start();
  EXPECT_EQ(rig->lookup(kRootNode, "x")->mode & 07777u, 0600u);
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->lookup(kRootNode, "x")->mode & 07777u, 0600u);
  EXPECT_EQ(rig->lookup(kRootNode, "x")->mtime, WallTime(5s));
}

TEST_F(WriteBehind, TruncatedByName) {
  put("x", "hello");
  ASSERT_TRUE(rig->set(rig->node(kRootNode, "x"), {.size = 2}));
  EXPECT_EQ(rig->content(kRootNode, "x"), "he");
  start();
  EXPECT_EQ(rig->content(kRootNode, "x"), "he");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "he");
}

TEST_F(WriteBehind, RemovedAfterRestartStaysRemoved) {
  put("x", "hello");
  put("y", "moved");
  const std::string copy = directory_.path() + "/copy";
  std::filesystem::copy(writing.journal, copy, std::filesystem::copy_options::recursive);
  ASSERT_TRUE(rig->drain());
  writing.journal = copy;  // the store has them, and the journal does not know
  start();
  ASSERT_EQ(rig->remove_file(kRootNode, "x"), "ok");
  ASSERT_EQ(rig->rename(kRootNode, "y", kRootNode, "z"), "ok");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "z");
  EXPECT_EQ(rig->list(kRootNode), "z:5");
}

TEST_F(WriteBehind, DirectoryReplacesEmptyOne) {
  const NodeId made = rig->make_directory(kRootNode, "a")->node;
  ASSERT_TRUE(rig->make_directory(kRootNode, "b"));
  put("f", "1", made);
  ASSERT_EQ(rig->rename(kRootNode, "a", kRootNode, "b"), "ok");
  EXPECT_EQ(rig->content(made, "f"), "1");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->content(made, "f"), "1");
  EXPECT_EQ(rig->list(made), "f:1");
  EXPECT_EQ(rig->stored("b/f"), "1");
}

TEST_F(WriteBehind, RenamedDirectoryLeavesEarlierRemoval) {
  rig->bucket().put("d", "a file");
  ASSERT_EQ(rig->remove_file(kRootNode, "d"), "ok");
  const NodeId made = rig->make_directory(kRootNode, "d")->node;
  put("f", "1", made);
  ASSERT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "ok");
  start();
  EXPECT_EQ(rig->list(kRootNode), "e/");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("d"), "(none)");
  EXPECT_EQ(rig->stored("e/f"), "1");
}

TEST_F(WriteBehind, FileStaysWhereItsDirectoryVanishes) {
  rig->bucket().put("d/other", "1");
  put("mine", "22", rig->node(kRootNode, "d"));
  rig->bucket().remove("d/other");
  rig->advance(2min);
  const auto found = rig->lookup(kRootNode, "d");
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(rig->content(found->node, "mine"), "22");
  start();
  EXPECT_EQ(rig->content(rig->node(kRootNode, "d"), "mine"), "22");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("d/mine"), "22");
  EXPECT_EQ(rig->content(rig->node(kRootNode, "d"), "mine"), "22");
}

TEST_F(WriteBehind, ChangedTimesKeepTheOrder) {
  record_writes();
  put("weights", pattern(2 << 20, 1));
  put("latest", "names weights");
  ASSERT_TRUE(rig->set(rig->node(kRootNode, "weights"), {.mtime = WallTime(5s)}));
  ASSERT_TRUE(rig->drain());
  EXPECT_THAT(sent(), ElementsAre("write weights", "write latest"));
}

TEST_F(WriteBehind, OpenWithoutChangeLeavesContent) {
  put("x", "hello");
  const OpenedFile file = rig->open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig->close(file));
  EXPECT_EQ(rig->content(kRootNode, "x"), "hello");
  EXPECT_EQ(rig->unsent().changes, 1u);
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "hello");
}

TEST_F(WriteBehind, FailedSaveIsNotForgotten) {
  put("x", "one");
  const OpenedFile file = rig->open_name(kRootNode, "x", O_RDWR | O_TRUNC).value();
  ASSERT_TRUE(rig->write(file, 0, pattern(100'000, 1)));
  // A directory in place of the content's file: it cannot be made durable.
  for (int number = 2; number < 10; ++number) {
    std::filesystem::create_directory(fmt::format("{}/{}.content", writing.journal, number));
  }
  EXPECT_FALSE(rig->flush(file));
  for (int number = 2; number < 10; ++number) {
    std::filesystem::remove(fmt::format("{}/{}.content", writing.journal, number));
  }
  ASSERT_TRUE(rig->flush(file));
  ASSERT_TRUE(rig->close(file));
  start();
  EXPECT_EQ(rig->content(kRootNode, "x"), pattern(100'000, 1));
}

TEST_F(WriteBehind, FileTakesNameOfDirectory) {
  rig->bucket().put("d/a", "1");
  const NodeId directory = rig->node(kRootNode, "d");
  ASSERT_EQ(rig->remove_file(directory, "a"), "ok");
  ASSERT_EQ(rig->remove_directory(kRootNode, "d"), "ok");
  put("d", "a file");
  start();
  EXPECT_EQ(rig->list(kRootNode), "d:6");
  EXPECT_EQ(rig->content(kRootNode, "d"), "a file");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "d");
  EXPECT_EQ(rig->content(kRootNode, "d"), "a file");
}

// The removal of the file is still needed when the directory is gone again.
TEST_F(WriteBehind, DirectoryHasNameOfFileMeanwhile) {
  put("d", "the first");
  ASSERT_TRUE(rig->drain());
  ASSERT_EQ(rig->remove_file(kRootNode, "d"), "ok");
  ASSERT_TRUE(rig->make_directory(kRootNode, "d"));
  ASSERT_EQ(rig->remove_directory(kRootNode, "d"), "ok");
  put("d", "the second");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "d");
  EXPECT_EQ(rig->stored("d"), "the second");
}

TEST_F(WriteBehind, FileHasNameOfDirectoryMeanwhile) {
  ASSERT_TRUE(rig->make_directory(kRootNode, "d"));
  ASSERT_TRUE(rig->drain());
  ASSERT_EQ(rig->remove_directory(kRootNode, "d"), "ok");
  put("d", "a file");
  ASSERT_EQ(rig->remove_file(kRootNode, "d"), "ok");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "");
}

}  // namespace
}  // namespace leat
