// SPDX-License-Identifier: Apache-2.0
#include "base/id128.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Id128, HexSurvivesARoundTrip) {
  Id128 id = Id128::random();
  EXPECT_EQ(Id128::from_hex(id.to_hex()), id);
  EXPECT_FALSE(Id128::from_hex("00"));
  EXPECT_FALSE(Id128::from_hex(std::string(32, 'g')));
}

TEST(Id128, DigestSeparatesItsParts) {
  std::string_view a[] = {"ab", "c"};
  std::string_view b[] = {"a", "bc"};
  EXPECT_NE(Id128::digest(a), Id128::digest(b));
}

// The value is on disk in every cache directory: it may never change.
TEST(Id128, DigestIsFixed) {
  std::string_view parts[] = {"leat"};
  EXPECT_EQ(Id128::digest(parts).to_hex(), "86f8d422b492e06f659f2435aa114639");
}

}  // namespace
}  // namespace leat
