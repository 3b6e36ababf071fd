// SPDX-License-Identifier: Apache-2.0
#include "source/source_table.h"

#include <gtest/gtest.h>

#include "source/memory_source_test.h"

namespace leat {
namespace {

TEST(SourceTable, LastAddedSourceIsFound) {
  SourceTable table;
  SourcePtr first = std::make_shared<testing::MemorySource>("b");
  SourcePtr second = std::make_shared<testing::MemorySource>("b");
  SourcePtr other = std::make_shared<testing::MemorySource>("c");
  ASSERT_EQ(first->id(), second->id());
  EXPECT_EQ(table.find(first->id()), nullptr);

  table.add(first);
  table.add(second);
  table.add(other);
  EXPECT_EQ(table.find(first->id()), second);
  table.remove(second);
  EXPECT_EQ(table.find(first->id()), first);
  table.add(second);
  table.add(first);
  table.remove(first);
  EXPECT_EQ(table.find(first->id()), second);
  table.remove(second);
  EXPECT_EQ(table.find(first->id()), first) << "it was added twice";
  table.remove(first);
  EXPECT_EQ(table.find(first->id()), nullptr);
  EXPECT_EQ(table.find(other->id()), other);
}

}  // namespace
}  // namespace leat
