// SPDX-License-Identifier: Apache-2.0
#include "vfs/node_record.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "vfs/node_table.h"
#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using testing::TreeRig;

std::unique_ptr<MemfdRecordTable> copy_of(const MemfdRecordTable& records) {
  return *MemfdRecordTable::adopt(File(::fcntl(records.fd(), F_DUPFD_CLOEXEC, 3)));
}

CatalogEntry entry_of(const std::string& name, int version, std::string key) {
  CatalogEntry entry;
  entry.info.name = name;
  entry.info.mtime = WallTime(std::chrono::seconds(12345));
  entry.fresh_until = Clock::time_point(std::chrono::seconds(77));
  FileRef ref = FileRef::make(StoreId(), std::move(key), Version::etag(std::to_string(version)),
                              4711, CacheUse::kMemory, PoolId{5});
  entry.ref = std::make_shared<const FileRef>(std::move(ref));
  return entry;
}

CatalogEntry directory_of(const std::string& name, std::string key) {
  CatalogEntry entry;
  entry.info.name = name;
  entry.info.kind = FileKind::kDirectory;
  entry.directory_key = std::move(key);
  return entry;
}

TEST(NodeRecord, SuccessorRestoresNodesAndTheirCounts) {
  auto records = *MemfdRecordTable::create("test");
  NodeTable table(records.get());
  const NodePtr directory = table.find_or_add(table.root(), "d", directory_of("d", "prefix/d/"));
  const NodePtr file =
      table.find_or_add(directory, "x.bin", entry_of("x.bin", 1, "prefix/d/x.bin"));
  table.find_or_add(directory, "x.bin", entry_of("x.bin", 1, "prefix/d/x.bin"));
  const NodePtr odd = table.find_or_add(directory, "odd", entry_of("odd", 1, "elsewhere"));
  const NodePtr gone = table.find_or_add(directory, "gone", entry_of("gone", 1, "gone"));
  const NodeId gone_number = gone->id;
  table.forget(gone->id, 1);
  file->record.set_open(3, 42);

  auto copy = copy_of(*records);
  NodeTable next(copy.get());
  const auto open = next.take_over([](const std::string&) { return nullptr; });
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].node->id, file->id);
  EXPECT_EQ(open[0].opens, 3u);
  EXPECT_EQ(open[0].backing, 42);
  // This test still holds `gone`, but the table does not.
  EXPECT_EQ(next.size(), 4u);
  const NodePtr again = next.find_child(next.find_child(kRootNode, "d")->id, "x.bin");
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->id, file->id);
  EXPECT_EQ(again->ref->id, file->ref->id);
  EXPECT_EQ(again->ref->key, "prefix/d/x.bin");
  EXPECT_EQ(again->ref->size, 4711u);
  EXPECT_EQ(again->ref->cache, CacheUse::kMemory);
  EXPECT_EQ(again->ref->pool, PoolId{5});
  EXPECT_EQ(next.facts(file->id)->mtime, WallTime(std::chrono::seconds(12345)));
  EXPECT_EQ(next.facts(file->id)->fresh_until, Clock::time_point(std::chrono::seconds(77)));
  EXPECT_EQ(next.facts(directory->id)->key, "prefix/d/");
  EXPECT_EQ(next.find(odd->id)->ref->key, "elsewhere");
  // It was looked up twice.
  next.forget(file->id, 1);
  EXPECT_NE(next.find(file->id), nullptr);
  next.forget(file->id, 1);
  EXPECT_EQ(next.find(file->id), nullptr);
  // A number is never used again, not even one of a removed node.
  const NodePtr fresh = next.find_or_add(next.root(), "fresh", entry_of("fresh", 1, "fresh"));
  EXPECT_GT(fresh->id, std::max(gone_number, odd->id));
  EXPECT_LT(fresh->id, NodeId{1} << 40) << "few are lost";
}

