// SPDX-License-Identifier: Apache-2.0
#include "apps/host/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

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

TEST(LogLines, OfAFileThatGrowsAreReadWhenTheyAreWhole) {
  std::stringstream file;
  LogReader reader;
  std::vector<std::string> seen;
  auto take = [&](const LogLine& line) { seen.push_back(line.level + ":" + line.text); };
  file << "2026-11-21T14:45:58Z error one\n  more of it\n2026-11-21T14:4";
  reader.read(file, take);
  EXPECT_THAT(seen, ElementsAre("error:one", "error:  more of it"));
  file.clear();
  file << "5:59Z info two\n";
  reader.read(file, take);
  EXPECT_THAT(seen, ElementsAre("error:one", "error:  more of it", "info:two"));
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
