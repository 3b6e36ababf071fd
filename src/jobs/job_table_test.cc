// SPDX-License-Identifier: Apache-2.0
#include "jobs/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "jobs/job_rig_test.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using testing::random_content;
using testing::wait_until;

class JobTableTest : public testing::JobRig {};

Task<> nothing() {
  co_return;
}

TEST_F(JobTableTest, FreeReleasesCacheAndMemory) {
  start();
  std::string content = random_content(300'000, 1);
  for (std::string key : {"dir/a", "dir/sub/b", "stays"}) source_->put(key, content);
  ASSERT_EQ(run(JobKind::kLoad, "/data").state, JobState::kDone);
  JobInfo job = run(JobKind::kFree, "/data/dir");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_TRUE(job.progress.planned);
  EXPECT_EQ(job.progress.files_done, 2u);
  EXPECT_EQ(job.progress.bytes_done, 600'000u);
  EXPECT_EQ(store_.bytes(), 300'000u);
  EXPECT_EQ(run(JobKind::kFree, "/data/dir").progress.bytes_done, 0u);

  uint64_t before = source_->read_bytes();
  FileRefPtr ref = lookup("/data/dir/sub/b").ref;
  EXPECT_FALSE(fetcher_->try_read(*ref, {0, 10}));
  EXPECT_EQ(
      executor_.block_on(fetcher_->read(Context::background(), ref, {0, 300'000}))->to_string(),
      content);
  EXPECT_EQ(source_->read_bytes() - before, 300'000u);
}

TEST_F(JobTableTest, FreeCoversBytesNotYetCached) {
  start();
  std::string content = random_content(300'000, 2);
  source_->put("dir/a", content);
  FileRefPtr ref = lookup("/data/dir/a").ref;
  store_.hold_writes();
  ASSERT_TRUE(executor_.block_on(fetcher_->read(Context::background(), ref, {0, ref->size})));
  wait_until([&] { return store_.held() > 0; });
  const uint64_t job = jobs_->start(JobKind::kFree, "/data/dir").value().id;
  // The job waits for pending writes.
  const auto context = Context::background().with_timeout(std::chrono::milliseconds(50));
  const Result<JobInfo> early = executor_.block_on(jobs_->wait(context, job));
  EXPECT_FALSE(early);
  store_.release_writes();
  EXPECT_EQ(wait(job).progress.bytes_done, content.size());
  EXPECT_EQ(store_.bytes(), 0u);
  EXPECT_EQ(fetcher_->stats().memory_bytes, 0u);
}

// Like a worker that does not respond.
TEST_F(JobTableTest, AFailureToFreeIsSaidOnce) {
  class SilentTarget : public LocalJobCache {
   public:
    using LocalJobCache::LocalJobCache;
    Task<Result<uint64_t>> drop(Context, std::vector<FileRefPtr>) override {
      co_return error(StatusCode::kUnavailable, "worker 7 does not answer");
    }
  };
  start();
  for (int i = 0; i < 5; ++i) source_->put(std::to_string(i) + "/file", "x");
  SilentTarget silent(*fetcher_, store_, nullptr, executor_);
  JobTable jobs({}, *catalog_, &silent, executor_);
  const uint64_t id = jobs.start(JobKind::kFree, "/data")->id;
  const JobInfo job = executor_.block_on(jobs.wait(Context::background(), id)).value();
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.errors, 5u);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "/data");
  executor_.block_on(jobs.stop());
}

TEST_F(JobTableTest, CorruptBlocksFailAVerification) {
  class CorruptTarget : public LocalJobCache {
   public:
    using LocalJobCache::LocalJobCache;
    Task<Content> content(Context, uint64_t) override {
      co_return Content{.objects = 3, .bytes = 30};
    }
    Task<Result<>> verify(Context, uint64_t, HostCache::StepListener listener) override {
      listener({.bytes = 10, .objects = 1, .corrupt_blocks = 1});
      listener({.bytes = 20, .objects = 2, .corrupt_blocks = 1});
      co_return Result<>();
    }
  };
  start();
  CorruptTarget corrupt(*fetcher_, store_, nullptr, executor_);
  JobTable jobs({}, *catalog_, &corrupt, executor_);
  const uint64_t id = jobs.start(JobKind::kVerify, "/")->id;
  const JobInfo job = executor_.block_on(jobs.wait(Context::background(), id)).value();
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_TRUE(job.progress.planned);
  EXPECT_EQ(job.progress.files_total, 3u);
  EXPECT_EQ(job.progress.files_done, 3u);
  EXPECT_EQ(job.progress.bytes_total, 30u);
  EXPECT_EQ(job.progress.bytes_done, 30u);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].status.code(), StatusCode::kCorrupt);
  EXPECT_THAT(job.errors[0].status.message(), HasSubstr("2 blocks"));
  executor_.block_on(jobs.stop());
}

TEST_F(JobTableTest, FreeOfNothingSaysWhy) {
  start();
  JobInfo job = run(JobKind::kFree, "/elsewhere");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.errors[0].status.code(), StatusCode::kNotFound);
}

TEST_F(JobTableTest, RefusesWhatCannotRun) {
  start({.running_max = 2});
  EXPECT_EQ(jobs_->start(JobKind::kLoad, "relative").error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(jobs_->start(JobKind::kLoad, "/data/../x").error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(jobs_->find(7).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(jobs_->cancel(7).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(parse_job_kind("free").value(), JobKind::kFree);
  EXPECT_THAT(parse_job_kind("dance").error().message(),
              HasSubstr("'load', 'free', 'verify', 'snapshot', 'refresh' and 'copy'"));

  source_->put("a", "text");
  source_->block_reads();
  ASSERT_TRUE(jobs_->start(JobKind::kLoad, "/data"));
  ASSERT_TRUE(jobs_->start(JobKind::kLoad, "/data"));
  auto busy = jobs_->start(JobKind::kFree, "/data");
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code(), StatusCode::kBusy);
  source_->release_reads();
  EXPECT_EQ(wait(1).state, JobState::kDone);
  EXPECT_EQ(wait(2).state, JobState::kDone);
  EXPECT_EQ(source_->reads(), 1u);
  EXPECT_EQ(run(JobKind::kFree, "/data").state, JobState::kDone);
}

TEST_F(JobTableTest, WithoutACacheThereIsNothingToLoadInto) {
  start({}, /*with_store=*/false);
  auto refused = jobs_->start(JobKind::kLoad, "/data");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kUnsupported);
}

TEST_F(JobTableTest, KeepsLastEndedAndAllRunningJobs) {
  start({.ended_max = 3});
  source_->put("a", "text");
  source_->block_reads();
  uint64_t runs = jobs_->start(JobKind::kLoad, "/data")->id;
  wait_until([&] { return source_->blocked_reads() == 1; });
  for (int i = 0; i < 6; ++i) run(JobKind::kFree, "/data");
  std::vector<uint64_t> ids;
  for (const JobInfo& job : jobs_->list()) ids.push_back(job.id);
  EXPECT_THAT(ids, ::testing::ElementsAre(runs, 5, 6, 7));
  EXPECT_EQ(jobs_->find(runs)->state, JobState::kRunning);
  EXPECT_EQ(jobs_->find(2).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(jobs_->cancel(5)->state, JobState::kDone);

  // A long job is kept as long as the others, counted from its end.
  source_->release_reads();
  EXPECT_EQ(wait(runs).state, JobState::kDone);
  run(JobKind::kFree, "/data");
  EXPECT_EQ(jobs_->find(runs)->state, JobState::kDone);
  EXPECT_EQ(jobs_->find(6).error().code(), StatusCode::kNotFound);
}

TEST_F(JobTableTest, OfOneThatEndedOnlyWhatItTellsIsKept) {
  // Each refresh job has a copy of it.
  const auto held = std::make_shared<int>();
  start({.on_refreshed = [held](const std::string&) { return nothing(); }});
  source_->put("dir/a", "text");
  const auto holders = held.use_count();
  std::vector<JobInfo> told;
  for (std::string path : {"/data/dir", "/data", "/elsewhere"}) {
    told.push_back(run(JobKind::kRefresh, path));
    EXPECT_EQ(held.use_count(), holders) << path;
  }
  EXPECT_EQ(told[0].state, JobState::kDone);
  EXPECT_EQ(told[2].state, JobState::kFailed);
  for (const JobInfo& job : told) {
    const JobInfo now = jobs_->find(job.id).value();
    EXPECT_EQ(now.path, job.path);
    EXPECT_EQ(now.state, job.state);
    EXPECT_EQ(now.duration, job.duration);
    EXPECT_EQ(now.progress.files_done, job.progress.files_done);
    EXPECT_EQ(now.errors.size(), job.errors.size());
    EXPECT_EQ(wait(job.id).state, job.state);
    EXPECT_EQ(jobs_->cancel(job.id)->state, job.state);
  }
  EXPECT_EQ(jobs_->list().size(), told.size());
}

TEST_F(JobTableTest, StopCancelsWhatRunsAndRefusesWhatComes) {
  start();
  source_->put("a", "text");
  source_->block_reads();
  uint64_t id = jobs_->start(JobKind::kLoad, "/data")->id;
  wait_until([&] { return source_->blocked_reads() == 1; });
  executor_.block_on(jobs_->stop());
  EXPECT_EQ(jobs_->find(id)->state, JobState::kCancelled);
  EXPECT_EQ(jobs_->start(JobKind::kLoad, "/data").error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace leat
