// SPDX-License-Identifier: Apache-2.0
#include "daemon/findings/status_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "daemon/findings/path_failures.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr WallTime kNow{100h};

DaemonStatus well() {
  return {.version = "1", .pid = 7, .supervisor_pid = 6, .open_files = 10, .open_files_max = 100};
}

ErrorView failed(std::chrono::nanoseconds ago, StatusCode code, std::string path,
                 std::string mount = "/m") {
  return {.time = kNow - ago,
          .mount = std::move(mount),
          .path = std::move(path),
          .code = code,
          .reason = "why"};
}

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

std::vector<std::string> lines_of(const std::vector<ErrorView>& errors) {
  return lines(status_findings(well(), errors, kNow));
}

TEST(StatusFindings, ADaemonThatIsWellHasNone) {
  EXPECT_THAT(status_findings(well(), {}, kNow), IsEmpty());
}

TEST(StatusFindings, UnsentChangesOfAFailingStore) {
  DaemonStatus status = well();
  status.mounts = {{.path = "/m", .own_fuse_mount = false, .unsent = UnsentView{.changes = 3}},
                   {.path = "/n",
                    .own_fuse_mount = false,
                    .unsent = UnsentView{.changes = 2, .bytes = 10, .error = "no access"}}};
  EXPECT_THAT(lines(status_findings(status, {}, kNow)),
              ElementsAre("problem daemon.unsent /n: 2 changes with 10 B are not in the store: no "
                          "access"));
}

TEST(StatusFindings, AWorkerThatRefusesIsAProblem) {
  DaemonStatus status = well();
  status.clusters = {{.role = "worker", .name = "good"},
                     {.role = "worker",
                      .name = "bad",
                      .refusing = 1,
                      .trouble = "10.0.0.7:7480 refuses the requests of this worker: its clock"},
                     {.role = "client", .name = "away", .trouble = "no worker answers"}};
  EXPECT_THAT(lines(status_findings(status, {}, kNow)),
              ElementsAre("problem daemon.cluster bad: 10.0.0.7:7480 refuses the requests of this "
                          "worker: its clock",
                          "note daemon.cluster away: no worker answers"));
}

TEST(StatusFindings, EachMountSaysWhatItUsesAndWhyNot) {
  DaemonStatus status = well();
  status.mounts = {
      {.path = "/a", .features = {{"passthrough", true}, {"io_uring", true}}},
      {.path = "/b", .features = {{"passthrough", false}}, .passthrough_off = "EPERM"},
      {.path = "/c",
       .features = {{"passthrough", false}},
       .passthrough_off = "it was not requested"},
      {.path = "/a/in", .own_fuse_mount = false},
  };
  EXPECT_THAT(lines(status_findings(status, {}, kNow)),
              ElementsAre("ok daemon.mount /a: passthrough, FUSE over io_uring",
                          "note daemon.mount /b: no passthrough: EPERM",
                          "ok daemon.mount /c: no passthrough: it was not requested"));
  status.options = {{"fuse.io_uring", "true"}};
  status.mounts = {{.path = "/d", .features = {{"passthrough", true}, {"io_uring", false}}}};
  EXPECT_THAT(lines(status_findings(status, {}, kNow)),
              ElementsAre("note daemon.mount /d: passthrough; no FUSE over io_uring, though "
                          "fuse.io_uring is set"));
}

TEST(StatusFindings, DirectoriesThatDoNotWorkAreProblems) {
  DaemonStatus status = well();
  status.cache.directories = {
      {.path = "/x", .state = DirectoryState::kDown, .why = "EIO", .stats = {}},
      {.path = "/y", .why = "", .stats = {}},
      {.path = "/z", .why = "", .stats = {}}};
  status.cache.directories[1].stats.corrupt_blocks = 3;
  EXPECT_THAT(lines(status_findings(status, {}, kNow)),
              ElementsAre("problem daemon.cache /x: down: EIO",
                          "note daemon.cache /y: 3 corrupt blocks were dropped"));
}

