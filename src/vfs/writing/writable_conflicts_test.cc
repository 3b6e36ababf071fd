// SPDX-License-Identifier: Apache-2.0
// Saves that the store rejects, loses or cannot take, and writes by two hosts.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::FaultyBucket;
using ::testing::HasSubstr;
using testing::OpenedFile;
using testing::outcome;
using testing::WritableRig;

constexpr WallTime kNewYear{std::chrono::seconds(1'767'225'600)};  // 2026-01-01
constexpr char kBeside[] = "x.conflict-20260101T000000Z";

// Fails the next `count` operations of this name.
FaultyBucket::Hook failing(std::string operation, int count,
                           StatusCode code = StatusCode::kUnavailable) {
  return [=, left = std::make_shared<int>(count)](std::string_view now,
                                                  const std::string& key) -> Result<> {
    if (now != operation || *left == 0) return {};
    --*left;
    return error(code, key + ": failing as the test ordered");
  };
}

class WriteConflicts : public ::testing::Test {
 protected:
  WriteConflicts() { rig.set_wall_clock(kNewYear); }

  OpenedFile opened(std::string text, int flags = O_RDWR) {
    rig.source->put("x", "begin");
    OpenedFile file = rig.open_name(kRootNode, "x", flags).value();
    EXPECT_TRUE(rig.write(file, 0, std::move(text)));
    return file;
  }
  OpenedFile created(std::string text) {
    OpenedFile file = rig.create(kRootNode, "x").value();
    EXPECT_TRUE(rig.write(file, 0, std::move(text)));
    return file;
  }

  WritableRig rig;
};

// ---- two writers

TEST_F(WriteConflicts, ReplacedObjectKeepsBothContents) {
  const OpenedFile file = opened("ours!");
  rig.source->put("x", "theirs");
  const Result<> flushed = rig.flush(file);
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code(), StatusCode::kConflict);
  EXPECT_THAT(flushed.error().to_string(), HasSubstr(kBeside));
  EXPECT_EQ(rig.stored("x"), "theirs");
  EXPECT_EQ(rig.stored(kBeside), "ours!");
  EXPECT_EQ(rig.content(kRootNode, "x"), "theirs");
  EXPECT_NE(rig.peek(kRootNode, "x"), file.node);
  EXPECT_EQ(rig.content(kRootNode, kBeside), "ours!");
  EXPECT_EQ(rig.read_open(file), "ours!") << "the open file keeps its own";
  EXPECT_TRUE(rig.close(file)) << "reported once";
  EXPECT_EQ(rig.list(kRootNode), std::string("x:6 ") + kBeside + ":5");
}

TEST_F(WriteConflicts, WritesAfterAConflictAreNotSaved) {
  const OpenedFile file = opened("ours!");
  rig.source->put("x", "theirs");
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_TRUE(rig.flush(file)) << "nothing new to save";
  ASSERT_TRUE(rig.write(file, 0, "more"));
  EXPECT_EQ(rig.read_open(file), "more!");
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_EQ(outcome(rig.close(file)), "conflict");
  EXPECT_EQ(rig.stored("x"), "theirs");
  const OpenedFile again = rig.open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig.write(again, 0, "T"));
  EXPECT_EQ(outcome(rig.close(again)), "ok");
  EXPECT_EQ(rig.stored("x"), "Theirs");
}

TEST_F(WriteConflicts, ConflictIsFoundByClose) {
  const OpenedFile file = opened("ours!");
  rig.source->put("x", "theirs");
  EXPECT_EQ(outcome(rig.close(file)), "conflict");
  EXPECT_EQ(rig.stored(kBeside), "ours!");
  EXPECT_TRUE(rig.save_all());
  EXPECT_EQ(rig.content(kRootNode, "x"), "theirs");
}

TEST_F(WriteConflicts, NameCreatedByTwoIsAConflict) {
  const OpenedFile file = created("ours");
  rig.source->put("x", "theirs");
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_EQ(rig.stored("x"), "theirs");
  EXPECT_EQ(rig.stored(kBeside), "ours");
  EXPECT_EQ(rig.content(kRootNode, "x"), "theirs");
  EXPECT_TRUE(rig.close(file));
}

TEST_F(WriteConflicts, RemovedObjectIsAConflict) {
  const OpenedFile file = opened("ours!");
  rig.source->MemorySource::remove("x");
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_EQ(rig.keys(), kBeside);
  EXPECT_EQ(rig.stored(kBeside), "ours!");
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_TRUE(rig.close(file));
}

