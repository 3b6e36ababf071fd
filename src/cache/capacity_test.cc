// SPDX-License-Identifier: Apache-2.0
#include "cache/capacity.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

TEST(Capacity, WhatIsInExcessGoesDownToTheLowMark) {
  Capacity capacity(1'000'000);
  ASSERT_TRUE(capacity.reserve(980'000));
  EXPECT_EQ(capacity.excess(), 0u);
  ASSERT_TRUE(capacity.reserve(1));
  EXPECT_EQ(capacity.excess(), 20'001u);
}

TEST(Capacity, WhatFoundNoRoomFindsItAfterTheEviction) {
  Capacity capacity(1'000'000);
  ASSERT_TRUE(capacity.reserve(900'000));
  EXPECT_FALSE(capacity.reserve(150'000));
  EXPECT_EQ(capacity.excess(), 70'000u);
  capacity.release(70'000);
  EXPECT_TRUE(capacity.reserve(150'000));
  capacity.eviction_ran();
  capacity.release(980'000);
  ASSERT_TRUE(capacity.reserve(900'000));
  EXPECT_FALSE(capacity.reserve(1'000'001)) << "for more than there is no room can be made";
  EXPECT_EQ(capacity.excess(), 0u);
  EXPECT_FALSE(capacity.reserve(950'000));
  EXPECT_EQ(capacity.excess(), 870'000u);
  capacity.configure(500'000);
  EXPECT_EQ(capacity.excess(), 900'000u) << "what was wanted before is more than there is now";
}

TEST(Capacity, APoolsShareIsTakenFromTheWhole) {
  auto whole = std::make_shared<Capacity>(1'000'000);
  Capacity pool(300'000, whole), other(UINT64_MAX, whole);
  EXPECT_TRUE(pool.reserve(300'000));
  EXPECT_FALSE(pool.reserve(1));
  EXPECT_TRUE(other.reserve(700'000));
  EXPECT_FALSE(other.reserve(1));
  EXPECT_EQ(other.used(), 700'000u) << "what the whole rejects is not taken from the pool";
  pool.release(300'000);
  EXPECT_EQ(whole->used(), 700'000u);
}

TEST(Charge, WhatIsUnlinkedIsHeldUntilItIsFreed) {
  auto capacity = std::make_shared<Capacity>(1000);
  {
    Charge charge(capacity);
    ASSERT_TRUE(charge.grow(100));
    EXPECT_EQ(capacity->unlinked(), 0u);
    charge.mark_unlinked();
    charge.mark_unlinked();
    EXPECT_EQ(capacity->unlinked(), 100u);
    charge.shrink(40);
    EXPECT_EQ(capacity->unlinked(), 60u);
    EXPECT_EQ(capacity->used(), 60u);
  }
  EXPECT_EQ(capacity->unlinked(), 0u);
  EXPECT_EQ(capacity->used(), 0u);
}

TEST(Charge, WhatCannotBeUnlinkedStaysCounted) {
  auto capacity = std::make_shared<Capacity>(1000);
  {
    Charge charge(capacity);
    ASSERT_TRUE(charge.grow(100));
    charge.mark_unlinked();
    charge.never_release();
    EXPECT_EQ(capacity->unlinked(), 0u);
  }
  EXPECT_EQ(capacity->used(), 100u);
}

TEST(Capacity, RejectedWriteEvictsOnceUntilAccepted) {
  Capacity capacity(1'000'000);
  ASSERT_TRUE(capacity.reserve(600'000));
  capacity.note_write_rejected();
  EXPECT_EQ(capacity.limit(), 570'000u);
  EXPECT_EQ(capacity.excess(), 52'800u);
  EXPECT_FALSE(capacity.reserve(1));
  capacity.eviction_ran();
  EXPECT_EQ(capacity.limit(), 1'000'000u);
  capacity.note_write_rejected();
  EXPECT_EQ(capacity.excess(), 0u) << "a disk that accepts nothing does not cost everything";
  capacity.note_write_accepted();
  capacity.note_write_rejected();
  EXPECT_EQ(capacity.excess(), 52'800u);
}

}  // namespace
}  // namespace leat
