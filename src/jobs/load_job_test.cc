// SPDX-License-Identifier: Apache-2.0
#include "jobs/load_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/job_rig_test.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using testing::random_content;
using testing::wait_until;

class LoadJobTest : public testing::JobRig {};

Task<Result<>> put_often(DirectoryQueue* found, size_t times) {
  const ListingPtr none = Listing::of({}, {});
  for (size_t i = 0; i < times; ++i) {
    LEAT_CO_CHECK_OK(co_await found->put(Context::background(), {"/data", none}));
  }
  co_return Result<>();
}

TEST(DirectoryQueue, AFullOneTakesNothingMore) {
  Executor executor;
  DirectoryQueue found;
  ASSERT_TRUE(executor.block_on(put_often(&found, DirectoryQueue::kDirectoriesMax)));
  std::stop_source stop;
  stop.request_stop();
  const Context gone = Context::background().with_cancel(stop.get_token());
  const auto put = [&] {
    return executor.block_on(found.put(gone, {"/data/last", Listing::of({}, {})}));
  };
  const Result<> full = put();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), StatusCode::kCancelled);
  EXPECT_EQ(executor.block_on(found.take())->path, "/data");
  EXPECT_TRUE(put());
}

TEST_F(LoadJobTest, LoadsATreeOnceWithNestedMounts) {
  start();
  auto other = std::make_shared<testing::MemorySource>("other");
  mount("/data/b/other", other);
  uint64_t bytes = 0, files = 0;
  for (std::string key : {"top", "a/1", "a/2", "a/deep/er/3", "b/4", "empty"}) {
    std::string content = key == "empty" ? "" : random_content(90'000 + 1000 * files, files);
    bytes += content.size();
    ++files;
    source_->put(key, content);
  }
  other->put("x/5", random_content(1000, 99));

  JobInfo job = run(JobKind::kLoad, "/data/");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.path, "/data");
  EXPECT_TRUE(job.progress.planned);
  EXPECT_EQ(job.progress.files_total, files + 1);
  EXPECT_EQ(job.progress.files_done, files + 1);
  EXPECT_EQ(job.progress.bytes_total, bytes + 1000);
  EXPECT_EQ(job.progress.bytes_done, bytes + 1000);
  EXPECT_EQ(job.progress.bytes_fetched, bytes + 1000);
  EXPECT_TRUE(cached("/data/a/deep/er/3"));
  EXPECT_TRUE(cached("/data/b/other/x/5"));

  job = run(JobKind::kLoad, "/data");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.bytes_done, bytes + 1000);
  EXPECT_EQ(job.progress.bytes_fetched, 0u);
  EXPECT_EQ(source_->read_bytes() + other->read_bytes(), bytes + 1000);
}

TEST_F(LoadJobTest, UncachedMountIsCountedAndNotRead) {
  start();
  source_->put("kept", random_content(1000, 1));
  auto other = std::make_shared<testing::MemorySource>("other");
  other->put("a", random_content(70'000, 2));
  other->put("d/b", random_content(5, 3));
  MountEntry never{.path = "/data/never", .source = {}, .policy = {}};
  never.policy.cache = CacheMode::kNever;
  ASSERT_TRUE(catalog_->mount(std::move(never), other));
  JobInfo job = run(JobKind::kLoad, "/data");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.files_done, 1u);
  EXPECT_EQ(job.progress.files_total, 1u);
  EXPECT_EQ(job.progress.files_uncached, 2u);
  EXPECT_EQ(job.progress.bytes_uncached, 70'005u);
  EXPECT_EQ(other->reads(), 0u);
}

TEST_F(LoadJobTest, LargeFileLoadsInBoundedPieces) {
  start({.load = {.pieces_max = 2}});
  std::string content = random_content(35 * kMiB, 1);
  source_->put("dir/large", content);
  source_->put("dir/beside", "not loaded");
  source_->block_reads();
  uint64_t id = jobs_->start(JobKind::kLoad, "/data/dir/large")->id;
  wait_until([&] { return source_->blocked_reads() == 2; });
  source_->release_reads();
  JobInfo job = wait(id);
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.files_total, 1u);
  EXPECT_EQ(job.progress.bytes_fetched, content.size());
  EXPECT_EQ(source_->peak(), 2u);
  EXPECT_EQ(source_->reads(), 5u);
  EXPECT_FALSE(cached("/data/dir/beside"));
}

TEST_F(LoadJobTest, WhatIsNotThereFailsTheJobWithTheReason) {
  start();
  source_->put("a", "text");
  JobInfo job = run(JobKind::kLoad, "/data/missing");
  EXPECT_EQ(job.state, JobState::kFailed);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "/data/missing");
  EXPECT_EQ(job.errors[0].status.code(), StatusCode::kNotFound);
}

