// SPDX-License-Identifier: Apache-2.0
#include "base/pluralize.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Pluralize, OneIsNotSeveral) {
  EXPECT_EQ(pluralize(0, "file"), "0 files");
  EXPECT_EQ(pluralize(1, "file"), "1 file");
  EXPECT_EQ(pluralize(12, "file"), "12 files");
  EXPECT_EQ(pluralize(1, "directory", "directories"), "1 directory");
  EXPECT_EQ(pluralize(2, "directory", "directories"), "2 directories");
}

}  // namespace
}  // namespace leat
