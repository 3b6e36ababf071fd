// SPDX-License-Identifier: Apache-2.0
#include "telemetry/log_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/read_file.h"

namespace leat::log {
namespace {

class LogFileTest : public ::testing::Test {
 protected:
  LogFileTest() {
    folder_ = ::testing::TempDir() + "leat_log_XXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/daemon.log";
  }
  ~LogFileTest() override {
    set_file_size_max(0);
    std::filesystem::remove_all(folder_);
  }
  std::string content(const std::string& path) const { return read_file(path).value_or(""); }

  std::string folder_, path_;
};

TEST_F(LogFileTest, IsBoundedAndKeepsWhatCameBefore) {
  set_file_size_max(100);
  LogFile file(path_);
  std::string all;
  for (int i = 0; i < 200; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    file.write(line);
    all += line;
    ASSERT_LE(content(path_).size(), 100u);
    ASSERT_LE(content(rotated_path(path_)).size(), 100u);
    const std::string kept = content(rotated_path(path_)) + content(path_);
    ASSERT_TRUE(all.ends_with(kept)) << kept;
    ASSERT_GE(kept.size(), std::min<size_t>(all.size(), 50));
  }
}

TEST_F(LogFileTest, StaysTheFileThatOthersAppendTo) {
  set_file_size_max(100);
  const int other = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  LogFile one(path_), two(path_);
  for (int i = 0; i < 50; ++i) {
    one.write("one\n");
    two.write("two\n");
    ASSERT_EQ(::write(other, "other\n", 6), 6);
  }
  ::close(other);
  EXPECT_TRUE(content(path_).ends_with("one\ntwo\nother\n"));
  EXPECT_LE(content(path_).size(), 106u);
  EXPECT_TRUE(content(rotated_path(path_)).ends_with("\n"));
}

TEST_F(LogFileTest, WithoutABoundItGrows) {
  LogFile file(path_);
  for (int i = 0; i < 100; ++i) file.write(std::string(100, 'x'));
  EXPECT_EQ(content(path_).size(), 10'000u);
  EXPECT_FALSE(std::filesystem::exists(rotated_path(path_)));
}

}  // namespace
}  // namespace leat::log
