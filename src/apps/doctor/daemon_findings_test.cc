// SPDX-License-Identifier: Apache-2.0
#include "apps/doctor/daemon_findings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "apps/doctor/bounded_look.h"
#include "apps/paths.h"
#include "base/id128.h"
#include "runtime/disk.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
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
  HostStatus status{.version = "1.0.0", .pid = 7, .uptime_seconds = 61};
  const Findings own = {{Level::kNote, "daemon.room", "", "no room", "time", "more of it"}};
  EXPECT_THAT(lines(daemon_findings({.status = status, .findings = own}, "1.0.0")),
              ElementsAre("ok daemon : leat 1.0.0, pid 7, up 1m1s", "note daemon.room : no room"));
  EXPECT_THAT(daemon_findings({.status = status}, "1.1.0")[0].action, HasSubstr("leat umount"));
  status.supervisor_pid = 6;
  EXPECT_THAT(daemon_findings({.status = status}, "1.1.0")[0].action, HasSubstr("leat upgrade"));
  EXPECT_THAT(lines(daemon_findings({.status = status}, "1.1.0")),
              ElementsAre("note daemon : leat 1.0.0, pid 7, up 1m1s; this program is 1.1.0"));
}

TEST(DaemonFindings, OneThatHangsOrHungIsTold) {
  EXPECT_THAT(lines(daemon_findings({.cleared = {"killed"}}, "1")),
              ElementsAre("note daemon.dead : killed", HasSubstr("ok daemon : none runs")));
  EXPECT_THAT(lines(daemon_findings({.not_cleared = "no right"}, "1")),
              ElementsAre("problem daemon.dead : no right"));
  EXPECT_THAT(lines(daemon_findings({.unanswered = "silence"}, "1")),
              ElementsAre("problem daemon : silence"));
}

TEST(DaemonFindings, ADaemonThatLivesAndSaysNothingIsNotTakenForNone) {
  const fs::path runtime =
      fs::path(testing::TempDir()) / ("leat_daemon_" + Id128::random().to_hex());
  ASSERT_EQ(::mkdir(runtime.c_str(), 0700), 0);
  EXPECT_EQ(ask_daemon(runtime).unanswered, "");
  std::ofstream(pid_file(runtime)) << "4711\n";
  const File lock(::open(pid_file(runtime).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.fd(), LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(ask_daemon(runtime).unanswered, HasSubstr("(pid 4711) lives and does not answer"));
  ASSERT_EQ(::chmod(runtime.c_str(), 0777), 0);
  EXPECT_THAT(ask_daemon(runtime).unanswered, HasSubstr("others may write"));
  fs::remove_all(runtime);
}

TEST(FolderFindings, OnlyThoseThatDoNotAnswerAreTold) {
  EXPECT_THAT(lines(folder_findings({{.path = "/a"},
                                     {.path = "/b", .state = FolderState::kDead},
                                     {.path = "/c", .state = FolderState::kSilent}})),
              ElementsAre("problem folder.dead /b: its daemon is gone",
                          "problem folder.silent /c: it does not answer"));
  EXPECT_EQ(folder_findings({{.path = "/b", .state = FolderState::kDead}})[0].action,
            "leat umount /b");
}

TEST(BoundedLook, SaysWhatTheFileSystemSays) {
  EXPECT_EQ(look_at("/", std::chrono::seconds(5)), 0);
  EXPECT_EQ(look_at("/nowhere/at/all", std::chrono::seconds(5)), ENOENT);
}

TEST(FolderFindings, OtherFileSystemsAreNotLookedAt) {
  const std::vector<MountinfoLine> mounts = {
      {.device = "0:1", .point = "/", .type = "ext4", .source = "x"},
      {.device = "0:2", .point = "/tmp", .type = "fuse.leat", .source = "leat:file:///x"}};
  const auto folders = inspect_folders(mounts, std::chrono::seconds(5));
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(folders[0].path, "/tmp");
  EXPECT_EQ(folders[0].state, FolderState::kAnswers);
}

}  // namespace
}  // namespace leat
