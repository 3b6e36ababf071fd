// SPDX-License-Identifier: Apache-2.0
// Findings from facts about this process and the kernel, and the reading of these facts from test
// trees for /sys, /proc and /etc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "base/units.h"
#include "doctor/fuse_findings.h"
#include "doctor/kernel_findings.h"
#include "doctor/limit_findings.h"
#include "doctor/process_rights.h"
#include "frontends/fuse/connection/mount_point.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr ProcessRights kRoot{.user = 0, .sys_admin = true};
constexpr ProcessRights kContainerRoot{.user = 0, .sys_admin = false};
constexpr ProcessRights kUser{.user = 1000, .sys_admin = false};

// "fuse.device=ok fuse.mount=problem …"
std::vector<std::string> verdicts(const Findings& findings) {
  std::vector<std::string> words;
  for (const Finding& finding : findings) {
    words.push_back(finding.name + "=" + std::string(to_string(finding.level)));
    // A finding that is not ok has a cost and an action.
    if (finding.level == Level::kOk) continue;
    EXPECT_FALSE(finding.cost.empty()) << finding.name;
    EXPECT_FALSE(finding.action.empty()) << finding.name;
  }
  return words;
}

const Finding& named(const Findings& findings, std::string_view name) {
  for (const Finding& finding : findings) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << "no " << name;
  static const Finding none;
  return none;
}

class Tree : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("leat_doctor_" + Id128::random().to_hex());
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
    return root_ / name;
  }

  fs::path root_;
};

TEST(ProcessRights, AreReadFromTheStatusOfAProcess) {
  const ProcessRights all =
      parse_rights("Name:\tleat\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n", 0);
  EXPECT_TRUE(all.sys_admin && all.root() && !all.seccomp);
  // A container as Docker starts it.
  const ProcessRights container =
      parse_rights("CapPrm:\t00000000a80425fb\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n", 0);
  EXPECT_TRUE(!container.sys_admin && container.seccomp && container.root());
  const ProcessRights nothing = parse_rights("", 1000);
  EXPECT_TRUE(!nothing.sys_admin && !nothing.root() && !nothing.seccomp);
}

TEST(ProcessRights, SayWhatTheLackOfOneCosts) {
  EXPECT_THAT(verdicts(rights_findings(kRoot)), ElementsAre("host.rights=ok"));
  EXPECT_THAT(verdicts(rights_findings({.user = 0, .sys_admin = false, .seccomp = true})),
              ElementsAre("host.rights=note", "host.seccomp=ok"));
  EXPECT_THAT(rights_findings(kContainerRoot)[0].action, HasSubstr("--cap-add"));
  EXPECT_THAT(rights_findings(kUser)[0].action, HasSubstr("sudo leat mount"));
}

TEST(FuseFindings, RootNeedsOnlyTheDevice) {
  EXPECT_THAT(verdicts(fuse_findings({}, kRoot)),
              ElementsAre("fuse.device=ok", "fuse.mount=ok", "fuse.allow_other=ok"));
  EXPECT_THAT(verdicts(fuse_findings({.device_errno = ENOENT}, kRoot)),
              ElementsAre("fuse.device=problem", "fuse.mount=ok", "fuse.allow_other=ok"));
}

TEST(FuseFindings, RootOfAContainerIsNotHelpedByFusermount) {
  const FuseFacts facts{
      .device_errno = EPERM, .fusermount = "/bin/fusermount3", .fusermount_raised = true};
  const Findings findings = fuse_findings(facts, kContainerRoot);
  EXPECT_THAT(verdicts(findings),
              ElementsAre("fuse.device=problem", "fuse.mount=problem", "fuse.allow_other=ok"));
  EXPECT_THAT(findings[0].action, HasSubstr("--device /dev/fuse"));
  EXPECT_THAT(findings[1].action, HasSubstr("--cap-add SYS_ADMIN"));
}

TEST(FuseFindings, AUserMountsByFusermount) {
  FuseFacts facts{.fusermount = "/bin/fusermount3", .fusermount_raised = true};
  EXPECT_THAT(verdicts(fuse_findings(facts, kUser)),
              ElementsAre("fuse.device=ok", "fuse.mount=ok", "fuse.allow_other=note"));
  facts.user_allow_other = true;
  facts.fusermount_raised = false;
  facts.device_errno = EACCES;
  const Findings weak = fuse_findings(facts, kUser);
  EXPECT_THAT(verdicts(weak),
              ElementsAre("fuse.device=problem", "fuse.mount=problem", "fuse.allow_other=ok"));
  EXPECT_EQ(weak[1].action, "sudo chown root /bin/fusermount3 && sudo chmod u+s /bin/fusermount3");
  facts.fusermount.clear();
  EXPECT_THAT(fuse_findings(facts, kUser)[1].action, HasSubstr("install fuse3"));
}

