// SPDX-License-Identifier: Apache-2.0
// A mount with no_open: the kernel sends one OPEN and then reads looked-up nodes directly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "frontends/fuse/mounted_test.h"
#include "frontends/fuse/no_open_file_cache.h"

namespace leat {
namespace {

using testing::eventually;
using ::testing::HasSubstr;
using testing::Mounted;
using testing::pattern;
using testing::TreeRig;

constexpr Freshness kImmutable{.mode = Freshness::Mode::kImmutable};
constexpr Freshness kHour{.mode = Freshness::Mode::kMaxAge, .max_age = std::chrono::hours(1)};
const FuseServerOptions kNoOpen{.no_open = true};

#define SKIP_UNLESS_OFFERED(at) \
  if (!(at).server->features().no_open) GTEST_SKIP() << "this kernel sends every OPEN"

TEST(NoOpen, FilesAreReadWithoutBeingOpened) {
  Mounted at({.freshness = kImmutable}, kNoOpen);
  SKIP_UNLESS_OFFERED(at);
  EXPECT_FALSE(at.server->features().passthrough);
  EXPECT_EQ(at.server->features().passthrough_off, kPassthroughExcludedByNoOpen);
  const std::string large = pattern(5 * kMiB + 12345, 1);
  at.rig.source->put("large", large);
  for (int i = 0; i < 2000; ++i) at.rig.source->put(fmt::format("d/{}", i), fmt::format("{}", i));
  for (int i = 0; i < 2000; ++i)
    EXPECT_EQ(at.content(fmt::format("d/{}", i)), fmt::format("{}", i));
  EXPECT_EQ(at.content("large"), large);
  const int fd = at.open("large");
  void* mapped = ::mmap(nullptr, large.size(), PROT_READ, MAP_PRIVATE, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ::close(fd);
  EXPECT_EQ(std::string_view(static_cast<char*>(mapped), large.size()), large);
  ::munmap(mapped, large.size());
  EXPECT_EQ(at.server->stats().passthrough_files, 0u);
}

TEST(NoOpen, ChangedNameIsANewFileOpenOneStays) {
  Mounted at({.freshness = kHour}, kNoOpen);
  SKIP_UNLESS_OFFERED(at);
  const std::string before = pattern(300'000, 1);
  at.rig.source->put("x", before);
  EXPECT_EQ(at.content("x"), before);
  const int fd = at.open("x");
  const NodeId node = at.rig.node(kRootNode, "x");
  ASSERT_TRUE(at.rig.load(at.rig.open(node).value()->ref()));
  at.rig.source->put("x", "after");
  ASSERT_TRUE(at.rig.executor.block_on(at.rig.catalog->refresh(Context::background(), "/data")));
  EXPECT_TRUE(eventually([&] {
    struct stat info{};
    return ::stat(at.path("x").c_str(), &info) == 0 && info.st_size == 5;
  }));
  EXPECT_EQ(at.content("x"), "after");
  EXPECT_EQ(Mounted::read(fd, 0, kMiB), before);
  ::close(fd);
}

TEST(NoOpen, NothingCanBeWritten) {
  Mounted at({.freshness = kImmutable}, kNoOpen);
  SKIP_UNLESS_OFFERED(at);
  at.rig.source->put("x", "content");
  for (int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_APPEND}) {
    EXPECT_LT(at.open("x", flags), 0) << flags;
    EXPECT_EQ(errno, EROFS);
  }
  EXPECT_LT(at.open("new", O_CREAT | O_WRONLY), 0);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(at.content("x"), "content");
}

TEST(NoOpen, OnlyAReadOnlyFolderCanHaveIt) {
  TreeRig rig;
  const Result<std::unique_ptr<FuseServer>> rejected = FuseServer::mount(
      {.mountpoint = "/tmp", .read_only = false, .no_open = true}, *rig.files, rig.executor);
  ASSERT_FALSE(rejected);
  EXPECT_EQ(rejected.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(rejected.error().to_string(), HasSubstr("read-only"));
}

// A file with many readers and no RELEASE.
TEST(NoOpen, MostRecentlyReadFilesAreCached) {
  TreeRig rig;
  NoOpenFileCache files(32);  // two a shard
  std::vector<NodeId> nodes;
  for (int i = 0; i < 200; ++i) rig.source->put(fmt::format("{}", i), "content");
  for (int i = 0; i < 200; ++i) {
    nodes.push_back(rig.node(kRootNode, fmt::format("{}", i)));
    const std::shared_ptr<OpenFile> file = rig.files->open_cached_version(nodes.back());
    ASSERT_TRUE(file);
    EXPECT_EQ(files.add(file), file);
    EXPECT_EQ(files.add(rig.files->open_cached_version(nodes.back())), file)
        << "the one that is there";
    EXPECT_EQ(files.find(nodes.back()), file);
  }
  size_t kept = 0;
  for (NodeId node : nodes) kept += files.find(node) != nullptr ? 1 : 0;
  EXPECT_LE(kept, 32u);
  EXPECT_GE(kept, 16u);
  EXPECT_EQ(files.find(12345678), nullptr);
}

}  // namespace
}  // namespace leat