// The second content would replace the first one's.
TEST_F(WriteConflicts, TwoConflictsInASecondKeepThree) {
  const OpenedFile first = opened("first");
  rig.source->put("x", "theirs");
  EXPECT_EQ(outcome(rig.close(first)), "conflict");
  const OpenedFile second = rig.open_name(kRootNode, "x", O_RDWR | O_TRUNC).value();
  ASSERT_TRUE(rig.write(second, 0, "second"));
  rig.source->put("x", "theirs again");
  EXPECT_EQ(outcome(rig.close(second)), "conflict");
  EXPECT_EQ(rig.bucket().object_count(), 3u) << rig.keys();
  EXPECT_EQ(rig.stored(kBeside), "first");
}

TEST_F(WriteConflicts, UnkeptConflictStaysDirty) {
  const OpenedFile file = opened("ours!");
  rig.source->put("x", "theirs");
  rig.bucket().before = [](std::string_view operation, const std::string& key) -> Result<> {
    if (operation != "write" || key == "x") return {};
    return error(StatusCode::kUnavailable, "as ordered");
  };
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_EQ(rig.read_open(file), "ours!");
  rig.bucket().before = {};
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_EQ(rig.stored(kBeside), "ours!");
  EXPECT_EQ(rig.stored("x"), "theirs");
  EXPECT_TRUE(rig.close(file));
}

TEST_F(WriteConflicts, StoreWithoutConditionsIsOverwritten) {
  rig.bucket().changed.write_if_absent = rig.bucket().changed.write_if_version = false;
  const OpenedFile file = opened("ours!");
  rig.source->put("x", "theirs");
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.keys(), "x");
  EXPECT_EQ(rig.content(kRootNode, "x"), "ours!");
}

// Write, conflict and rename: the new name is not written by an open file that lost the old one.
TEST_F(WriteConflicts, UnlinkAfterAConflictTakesTheirs) {
  const OpenedFile file = opened("ours!");
  rig.source->put("x", "theirs");
  EXPECT_EQ(outcome(rig.flush(file)), "conflict");
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(rig.keys(), kBeside);
  EXPECT_EQ(rig.read_open(file), "ours!");
  EXPECT_TRUE(rig.close(file));
}

// ---- answers that are lost

TEST_F(WriteConflicts, LostAnswerOfANewFileIsASuccess) {
  const OpenedFile file = created("ours");
  const NodeId node = rig.node(kRootNode, "x");
  rig.bucket().after = failing("write", 1);
  EXPECT_EQ(outcome(rig.flush(file)), "ok");
  EXPECT_EQ(rig.keys(), "x");
  EXPECT_EQ(rig.stored("x"), "ours");
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.peek(kRootNode, "x"), node);
}

TEST_F(WriteConflicts, LostAnswerOfAReplacementIsASuccess) {
  const OpenedFile file = opened("ours!");
  rig.bucket().after = failing("write", 1);
  EXPECT_EQ(outcome(rig.flush(file)), "ok");
  ASSERT_TRUE(rig.write(file, 0, "again"));
  EXPECT_EQ(outcome(rig.close(file)), "ok") << "the version is that of the store";
  EXPECT_EQ(rig.keys(), "x");
  EXPECT_EQ(rig.stored("x"), "again");
}

// A layer below repeats the request, and the store compares with what the first one wrote.
TEST_F(WriteConflicts, RepeatedRequestIsNotAConflict) {
  const OpenedFile file = opened("ours!");
  rig.bucket().after = failing("write", 1, StatusCode::kVersionChanged);
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.keys(), "x");
  EXPECT_EQ(rig.content(kRootNode, "x"), "ours!");
}

TEST_F(WriteConflicts, ShortOutageIsRetried) {
  const OpenedFile file = opened("ours!");
  rig.bucket().before = failing("write", 2);
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.content(kRootNode, "x"), "ours!");
}

// The store takes the write, and neither its answer nor a later stat arrives.
TEST_F(WriteConflicts, UnknownOutcomeIsFoundByNextFlush) {
  const OpenedFile file = opened("ours!");
  rig.bucket().after = failing("write", 1);
  rig.bucket().before = failing("stat", 1);
  EXPECT_EQ(outcome(rig.flush(file)), "unavailable");
  EXPECT_EQ(rig.stored("x"), "ours!");
  EXPECT_EQ(outcome(rig.flush(file)), "ok");
  EXPECT_TRUE(rig.close(file));
  EXPECT_EQ(rig.keys(), "x");
}

