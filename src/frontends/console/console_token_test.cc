// SPDX-License-Identifier: Apache-2.0
#include "frontends/console/console_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class ConsoleTokenTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "leat_token_" + Id128::random().to_hex();
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& text, fs::perms mode = fs::perms(0600)) const {
    std::ofstream(file()) << text;
    fs::permissions(file(), mode);
  }
  std::string file() const { return console_token_file(folder_); }
  StatusCode failure() const { return read_console_token(folder_).error().code(); }
  // The daemon replaces the present file.
  void expect_replaced(const std::string& before) const {
    Result<std::string> made = make_console_token(folder_);
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_NE(*made, before);
    EXPECT_EQ(*read_console_token(folder_), *made);
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file())));
  }

  std::string folder_;
  const std::string token_ = std::string(60, '0') + "12ef";
};

TEST_F(ConsoleTokenTest, IsMadeOnceForThisUserAlone) {
  EXPECT_EQ(failure(), StatusCode::kNotFound);
  const mode_t before = umask(0);
  Result<std::string> made = make_console_token(folder_);
  umask(before);
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_THAT(*made, testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(made->size(), 64u);
  struct stat found{};
  ASSERT_EQ(stat(file().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  EXPECT_EQ(*make_console_token(folder_), *made);
  EXPECT_EQ(*read_console_token(folder_), *made);
  // Nothing else is left.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(ConsoleTokenTest, NoTwoAreAlike) {
  Result<std::string> one = make_console_token(folder_);
  fs::remove(file());
  EXPECT_NE(*make_console_token(folder_), *one);
}

TEST_F(ConsoleTokenTest, OneThatOthersCouldReadIsReplaced) {
  for (int mode : {0640, 0604, 0660, 0666}) {
    write(token_ + "\n", fs::perms(mode));
    EXPECT_EQ(failure(), StatusCode::kPermissionDenied) << std::oct << mode;
    expect_replaced(token_);
  }
}

TEST_F(ConsoleTokenTest, WhatIsNoTokenIsReplaced) {
  for (const std::string& text :
       {std::string(), std::string("\n"), token_.substr(1), token_ + "0", token_ + "\n\n",
        std::string(64, 'G'), std::string(64, 'A'), std::string(100, 'a')}) {
    write(text);
    EXPECT_EQ(failure(), StatusCode::kCorrupt) << text;
    expect_replaced(text);
    fs::remove(file());
  }
  write(token_);
  EXPECT_EQ(*read_console_token(folder_), token_);
}

TEST_F(ConsoleTokenTest, ALinkIsNotFollowedAndWhatItNamesStays) {
  const std::string other = folder_ + "/other";
  std::ofstream(other) << token_;
  fs::permissions(other, fs::perms(0600));
  fs::create_symlink(other, file());
  EXPECT_EQ(failure(), StatusCode::kPermissionDenied);
  expect_replaced(token_);
  std::ifstream stays(other);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stays), {}), token_);
}

TEST_F(ConsoleTokenTest, APipeIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  EXPECT_EQ(failure(), StatusCode::kPermissionDenied);
  expect_replaced("");
}

TEST_F(ConsoleTokenTest, WhatAKilledDaemonLeftIsInNobodysWay) {
  std::ofstream(file() + ".new") << "half";
  ASSERT_TRUE(make_console_token(folder_));
  EXPECT_FALSE(fs::exists(file() + ".new"));
}

TEST_F(ConsoleTokenTest, AFolderThatIsNotThereIsSaid) {
  fs::remove_all(folder_);
  EXPECT_EQ(make_console_token(folder_).error().code(), StatusCode::kNotFound);
}

TEST(SameToken, ComparesAllOfIt) {
  const std::string token(64, 'a');
  EXPECT_TRUE(same_token(token, token));
  for (size_t at : {size_t(0), size_t(31), size_t(63)}) {
    std::string other = token;
    other[at] = 'b';
    EXPECT_FALSE(same_token(token, other)) << at;
  }
  EXPECT_FALSE(same_token(token, token.substr(1)));
  EXPECT_FALSE(same_token(token, token + "a"));
  EXPECT_FALSE(same_token(token, ""));
  EXPECT_FALSE(same_token("", ""));
  EXPECT_FALSE(same_token(token, std::string(64, '\0')));
}

}  // namespace
}  // namespace leat
