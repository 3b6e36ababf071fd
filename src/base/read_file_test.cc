// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"

namespace leat {
namespace {

TEST(WholeFile, IsReadToItsEndOrItsLastBytes) {
  const std::string path =
      std::filesystem::path(testing::TempDir()) / ("leat_whole_" + Id128::random().to_hex());
  const std::string content(200'000, 'x');
  std::ofstream(path) << content << "end";
  EXPECT_EQ(read_file(path).value(), content + "end");
  EXPECT_EQ(read_file(path, 4).value(), "xend");
  EXPECT_FALSE(read_file("/proc/self/status").value().empty());
  std::filesystem::remove(path);
}

TEST(WholeFile, WhatCannotBeReadIsAFailureThatNamesIt) {
  EXPECT_EQ(read_file("/nowhere/at/all").error().code(), StatusCode::kNotFound);
  const Result<std::string> directory = read_file("/tmp");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code(), StatusCode::kIsDirectory);
  EXPECT_TRUE(directory.error().to_string().contains("cannot read /tmp"));
}

TEST(WholeFile, AProcessMayGoBetweenOpenAndRead) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::string path = "/proc/" + std::to_string(child) + "/stat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(read_to_end(fd, path));
  ::close(fd);
}

}  // namespace
}  // namespace leat
