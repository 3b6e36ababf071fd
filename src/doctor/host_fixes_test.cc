// SPDX-License-Identifier: Apache-2.0
// Changes of --fix, on test trees for /dev, /sys and /etc.
#include "doctor/host_fixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class HostFixes : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("leat_fixes_" + Id128::random().to_hex());
    fs::create_directories(root_);
    paths_.fuse_device = root_ / "dev/fuse";
    paths_.fuse_conf = root_ / "etc/fuse.conf";
    paths_.fuse_module = root_ / "sys/module/fuse";
    paths_.module_conf = root_ / "etc/modprobe.d/leat.conf";
    paths_.modprobe = root_ / "bin/modprobe";
    write("dev/fuse", "");
    write("etc/fuse.conf", "user_allow_other\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void write_modprobe(const std::string& text) const {
    write("bin/modprobe", "#!/bin/sh\n" + text + "\n");
    ASSERT_EQ(::chmod((root_ / "bin/modprobe").c_str(), 0755), 0);
  }

  fs::path root_;
  HostPaths paths_;
};

TEST_F(HostFixes, WhereAllIsSetNothingIsDone) {
  EXPECT_THAT(fix_host(paths_), IsEmpty());
  write("sys/module/fuse/parameters/enable_uring", "Y\n");
  EXPECT_THAT(fix_host(paths_), IsEmpty());
  EXPECT_FALSE(fs::exists(paths_.module_conf));
}

TEST_F(HostFixes, IoUringIsEnabledNowAndForTheNextBoot) {
  write("sys/module/fuse/parameters/enable_uring", "N\n");
  write("sys/module/fuse/initstate", "live\n");
  const auto fixes = fix_host(paths_);
  ASSERT_EQ(fixes.size(), 2u);
  EXPECT_TRUE(fixes[0].done && fixes[1].done);
  EXPECT_EQ(whole_text(paths_.fuse_module + "/parameters/enable_uring"), "Y\n");
  EXPECT_EQ(whole_text(paths_.module_conf), "options fuse enable_uring=Y\n");
  EXPECT_THAT(fix_host(paths_), IsEmpty()) << "once";
}

TEST_F(HostFixes, OptionsOfOthersInTheFileStay) {
  write("sys/module/fuse/parameters/enable_uring", "Y\n");
  write("sys/module/fuse/initstate", "live\n");
  write("etc/modprobe.d/leat.conf", "options fuse max_user_bgreq=100");
  ASSERT_EQ(fix_host(paths_).size(), 1u);
  EXPECT_EQ(whole_text(paths_.module_conf),
            "options fuse max_user_bgreq=100\noptions fuse enable_uring=Y\n");
}

TEST_F(HostFixes, AModuleThatIsBuiltInTakesNoFile) {
  write("sys/module/fuse/parameters/enable_uring", "N\n");
  const auto fixes = fix_host(paths_);
  ASSERT_EQ(fixes.size(), 1u);
  EXPECT_TRUE(fixes[0].done);
  EXPECT_THAT(fixes[0].action, HasSubstr("fuse.enable_uring=1"));
  EXPECT_FALSE(fs::exists(paths_.module_conf));
}

TEST_F(HostFixes, UsersMayShowTheirFoldersToOthers) {
  write("etc/fuse.conf", "#user_allow_other\nmount_max = 10");
  const auto fixes = fix_host(paths_);
  ASSERT_EQ(fixes.size(), 1u);
  EXPECT_TRUE(fixes[0].done);
  EXPECT_EQ(whole_text(paths_.fuse_conf), "#user_allow_other\nmount_max = 10\nuser_allow_other\n");
  fs::remove(paths_.fuse_conf);
  ASSERT_EQ(fix_host(paths_).size(), 1u);
  EXPECT_EQ(whole_text(paths_.fuse_conf), "user_allow_other\n");
}

TEST_F(HostFixes, AMissingDeviceIsLoaded) {
  fs::remove(paths_.fuse_device);
  write_modprobe("test \"$1\" = fuse && : > '" + paths_.fuse_device + "'");
  const auto fixes = fix_host(paths_);
  ASSERT_EQ(fixes.size(), 1u);
  EXPECT_EQ(fixes[0], (HostFix{.done = true, .what = "loaded the fuse module"}));
}

TEST_F(HostFixes, WhatCannotBeDoneSaysWhatToRun) {
  fs::remove(paths_.fuse_device);
  auto fixes = fix_host(paths_);
  ASSERT_EQ(fixes.size(), 1u);
  EXPECT_FALSE(fixes[0].done);
  EXPECT_THAT(fixes[0].what, HasSubstr("cannot run"));
  EXPECT_EQ(fixes[0].action, "sudo modprobe fuse");
  write_modprobe("exit 1");
  EXPECT_FALSE(fix_host(paths_)[0].done);
  write_modprobe("exit 0");
  EXPECT_THAT(fix_host(paths_)[0].what, HasSubstr("is missing though"));

  write("dev/fuse", "");
  // No user can write to a directory.
  fs::create_directories(root_ / "sys/module/fuse/parameters/enable_uring");
  fixes = fix_host(paths_);
  ASSERT_EQ(fixes.size(), 1u);
  EXPECT_FALSE(fixes[0].done);
  EXPECT_EQ(fixes[0].action,
            "echo Y | sudo tee " + paths_.fuse_module + "/parameters/enable_uring");
}

}  // namespace
}  // namespace leat
