// SPDX-License-Identifier: Apache-2.0
#include "jobs/refresh_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/job_rig_test.h"

namespace leat {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RefreshJobTest : public testing::JobRig {
 protected:
  static std::vector<std::string> changes_of(const JobInfo& job) {
    std::vector<std::string> all;
    for (const JobChange& one : job.changes) {
      all.push_back(std::string(to_string(one.kind)) + " " + one.path);
    }
    std::ranges::sort(all);
    return all;
  }
};

TEST_F(RefreshJobTest, SaysWhatChangedInAllThatIsKnown) {
  start({}, /*with_store=*/false);
  for (const char* key : {"a/x", "a/b/y", "a/c/d/z", "unknown/x"}) source_->put(key, "1");
  for (const char* path : {"/data", "/data/a", "/data/a/b", "/data/a/c", "/data/a/c/d"}) {
    ASSERT_TRUE(list(path));
  }
  EXPECT_THAT(changes_of(run(JobKind::kRefresh, "/data")), IsEmpty());
  source_->put("a/x", "22");
  source_->put("a/b/new", "1");
  source_->put("unknown/y", "1");
  source_->remove("a/c/d/z");
  const JobInfo job = run(JobKind::kRefresh, "/data");
  EXPECT_EQ(job.state, JobState::kDone);
  EXPECT_THAT(changes_of(job),
              ElementsAre("added /data/a/b/new", "changed /data/a/x", "removed /data/a/c/"))
      << "a directory that went is one change";
  EXPECT_EQ(job.progress.added, 1u);
  EXPECT_EQ(job.progress.changed, 1u);
  EXPECT_EQ(job.progress.removed, 1u);
  EXPECT_EQ(job.progress.files_done, job.progress.files_total);
  EXPECT_THAT(changes_of(run(JobKind::kRefresh, "/data")), IsEmpty());
}

TEST_F(RefreshJobTest, OfAFileOrOfWhatWentOrWasNever) {
  start();
  for (const char* key : {"a/x", "a/y", "b/z"}) source_->put(key, "1");
  for (const char* path : {"/data", "/data/a", "/data/b"}) ASSERT_TRUE(list(path));
  source_->put("a/x", "22");
  source_->put("a/y", "22");
  EXPECT_THAT(changes_of(run(JobKind::kRefresh, "/data/a/x")), ElementsAre("changed /data/a/x"));
  source_->remove("b/z");
  EXPECT_THAT(changes_of(run(JobKind::kRefresh, "/data/b")), ElementsAre("removed /data/b/"));
  EXPECT_EQ(run(JobKind::kRefresh, "/data/b").state, JobState::kFailed);
  EXPECT_EQ(run(JobKind::kRefresh, "/nowhere").state, JobState::kFailed);
}

TEST_F(RefreshJobTest, StoreThatDoesNotAnswerIsAskedOnce) {
  start();
  for (const char* key : {"a/b/x", "a/c/y"}) source_->put(key, "1");
  for (const char* path : {"/data", "/data/a", "/data/a/b", "/data/a/c"}) ASSERT_TRUE(list(path));
  source_->fail_next(StatusCode::kPermissionDenied, 1);
  const JobInfo job = run(JobKind::kRefresh, "/data/a");
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.progress.errors, 1u);
  EXPECT_EQ(job.progress.files_total, 0u) << "nothing below it is asked for";
}

}  // namespace
}  // namespace leat