TEST(FuseFindings, UserAllowOtherCountsAloneOnALine) {
  EXPECT_TRUE(has_user_allow_other("# x\n  user_allow_other \nmount_max = 5\n"));
  EXPECT_TRUE(has_user_allow_other("user_allow_other"));
  EXPECT_FALSE(has_user_allow_other("#user_allow_other\n"));
  EXPECT_FALSE(has_user_allow_other("user_allow_other = yes\n"));
  EXPECT_FALSE(has_user_allow_other(""));
}

TEST_F(Tree, FuseIsGatheredFromTheHost) {
  HostPaths paths;
  paths.fuse_device = write("dev/fuse", "");
  paths.fuse_conf = write("etc/fuse.conf", "user_allow_other\n");
  paths.search_path = "relative:" + (root_ / "nowhere").string() + ":" + (root_ / "bin").string();
  const std::string program = write("bin/fusermount3", "");
  EXPECT_EQ(gather_fuse(paths).fusermount, "") << "it cannot be run";
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  FuseFacts facts = gather_fuse(paths);
  EXPECT_EQ(facts.device_errno, 0);
  EXPECT_EQ(facts.fusermount, program);
  EXPECT_FALSE(facts.fusermount_raised);
  EXPECT_TRUE(facts.user_allow_other);
  paths.fuse_device = root_ / "dev/none";
  EXPECT_EQ(gather_fuse(paths).device_errno, ENOENT);
}

constexpr auto all_capabilities = [] {
  return KernelCapabilities{.protocol_major = 7,
                            .protocol_minor = 45,
                            .readdirplus = true,
                            .parallel_directory_operations = true,
                            .no_open = true,
                            .no_flush = true,
                            .passthrough = true,
                            .io_uring = true,
                            .resend = true,
                            .epochs = true,
                            .request_timeout = true};
};

TEST(KernelFindings, AKernelThatOffersEverythingIsInOrder) {
  const Findings findings = kernel_findings(
      all_capabilities(), {.enable_uring = true, .io_uring_wanted = true}, kRoot, true);
  EXPECT_THAT(verdicts(findings), ElementsAre("kernel.fuse=ok", "kernel.passthrough=ok",
                                              "kernel.fuse_io_uring=ok", "kernel.read_ahead=ok"));
  EXPECT_EQ(findings[0].what,
            "FUSE 7.45 with readdirplus, parallel look-ups, no flush at close, resending of "
            "requests, request timeouts, forgetting all names at once");
}

TEST(KernelFindings, AnOldOneSaysWhatItLacks) {
  const KernelCapabilities capabilities{
      .protocol_major = 7, .protocol_minor = 31, .readdirplus = true};
  const Findings findings = kernel_findings(capabilities, {}, kRoot, true);
  EXPECT_EQ(findings[0].what,
            "FUSE 7.31 with readdirplus; without parallel look-ups, no flush at close, resending "
            "of requests, request timeouts, forgetting all names at once");
  EXPECT_THAT(verdicts(findings), ElementsAre("kernel.fuse=ok", "kernel.passthrough=note",
                                              "kernel.fuse_io_uring=note", "kernel.read_ahead=ok"));
  EXPECT_THAT(named(findings, "kernel.passthrough").action, HasSubstr("Linux 6.9"));
  EXPECT_THAT(named(findings, "kernel.fuse_io_uring").action, HasSubstr("Linux 6.14"));
}

TEST(KernelFindings, IoUringThatIsOnlySwitchedOffCanBeFixed) {
  KernelCapabilities capabilities = all_capabilities();
  capabilities.io_uring = false;
  auto finding = [&](std::optional<bool> enabled) {
    return named(kernel_findings(capabilities, {.enable_uring = enabled}, kRoot, true),
                 "kernel.fuse_io_uring");
  };
  EXPECT_THAT(finding(false).action, HasSubstr("sudo leat doctor --fix"));
  EXPECT_THAT(finding(true).action, HasSubstr("host.io_uring"));
}

