// SPDX-License-Identifier: Apache-2.0
// The content of written files: from create and open to the store.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <string>

#include "source/part_writer.h"
#include "vfs/writing/writable_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::OpenedFile;
using testing::outcome;
using testing::pattern;
using testing::WritableRig;

constexpr WallTime kNoon{std::chrono::seconds(1'900'000'000)};

// ---- new files

TEST(WrittenContent, StoreHasNewFileAfterFlush) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  ASSERT_TRUE(rig.write(file, 0, "hello"));
  EXPECT_EQ(rig.stored("x"), "(none)");
  EXPECT_EQ(rig.read_open(file), "hello") << "read your writes";
  ASSERT_TRUE(rig.flush(file));
  EXPECT_EQ(rig.stored("x"), "hello");
  ASSERT_TRUE(rig.write(file, 5, " world"));
  EXPECT_EQ(rig.stored("x"), "hello");
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.stored("x"), "hello world") << "written after the last flush";
}

TEST(WrittenContent, EmptyNewFileIsSaved) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  ASSERT_TRUE(rig.flush(file));
  EXPECT_EQ(rig.stored("x"), "");
  const uint64_t before = rig.bucket().changes();
  ASSERT_TRUE(rig.flush(file));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.bucket().changes(), before) << "nothing to save";
}

TEST(WrittenContent, OtherOpensSeeUnflushedWrites) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  ASSERT_TRUE(rig.write(file, 0, "one"));
  const OpenedFile reader = rig.open_name(kRootNode, "x").value();
  EXPECT_EQ(reader.node, file.node);
  EXPECT_EQ(rig.read_open(reader), "one");
  const OpenedFile writer = rig.open_name(kRootNode, "x", O_WRONLY).value();
  ASSERT_TRUE(rig.write(writer, 1, "NE"));
  EXPECT_EQ(rig.read_open(reader), "oNE");
  EXPECT_EQ(rig.read_open(file), "oNE");
  ASSERT_TRUE(rig.close(file));
  ASSERT_TRUE(rig.close(reader));
  EXPECT_EQ(rig.stored("x"), "(none)") << "an open remains, and nothing flushed";
  ASSERT_TRUE(rig.close(writer));
  EXPECT_EQ(rig.stored("x"), "oNE");
}

TEST(WrittenContent, ReadOpenSeesLaterWrites) {
  WritableRig rig;
  rig.source->put("x", "before");
  const OpenedFile reader = rig.open_name(kRootNode, "x").value();
  EXPECT_EQ(rig.read_open(reader), "before");
  const OpenedFile writer = rig.open_name(kRootNode, "x", O_WRONLY).value();
  ASSERT_TRUE(rig.write(writer, 0, "B"));
  EXPECT_EQ(rig.read_open(reader), "Before");
  ASSERT_TRUE(rig.close(writer));
  EXPECT_EQ(rig.read_open(reader), "Before");
  EXPECT_EQ(rig.content(kRootNode, "x"), "Before");
  ASSERT_TRUE(rig.close(reader));
  EXPECT_EQ(rig.content(kRootNode, "x"), "Before");
}

TEST(WrittenContent, CreateOfPresentFileOpensIt) {
  WritableRig rig;
  rig.source->put("x", "old");
  EXPECT_EQ(outcome(rig.create(kRootNode, "x", O_RDWR | O_CREAT | O_EXCL)), "exists");
  OpenedFile file = rig.create(kRootNode, "x", O_RDWR | O_CREAT).value();
  EXPECT_EQ(rig.read_open(file), "old");
  ASSERT_TRUE(rig.close(file));
  file = rig.create(kRootNode, "x", O_RDWR | O_CREAT | O_TRUNC).value();
  EXPECT_EQ(rig.read_open(file), "");
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.stored("x"), "");
  EXPECT_EQ(outcome(rig.create(999, "y")), "changed");
}

TEST(WrittenContent, CreateOverDirectoryFails) {
  WritableRig rig;
  rig.source->put("d/x", "1");
  EXPECT_EQ(outcome(rig.create(kRootNode, "d")), "is_directory");
  EXPECT_EQ(outcome(rig.open(rig.node(kRootNode, "d"), O_WRONLY)), "is_directory");
  EXPECT_EQ(outcome(rig.set(rig.node(kRootNode, "d"), {.size = 0})), "is_directory");
}

