// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/staged/changed_ranges.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace leat {
namespace {

const Version kFirst = Version::etag("\"1\"");
const Version kSecond = Version::etag("\"2\"");

// "1: 0+4 5+3", in MiB.
std::string text(const UnchangedRanges& known) {
  std::string all = known.version.value.substr(known.version.known() ? 1 : 0, 1) + ":";
  for (const ByteRange& range : known.ranges) {
    all += fmt::format(" {}+{}", range.offset / kMiB, range.size / kMiB);
  }
  return all;
}

std::string save(ChangedRanges& changes, const std::optional<Version>& saved, uint64_t size) {
  std::string known = text(changes.begin_save());
  changes.end_save(saved, size);
  return known;
}

TEST(ChangedRanges, WrittenGranulesAreChanged) {
  ChangedRanges changes;
  changes.begin(kFirst, 8 * kMiB);
  changes.note_write(4 * kMiB + 7, 1);
  changes.note_write(6 * kMiB - 1, 2);
  EXPECT_EQ(save(changes, kSecond, 8 * kMiB), "1: 0+4 7+1");
  EXPECT_EQ(save(changes, kSecond, 8 * kMiB), "2: 0+8");
}

TEST(ChangedRanges, NewContentHasNoVersion) {
  ChangedRanges changes;
  changes.note_write(0, 3 * kMiB);
  EXPECT_EQ(save(changes, kFirst, 3 * kMiB), ":");
  changes.note_write(3 * kMiB, 1);
  EXPECT_EQ(save(changes, kSecond, 3 * kMiB + 1), "1: 0+3");
}

TEST(ChangedRanges, SmallestSizeEndsUnchanged) {
  ChangedRanges changes;
  changes.begin(kFirst, 8 * kMiB);
  changes.note_size(2 * kMiB);
  changes.note_size(9 * kMiB);
  EXPECT_EQ(save(changes, kSecond, 9 * kMiB), "1: 0+2");
  EXPECT_EQ(save(changes, kSecond, 9 * kMiB), "2: 0+9");
}

TEST(ChangedRanges, FailedSaveKeepsTheChanges) {
  ChangedRanges changes;
  changes.begin(kFirst, 4 * kMiB);
  changes.note_write(0, 1);
  changes.begin_save();
  changes.note_write(2 * kMiB, 1);
  changes.end_save(std::nullopt, 0);
  EXPECT_EQ(text(changes.begin_save()), "1: 1+1 3+1");
}

TEST(ChangedRanges, ChangeDuringASaveIsALaterOne) {
  ChangedRanges changes;
  changes.begin(kFirst, 4 * kMiB);
  changes.note_write(0, 1);
  changes.begin_save();
  changes.note_write(2 * kMiB, 1);
  changes.end_save(kSecond, 4 * kMiB);
  EXPECT_EQ(text(changes.begin_save()), "2: 0+2 3+1");
}

TEST(ChangedRanges, UnknownChangesEndTheRecord) {
  ChangedRanges changes;
  changes.begin(kFirst, 4 * kMiB);
  changes.give_up();
  EXPECT_EQ(save(changes, kSecond, 4 * kMiB), ":");
  EXPECT_EQ(save(changes, kSecond, 4 * kMiB), ":");
}

TEST(ChangedRanges, FarWritesTakeNoMemory) {
  ChangedRanges changes;
  changes.begin(kFirst, 2 * kMiB);
  changes.note_write(uint64_t{1} << 62, 1);
  changes.note_write(std::numeric_limits<uint64_t>::max() - 1, 5);
  EXPECT_EQ(save(changes, kSecond, 2 * kMiB), "1: 0+2");
}

}  // namespace
}  // namespace leat
