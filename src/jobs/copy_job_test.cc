// SPDX-License-Identifier: Apache-2.0
#include "jobs/copy_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "jobs/job_rig_test.h"

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::random_content;

// Records what would be copied.
class MadeCopier : public FileCopier {
 public:
  class One : public FileCopy {
   public:
    One(MadeCopier& copier, FileRefPtr file, CopySpec goal)
        : copier_(copier), file_(std::move(file)), goal_(std::move(goal)) {}
    Task<Result<CopyStep>> step(Context, ByteRange range) override {
      std::lock_guard lock(copier_.mutex);
      ++copier_.steps;
      if (copier_.there.contains(goal_.to)) co_return CopyStep{.state = CopyState::kAlreadyPresent};
      if (range.offset == 0) next_ = 0;
      EXPECT_EQ(range.offset, next_);
      next_ = range.end();
      if (range.offset != 0 && copier_.lost_in_midst > 0) {
        --copier_.lost_in_midst;
        co_return error(StatusCode::kUnavailable, "lost");
      }
      if (copier_.outdated == file_->version)
        co_return error(StatusCode::kVersionChanged, "changed");
      if (copier_.refuses == goal_.to) co_return error(StatusCode::kPermissionDenied, "no");
      if (next_ < file_->size) co_return CopyStep{CopyState::kMore, range.size};
      copier_.copied[goal_.to + (goal_.key.empty() ? "" : "|" + goal_.key)] = goal_;
      co_return CopyStep{CopyState::kWritten, range.size};
    }

   private:
    MadeCopier& copier_;
    const FileRefPtr file_;
    const CopySpec goal_;
    uint64_t next_ = 0;
  };
  std::unique_ptr<FileCopy> begin(FileRefPtr file, CopySpec goal) override {
    return std::make_unique<One>(*this, std::move(file), std::move(goal));
  }

  std::mutex mutex;
  std::map<std::string, CopySpec> copied;
  std::set<std::string> there;
  std::string refuses;
  Version outdated = Version::etag("none");  // a version that no longer exists
  int lost_in_midst = 0, steps = 0;
};

class CopyJobTest : public testing::JobRig {
 protected:
  CopyJobTest() {
    JobTableOptions options;
    options.copier = &copier_;
    start(options);
    mount("/out", out_);
    source_->put("top", random_content(10, 1));
    source_->put("a/1", random_content(20, 2));
    source_->put("a/deep/2", "");
  }
  JobInfo copy(const std::string& from, const std::string& to, JobSpec order = {}) {
    order.kind = JobKind::kCopy;
    order.path = from;
    order.output = to;
    const Result<JobInfo> started = jobs_->start(std::move(order));
    EXPECT_TRUE(started) << started.error().to_string();
    return wait(started->id);
  }

  std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    const Result<ListingPtr> listing = list(path);
    EXPECT_TRUE(listing) << listing.error().to_string();
    if (!listing) return names;
    for (Listing::Cursor cursor = (*listing)->from(0); cursor.next();) {
      names.emplace_back(cursor.view().name);
    }
    return names;
  }

  MadeCopier copier_;
  const std::shared_ptr<testing::MemorySource> out_ =
      std::make_shared<testing::MemorySource>("out");
};

TEST_F(CopyJobTest, WhatLiesInADirectoryGoesIntoTheOther) {
  const JobInfo job = copy("/data", "/out/x/");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.files_done, 3u);
  EXPECT_EQ(job.progress.bytes_done, 30u);
  EXPECT_EQ(job.progress.bytes_fetched, 30u);
  EXPECT_TRUE(job.progress.planned);
  for (const char* to : {"/out/x/top", "/out/x/a/1", "/out/x/a/deep/2"}) {
    ASSERT_TRUE(copier_.copied.contains(to)) << to;
    EXPECT_FALSE(copier_.copied[to].name_is_guess);
    EXPECT_TRUE(copier_.copied[to].mtime);
  }
  EXPECT_EQ(copy("/data/a", "s3://bucket/y").state, JobState::kDone);
  EXPECT_TRUE(copier_.copied.contains("s3://bucket/y|1"));
  EXPECT_TRUE(copier_.copied.contains("s3://bucket/y|deep/2"));
}

