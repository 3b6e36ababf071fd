// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "apps/cli/cache/job_command.h"
#include "apps/cli/command/progress.h"
#include "base/id128.h"
#include "base/text_table.h"
#include "base/units.h"
#include "config/paths.h"
#include "source/stores/schemes.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

TEST(TextTable, AlignsByCharactersAndDefusesNames) {
  TextTable table("rl");
  table.add({"1", "näme"});
  table.add({"100", "x\x1b[31m\n"});
  EXPECT_EQ(table.to_string(), "  1  näme\n100  x?[31m?");
  EXPECT_EQ(TextTable("l").to_string(), "");
}

TEST(Progress, SaysWhatIsKnown) {
  EXPECT_EQ(describe_progress({.bytes_done = 512 * kMiB,
                               .bytes_total = std::nullopt,
                               .files_done = 0,
                               .files_total = std::nullopt},
                              512.0 * kMiB),
            "512.0 MiB, 512.0 MiB/s");
  EXPECT_EQ(describe_progress(
                {.bytes_done = kGiB, .bytes_total = 4 * kGiB, .files_done = 3, .files_total = 10},
                512.0 * kMiB),
            "3 of 10 files, 1.0 GiB of 4.0 GiB, 25%, 512.0 MiB/s, 7s left");
  EXPECT_EQ(describe_progress({.bytes_done = kMiB,
                               .bytes_total = 3 * kMiB,
                               .files_done = 1,
                               .files_total = 3,
                               .totals_grow = true},
                              1.0 * kMiB),
            "1 of 3 files so far, 1.0 MiB of 3.0 MiB, 33%, 1.0 MiB/s, 3s left");
  // Almost no progress: no overflow, and no estimate of centuries.
  EXPECT_TRUE(
      describe_progress(
          {.bytes_done = 1, .bytes_total = UINT64_MAX, .files_done = 0, .files_total = 1}, 1e-6)
          .ends_with("B/s"));
}

TEST(Progress, ItsRateIsThatOfTheLastSeconds) {
  RecentRate rate;
  const RecentRate::Clock::time_point start{};
  EXPECT_EQ(rate.at(start, 0), 0);
  EXPECT_EQ(rate.at(start + 1s, 1000), 1000);
  // A burst at the start has no effect after a while.
  for (int i = 2; i <= 30; ++i) rate.at(start + i * 1s, 1000 + 10 * i);
  EXPECT_EQ(rate.at(start + 31s, 1000 + 310), 10);
  // At any frequency of calls.
  for (int i = 1; i < 1000; ++i) rate.at(start + 31s + i * 1ms, 1000 + 310);
  // Bytes were taken back: the rate is unknown, not negative.
  EXPECT_EQ(rate.at(start + 32s, 100), 0);
  EXPECT_EQ(rate.at(start + 33s, 300), 200);
}

TEST(JobReport, IsOneLine) {
  JobView job{.id = 1, .kind = "load", .state = "done"};
  job.files_done = 10;
  job.bytes_done = kGiB;
  job.bytes_fetched = kGiB / 2;
  job.seconds = 2;
  EXPECT_EQ(describe_job(job), "loaded 10 files, 1.0 GiB (512.0 MiB fetched) in 2.0s, 256.0 MiB/s");
  job.kind = "free";
  job.bytes_fetched = 0;
  EXPECT_EQ(describe_job(job), "freed 10 files, 1.0 GiB in 2.0s");
}

TEST(JobReport, SaysWhatIsNotCachedByItsMount) {
  JobView job{.id = 1, .kind = "load", .state = "done"};
  job.files_uncached = 3;
  job.bytes_uncached = kMiB;
  EXPECT_TRUE(describe_job(job).starts_with("nothing to load: 3 files, 1.0 MiB are read where"));
  job.files_total = job.files_done = 1;
  job.seconds = 1;
  EXPECT_EQ(describe_job(job),
            "loaded 1 file, 0 B (0 B fetched) in 1.0s; 3 files, 1.0 MiB are not cached by their "
            "mount");
}

TEST(Paths, AreAbsoluteAndResolvedAsFarAsTheyExist) {
  namespace fs = std::filesystem;
  fs::path folder = fs::canonical(testing::TempDir()) / ("leat_paths_" + Id128::random().to_hex());
  fs::create_directories(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "link");
  EXPECT_EQ(absolute_path(folder / "link/none/../x/"), folder / "real/x");
  EXPECT_EQ(absolute_path("/"), "/");
  EXPECT_EQ(absolute_path("/leat-none/./a//b"), "/leat-none/a/b");
  fs::remove_all(folder);
  EXPECT_TRUE(is_store_url("s3://b/x"));
  EXPECT_FALSE(is_store_url("/a/b"));
  EXPECT_TRUE(is_store_url("s3:/b/x")) << "a URL with a slash missing is no path";
  EXPECT_TRUE(is_store_url("S3://b"));
  EXPECT_FALSE(is_store_url("a:/b"));
  EXPECT_FALSE(is_store_url("/s3:/b"));
}

TEST(RuntimeDirectory, IsPrivateAndNobodyElses) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(testing::TempDir()) / ("leat_run_" + Id128::random().to_hex());
  setenv("LEAT_RUNTIME_DIR", folder.c_str(), 1);
  EXPECT_EQ(runtime_directory(), folder);
  ASSERT_TRUE(make_runtime_directory(folder));
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms(0700));
  EXPECT_TRUE(make_runtime_directory(folder));
  for (auto others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(folder, fs::perms(0700) | others);
    EXPECT_EQ(check_runtime_directory(folder).error().code(), StatusCode::kPermissionDenied);
  }
  fs::remove(folder);
  EXPECT_EQ(check_runtime_directory(folder).error().code(), StatusCode::kNotFound);
  fs::create_directory_symlink("/", folder);
  EXPECT_EQ(make_runtime_directory(folder).error().code(), StatusCode::kPermissionDenied);
  fs::remove(folder);
}

}  // namespace
}  // namespace leat
