// SPDX-License-Identifier: Apache-2.0
// Mounts of local directories: read in place, with the same semantics as all others.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "source/file/file_source.h"
#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::pattern;
using testing::TreeRig;

class LocalFiles : public ::testing::Test {
 protected:
  LocalFiles() : folder_(fs::temp_directory_path() / ("leat-vfs-" + Id128::random().to_hex())) {
    fs::create_directories(folder_);
    write(content_);
  }
  ~LocalFiles() override { fs::remove_all(folder_); }

  void write(const std::string& content) { std::ofstream(folder_ / "file") << content; }
  void mount(PathPolicy policy) {
    MountEntry entry{.path = "/data/local",
                     .source = {.scheme = "file",
                                .bucket = "",
                                .prefix = folder_.string().substr(1) + "/",
                                .options = {}},
                     .policy = {policy}};
    ASSERT_TRUE(rig_.catalog->mount(std::move(entry), std::make_shared<FileSource>()));
  }
  NodeId node() { return rig_.node(rig_.node(kRootNode, "local"), "file"); }
  std::shared_ptr<OpenFile> open() { return rig_.open(node()).value(); }
  uint64_t cached_bytes(OpenFile& file) { return rig_.store->cached_bytes(*file.ref()); }
  std::string attribute(std::string_view name) {
    return rig_.files->attribute_value(node(), name).value_or("none");
  }

  const std::string content_ = pattern(300'000, 1);
  const fs::path folder_;
  TreeRig rig_;
};

TEST_F(LocalFiles, AreReadInPlaceAndNotCached) {
  mount({});
  auto file = open();
  EXPECT_EQ(*rig_.read(*file, 0, 300'000), content_);
  EXPECT_EQ(*rig_.read(*file, 299'990, 100), content_.substr(299'990));
  EXPECT_EQ(cached_bytes(*file), 0u);
  EXPECT_EQ(attribute("user.leat.cache"), "none");
  EXPECT_EQ(attribute("user.leat.cached_bytes"), "0");
}

TEST_F(LocalFiles, AreCachedWhereTheMountSaysSo) {
  mount({.freshness = {}, .cache = CacheMode::kAlways});
  auto file = open();
  EXPECT_EQ(attribute("user.leat.cache"), "disk");
  ASSERT_TRUE(rig_.load(file->ref()));
  fs::remove(folder_ / "file");
  EXPECT_EQ(*rig_.read(*file, 0, 300'000), content_) << "from the cache";
}

TEST_F(LocalFiles, AnOpenOneIsOneVersionToItsEnd) {
  mount({});
  auto file = open();
  EXPECT_EQ(*rig_.read(*file, 0, 10), content_.substr(0, 10));
  const std::string other = pattern(300'000, 2);
  write(other);  // in place: the same inode
  EXPECT_EQ(rig_.read(*file, 200'000, 10).error().code(), StatusCode::kVersionChanged);
  EXPECT_NE(attribute("user.leat.last_error"), "");
  auto again = open();
  EXPECT_NE(again->node(), file->node());
  EXPECT_EQ(*rig_.read(*again, 0, 300'000), other);
  EXPECT_EQ(rig_.read(*file, 0, 10).error().code(), StatusCode::kVersionChanged);
}

TEST_F(LocalFiles, ChangeIsSeenAtOpenAtAnyFreshness) {
  mount({.freshness = {.mode = Freshness::Mode::kImmutable}});
  const NodeId old = node();
  write(pattern(1000, 2));
  EXPECT_EQ(rig_.open(old).error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(*rig_.read(*open(), 0, 2000), pattern(1000, 2));
}

TEST_F(LocalFiles, AreReadByKernelOnlyIfImmutable) {
  mount({});
  EXPECT_EQ(open()->backing(), nullptr);
  ASSERT_TRUE(rig_.catalog->unmount("/data/local"));
  mount({.freshness = {.mode = Freshness::Mode::kImmutable}});
  auto backing = open()->backing();
  ASSERT_NE(backing, nullptr);
  EXPECT_EQ(backing->size(), content_.size());
  std::string read(10, '?');
  EXPECT_EQ(pread(backing->fd(), read.data(), read.size(), 5), 10);
  EXPECT_EQ(read, content_.substr(5, 10));
  EXPECT_EQ(fcntl(backing->fd(), F_GETFL) & O_ACCMODE, O_RDONLY);
}

}  // namespace
}  // namespace leat
