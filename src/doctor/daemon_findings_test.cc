// SPDX-License-Identifier: Apache-2.0
#include "doctor/daemon_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "doctor/stat_with_timeout.h"

namespace leat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> lines(const Findings& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.level == Level::kOk, finding.cost.empty()) << finding.name;
    EXPECT_EQ(finding.level == Level::kOk, finding.action.empty()) << finding.name;
    lines.push_back(std::string(to_string(finding.level)) + " " + finding.name + " " +
                    finding.subject + ": " + finding.what);
  }
  return lines;
}

TEST(DaemonFindings, NoneIsNoProblem) {
  EXPECT_THAT(lines(daemon_findings({}, "1.0.0")),
              ElementsAre("ok daemon : none runs; leat mount starts it"));
}

TEST(DaemonFindings, OneOfAnotherVersionIsNamed) {
  DaemonStatus status{.version = "1.0.0", .pid = 7, .uptime_seconds = 61};
  const Findings own = {{Level::kNote, "daemon.room", "", "no room", "time", "more of it"}};
  EXPECT_THAT(lines(daemon_findings({.status = status, .findings = own}, "1.0.0")),
              ElementsAre("ok daemon : leat 1.0.0, pid 7, up 1m1s", "note daemon.room : no room"));
  EXPECT_THAT(daemon_findings({.status = status}, "1.1.0")[0].action, HasSubstr("leat umount"));
  status.supervisor_pid = 6;
  EXPECT_THAT(daemon_findings({.status = status}, "1.1.0")[0].action, HasSubstr("leat upgrade"));
  EXPECT_THAT(lines(daemon_findings({.status = status}, "1.1.0")),
              ElementsAre("note daemon : leat 1.0.0, pid 7, up 1m1s; this program is 1.1.0"));
}

TEST(DaemonFindings, HungDaemonsAreReported) {
  EXPECT_THAT(lines(daemon_findings({.cleared = {"killed"}}, "1")),
              ElementsAre("note daemon.dead : killed", HasSubstr("ok daemon : none runs")));
  EXPECT_THAT(lines(daemon_findings({.not_cleared = "no right"}, "1")),
              ElementsAre("problem daemon.dead : no right"));
  EXPECT_THAT(lines(daemon_findings({.unresponsive = "silence"}, "1")),
              ElementsAre("problem daemon : silence"));
}

TEST(MountFindings, OnlyUnresponsiveOnesAreReported) {
  EXPECT_THAT(lines(mount_findings({{.path = "/a"},
                                    {.path = "/b", .state = MountState::kDead},
                                    {.path = "/c", .state = MountState::kHung}})),
              ElementsAre("problem folder.dead /b: its daemon is gone",
                          "problem folder.silent /c: it does not answer"));
  EXPECT_EQ(mount_findings({{.path = "/b", .state = MountState::kDead}})[0].action,
            "leat umount /b");
}

TEST(StatWithTimeout, ReturnsTheErrnoOfStat) {
  EXPECT_EQ(stat_with_timeout("/", std::chrono::seconds(5)), 0);
  EXPECT_EQ(stat_with_timeout("/nowhere/at/all", std::chrono::seconds(5)), ENOENT);
}

TEST(MountFindings, OtherFileSystemsAreNotChecked) {
  const std::vector<MountinfoLine> mounts = {
      {.device = "0:1", .point = "/", .type = "ext4", .source = "x"},
      {.device = "0:2", .point = "/tmp", .type = "fuse.leat", .source = "leat:file:///x"}};
  const auto folders = inspect_mounts(mounts, std::chrono::seconds(5));
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(folders[0].path, "/tmp");
  EXPECT_EQ(folders[0].state, MountState::kResponds);
}

}  // namespace
}  // namespace leat