TEST(KernelFindings, OfferedPassthroughNeedsSysAdmin) {
  const Findings findings = kernel_findings(all_capabilities(), {}, kUser, true);
  EXPECT_EQ(named(findings, "kernel.passthrough").level, Level::kNote);
}

TEST(KernelFindings, FailedProbeIsProblemOnlyIfMountable) {
  const Result<KernelCapabilities> none = error(StatusCode::kTimedOut, "no answer");
  EXPECT_EQ(kernel_findings(none, {}, kRoot, true)[0].level, Level::kProblem);
  EXPECT_EQ(kernel_findings(none, {}, kRoot, false)[0].level, Level::kNote);
  EXPECT_TRUE(to_json(none).is_null());
}

TEST(KernelFindings, TimeoutsOfTheKernelAreANote) {
  auto what = [](uint64_t usual, uint64_t most) -> std::string {
    const Findings findings = kernel_findings(
        all_capabilities(), {.default_request_timeout_s = usual, .max_request_timeout_s = most},
        kRoot, true);
    return findings.back().name == "kernel.request_timeout" ? findings.back().what : "";
  };
  EXPECT_EQ(what(0, 0), "");
  EXPECT_THAT(what(30, 0), HasSubstr("30 s"));
  EXPECT_THAT(what(0, 60), HasSubstr("60 s"));
  EXPECT_THAT(what(90, 60), HasSubstr("60 s"));
}

TEST_F(Tree, SettingsOfTheKernelAreGathered) {
  HostPaths paths;
  paths.fuse_module = root_ / "fuse";
  paths.sysctl = root_ / "sys";
  paths.bdi = root_ / "bdi";
  KernelSettings none = gather_kernel_settings(paths);
  EXPECT_FALSE(none.enable_uring);
  EXPECT_EQ(none.read_ahead_errno, ENOENT);
  write("fuse/parameters/enable_uring", "N\n");
  write("sys/fs/fuse/default_request_timeout", "20\n");
  write("bdi/254:0/max_ratio", "100\n");
  write("bdi/7:0/read_ahead_kb", "128\n");
  KernelSettings some = gather_kernel_settings(paths);
  EXPECT_EQ(some.enable_uring, false);
  EXPECT_EQ(some.default_request_timeout_s, 20u);
  EXPECT_EQ(some.max_request_timeout_s, 0u);
  EXPECT_EQ(some.read_ahead_errno, 0);
}

TEST(LimitFindings, WhatIsEnoughIsInOrder) {
  EXPECT_THAT(
      verdicts(limit_findings({.open_files_max = 20'000, .memory_bytes = 24 * kGiB}, 1)),
      ElementsAre("host.io_uring=ok", "host.open_files=ok", "host.memory=ok", "host.clock=ok"));
  EXPECT_EQ(limit_findings({.memory_bytes = 24 * kGiB}, 1)[2].what,
            "768.0 MiB of 24.0 GiB for reads");
}

TEST(LimitFindings, WhatIsShortSaysHowMuchIsWanted) {
  const Findings findings = limit_findings({.io_uring_errno = EPERM,
                                            .io_uring_disabled = 2,
                                            .open_files_max = 20'000,
                                            .memory_bytes = 4 * kGiB,
                                            .memory_wanted_bytes = 3 * kGiB,
                                            .clock_synchronised = false},
                                           3);
  EXPECT_THAT(verdicts(findings), ElementsAre("host.io_uring=note", "host.open_files=note",
                                              "host.memory=note", "host.clock=note"));
  EXPECT_EQ(findings[0].action, "sudo sysctl -w kernel.io_uring_disabled=0");
  EXPECT_EQ(findings[1].what, "the hard limit is 20000; 28672 are wanted");
  EXPECT_EQ(findings[2].what, "3.0 GiB of 4.0 GiB for reads (fetch.memory_size)");
  EXPECT_THAT(limit_findings({.io_uring_errno = EPERM, .memory_bytes = 512 * kMiB}, 1)[0].action,
              HasSubstr("seccomp"));
}

TEST_F(Tree, LimitsAreThoseOfThisProcess) {
  HostPaths paths;
  paths.sysctl = root_;
  write("kernel/io_uring_disabled", "1\n");
  const LimitFacts facts = gather_limits(paths);
  EXPECT_EQ(facts.io_uring_disabled, 1);
  EXPECT_GT(facts.open_files_max, 0u);
  EXPECT_GT(facts.memory_bytes, 0u);
}

}  // namespace
}  // namespace leat
