// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Counted, OneIsNotSeveral) {
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(12, "file"), "12 files");
  EXPECT_EQ(counted(1, "directory", "directories"), "1 directory");
  EXPECT_EQ(counted(2, "directory", "directories"), "2 directories");
}

}  // namespace
}  // namespace leat
