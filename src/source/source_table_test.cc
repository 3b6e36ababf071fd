// SPDX-License-Identifier: Apache-2.0
#include "source/source_table.h"

#include <gtest/gtest.h>

#include "source/memory_source_test.h"

namespace leat {
namespace {

TEST(SourceTable, AnEntryLivesUntilAsManyRemovesAsAddsHaveCome) {
  SourceTable table;
  auto first = std::make_shared<testing::MemorySource>("b");
  auto second = std::make_shared<testing::MemorySource>("b");
  auto other = std::make_shared<testing::MemorySource>("c");
  ASSERT_EQ(first->id(), second->id());
  EXPECT_EQ(table.find(first->id()), nullptr);

  table.add(first);
  table.add(second);
  table.add(other);
  EXPECT_EQ(table.find(first->id()), second) << "the newest answers";
  table.remove(first->id());
  EXPECT_EQ(table.find(first->id()), second);
  table.remove(first->id());
  EXPECT_EQ(table.find(first->id()), nullptr);
  EXPECT_EQ(table.find(other->id()), other);
}

}  // namespace
}  // namespace leat