TEST_F(LoadJobTest, FailuresAreCountedAndFirst100Named) {
  start();
  for (int i = 0; i < 200; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  ASSERT_TRUE(list("/data/dir"));
  ASSERT_EQ(lookup("/data/dir").info.kind, FileKind::kDirectory);
  source_->fail_next(StatusCode::kPermissionDenied, 150);
  JobInfo job = run(JobKind::kLoad, "/data/dir");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.errors, 150u);
  EXPECT_EQ(job.progress.files_failed, 150u);
  EXPECT_EQ(job.progress.files_done, 50u);
  EXPECT_EQ(job.progress.bytes_done, 500u);
  ASSERT_EQ(job.errors.size(), 100u);
  EXPECT_THAT(job.errors[0].path, HasSubstr("/data/dir/"));
  EXPECT_EQ(job.errors[0].status.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(run(JobKind::kLoad, "/data/dir").state, JobState::kDone);
}

TEST_F(LoadJobTest, UnlistableDirectoryDoesNotEndTheLoad) {
  start();
  source_->put("dir/a", "text");
  source_->put("dir/sub/b", "text");
  ASSERT_TRUE(list("/data/dir"));
  ASSERT_EQ(lookup("/data/dir").info.kind, FileKind::kDirectory);
  source_->fail_next(StatusCode::kThrottled, 1);
  source_->block_reads();  // so that the time goes to the listing
  uint64_t id = jobs_->start(JobKind::kLoad, "/data/dir")->id;
  wait_until([&] { return jobs_->find(id)->progress.errors == 1; });
  source_->release_reads();
  JobInfo job = wait(id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.errors[0].path, "/data/dir/sub");
  EXPECT_EQ(job.progress.files_done, 1u);
}

TEST_F(LoadJobTest, ChangedFileIsLoadedInItsNewVersion) {
  start();
  source_->put("dir/stays", random_content(1000, 2));
  source_->put("dir/changes", random_content(9 * kMiB, 3));
  source_->put("dir/goes", random_content(1000, 4));
  ASSERT_TRUE(list("/data/dir"));
  source_->put("dir/changes", random_content(17 * kMiB, 5));
  source_->remove("dir/goes");
  JobInfo job = run(JobKind::kLoad, "/data/dir");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.files_done, 2u);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "/data/dir/goes");
  EXPECT_EQ(job.errors[0].status.code(), StatusCode::kNotFound);
  EXPECT_EQ(job.progress.bytes_total, 17 * kMiB + 2000);
  EXPECT_EQ(job.progress.bytes_done, 17 * kMiB + 1000);
  EXPECT_TRUE(cached("/data/dir/changes"));
}