TEST(StatusFindings, RefusedWritesAreANoteWithTheirAge) {
  const std::vector<ErrorView> errors = {failed(52min, StatusCode::kReadOnly, "a/old"),
                                         failed(50min, StatusCode::kReadOnly, "a/b"),
                                         failed(51min, StatusCode::kReadOnly, "a/c")};
  const Findings findings = status_findings(well(), errors, kNow);
  EXPECT_THAT(
      lines(findings),
      ElementsAre("note errors.rejected_writes /m: writes to 3 paths were rejected, the last "
                  "50 min ago (a/b)"));
  EXPECT_THAT(findings[0].action, HasSubstr("leat cp FILE /m/"));
  EXPECT_THAT(lines_of({failed(3s, StatusCode::kReadOnly, ".")}),
              ElementsAre("note errors.rejected_writes /m: writes to a path were rejected, 3 s ago "
                          "(.)"));
}

TEST(StatusFindings, FailuresAreGroupedByMountAndCause) {
  EXPECT_THAT(
      lines_of({failed(1min, StatusCode::kUnavailable, "a"),
                failed(2min, StatusCode::kTimedOut, "b"),
                failed(30s, StatusCode::kPermissionDenied, "c"),
                failed(3h, StatusCode::kUnavailable, "a\x1b", "/n"),
                failed(1s, StatusCode::kCancelled, "d")}),
      ElementsAre("problem errors.denied /m: access to a path was denied, 30 s ago (c)",
                  "problem errors.store /m: 2 paths could not be read since the store did not "
                  "answer, the last 1 min ago (a)",
                  "note errors.store /n: a path could not be read since the store did not answer, "
                  "3 h ago (a?)"));
}

TEST(StatusFindings, WhatFailedLongAgoIsANote) {
  for (StatusCode code :
       {StatusCode::kUnavailable, StatusCode::kVersionChanged, StatusCode::kNotFound,
        StatusCode::kCorrupt, StatusCode::kNoSpace, StatusCode::kInternal, StatusCode::kThrottled,
        StatusCode::kPermissionDenied}) {
    EXPECT_EQ(status_findings(well(), {failed(14min, code, "a")}, kNow).at(0).level,
              Level::kProblem);
    EXPECT_EQ(status_findings(well(), {failed(16min, code, "a")}, kNow).at(0).level, Level::kNote);
  }
}

TEST(StatusFindings, StoresLimitsAndTheProcess) {
  DaemonStatus status = well();
  status.open_files = 80;
  status.restarts = 1;
  status.supervisor_pid = 0;
  status.cache.stats.rejected_bytes = 2 * kKiB;
  status.counters = {{R"(leat_source_throttled_total{x="1"})", 2},
                     {R"(leat_source_throttled_total{x="2"})", 1},
                     {"leat_source_throttled_total_more", 9},
                     {"leat_source_circuit_opened_total", 1}};
  EXPECT_THAT(lines(status_findings(status, {}, kNow)),
              ElementsAre(HasSubstr("note daemon.room : 2.0 KiB were not cached"),
                          "problem daemon.open_files : 80 of 100 files are open",
                          HasSubstr("note daemon.restarts : it was started 2 times"),
                          HasSubstr("note daemon.supervisor "),
                          HasSubstr("circuit breakers of stores opened once"),
                          HasSubstr("stores throttled requests 3 times")));
}

TEST(AgeText, HasOneUnit) {
  EXPECT_EQ(age_text(kNow + 5s, kNow), "0 s ago");
  EXPECT_EQ(age_text(kNow - 59s, kNow), "59 s ago");
  EXPECT_EQ(age_text(kNow - 60s, kNow), "1 min ago");
  EXPECT_EQ(age_text(kNow - 99min, kNow), "99 min ago");
  EXPECT_EQ(age_text(kNow - 100min, kNow), "1 h ago");
  EXPECT_EQ(age_text(kNow - 72h, kNow), "3 d ago");
}

}  // namespace
}  // namespace leat
