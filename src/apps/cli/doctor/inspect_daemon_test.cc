// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/doctor/inspect_daemon.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "config/paths.h"
#include "runtime/disk.h"

namespace leat {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(InspectDaemon, HungDaemonIsNotReportedAsMissing) {
  const fs::path runtime =
      fs::path(testing::TempDir()) / ("leat_daemon_" + Id128::random().to_hex());
  ASSERT_EQ(::mkdir(runtime.c_str(), 0700), 0);
  EXPECT_EQ(inspect_daemon(runtime).unresponsive, "");
  std::ofstream(pid_file(runtime)) << "4711\n";
  const File lock(::open(pid_file(runtime).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.fd(), LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(inspect_daemon(runtime).unresponsive,
              HasSubstr("(pid 4711) lives and does not answer"));
  ASSERT_EQ(::chmod(runtime.c_str(), 0777), 0);
  EXPECT_THAT(inspect_daemon(runtime).unresponsive, HasSubstr("others may write"));
  fs::remove_all(runtime);
}

}  // namespace
}  // namespace leat