TEST(WrittenContent, SizeAndTimesAreThoseOfWrites) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  NodeAttributes now = rig.attributes(file.node).value();
  EXPECT_EQ(now.size, 0u);
  EXPECT_EQ(now.mode, static_cast<mode_t>(S_IFREG | 0640));
  EXPECT_EQ(now.uid, 7u);
  EXPECT_EQ(now.gid, 8u);
  rig.set_wall_clock(kNoon);
  ASSERT_TRUE(rig.write(file, 10, "abc"));
  now = rig.attributes(file.node).value();
  EXPECT_EQ(now.size, 13u);
  EXPECT_EQ(now.mtime, kNoon);
  EXPECT_EQ(now.ctime, kNoon);
  rig.set_wall_clock(kNoon + 5s);
  ASSERT_TRUE(rig.flush(file));
  EXPECT_EQ(rig.attributes(file.node)->mtime, kNoon) << "a flush is not a change";
  now = rig.lookup(kRootNode, "x").value();
  EXPECT_EQ(now.size, 13u);
  EXPECT_EQ(now.mtime, kNoon);
  ASSERT_TRUE(rig.close(file));
  now = rig.attributes(now.node).value();
  EXPECT_EQ(now.size, 13u);
  EXPECT_EQ(now.mtime, kNoon);
}

TEST(WrittenContent, AttributesAreSet) {
  WritableRig rig;
  rig.source->put("x", "old");
  const NodeId x = rig.node(kRootNode, "x");
  const NodeAttributes now = rig.set(x, {.mode = 0600, .uid = 3, .gid = 4, .mtime = kNoon}).value();
  EXPECT_EQ(now.mode, static_cast<mode_t>(S_IFREG | 0600));
  EXPECT_EQ(now.uid, 3u);
  EXPECT_EQ(now.gid, 4u);
  EXPECT_EQ(now.mtime, kNoon);
  EXPECT_EQ(now.size, 3u);
  EXPECT_EQ(rig.lookup(kRootNode, "x")->mode, static_cast<mode_t>(S_IFREG | 0600));
}

TEST(WrittenContent, NodeStaysOverWriteFlushAndClose) {
  WritableRig rig;
  rig.source->put("x", "old");
  const NodeId node = rig.node(kRootNode, "x");
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  EXPECT_EQ(file.node, node);
  for (const char* text : {"one", "three", "two"}) {
    ASSERT_TRUE(rig.write(file, 0, text));
    EXPECT_EQ(rig.peek(kRootNode, "x"), node);
    ASSERT_TRUE(rig.flush(file));
    EXPECT_EQ(rig.peek(kRootNode, "x"), node);
  }
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.peek(kRootNode, "x"), node);
  rig.advance(61s);
  EXPECT_EQ(rig.peek(kRootNode, "x"), node) << "checked with the store";
  EXPECT_EQ(rig.content(kRootNode, "x"), "twoee");
}

TEST(WrittenContent, NodeOfNewFileStaysAfterClose) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  const NodeId node = rig.node(kRootNode, "x");
  ASSERT_TRUE(rig.write(file, 0, "hello"));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.peek(kRootNode, "x"), node);
  EXPECT_EQ(rig.attributes(node)->size, 5u);
  EXPECT_EQ(rig.content(kRootNode, "x"), "hello");
}

TEST(WrittenContent, WrittenFileIsWarm) {
  WritableRig rig;
  const std::string text = pattern(3 * kMiB + 17, 1);
  const OpenedFile file = rig.create(kRootNode, "x").value();
  ASSERT_TRUE(rig.write(file, 0, text));
  ASSERT_TRUE(rig.close(file));
  const uint64_t reads = rig.bucket().reads();
  const OpenedFile reader = rig.open_name(kRootNode, "x").value();
  EXPECT_TRUE(rig.read_open(reader, 4 * kMiB) == text);
  EXPECT_EQ(rig.bucket().reads(), reads);
  const FileRefPtr version = rig.files->version_of(reader.node);
  ASSERT_TRUE(version);
  EXPECT_EQ(version->size, text.size());
  EXPECT_TRUE(rig.store->missing(*version, {0, text.size()}).empty());
  ASSERT_TRUE(rig.close(reader));
}

TEST(WrittenContent, LargeFileIsSentInParts) {
  WritableRig rig;
  const uint64_t size = 2 * PartWriter::kPartBytes + 12'345;
  const std::string text = pattern(size, 2);
  const OpenedFile file = rig.create(kRootNode, "big").value();
  for (uint64_t at = 0; at < size; at += kMiB) {
    ASSERT_TRUE(rig.write(file, at, text.substr(at, kMiB)));
  }
  const uint64_t before = rig.bucket().changes();
  ASSERT_TRUE(rig.flush(file));
  EXPECT_GE(rig.bucket().changes() - before, 4u) << "three parts and their end";
  EXPECT_TRUE(rig.stored("big") == text);
  rig.source->put("big", "theirs");
  ASSERT_TRUE(rig.write(file, 0, "X"));
  EXPECT_EQ(outcome(rig.flush(file)), "conflict") << "the condition holds for parts, too";
  ASSERT_TRUE(rig.close(file));
}

