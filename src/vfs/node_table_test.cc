// SPDX-License-Identifier: Apache-2.0
#include "vfs/node_table.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <thread>
#include <vector>

namespace leat {
namespace {

CatalogEntry file_entry(const std::string& name, int version) {
  CatalogEntry entry;
  entry.info.name = name;
  entry.ref = std::make_shared<const FileRef>(
      FileRef::make(StoreId(), name, Version::etag(std::to_string(version)), 1));
  return entry;
}

TEST(NodeTable, OldVersionsLiveUntilForgotten) {
  NodeTable table;
  const NodePtr first = table.find_or_add(table.root(), "x", file_entry("x", 1));
  const NodePtr second = table.find_or_add(table.root(), "x", file_entry("x", 2));
  EXPECT_NE(first->id, second->id);
  EXPECT_EQ(table.find_child(kRootNode, "x"), second);
  EXPECT_EQ(table.find(first->id), first);
  table.forget(first->id, 1);
  EXPECT_EQ(table.find(first->id), nullptr);
  EXPECT_EQ(table.find_child(kRootNode, "x"), second);
  table.forget(second->id, 1);
  EXPECT_EQ(table.find_child(kRootNode, "x"), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

// Random adoptions and forgets by several threads, each of which returns exactly what it took.
TEST(NodeTable, CountsAreExactUnderConcurrency) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  NodeTable table;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&table, seed, t] {
      std::mt19937 random(seed + t);
      std::vector<NodeId> held;
      for (int i = 0; i < 5000; ++i) {
        if (random() % 2 == 0 || held.empty()) {
          const std::string name = "n" + std::to_string(random() % 20);
          const NodePtr node = table.find_or_add(table.root(), name,
                                                 file_entry(name, static_cast<int>(random() % 3)));
          EXPECT_EQ(node->name, name);
          held.push_back(node->id);
        } else {
          EXPECT_NE(table.find(held.back()), nullptr);
          table.forget(held.back(), 1);
          held.pop_back();
        }
      }
      for (NodeId id : held) table.forget(id, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace leat
