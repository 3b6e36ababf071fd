// SPDX-License-Identifier: Apache-2.0
#include "doctor/cache_findings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "base/units.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

CacheFacts sound() {
  return {.directory = "/c",
          .capacity_bytes = 8 * kGiB,
          .free_bytes_min = 2 * kGiB,
          .exists = true,
          .file_system = "ext4",
          .usage = {.total_bytes = 100 * kGiB, .free_bytes = 40 * kGiB},
          .used_bytes = 1 * kGiB,
          .backing = Result<>()};
}

std::vector<std::string> lines(const CacheFacts& facts, bool sys_admin = true) {
  std::vector<std::string> lines;
  for (const Finding& finding : cache_findings(facts, sys_admin)) {
    EXPECT_EQ(finding.subject, "/c");
    EXPECT_EQ(finding.level == Level::kOk, finding.cost.empty()) << finding.name;
    EXPECT_EQ(finding.level == Level::kOk, finding.action.empty()) << finding.name;
    lines.push_back(std::string(to_string(finding.level)) + " " + finding.name + ": " +
                    finding.what);
  }
  return lines;
}

TEST(CacheFindings, ADirectoryOfALocalDiskIsInOrder) {
  EXPECT_THAT(lines(sound()),
              ElementsAre("ok cache.directory: ext4",
                          "ok cache.space: 40.0 GiB of 100.0 GiB free, may hold 8.0 GiB",
                          "ok cache.passthrough: tried: the kernel reads its files by itself"));
  CacheFacts held = sound();
  held.in_use = true;
  EXPECT_EQ(lines(held)[0], "ok cache.directory: ext4, in use by the daemon");
  CacheFacts coming = sound();
  coming.exists = false;
  EXPECT_EQ(lines(coming)[0], "ok cache.directory: ext4, will be made");
}

TEST(CacheFindings, OneThatCannotBeUsedSaysWhyAndNothingElse) {
  CacheFacts facts = sound();
  facts.trouble = "in use by process 7";
  EXPECT_THAT(lines(facts), ElementsAre("problem cache.directory: in use by process 7"));
  facts.hung = true;
  EXPECT_THAT(lines(facts),
              ElementsAre("problem cache.directory: its file system does not answer"));
}

TEST(CacheFindings, SpaceCountsCachedAndReservedBytes) {
  CacheFacts facts = sound();
  facts.usage.free_bytes = 5 * kGiB;
  EXPECT_EQ(lines(facts)[1],
            "note cache.space: 5.0 GiB of 100.0 GiB free, may hold 8.0 GiB, but 2.0 GiB have to "
            "stay free: room for 4.0 GiB");
  facts.used_bytes = 5 * kGiB;
  EXPECT_EQ(lines(facts)[1], "ok cache.space: 5.0 GiB of 100.0 GiB free, may hold 8.0 GiB");
  facts.used_bytes = 0;
  facts.free_bytes_min = facts.capacity_bytes = 0;  // a tenth of the file system for each
  EXPECT_EQ(lines(facts)[1],
            "problem cache.space: 5.0 GiB of 100.0 GiB free, may hold 10.0 GiB, but 10.0 GiB have "
            "to stay free: room for nothing");
  facts.used_bytes.reset();
  EXPECT_EQ(lines(facts)[1], "ok cache.space: 5.0 GiB of 100.0 GiB free, may hold 10.0 GiB");
}

TEST(CacheFindings, FileSystemsThatTakeSomethingAwaySayWhat) {
  auto second = [](const char* type) {
    CacheFacts facts = sound();
    facts.file_system = type;
    return lines(facts).at(2);
  };
  EXPECT_THAT(second("overlay"), HasSubstr("note cache.file_system: overlayfs"));
  EXPECT_THAT(second("tmpfs"), HasSubstr("what is cached is memory"));
  EXPECT_THAT(second("nfs4"), HasSubstr("not a disk of this host"));
  EXPECT_THAT(second("fuse.sshfs"), HasSubstr("not a disk of this host"));
  EXPECT_THAT(second("xfs"), HasSubstr("ok cache.passthrough"));
  EXPECT_THAT(second("fuseblk"), HasSubstr("ok cache.passthrough"));
}

TEST(CacheFindings, KernelRejectionIsQuotedIfPrivileged) {
  CacheFacts facts = sound();
  facts.backing = error(StatusCode::kUnsupported, "Too many levels");
  facts.direct_io = false;
  EXPECT_THAT(lines(facts),
              ElementsAre("ok cache.directory: ext4", testing::_, HasSubstr("note cache.direct_io"),
                          "note cache.passthrough: Too many levels"));
  EXPECT_EQ(lines(facts, false).size(), 3u);
}

TEST(CacheFindings, LongestAndLatestMountPointWins) {
  const std::vector<MountinfoLine> mounts = {
      {.device = "1:1", .point = "/", .type = "overlay", .source = "o"},
      {.device = "1:2", .point = "/data\\040x", .type = "xfs", .source = "x"},
      {.device = "1:3", .point = "/data\\040x", .type = "ext4", .source = "e"},
      {.device = "1:4", .point = "/data\\040x/deep", .type = "tmpfs", .source = "t"},
  };
  EXPECT_EQ(file_system_of("/data x/cache", mounts), "ext4");
  EXPECT_EQ(file_system_of("/data x/deep", mounts), "tmpfs");
  EXPECT_EQ(file_system_of("/data xy", mounts), "overlay");
  EXPECT_EQ(file_system_of("/a", {}), "");
}

class CacheInspections : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("leat_inspect_" + Id128::random().to_hex());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  CacheInspection inspect(const char* name) const {
    return inspect_cache({.directory = root_ / name}, mounts_of_this_namespace(), std::nullopt);
  }

  fs::path root_;
};

TEST_F(CacheInspections, WhatIsNotThereIsNotMade) {
  const CacheInspection made = inspect("a/b/c");
  EXPECT_EQ(made.facts.trouble, "");
  EXPECT_FALSE(made.facts.exists);
  EXPECT_FALSE(made.facts.file_system.empty());
  EXPECT_GT(made.facts.usage.total_bytes, 0u);
  EXPECT_EQ(made.facts.used_bytes, 0u);
  EXPECT_TRUE(made.sample);
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(CacheInspections, AnEmptyDirectoryCanBecomeOne) {
  fs::create_directories(root_ / "empty");
  const CacheInspection made = inspect("empty");
  EXPECT_EQ(made.facts.trouble, "");
  EXPECT_TRUE(made.facts.exists);
  EXPECT_TRUE(fs::is_empty(root_ / "empty"));
}

TEST_F(CacheInspections, OtherThingsAreNoCache) {
  fs::create_directories(root_ / "other");
  std::ofstream(root_ / "other/thesis.tex") << "x";
  EXPECT_THAT(inspect("other").facts.trouble, HasSubstr("is not a leat cache"));
  std::ofstream(root_ / "file") << "x";
  EXPECT_THAT(inspect("file").facts.trouble, HasSubstr("is not a directory"));
  EXPECT_THAT(inspect("file/below").facts.trouble, testing::Not(testing::IsEmpty()));
}

TEST_F(CacheInspections, AnotherProcessMayHaveIt) {
  fs::create_directories(root_ / "held");
  std::ofstream(root_ / "held/lock") << "4711";
  const File lock(::open((root_ / "held/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.fd(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(inspect("held").facts.trouble, "in use by process 4711");
  ASSERT_EQ(::flock(lock.fd(), LOCK_UN), 0);
  EXPECT_EQ(inspect("held").facts.trouble, "");
}

}  // namespace
}  // namespace leat
