// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/daemon/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "telemetry/log_file.h"

namespace leat {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(LogLines, HaveTimeLevelAndText) {
  const LogLine line = parse_log_line("2026-11-21T14:45:58.378237+00:00 warning a  b");
  EXPECT_EQ(line.time, "2026-11-21T14:45:58.378237+00:00");
  EXPECT_EQ(line.level, "warning");
  EXPECT_EQ(line.text, "a  b");
  EXPECT_EQ(parse_log_line("thread 'x' panicked at y").time, "");
  EXPECT_EQ(parse_log_line("").text, "");
  EXPECT_TRUE(is_wanted(line, "info"));
  EXPECT_FALSE(is_wanted(line, "error"));
}

class LogReaderTest : public testing::Test {
 protected:
  LogReaderTest() {
    folder_ = testing::TempDir() + "leat_lines_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/daemon.log";
  }
  ~LogReaderTest() override {
    log::set_file_size_max(0);
    std::filesystem::remove_all(folder_);
  }

  std::string folder_, path_;
};

TEST_F(LogReaderTest, AGrowingFileIsReadInWholeLines) {
  std::ofstream file(path_);
  LogReader reader(path_);
  std::vector<std::string> seen;
  auto take = [&](const LogLine& line) { seen.push_back(line.level + ":" + line.text); };
  file << "2026-11-21T14:45:58Z error one\n  more of it\n2026-11-21T14:4" << std::flush;
  ASSERT_TRUE(reader.read(take));
  EXPECT_THAT(seen, ElementsAre("error:one", "error:  more of it"));
  file << "5:59Z info two\n" << std::flush;
  ASSERT_TRUE(reader.read(take));
  EXPECT_THAT(seen, ElementsAre("error:one", "error:  more of it", "info:two"));
  EXPECT_FALSE(LogReader(folder_ + "/none").read(take));
}

TEST_F(LogReaderTest, NoLineIsMissedWhenTheFileBeginsAgain) {
  log::set_file_size_max(200);
  log::LogFile file(path_);
  LogReader follows(path_);
  std::vector<std::string> seen, written;
  auto take = [&](const LogLine& line) { seen.push_back(line.text); };
  for (int i = 0; i < 100; ++i) {
    written.push_back(std::to_string(i));
    file.write("2026-11-21T14:45:58Z info " + written.back() + "\n");
    if (i % 3 == 0) ASSERT_TRUE(follows.read(take));
  }
  ASSERT_TRUE(follows.read(take));
  EXPECT_EQ(seen, written);
  seen.clear();
  ASSERT_TRUE(LogReader(path_).read(take));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen, std::vector<std::string>(written.end() - static_cast<long>(seen.size()),
                                           written.end()));
  EXPECT_GT(seen.size(), 7u) << "also of the older part";
}

TEST(WithoutSecrets, LeavesNoneAndKeepsTheRest) {
  for (const char* secret : {
           "https://h/b?X-Amz-Signature=SECRETVALUE&x=1",
           "https://h/b?sv=2021&sig=SECRETVALUE",
           "Authorization: Bearer SECRETVALUE",
           "\"authorization\": \"AWS4-HMAC-SHA256 SECRETVALUE\"",
           "aws_secret_access_key = SECRETVALUE",
           "AWS_SESSION_TOKEN=SECRETVALUE",
           "{\"client_secret\": \"SECRETVALUE\"}",
           "AccountKey=SECRETVALUE;EndpointSuffix=x",
           "http://user:SECRETVALUE@host/path",
           "AKIAABCDEFGHIJKLMNOP is unknown, SECRET=SECRETVALUE",
           "-----BEGIN PRIVATE KEY-----\nSECRETVALUE\n-----END PRIVATE KEY-----",
       }) {
    EXPECT_THAT(without_secrets(secret), Not(HasSubstr("SECRETVALUE"))) << secret;
    EXPECT_THAT(without_secrets(secret), HasSubstr("***"));
  }
  EXPECT_THAT(without_secrets("AKIAABCDEFGHIJKLMNOP"), Not(HasSubstr("AKIA")));
  const char* plain =
      "cannot read 's3://my-bucket/train/a.png': the store answered 403 AccessDenied";
  EXPECT_EQ(without_secrets(plain), plain);
}

}  // namespace
}  // namespace leat