TEST_F(LoadJobTest, CancelEndsItWhileTheStoreStillWorks) {
  start({.load = {.files_max = 16}});
  for (int i = 0; i < 50; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  source_->block_reads();
  uint64_t id = jobs_->start(JobKind::kLoad, "/data/dir")->id;
  wait_until([&] { return source_->blocked_reads() == 16; });
  EXPECT_EQ(jobs_->find(id)->state, JobState::kRunning);
  ASSERT_TRUE(jobs_->cancel(id));
  JobInfo job = wait(id);
  EXPECT_EQ(job.state, JobState::kCancelled);
  EXPECT_EQ(job.progress.errors, 0u);
  EXPECT_EQ(job.progress.files_done, 0u);
  EXPECT_EQ(source_->reads(), 16u);
}

// So that percentage and remaining time are known from the first second on.
TEST_F(LoadJobTest, TotalsAreFinalBeforeTheFilesAreLoaded) {
  start({.load = {.files_max = 16}});
  for (int i = 0; i < 50; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  source_->put("dir/a/below", "0123456789");
  source_->put("dir/b/c/d/below", "0123456789");
  source_->block_reads();
  const uint64_t id = jobs_->start(JobKind::kLoad, "/data/dir")->id;
  wait_until([&] { return source_->blocked_reads() == 16; });
  wait_until([&] { return jobs_->find(id)->progress.planned; });
  const JobProgress now = jobs_->find(id)->progress;
  EXPECT_EQ(now.files_total, 52u);
  EXPECT_EQ(now.bytes_total, 520u);
  EXPECT_EQ(now.files_done, 0u);
  source_->release_reads();
  EXPECT_EQ(wait(id).progress.files_done, 52u);
}

TEST_F(LoadJobTest, ACacheWithoutRoomEndsTheLoadEarly) {
  start();
  for (int i = 0; i < 500; ++i) {
    source_->put("dir/" + std::to_string(1000 + i), random_content(1000, i));
  }
  store_.set_capacity(10'000);
  JobInfo job = run(JobKind::kLoad, "/data/dir");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.files_done, 10u);
  EXPECT_EQ(job.progress.bytes_done, 10'000u);
  EXPECT_LT(source_->reads(), 100u);
  bool said = false;
  for (const JobError& failed : job.errors) {
    EXPECT_EQ(failed.status.code(), StatusCode::kNoSpace);
    said = said || failed.path == "/data/dir";
  }
  EXPECT_TRUE(said);
}

TEST_F(LoadJobTest, FilesThatAFullCacheEndsAreNoErrors) {
  start({.load = {.pieces_max = 1, .rejections_max = 1}});
  for (int i = 0; i < 10; ++i) source_->put("dir/" + std::to_string(i), random_content(1000, i));
  store_.set_capacity(0);
  source_->block_reads();
  const uint64_t id = jobs_->start(JobKind::kLoad, "/data/dir")->id;
  wait_until([&] { return source_->blocked_reads() == 1 && jobs_->find(id)->progress.planned; });
  source_->release_reads();
  const JobInfo job = wait(id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.errors, 2u) << "the file that was refused, and the job";
  EXPECT_EQ(job.progress.files_failed, 1u) << "the end of the load is no file";
  for (const JobError& failed : job.errors) {
    EXPECT_EQ(failed.status.code(), StatusCode::kNoSpace) << failed.path;
  }
}

// No user of the mount could make a later load complete.
TEST_F(LoadJobTest, KeysThatCannotBeNamesAreCountedAndNamed) {
  start();
  source_->put("dir/a", "text");
  source_->put("dir//b", "text");
  for (int i = 0; i < 20; ++i) source_->put(std::to_string(i) + "/./c", "text");
  const JobInfo job = run(JobKind::kLoad, "/data");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.errors, 0u);
  EXPECT_EQ(job.progress.files_done, 1u);
  EXPECT_EQ(job.progress.names_skipped, 21u);
  EXPECT_EQ(job.skipped.size(), Job::kSkippedMax);
  const JobInfo one = run(JobKind::kLoad, "/data/dir");
  EXPECT_EQ(one.skipped, (std::vector{SkippedNames{"/data/dir", 1, "dir//"}}));
}

TEST_F(LoadJobTest, WhatIsNotThereAnyMoreAtTheEndFailsTheJob) {
  start();
  source_->put("dir/a", random_content(5000, 1));
  ASSERT_EQ(run(JobKind::kLoad, "/data").state, JobState::kDone);
  source_->put("dir/b", random_content(3000, 2));
  catalog_->invalidate("/data");
  source_->block_reads();
  uint64_t id = jobs_->start(JobKind::kLoad, "/data")->id;
  wait_until(
      [&] { return source_->blocked_reads() == 1 && jobs_->find(id)->progress.files_done == 1; });
  store_.drop(lookup("/data/dir/a").ref->id);  // as an eviction in favour of the second file would
  source_->release_reads();
  JobInfo job = wait(id);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.files_done, 1u);
  EXPECT_EQ(job.progress.bytes_done, 3000u);
  ASSERT_EQ(job.errors.size(), 1u);
  EXPECT_EQ(job.errors[0].path, "/data");
  EXPECT_EQ(job.errors[0].status.code(), StatusCode::kNoSpace);
  EXPECT_THAT(job.errors[0].status.message(), HasSubstr("of 1 file 4.9 KiB are missing"));
}

TEST_F(LoadJobTest, EvictedFilesAreReloadedIfConfigured) {
  start({.load = {.rounds_max = 2}});
  source_->put("dir/a", random_content(5000, 1));
  source_->put("dir//c", "no name");
  ASSERT_EQ(run(JobKind::kLoad, "/data").state, JobState::kDone);
  source_->put("dir/b", random_content(3000, 2));
  catalog_->invalidate("/data");
  source_->block_reads();
  uint64_t id = jobs_->start(JobKind::kLoad, "/data")->id;
  wait_until(
      [&] { return source_->blocked_reads() == 1 && jobs_->find(id)->progress.files_done == 1; });
  store_.drop(lookup("/data/dir/a").ref->id);
  source_->release_reads();
  JobInfo job = wait(id);
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.files_done, 2u);
  EXPECT_EQ(job.progress.files_total, 2u);
  EXPECT_EQ(job.progress.bytes_done, 8000u);
  EXPECT_EQ(job.progress.names_skipped, 1u) << "of the last round alone";
  EXPECT_TRUE(cached("/data/dir/a"));
}

