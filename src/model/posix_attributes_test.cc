// SPDX-License-Identifier: Apache-2.0
#include "model/posix_attributes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace leat {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(PosixAttributes, ComeBackFromMetadata) {
  const PosixAttributes all{.mode = S_IFREG | 0755,
                            .uid = 1000,
                            .gid = 0,
                            .atime = WallTime(seconds(5)),
                            .mtime = WallTime(seconds(1700000000) + nanoseconds(123)),
                            .ctime = WallTime(seconds(-2) + nanoseconds(999'999'999))};
  EXPECT_EQ(from_metadata(to_metadata(all)), all);
  EXPECT_TRUE(from_metadata(to_metadata({})).empty());
}

TEST(PosixAttributes, AreWrittenAsS3fsDoes) {
  const ObjectMetadata metadata =
      to_metadata({.mode = S_IFREG | 0644, .mtime = WallTime(seconds(12) + nanoseconds(5))});
  EXPECT_EQ(metadata, (ObjectMetadata{{"mode", "33188"}, {"mtime", "12.000000005"}}));
}

TEST(PosixAttributes, AreReadAsRcloneWritesThem) {
  EXPECT_EQ(from_metadata({{"mode", "100644"}}).mode, mode_t{0100644});
  EXPECT_EQ(from_metadata({{"mode", "0755"}}).mode, mode_t{0755});
  EXPECT_EQ(from_metadata({{"mode", "33261"}}).mode, mode_t{0100755});
  EXPECT_EQ(from_metadata({{"mtime", "1700000000.5"}}).mtime,
            WallTime(seconds(1700000000) + nanoseconds(500'000'000)));
  EXPECT_EQ(from_metadata({{"mtime", "1700000000"}}).mtime, WallTime(seconds(1700000000)));
}

TEST(PosixAttributes, IgnoreWhatIsNone) {
  for (const char* text : {"", "x", "-", "1x", "99999999999999999999", "1.x", ".", "1e9"}) {
    const ObjectMetadata metadata = {{"mode", text}, {"uid", text}, {"mtime", text}};
    const PosixAttributes read = from_metadata(metadata);
    EXPECT_FALSE(read.uid) << text;
    EXPECT_FALSE(read.mtime) << text;
    EXPECT_FALSE(read.mode) << text;
  }
}

}  // namespace
}  // namespace leat
