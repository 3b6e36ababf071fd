// SPDX-License-Identifier: Apache-2.0
#include "daemon/mounts/mount_target.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/id128.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

TEST(MountTarget, AFolderAndItsOwnLocalSourceLieApart) {
  fs::path root = fs::temp_directory_path() / ("leat-apart-" + Id128::random().to_hex());
  fs::create_directories(root / "data/set");
  fs::create_directory_symlink("data", root / "link");
  auto apart = [&](const std::string& source, const std::string& path) {
    return check_apart(StoreUrl::parse(source).value(), path).has_value();
  };
  auto in = [&](const char* name) { return (root / name).string(); };
  EXPECT_TRUE(apart(in("data"), in("mnt")));
  EXPECT_TRUE(apart(in("data"), in("data2")));
  EXPECT_TRUE(apart("s3://bucket/" + in("data").substr(1), in("data/set")));
  EXPECT_FALSE(apart(in("data"), in("data")));
  EXPECT_FALSE(apart(in("data"), in("data/set")));
  EXPECT_FALSE(apart(in("data"), in("data/set/deeper/not/there")));
  EXPECT_FALSE(apart(in("data/set"), in("data"))) << "the source would be hidden";
  EXPECT_FALSE(apart(in("data"), in("link/set")));
  EXPECT_FALSE(apart(in("link"), in("data/set")));
  EXPECT_FALSE(apart("file:///", in("mnt")));
  EXPECT_FALSE(apart(in("data"), "/"));
  fs::remove_all(root);
}

}  // namespace
}  // namespace leat