TEST(WrittenContent, LargeFileIsWarmSoonAfterItsClose) {
  WritableRig rig;
  const std::string text = pattern(PartWriter::kPartBytes + 12'345, 2);
  const OpenedFile file = rig.create(kRootNode, "big").value();
  ASSERT_TRUE(rig.write(file, 0, text));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.peek(kRootNode, "never"), 0u);
  const OpenedFile reader = rig.open_name(kRootNode, "big").value();
  EXPECT_TRUE(rig.read_open(reader, 2 * text.size()) == text);
  const FileRefPtr version = rig.files->version_of(reader.node);
  ASSERT_TRUE(rig.close(reader));
  EXPECT_TRUE(rig.store->wait_for(*version));
  EXPECT_TRUE(rig.content(kRootNode, "big").starts_with(text.substr(0, kMiB)));
}

TEST(WrittenContent, RemovedWhileItBecomesWarm) {
  WritableRig rig;
  const std::string text = pattern(4 * PartWriter::kPartBytes, 2);
  for (int round = 0; round < 3; ++round) {
    const OpenedFile file = rig.create(kRootNode, "big").value();
    ASSERT_TRUE(rig.write(file, 0, text));
    ASSERT_TRUE(rig.close(file));
    const std::string done = round == 0   ? rig.remove_file(kRootNode, "big")
                             : round == 1 ? rig.rename(kRootNode, "big", kRootNode, "new")
                                          : "ok";
    EXPECT_EQ(done, "ok");
  }
  EXPECT_EQ(rig.list(kRootNode), fmt::format("big:{0} new:{0}", text.size()));
}

// ---- present files

TEST(WrittenContent, OpenCopiesNothingBeforeAWrite) {
  WritableRig rig({.cached = false});
  rig.source->put("x", "0123456789");
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  EXPECT_EQ(rig.bucket().reads(), 0u);
  const uint64_t changes = rig.bucket().changes();
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.bucket().reads(), 0u);
  EXPECT_EQ(rig.bucket().changes(), changes) << "nothing was written";
  const OpenedFile again = rig.open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig.write(again, 4, "--"));
  EXPECT_EQ(rig.read_open(again), "0123--6789");
  EXPECT_EQ(rig.stored("x"), "0123456789");
  ASSERT_TRUE(rig.close(again));
  EXPECT_EQ(rig.stored("x"), "0123--6789");
}

TEST(WrittenContent, TruncatingOpenReadsNothing) {
  WritableRig rig;
  rig.source->put("x", "0123456789");
  rig.set_wall_clock(kNoon);
  const OpenedFile file = rig.open_name(kRootNode, "x", O_WRONLY | O_TRUNC).value();
  EXPECT_EQ(rig.bucket().reads(), 0u);
  EXPECT_EQ(rig.attributes(file.node)->size, 0u);
  EXPECT_EQ(rig.attributes(file.node)->mtime, kNoon);
  ASSERT_TRUE(rig.write(file, 0, "new"));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.bucket().reads(), 0u);
  EXPECT_EQ(rig.stored("x"), "new");
}

TEST(WrittenContent, TruncatingOpenAloneEmptiesTheFile) {
  WritableRig rig;
  rig.source->put("x", "0123456789");
  ASSERT_TRUE(rig.close(rig.open_name(kRootNode, "x", O_WRONLY | O_TRUNC).value()));
  EXPECT_EQ(rig.stored("x"), "");
  EXPECT_EQ(rig.content(kRootNode, "x"), "");
}

TEST(WrittenContent, TruncatingOpenEmptiesOtherOpens) {
  WritableRig rig;
  rig.source->put("x", "0123456789");
  const OpenedFile first = rig.open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig.write(first, 0, "abc"));
  const OpenedFile second = rig.open_name(kRootNode, "x", O_RDWR | O_TRUNC).value();
  EXPECT_EQ(rig.read_open(first), "");
  ASSERT_TRUE(rig.write(second, 0, "Z"));
  EXPECT_EQ(rig.read_open(first), "Z");
  ASSERT_TRUE(rig.close(first));
  ASSERT_TRUE(rig.close(second));
  EXPECT_EQ(rig.stored("x"), "Z");
}