TEST(NodeRecord, SuccessorUsesTheLatestMetadata) {
  auto records = *MemfdRecordTable::create("test");
  NodeTable table(records.get());
  const NodePtr asked = table.find_or_add(table.root(), "asked", entry_of("asked", 1, "asked"));
  const NodePtr aged = table.find_or_add(table.root(), "aged", entry_of("aged", 1, "aged"));
  CatalogEntry later = entry_of("asked", 1, "asked");
  later.info.mtime = WallTime(std::chrono::seconds(23456));
  later.fresh_until = Clock::time_point(std::chrono::seconds(99));
  table.refresh(asked->id, later, kAsOfUnknown);
  table.expire(aged->id);

  auto copy = copy_of(*records);
  NodeTable next(copy.get());
  next.take_over([](const std::string&) { return nullptr; });
  EXPECT_EQ(next.facts(asked->id)->mtime, later.info.mtime);
  EXPECT_EQ(next.facts(asked->id)->fresh_until, later.fresh_until);
  EXPECT_EQ(next.facts(aged->id)->fresh_until, Clock::time_point::min());
}

TEST(NodeRecord, SuccessorUsesNoReservedNumber) {
  constexpr NodeId kNumbers = 64;  // that a node's number has for each one reserved
  auto records = *MemfdRecordTable::create("test");
  reserve_node_numbers(*records, 100);
  NodeTable table(records.get());
  table.take_over([](const std::string&) { return nullptr; });
  const NodePtr node = table.find_or_add(table.root(), "x", entry_of("x", 1, "x"));
  EXPECT_GE(node->id, 100 * kNumbers);
  EXPECT_LT(node->id, 110 * kNumbers);
}

TEST(NodeRecord, RestoredNameHasItsNewestVersion) {
  auto records = *MemfdRecordTable::create("test");
  NodeTable table(records.get());
  std::vector<NodePtr> versions;
  for (int i = 0; i < 20; ++i) {
    versions.push_back(table.find_or_add(table.root(), "x", entry_of("x", i, "x")));
  }
  auto copy = copy_of(*records);
  NodeTable next(copy.get());
  next.take_over([](const std::string&) { return nullptr; });
  EXPECT_EQ(next.size(), 21u);
  EXPECT_EQ(next.find_child(kRootNode, "x")->id, versions.back()->id);
}

TEST(NodeRecord, ForgottenNodeFreesItsRecord) {
  auto records = *MemfdRecordTable::create("test");
  {
    NodeTable table(records.get());
    NodePtr directory = table.find_or_add(table.root(), "d", directory_of("d", "d/"));
    NodePtr file = table.find_or_add(directory, "x", entry_of("x", 1, "d/x"));
    const NodeId directory_id = directory->id, file_id = file->id;
    directory.reset();
    file.reset();
    table.forget(directory_id, 1);
    int left = 0;
    records->visit([&left](auto) { ++left; });
    EXPECT_EQ(left, 2);  // the path of its children is still known
    table.forget(file_id, 1);
  }
  records->visit([](auto) { FAIL(); });
}

TEST(NodeRecord, AnythingElseIsNoNode) {
  std::vector<std::byte> bytes(200, std::byte{0});
  EXPECT_FALSE(NodeRecord::read(bytes));
  EXPECT_EQ(NodeRecord::id_in(bytes), 0u);
  EXPECT_EQ(NodeRecord::id_in(std::span(bytes).first(10)), 0u);
  bytes[0] = std::byte{kNodeRecordKind};
  EXPECT_FALSE(NodeRecord::read(bytes));  // longer than it says
  EXPECT_FALSE(NodeRecord::read(std::span(bytes).first(10)));
}

TEST(TakeOver, OpenFilesContinueWithoutStoreRequests) {
  auto records = *MemfdRecordTable::create("test");
  TreeRig rig({.records = records.get()});
  rig.source->put("x", "content of x");
  const NodeId node = rig.node(kRootNode, "x");
  auto file = rig.open(node);
  ASSERT_TRUE(file);
  (*file)->record_open(1, 0);
  const uint64_t lists = rig.source->lists();

  auto copy = copy_of(*records);
  auto files = FileSystem::create("/data", *rig.catalog, *rig.fetcher, rig.store.get(),
                                  {.records = copy.get()});
  auto open = files->take_over();
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].file->node(), node);
  auto bytes = rig.executor.block_on(open[0].file->read(Context::background(), 8, 100));
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->to_string(), "of x");
  const auto attributes = files->try_attributes(node);
  ASSERT_TRUE(attributes && *attributes);
  EXPECT_EQ((*attributes)->size, 12u);
  EXPECT_EQ(rig.source->lists(), lists);
}

}  // namespace
}  // namespace leat
