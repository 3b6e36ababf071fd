// SPDX-License-Identifier: Apache-2.0
#include "vfs/recent_errors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace leat {
namespace {

Status failure(std::string why) {
  return {StatusCode::kUnavailable, std::move(why)};
}

TEST(RecentErrors, ReportsPathsRelativeToTheMount) {
  RecentErrors errors("/mnt/train", 10);
  errors.record(1, "/mnt/train", failure("a"));
  errors.record(2, "/mnt/train/d/x", failure("b"));
  const std::vector<PathError> all = errors.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].path, ".");
  EXPECT_EQ(all[1].path, "d/x");
  EXPECT_EQ(all[1].reason, "b");
  EXPECT_EQ(all[1].code, StatusCode::kUnavailable);
  EXPECT_LE(all[0].time, all[1].time);
  RecentErrors of_all("/", 10);
  of_all.record(1, "/mnt", failure("a"));
  EXPECT_EQ(of_all.all().front().path, "mnt");
}

TEST(RecentErrors, NodeHasNewestErrorPathHasLast) {
  RecentErrors errors("/m", 10);
  errors.record(1, "/m", failure("the mount"));
  errors.record(1, "/m/x", failure("x"));
  EXPECT_EQ(errors.find(1)->reason, "x");
  errors.record(1, "/m", failure("the mount again"));
  EXPECT_EQ(errors.find(1)->reason, "the mount again");
  const std::vector<PathError> all = errors.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].path, "x");
  EXPECT_EQ(all[1].reason, "the mount again");
  EXPECT_FALSE(errors.find(2));
}

TEST(RecentErrors, EachErrorHasItsCaller) {
  RecentErrors errors("/m", 10);
  errors.record(1, "/m/a", failure("why"), {.pid = 7, .program = "cat"});
  errors.record(1, "/m/b", failure("why"));
  errors.record_caller(1, Caller{.pid = 8, .program = "head"});
  errors.record_caller(1, Caller{.pid = 9, .program = "tail"});
  errors.record_caller(2, Caller{.pid = 9, .program = "tail"});
  const std::vector<PathError> all = errors.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].caller.program, "cat");
  EXPECT_EQ(all[1].caller.pid, 8);
  EXPECT_EQ(all[1].caller.program, "head");
}

TEST(RecentErrors, ForgetsTheOldest) {
  RecentErrors errors("/m", 3);
  for (NodeId node = 1; node <= 5; ++node) {
    errors.record(node, fmt::format("/m/{}", node), failure("why"));
  }
  errors.record(4, "/m/other", failure("why"));
  EXPECT_FALSE(errors.find(2));
  EXPECT_FALSE(errors.find(3));
  EXPECT_EQ(errors.find(4)->path, "other");
  EXPECT_EQ(errors.all().size(), 3u);
  errors.record(6, "/m/6", failure("why"));
  EXPECT_EQ(errors.find(4)->path, "other") << "its first error was evicted, its newest was not";
  errors.record(5, "/m/5", failure("once more"));
  errors.record(7, "/m/7", failure("why"));
  EXPECT_EQ(errors.find(5)->reason, "once more") << "what failed again is not the oldest";
  EXPECT_FALSE(errors.find(4));
}

}  // namespace
}  // namespace leat
