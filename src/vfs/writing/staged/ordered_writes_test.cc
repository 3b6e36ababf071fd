// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/staged/ordered_writes.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

void write(OrderedWrites& writes, uint64_t offset, uint64_t size) {
  writes.note_write(offset, size, /*done=*/false);
  writes.note_write(offset, size, /*done=*/true);
}

TEST(OrderedWrites, PartIsReadyWithItsLastByte) {
  OrderedWrites writes(/*is_empty=*/true);
  write(writes, 0, 9);
  EXPECT_FALSE(writes.take(10));
  write(writes, 9, 3);
  EXPECT_EQ(writes.take(10), (ByteRange{0, 10}));
  EXPECT_FALSE(writes.take(10));
  EXPECT_EQ(writes.take_rest(10, 12), (ByteRange{10, 2}));
  EXPECT_FALSE(writes.take_rest(10, 12));
  EXPECT_TRUE(writes.is_intact());
}

TEST(OrderedWrites, GapIsFilledLater) {
  OrderedWrites writes(/*is_empty=*/true);
  write(writes, 10, 10);
  write(writes, 30, 5);
  EXPECT_EQ(writes.ready(), 0u);
  write(writes, 0, 10);
  EXPECT_EQ(writes.ready(), 20u);
  write(writes, 20, 10);
  EXPECT_EQ(writes.ready(), 35u);
}

TEST(OrderedWrites, ChangeOfTakenBytesIsFound) {
  for (int kind = 0; kind < 3; ++kind) {
    OrderedWrites writes(/*is_empty=*/true);
    write(writes, 0, 20);
    write(writes, 15, 1);
    ASSERT_TRUE(writes.take(10));
    EXPECT_EQ(writes.ready(), 20u);
    if (kind == 0) writes.note_write(9, 1, /*done=*/false);
    if (kind == 1) writes.note_size(9);
    // A write that began before the bytes were taken.
    if (kind == 2) writes.note_write(5, 1, /*done=*/true);
    EXPECT_FALSE(writes.is_intact()) << kind;
    EXPECT_EQ(writes.ready(), 0u) << kind;
  }
}

TEST(OrderedWrites, CutBytesHaveToBeWrittenAgain) {
  OrderedWrites writes(/*is_empty=*/true);
  write(writes, 0, 20);
  write(writes, 30, 20);
  writes.note_size(15);
  write(writes, 15, 5);
  EXPECT_EQ(writes.ready(), 20u);
  EXPECT_TRUE(writes.is_intact());
}

TEST(OrderedWrites, OldContentIsNotReady) {
  OrderedWrites writes(/*is_empty=*/false);
  write(writes, 0, 20);
  EXPECT_EQ(writes.ready(), 0u);
  writes.note_size(0);
  write(writes, 0, 20);
  EXPECT_EQ(writes.ready(), 20u);
  writes.close();
  EXPECT_EQ(writes.ready(), 0u);
  writes.note_size(0);
  write(writes, 0, 20);
  EXPECT_EQ(writes.ready(), 0u) << "an upload of it may have begun";
}

}  // namespace
}  // namespace leat
