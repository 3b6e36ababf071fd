// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/fstab/environment_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/id128.h"

namespace leat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

class EnvironmentFileTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  Result<Environment> read(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
    return read_environment_file(path_);
  }

  const std::string path_ = testing::TempDir() + "leat_env_" + Id128::random().to_hex();
};

TEST_F(EnvironmentFileTest, HasALineForAVariable) {
  Result<Environment> read = this->read(
      "# keys\n\n; more\n  AWS_ACCESS_KEY_ID=me \nEMPTY=\nQUOTED=\"a b\"\nOTHER='c=d'\nODD=\"\n");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_THAT(*read, ElementsAre(Pair("AWS_ACCESS_KEY_ID", "me"), Pair("EMPTY", ""),
                                 Pair("ODD", "\""), Pair("OTHER", "c=d"), Pair("QUOTED", "a b")));
}

TEST_F(EnvironmentFileTest, SaysWhichLineIsWrongAndNotWhatItHolds) {
  for (const char* line : {"secret", "=secret", "1A=secret", "A B=secret", "export A=secret"}) {
    Result<Environment> read = this->read(std::string("A=1\n") + line + "\n");
    ASSERT_FALSE(read) << line;
    EXPECT_EQ(read.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(read.error().to_string(), HasSubstr("line 2 of " + path_));
    EXPECT_THAT(read.error().to_string(), Not(HasSubstr("secret")));
  }
}

TEST_F(EnvironmentFileTest, IsNobodyElsesToRead) {
  for (const mode_t mode : {0640, 0604, 0620, 0644}) {
    Result<Environment> read = this->read("A=1\n", mode);
    ASSERT_FALSE(read) << mode;
    EXPECT_EQ(read.error().code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(read.error().to_string(), HasSubstr("chmod 600"));
  }
}

TEST_F(EnvironmentFileTest, BelongsToRootOrThisUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::ofstream(path_) << "A=1\n";
  chmod(path_.c_str(), 0600);
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  Result<Environment> read = read_environment_file(path_);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), StatusCode::kPermissionDenied);
}

TEST_F(EnvironmentFileTest, ThatIsMissingIsNotFound) {
  EXPECT_EQ(read_environment_file("/nowhere/at-all").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(read_environment_file("/").error().code(), StatusCode::kInvalidArgument);
}

TEST(DifferingNames, AreThoseWhoseValueIsAnother) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): unchanged
  ASSERT_NE(path, nullptr);
  EXPECT_EQ(differing_names({{"PATH", path}}, getpid()).value(), "");
  EXPECT_EQ(differing_names({{"PATH", "/x"}, {"LEAT_TEST_NONE", ""}}, getpid()).value(),
            "LEAT_TEST_NONE, PATH");
}

}  // namespace
}  // namespace leat
