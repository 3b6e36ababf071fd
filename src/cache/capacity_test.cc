// SPDX-License-Identifier: Apache-2.0
#include "cache/capacity.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Capacity, WhatIsInExcessGoesDownToTheLowMark) {
  Capacity capacity(1'000'000);
  ASSERT_TRUE(capacity.reserve(950'000));
  EXPECT_EQ(capacity.excess(), 0u);
  ASSERT_TRUE(capacity.reserve(1));
  EXPECT_EQ(capacity.excess(), 50'001u);
  EXPECT_FALSE(capacity.reserve(50'000));
}

TEST(Capacity, ARefusedWriteMakesRoomOnceUntilOneIsTaken) {
  Capacity capacity(1'000'000);
  ASSERT_TRUE(capacity.reserve(600'000));
  capacity.note_refused();
  EXPECT_EQ(capacity.limit(), 570'000u);
  EXPECT_EQ(capacity.excess(), 87'000u);
  EXPECT_FALSE(capacity.reserve(1));
  capacity.eviction_ran();
  EXPECT_EQ(capacity.limit(), 1'000'000u);
  capacity.note_refused();
  EXPECT_EQ(capacity.excess(), 0u) << "a disk that takes nothing does not cost everything";
  capacity.note_taken();
  capacity.note_refused();
  EXPECT_EQ(capacity.excess(), 87'000u);
}

}  // namespace
}  // namespace leat