// The object has an earlier content of ours, which is not a conflict with anybody.
TEST_F(WriteConflicts, WriteAfterUnknownOutcomeIsSaved) {
  const OpenedFile file = opened("ours!");
  rig.bucket().after = failing("write", 1);
  rig.bucket().before = failing("stat", 1);
  EXPECT_EQ(outcome(rig.flush(file)), "unavailable");
  ASSERT_TRUE(rig.write(file, 0, "later"));
  EXPECT_EQ(outcome(rig.flush(file)), "ok");
  EXPECT_EQ(rig.keys(), "x");
  EXPECT_EQ(rig.stored("x"), "later");
  EXPECT_EQ(outcome(rig.close(file)), "ok");
}

// ---- a store that does not answer

TEST_F(WriteConflicts, FailedFlushLeavesTheFileDirty) {
  const OpenedFile file = created("ours");
  rig.bucket().before = failing("write", 1, StatusCode::kPermissionDenied);
  const Result<> flushed = rig.flush(file);
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(flushed.error().to_string(), HasSubstr("cannot save /data/x"));
  EXPECT_EQ(rig.keys(), "");
  EXPECT_EQ(rig.read_open(file), "ours");
  EXPECT_EQ(rig.list(kRootNode), "x:4");
  EXPECT_EQ(outcome(rig.flush(file)), "ok");
  EXPECT_EQ(rig.stored("x"), "ours");
  EXPECT_TRUE(rig.close(file));
}

TEST_F(WriteConflicts, FailedCloseKeepsTheContent) {
  const OpenedFile file = created("ours");
  rig.bucket().before = failing("write", 100);
  EXPECT_EQ(outcome(rig.close(file)), "unavailable");
  const OpenedFile reader = rig.open_name(kRootNode, "x").value();
  EXPECT_EQ(rig.read_open(reader), "ours");
  EXPECT_EQ(outcome(rig.close(reader)), "unavailable") << "each close tries again";
  EXPECT_EQ(rig.list(kRootNode), "x:4");
  EXPECT_EQ(outcome(rig.save_all()), "unavailable");
  rig.bucket().before = {};
  EXPECT_EQ(outcome(rig.save_all()), "ok");
  EXPECT_EQ(rig.stored("x"), "ours");
  EXPECT_EQ(rig.content(kRootNode, "x"), "ours");
  const uint64_t changes = rig.bucket().changes();
  EXPECT_TRUE(rig.save_all());
  EXPECT_EQ(rig.bucket().changes(), changes);
}

TEST_F(WriteConflicts, UnsavedFileIsOpenedAndSavedAgain) {
  const OpenedFile file = created("ours");
  rig.bucket().before = failing("write", 3);
  EXPECT_EQ(outcome(rig.close(file)), "unavailable");
  const OpenedFile again = rig.open_name(kRootNode, "x", O_RDWR).value();
  EXPECT_EQ(again.node, file.node);
  EXPECT_EQ(rig.read_open(again), "ours");
  ASSERT_TRUE(rig.write(again, 4, "!"));
  EXPECT_EQ(outcome(rig.close(again)), "ok");
  EXPECT_EQ(rig.stored("x"), "ours!");
}

TEST_F(WriteConflicts, UnsavedFileIsUnlinkedOrRenamed) {
  rig.bucket().before = failing("write", 6);
  EXPECT_EQ(outcome(rig.close(created("ours"))), "unavailable");
  EXPECT_EQ(rig.rename(kRootNode, "x", kRootNode, "y"), "ok");
  EXPECT_EQ(outcome(rig.close(created("more"))), "unavailable");
  EXPECT_EQ(rig.list(kRootNode), "x:4 y:4");
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "ok");
  EXPECT_EQ(outcome(rig.save_all()), "ok");
  EXPECT_EQ(rig.keys(), "y");
  EXPECT_EQ(rig.stored("y"), "ours");
  EXPECT_EQ(rig.files->nodes(), 1u);
}

TEST_F(WriteConflicts, FailedTruncationIsSavedLater) {
  rig.source->put("x", "content");
  const NodeId x = rig.node(kRootNode, "x");
  rig.bucket().before = failing("write", 3);
  EXPECT_EQ(outcome(rig.set(x, {.size = 3})), "unavailable");
  EXPECT_EQ(rig.stored("x"), "content");
  EXPECT_EQ(outcome(rig.save_all()), "ok");
  EXPECT_EQ(rig.stored("x"), "con");
}