// A file that fails in the first round and is loaded in the second counts once, and is no error.
TEST_F(LoadJobTest, AFailureOfAnEarlierRoundIsForgotten) {
  start({.load = {.rounds_max = 2}});
  source_->put("dir/a", random_content(5000, 1));
  ASSERT_EQ(run(JobKind::kLoad, "/data").state, JobState::kDone);
  source_->put("dir/b", random_content(3000, 2));
  source_->put("dir/c", random_content(2000, 3));
  source_->break_reads_of("dir/c");
  catalog_->invalidate("/data");
  source_->block_reads();
  uint64_t id = jobs_->start(JobKind::kLoad, "/data")->id;
  wait_until([&] {
    const JobProgress now = jobs_->find(id)->progress;
    return source_->blocked_reads() == 1 && now.files_done == 1 && now.errors == 1;
  });
  source_->break_reads_of("");
  store_.drop(lookup("/data/dir/a").ref->id);
  source_->release_reads();
  const JobInfo job = wait(id);
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.errors, 0u);
  EXPECT_TRUE(job.errors.empty());
  EXPECT_EQ(job.progress.files_done, 3u);
}

TEST_F(LoadJobTest, LoadsOfChangingBucketEnd) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  start({}, true, {.memory_bytes_max = 200 * kKiB});
  auto put_any = [&] {
    std::string key = "d" + std::to_string(random() % 4) + "/f" + std::to_string(random() % 20);
    source_->put(key, random_content(random() % 200'000, random()));
  };
  for (int i = 0; i < 40; ++i) put_any();
  for (int round = 0; round < 6; ++round) {
    uint64_t id = jobs_->start(JobKind::kLoad, "/data")->id;
    for (int i = 0; i < 10; ++i) put_any();
    if (random() % 3 == 0) source_->fail_next(StatusCode::kUnavailable, 3);
    if (random() % 3 == 0) ASSERT_TRUE(jobs_->cancel(id));
    JobInfo job = wait(id);
    EXPECT_LE(job.progress.files_done + job.progress.errors, job.progress.files_total + 5);
    EXPECT_LE(job.progress.bytes_done, job.progress.bytes_total);
    for (const JobError& failed : job.errors) {
      EXPECT_TRUE(failed.status.code() == StatusCode::kUnavailable ||
                  failed.status.code() == StatusCode::kVersionChanged)
          << failed.path << ": " << failed.status.to_string();
    }
  }
  source_->fail_next(StatusCode::kUnavailable, 0);
  // A reader that joined a flight of the cancelled job may fail with it.
  wait_until([&] { return fetcher_->stats().files == 0; });
  catalog_->invalidate("/data");
  JobInfo job = run(JobKind::kLoad, "/data");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.bytes_done, job.progress.bytes_total);
  EXPECT_EQ(run(JobKind::kLoad, "/data").progress.bytes_fetched, 0u);
}