TEST(WrittenContent, AppendedBytesFollowThePresentOnes) {
  WritableRig rig;
  rig.source->put("log", "one\n");
  for (const char* line : {"two\n", "three\n"}) {
    const OpenedFile file = rig.open_name(kRootNode, "log", O_WRONLY | O_APPEND).value();
    ASSERT_TRUE(rig.write(file, rig.attributes(file.node)->size, line));
    ASSERT_TRUE(rig.close(file));
  }
  EXPECT_EQ(rig.stored("log"), "one\ntwo\nthree\n");
}

TEST(WrittenContent, OpenFileIsTruncatedDownAndUp) {
  WritableRig rig;
  rig.source->put("x", "0123456789");
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  EXPECT_EQ(rig.set(file.node, {.size = 4})->size, 4u);
  EXPECT_EQ(rig.read_open(file), "0123");
  EXPECT_EQ(rig.set(file.node, {.size = 6})->size, 6u);
  EXPECT_EQ(rig.read_open(file), std::string("0123\0\0", 6));
  EXPECT_EQ(rig.stored("x"), "0123456789") << "not flushed";
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.stored("x"), std::string("0123\0\0", 6));
}

TEST(WrittenContent, ClosedFileIsTruncatedAndSaved) {
  WritableRig rig;
  rig.source->put("x", "0123456789");
  const NodeId x = rig.node(kRootNode, "x");
  EXPECT_EQ(rig.set(x, {.size = 3})->size, 3u);
  EXPECT_EQ(rig.stored("x"), "012");
  EXPECT_EQ(rig.set(x, {.size = 0})->size, 0u);
  EXPECT_EQ(rig.stored("x"), "");
  EXPECT_EQ(rig.peek(kRootNode, "x"), x);
}

TEST(WrittenContent, SparseHolesReadAsZeros) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  ASSERT_TRUE(rig.write(file, 100'000, "end"));
  const std::string expected = std::string(100'000, '\0') + "end";
  EXPECT_TRUE(rig.read_open(file) == expected);
  ASSERT_TRUE(rig.close(file));
  EXPECT_TRUE(rig.stored("x") == expected);
}

TEST(WrittenContent, AllocateExtendsAndPunches) {
  WritableRig rig;
  rig.source->put("x", "0123456789");
  const OpenedFile file = rig.open_name(kRootNode, "x", O_RDWR).value();
  ASSERT_TRUE(rig.allocate(file, 0, 0, 12));
  EXPECT_EQ(rig.attributes(file.node)->size, 12u);
  ASSERT_TRUE(rig.allocate(file, FALLOC_FL_KEEP_SIZE, 0, 100));
  EXPECT_EQ(rig.attributes(file.node)->size, 12u);
  ASSERT_TRUE(rig.allocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3));
  const std::string expected(
      "01\0\0\0"
      "56789\0\0",
      12);
  EXPECT_EQ(rig.read_open(file), expected);
  EXPECT_EQ(outcome(rig.allocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096)), "unsupported");
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.stored("x"), expected);
}

TEST(WrittenContent, ReadsPastTheEndAreEmpty) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  ASSERT_TRUE(rig.write(file, 0, "abc"));
  EXPECT_EQ(rig.read(*file.file, 3, 10).value(), "");
  EXPECT_EQ(rig.read(*file.file, 100, 10).value(), "");
  EXPECT_EQ(rig.read(*file.file, 1, 1).value(), "b");
  ASSERT_TRUE(rig.close(file));
}

TEST(WrittenContent, FailedTruncationLeavesFileUsable) {
  WritableRig rig;
  const OpenedFile file = rig.create(kRootNode, "x").value();
  EXPECT_FALSE(rig.set(file.node, {.size = uint64_t{1} << 62}));
  ASSERT_TRUE(rig.write(file, 0, "still usable"));
  ASSERT_TRUE(rig.close(file));
  EXPECT_EQ(rig.stored("x"), "still usable");
}

TEST(WrittenContent, StoreWithoutWritesIsReadOnly) {
  WritableRig rig;
  rig.source->put("d/x", "1");
  rig.bucket().changed.writes = false;
  EXPECT_EQ(outcome(rig.create(kRootNode, "y")), "read_only");
  EXPECT_EQ(outcome(rig.make_directory(kRootNode, "e")), "read_only");
  const NodeId d = rig.node(kRootNode, "d");
  EXPECT_EQ(rig.remove_file(d, "x"), "read_only");
  EXPECT_EQ(rig.rename(d, "x", kRootNode, "x"), "read_only");
  EXPECT_EQ(outcome(rig.open(rig.node(d, "x"), O_WRONLY)), "read_only") << "at the open";
}

}  // namespace
}  // namespace leat
