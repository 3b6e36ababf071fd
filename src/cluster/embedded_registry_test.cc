// SPDX-License-Identifier: Apache-2.0
// Persistence of the embedded registry across processes, and its behaviour on a full disk.
#include "cluster/embedded_registry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class EmbeddedRegistryTest : public ::testing::Test {
 protected:
  EmbeddedRegistryTest() { fs::create_directories(folder_); }
  ~EmbeddedRegistryTest() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "registry.json").string(); }
  Result<std::unique_ptr<EmbeddedRegistry>> open() {
    return EmbeddedRegistry::open({.path = path()}, make_disk(executor_), executor_);
  }
  Result<RegistryRevision> commit(Registry& registry, RegistryChange change) {
    return executor_.block_on(registry.commit(Context::background(), std::move(change)));
  }
  RegistryView list(Registry& registry) {
    return executor_.block_on(registry.list(Context::background(), "")).value();
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("leat-registry-" + Id128::random().to_hex());
  Executor executor_;
};

TEST_F(EmbeddedRegistryTest, WhatHasNoLeaseOutlivesTheProcess) {
  RegistryRevision last = 0;
  {
    auto registry = open();
    ASSERT_TRUE(registry) << registry.error().to_string();
    auto lease =
        executor_.block_on((*registry)->grant(Context::background(), std::chrono::seconds(60)));
    ASSERT_TRUE(lease);
    ASSERT_TRUE(commit(**registry, {.puts = {{"mounts/a", "\xff\x01"}, {"mounts/b", "b"}}}));
    ASSERT_TRUE(
        commit(**registry, {.puts = {{"workers/w", "w", *lease}, {"mounts/b", "b", *lease}}}));
    ASSERT_TRUE(commit(**registry, {.puts = {{"mounts/c", "b"}}}));
    last = commit(**registry, {.puts = {{"mounts/c", "c"}}}).value();
    executor_.block_on((*registry)->stop());
  }
  auto registry = open();
  ASSERT_TRUE(registry) << registry.error().to_string();
  const RegistryView view = list(**registry);
  ASSERT_EQ(view.entries.size(), 2u);
  EXPECT_EQ(view.entries[0].key, "mounts/a");
  EXPECT_EQ(view.entries[0].value, "\xff\x01");
  EXPECT_EQ(view.entries[1].key, "mounts/c");
  EXPECT_EQ(view.entries[1].changed, last);
  EXPECT_EQ(view.entries[1].version, 2);
  EXPECT_GT(view.revision, last);
}

TEST_F(EmbeddedRegistryTest, RemovalOutlivesTheProcess) {
  {
    auto registry = open();
    ASSERT_TRUE(registry) << registry.error().to_string();
    ASSERT_TRUE(commit(**registry, {.puts = {{"mounts/a", "a"}, {"mounts/b", "b"}}}));
    ASSERT_TRUE(commit(**registry, {.removals = {"mounts/a"}}));
    executor_.block_on((*registry)->stop());
  }
  auto registry = open();
  ASSERT_TRUE(registry) << registry.error().to_string();
  const RegistryView view = list(**registry);
  ASSERT_EQ(view.entries.size(), 1u);
  EXPECT_EQ(view.entries[0].key, "mounts/b");
}

TEST_F(EmbeddedRegistryTest, OneProcessHasIt) {
  auto first = open();
  ASSERT_TRUE(first);
  auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::kBusy);
  first->reset();
  EXPECT_TRUE(open());
}

TEST_F(EmbeddedRegistryTest, AFileThatIsNoneIsLeftAloneAndNamed) {
  for (const char* text : {"", "{", "[]", R"({"format":1})",
                           R"({"format":1,"revision":3,"entries":[{"key":"%","value":""}]})",
                           R"({"format":1,"revision":3,"entries":[7]})", R"({"format":"x"})"}) {
    std::ofstream(path()) << text;
    auto registry = open();
    ASSERT_FALSE(registry) << text;
    EXPECT_EQ(registry.error().code(), StatusCode::kCorrupt);
    EXPECT_TRUE(registry.error().to_string().contains(path())) << registry.error().to_string();
    EXPECT_EQ(fs::file_size(path()), std::string_view(text).size());
  }
  std::ofstream(path()) << R"({"format":2})";
  EXPECT_EQ(open().error().code(), StatusCode::kUnsupported);
}

TEST_F(EmbeddedRegistryTest, AChangeThatCannotBeWrittenIsNoChange) {
  auto registry = open();
  ASSERT_TRUE(registry);
  const RegistryRevision before = commit(**registry, {.puts = {{"a", "1"}}}).value();
  fs::remove_all(folder_);
  auto lost = commit(**registry, {.puts = {{"a", "2"}}});
  ASSERT_FALSE(lost);
  EXPECT_EQ(list(**registry).entries.at(0).value, "1");
  EXPECT_EQ(list(**registry).revision, before);
  fs::create_directories(folder_);
  EXPECT_TRUE(commit(**registry, {.conditions = {{"a", before}}, .puts = {{"a", "2"}}}));
}

}  // namespace
}  // namespace leat