TEST_F(LoadJobTest, FilesAreChosenByTheirNamesBelowThePath) {
  start();
  for (const char* key : {"a/1.jpg", "a/2.txt", "b/deep/3.jpg", "4.jpg"}) {
    source_->put(key, random_content(10'000, 1));
  }
  auto load = [&](std::string path, FileSelection selection) {
    JobSpec order{.kind = JobKind::kLoad, .path = std::move(path)};
    order.selection = std::move(selection);
    return wait(jobs_->start(std::move(order))->id);
  };
  JobInfo job = load("/data", {.include = {"*.jpg"}, .exclude = {"deep/"}});
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.files_total, 2u);
  EXPECT_TRUE(cached("/data/a/1.jpg"));
  EXPECT_TRUE(cached("/data/4.jpg"));
  EXPECT_FALSE(cached("/data/a/2.txt"));
  EXPECT_FALSE(cached("/data/b/deep/3.jpg"));
  // Below another path the names differ.
  EXPECT_EQ(load("/data/b", {.files = {"deep"}}).progress.files_done, 1u);
  EXPECT_EQ(load("/data/a/2.txt", {.include = {"*.txt"}}).progress.files_done, 1u);
  JobSpec wrong{.kind = JobKind::kLoad, .path = "/data"};
  wrong.selection.regex = "(";
  EXPECT_EQ(jobs_->start(wrong).error().code(), StatusCode::kInvalidArgument);
}

TEST_F(LoadJobTest, CorruptBytesAreFetchedAgain) {
  start();
  const std::string content = random_content(3 * kMiB, 1);
  source_->put("file", content);
  run(JobKind::kLoad, "/data");
  store_.corrupt_reads(1);
  JobSpec order{.kind = JobKind::kLoad, .path = "/data"};
  order.verify = true;
  JobInfo job = wait(jobs_->start(order)->id);
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_EQ(job.progress.bytes_verified, content.size());
  // From the fetcher's memory if it is still there.
  EXPECT_TRUE(cached("/data/file"));
}

TEST_F(LoadJobTest, AJobKeepsTheNumberThatItIsGiven) {
  start();
  source_->put("a", "text");
  JobSpec order{.kind = JobKind::kLoad, .path = "/data"};
  EXPECT_EQ(jobs_->start(order, 7)->id, 7u);
  EXPECT_EQ(jobs_->start(order, 7).error().code(), StatusCode::kExists);
  EXPECT_EQ(jobs_->start(order)->id, 8u);
  wait(8);
}

}  // namespace
}  // namespace leat
