// SPDX-License-Identifier: Apache-2.0
// Writes that the store gets later, where it fails, and those that it never gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "vfs/writing/write_behind_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::OpenedFile;
using testing::outcome;
using testing::pattern;
using testing::WriteBehind;
using testing::WriteLocal;

// ---- stores that fail

TEST_F(WriteBehind, FailureIsShownAndTriedAgain) {
  writing.uploads.pause_min = 1ms;
  start();
  writing.bucket->before = [](std::string_view operation, const std::string&) -> Result<> {
    if (operation == "write") return error(StatusCode::kPermissionDenied, "no access");
    return {};
  };
  put("x", "hello");
  const Result<> drained = rig->drain();
  ASSERT_FALSE(drained);
  EXPECT_THAT(drained.error().to_string(), HasSubstr("no access"));
  ASSERT_TRUE(rig->unsent().failure);
  EXPECT_THAT(rig->unsent().failure->to_string(), HasSubstr("no access"));
  EXPECT_EQ(rig->content(kRootNode, "x"), "hello");
  rig.reset();  // ends the attempts before the hook changes
  writing.bucket->before = {};
  start();
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("x"), "hello");
  EXPECT_FALSE(rig->unsent().failure);
}

TEST_F(WriteBehind, LostAnswerIsNoConflict) {
  writing.uploads.pause_min = 1ms;
  start();
  std::atomic<int> lost = 1;
  writing.bucket->after = [&](std::string_view operation, const std::string&) -> Result<> {
    if (operation == "write" && lost-- > 0) return error(StatusCode::kUnavailable, "no answer");
    return {};
  };
  put("x", "hello");
  static_cast<void>(rig->drain());
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "x");
  EXPECT_EQ(rig->stored("x"), "hello");
}

TEST_F(WriteBehind, SentAgainAfterCrashBeforeNote) {
  put("x", "hello");
  const std::string copy = directory_.path() + "/copy";
  std::filesystem::copy(writing.journal, copy, std::filesystem::copy_options::recursive);
  ASSERT_TRUE(rig->drain());
  writing.journal = copy;  // the journal as it was before the store had it
  start();
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->keys(), "x") << "no conflict with what was sent";
  EXPECT_EQ(rig->stored("x"), "hello");
}

TEST_F(WriteBehind, SomebodyElseWroteIt) {
  rig->bucket().put("x", "old");
  const OpenedFile file = rig->open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig->write(file, 0, "ours"));
  ASSERT_TRUE(rig->close(file));
  rig->bucket().put("x", "theirs");
  ASSERT_TRUE(rig->drain()) << "it is in the store, beside the other";
  EXPECT_EQ(rig->stored("x"), "theirs");
  EXPECT_THAT(rig->keys(), HasSubstr("x.conflict-"));
  EXPECT_EQ(rig->content(kRootNode, "x"), "theirs");
  EXPECT_EQ(rig->unsent().changes, 0u);
  EXPECT_FALSE(rig->files->errors().empty());
}

TEST_F(WriteBehind, FullStagingSlowsDownAndThenFails) {
  writing.uploads.bytes_max = 100'000;
  writing.uploads.pause_min = 1ms;
  start();
  put("a", pattern(80'000, 1));
  put("b", pattern(80'000, 2));  // waits for the store
  EXPECT_EQ(rig->stored("a"), pattern(80'000, 1));
  writing.bucket->before = [](std::string_view operation, const std::string&) -> Result<> {
    if (operation == "write") return error(StatusCode::kUnavailable, "out of order");
    return {};
  };
  const OpenedFile file = rig->create(kRootNode, "c").value();
  ASSERT_TRUE(rig->write(file, 0, pattern(80'000, 3)));
  const Result<> saved = rig->flush(file);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code(), StatusCode::kNoSpace);
  EXPECT_THAT(saved.error().to_string(), HasSubstr("out of order"));
  rig.reset();
  writing.bucket->before = {};
  start();
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->stored("b"), pattern(80'000, 2));
}

TEST_F(WriteBehind, JournalOfAnotherSourceIsKept) {
  put("x", "hello");
  rig.reset();
  const auto other = WriteJournal::open(writing.journal, "s3://other");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().to_string(), HasSubstr("memory://bucket"));
  start();
  EXPECT_EQ(rig->content(kRootNode, "x"), "hello");
}

TEST_F(WriteBehind, JournalHasOneOwnerAtATime) {
  put("x", "hello");
  const auto second = WriteJournal::open(writing.journal, "memory://bucket");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::kBusy);
}

// ---- local

TEST_F(WriteLocal, NothingIsSent) {
  const NodeId made = rig->make_directory(kRootNode, "d")->node;
  put("x", "hello", made);
  ASSERT_EQ(rig->rename(made, "x", kRootNode, "y"), "ok");
  ASSERT_TRUE(rig->drain());
  EXPECT_EQ(rig->bucket().changes(), 0u);
  EXPECT_EQ(rig->unsent().changes, 0u);
  EXPECT_EQ(rig->unsent().local_bytes, 5u);
  start();
  EXPECT_EQ(rig->list(kRootNode), "d/ y:5");
  EXPECT_EQ(rig->content(kRootNode, "y"), "hello");
  ASSERT_EQ(rig->remove_file(kRootNode, "y"), "ok");
  ASSERT_EQ(rig->remove_directory(kRootNode, "d"), "ok");
  EXPECT_EQ(rig->list(kRootNode), "");
  EXPECT_EQ(rig->unsent().local_bytes, 0u);
  EXPECT_EQ(rig->bucket().changes(), 0u);
}

TEST_F(WriteLocal, ChangesOfStoredFilesStayHere) {
  rig->bucket().put("x", "theirs");
  rig->bucket().put("y", "gone");
  const OpenedFile file = rig->open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig->write(file, 0, "O"));
  ASSERT_TRUE(rig->close(file));
  ASSERT_EQ(rig->remove_file(kRootNode, "y"), "ok");
  start();
  EXPECT_EQ(rig->content(kRootNode, "x"), "Oheirs");
  EXPECT_EQ(rig->peek(kRootNode, "y"), 0u);
  EXPECT_EQ(rig->stored("x"), "theirs");
  EXPECT_EQ(rig->stored("y"), "gone");
  EXPECT_EQ(rig->rename(kRootNode, "x", kRootNode, "z"), "ok");
  EXPECT_EQ(rig->content(kRootNode, "z"), "Oheirs");
}

TEST_F(WriteLocal, SymbolicLinksAreNotMade) {
  writing.bucket->changed.attributes = true;
  start();
  const auto made = rig->executor.block_on(
      rig->changes().make_symlink(Context::background(), kRootNode, "l", "target", {}));
  EXPECT_EQ(outcome(made), "unsupported");
  EXPECT_EQ(rig->bucket().changes(), 0u);
}

TEST_F(WriteLocal, StoredNamesAreNotRenamed) {
  rig->bucket().put("x", "theirs");
  rig->bucket().put("d/a", "1");
  EXPECT_EQ(rig->rename(kRootNode, "x", kRootNode, "z"), "cross_device");
  EXPECT_EQ(rig->rename(kRootNode, "d", kRootNode, "e"), "cross_device");
}

}  // namespace
}  // namespace leat