TEST_F(CopyJobTest, AFileGetsTheNameOrItsOwnInAFolder) {
  copy("/data/a/1", "/out/new");
  ASSERT_TRUE(copier_.copied.contains("/out/new"));
  EXPECT_TRUE(copier_.copied["/out/new"].name_is_guess);
  copy("/data/a/1", "/out/in/");
  EXPECT_TRUE(copier_.copied.contains("/out/in/1"));
  copy("/data/a/1", "s3://bucket/in/?region=x");
  EXPECT_TRUE(copier_.copied.contains("s3://bucket/in/?region=x|1"));
  copy("/data/a/1", "s3://bucket");
  EXPECT_TRUE(copier_.copied.contains("s3://bucket|1"));
  copy("/data/a/1", "s3://bucket/name");
  EXPECT_TRUE(copier_.copied.contains("s3://bucket/name"));
}

TEST_F(CopyJobTest, WhatIsThereIsCountedAndWhatFailsIsNamed) {
  copier_.there = {"/out/top"};
  copier_.refuses = "/out/a/1";
  const JobInfo job = copy("/data", "/out");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.files_done, 2u);
  EXPECT_EQ(job.progress.files_already_present, 1u);
  EXPECT_EQ(job.progress.bytes_done, 10u);
  EXPECT_EQ(job.progress.bytes_fetched, 0u);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "/data/a/1");
}

TEST_F(CopyJobTest, AFileWhoseWorkerIsLostBeginsAgain) {
  const uint64_t size = 20 << 20;
  source_->put("large", random_content(size, 5));
  copier_.lost_in_midst = 2;
  JobSpec order;
  order.selection.include = {"large"};
  const JobInfo job = copy("/data", "/out", order);
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.bytes_done, size);
  EXPECT_EQ(job.progress.bytes_fetched, size);
  EXPECT_EQ(copier_.copied.size(), 1u);
  EXPECT_EQ(copier_.steps, 7);
}

TEST_F(CopyJobTest, ChangedFileIsCopiedInItsNewVersion) {
  copier_.outdated = lookup("/data/a/1").ref->version;
  source_->put("a/1", random_content(50, 6));
  const JobInfo job = copy("/data/a/1", "/out/new");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.files_done, 1u);
  EXPECT_EQ(job.progress.bytes_total, 50u);
  EXPECT_EQ(job.progress.bytes_done, 50u);
  EXPECT_TRUE(copier_.copied.contains("/out/new"));
}

// Another process wrote them, so this catalog's listing is older.
TEST_F(CopyJobTest, NamesOfTheCopyAreSeenAtItsEnd) {
  out_->put("x/old", "1");
  out_->put("x/a/old", "1");
  ASSERT_THAT(names_in("/out/x"), ElementsAre("a", "old"));
  ASSERT_THAT(names_in("/out/x/a"), ElementsAre("old"));
  out_->put("x/top", "1");
  out_->put("x/a/1", "1");
  ASSERT_EQ(copy("/data", "/out/x").state, JobState::kDone);
  EXPECT_THAT(names_in("/out/x"), ElementsAre("a", "old", "top"));
  EXPECT_THAT(names_in("/out/x/a"), ElementsAre("1", "old"));
}

TEST_F(CopyJobTest, PlacesThatCannotBeAreRefused) {
  auto refused = [this](const std::string& to) {
    JobSpec order{.kind = JobKind::kCopy, .path = "/data", .output = to};
    const Result<JobInfo> started = jobs_->start(std::move(order));
    return started ? StatusCode::kInternal : started.error().code();
  };
  EXPECT_EQ(refused("/data"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused("/data/a/b"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused("leat://other/x"), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused("nothing"), StatusCode::kInvalidArgument);
  const JobInfo job = copy("/data", "/elsewhere");
  EXPECT_EQ(job.state, JobState::kFailed);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_THAT(job.errors[0].status.to_string(), HasSubstr("nothing is mounted there"));
  EXPECT_TRUE(copier_.copied.empty());
}

}  // namespace
}  // namespace leat
