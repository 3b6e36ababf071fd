// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_system_type.h"

#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>

#include <filesystem>

namespace leat {
namespace {

TEST(FileSystemType, DisksAreLocalNetworkTypesAreNot) {
  for (long type : {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, TMPFS_MAGIC}) {
    EXPECT_TRUE(is_local_type(type)) << type;
  }
  constexpr long kFuse = 0x65735546, kSmb2 = 0xfe534d42, kCeph = 0x00c36400, kLustre = 0x0bd00bd0;
  for (long type : {static_cast<long>(NFS_SUPER_MAGIC), kFuse, kSmb2, kCeph, kLustre, 1234l}) {
    EXPECT_FALSE(is_local_type(type)) << type;
  }
}

TEST(FileSystemType, ReusedDeviceNumberIsCheckedAgain) {
  struct stat info;
  const std::string folder = std::filesystem::temp_directory_path();
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_TRUE(is_on_local_disk(folder, info.st_dev));
  // /proc is not listed, so it counts as a file system that may hang; its device is cached for a
  // while.
  ASSERT_EQ(stat("/proc/self/status", &info), 0);
  EXPECT_FALSE(is_on_local_disk("/proc/self/status", info.st_dev));
  EXPECT_FALSE(is_on_local_disk(folder, info.st_dev));
  EXPECT_FALSE(is_on_local_disk("/nowhere/at/all", 0));
}

}  // namespace
}  // namespace leat