TEST_F(WriteConflicts, UnreadableBaseFailsTheWrite) {
  WritableRig uncached({.cached = false});
  uncached.source->put("x", "content");
  const OpenedFile file = uncached.open_name(kRootNode, "x", O_RDWR).value();
  uncached.source->put("x", "theirs");
  EXPECT_FALSE(uncached.write(file, 0, "C")) << "the rest of the content is not to be had";
  EXPECT_EQ(outcome(uncached.close(file)), "ok");
  EXPECT_EQ(uncached.stored("x"), "theirs");
  EXPECT_EQ(uncached.content(kRootNode, "x"), "theirs");
}

// ---- changes of names with lost answers

TEST_F(WriteConflicts, FailedUnlinkKeepsTheName) {
  rig.source->put("x", "one");
  const OpenedFile file = rig.open_name(kRootNode, "x").value();
  rig.bucket().before = failing("remove", 1);
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "unavailable");
  EXPECT_EQ(rig.peek(kRootNode, "x"), file.node);
  EXPECT_EQ(rig.read_open(file), "one");
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.content(kRootNode, "x"), "one");
}

TEST_F(WriteConflicts, LostAnswerOfAnUnlinkShowsTheStore) {
  rig.source->put("x", "one");
  rig.peek(kRootNode, "x");
  rig.bucket().after = failing("remove", 1);
  EXPECT_EQ(rig.remove_file(kRootNode, "x"), "unavailable");
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u) << "the store has not this name";
}

TEST_F(WriteConflicts, LostAnswerOfARenameShowsTheStore) {
  rig.source->put("x", "one");
  rig.peek(kRootNode, "x");
  EXPECT_EQ(rig.peek(kRootNode, "y"), 0u);
  rig.bucket().after = failing("rename", 1);
  EXPECT_EQ(rig.rename(kRootNode, "x", kRootNode, "y"), "unavailable");
  EXPECT_EQ(rig.peek(kRootNode, "x"), 0u);
  EXPECT_EQ(rig.content(kRootNode, "y"), "one");
}

TEST_F(WriteConflicts, LostStatAfterARenameShowsTheStore) {
  const OpenedFile file = opened("ours!");
  int stats = 0;
  rig.bucket().before = [&stats, renamed = false](std::string_view operation,
                                                  const std::string& key) mutable -> Result<> {
    if (operation == "rename") renamed = true;
    if (operation != "stat" || !renamed || ++stats > 1) return {};
    return error(StatusCode::kUnavailable, key + ": as ordered");
  };
  const std::string renamed = rig.rename(kRootNode, "x", kRootNode, "y");
  const std::string name = renamed == "ok" ? "y" : "x";
  EXPECT_EQ(rig.keys(), "y");
  EXPECT_EQ(outcome(rig.flush(file)), "ok") << name;
  EXPECT_EQ(rig.keys(), "y") << "one object, and no conflict";
  EXPECT_TRUE(rig.close(file));
}

// ---- callers that give up

TEST_F(WriteConflicts, CancelledFlushIsSavedByClose) {
  const OpenedFile file = created("ours");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(outcome(rig.flush(file, Context::background().with_cancel(stop.get_token()))),
            "cancelled");
  EXPECT_EQ(rig.read_open(file), "ours");
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.stored("x"), "ours");
}

TEST_F(WriteConflicts, CancelledCloseIsSavedBySaveAll) {
  const OpenedFile file = created("ours");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(outcome(rig.close(file, Context::background().with_cancel(stop.get_token()))),
            "cancelled");
  EXPECT_EQ(outcome(rig.save_all()), "ok");
  EXPECT_EQ(rig.stored("x"), "ours");
  EXPECT_EQ(rig.files->nodes(), 1u) << "the open has ended";
}

// The flush waits for a save that does not end, and gives up.
TEST_F(WriteConflicts, FlushWithoutTimeEnds) {
  const OpenedFile file = opened("ours!");
  rig.bucket().before = failing("write", 3, StatusCode::kTimedOut);
  EXPECT_EQ(outcome(rig.flush(file, Context::background().with_timeout(0ms))), "timed_out");
  rig.bucket().before = {};
  EXPECT_EQ(outcome(rig.close(file)), "ok");
  EXPECT_EQ(rig.stored("x"), "ours!");
}

}  // namespace
}  // namespace leat
