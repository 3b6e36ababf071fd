// SPDX-License-Identifier: Apache-2.0
// A cluster's jobs: their records in the registry, from order to end, and from one leader to the
// next.
#include "jobs/cluster/cluster_job.h"

#include <gtest/gtest.h>

#include "cluster/embedded_registry.h"
#include "cluster/registry_door_test.h"
#include "cluster/wait_until_test.h"
#include "jobs/cluster/cluster_job_runner.h"
#include "jobs/job_rig_test.h"

namespace leat {
namespace {

using std::chrono::seconds;
using testing::JobRig;
using testing::RegistryDoor;
using testing::wait_until;

TEST(ClusterJob, ComesBackAsItWas) {
  ClusterJob job{.id = 7, .principal = "worker:1", .cancel = true, .worker = "ab", .begun = 2};
  job.repeat = {.every = seconds(60), .on_change = true, .on_mount = true};
  job.runs = 9;
  job.ticket = "drawn";
  job.order = {.kind = JobKind::kLoad, .path = "/a\xff", .verify = true, .bandwidth = 5};
  job.order.selection.include = {"*.jpg", "\xfe*"};
  job.info.state = JobState::kFailed;
  job.info.duration = std::chrono::milliseconds(1500);
  job.info.progress.planned = true;
  job.info.progress.bytes_done = UINT64_MAX;
  job.info.progress.errors = 1;
  job.info.errors = {{"/a\xff/b", Status(StatusCode::kThrottled, "slow down")}};
  auto back = decode_cluster_job(encode_cluster_job(job));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->order, job.order);
  EXPECT_EQ(back->principal, job.principal);
  EXPECT_EQ(back->repeat, job.repeat);
  EXPECT_EQ(back->runs, 9u);
  EXPECT_EQ(back->ticket, "drawn");
  EXPECT_TRUE(back->cancel);
  EXPECT_EQ(back->worker, job.worker);
  EXPECT_EQ(back->begun, 2u);
  EXPECT_TRUE(back->ended());
  EXPECT_EQ(back->info.path, job.order.path);
  EXPECT_EQ(back->info.duration, job.info.duration);
  EXPECT_EQ(back->info.progress.bytes_done, UINT64_MAX);
  ASSERT_EQ(back->info.errors.size(), 1u);
  EXPECT_EQ(back->info.errors[0].path, "/a\xff/b");
  EXPECT_EQ(back->info.errors[0].status.code(), StatusCode::kThrottled);
}

TEST(ClusterJob, ACopySaysWhereToAndOverWhat) {
  ClusterJob job{.id = 8};
  job.order = {.kind = JobKind::kCopy, .path = "/a", .output = "/b\xff/", .over = CopyOver::kOther};
  job.info.progress.files_there = 4;
  job.info.progress.names_skipped = 5;
  job.info.skipped = {{"/m/\xff", 5, "d//\xff"}};
  const auto back = decode_cluster_job(encode_cluster_job(job));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->order, job.order);
  EXPECT_EQ(back->info.progress.files_there, 4u);
  EXPECT_EQ(back->info.progress.names_skipped, 5u);
  EXPECT_EQ(back->info.skipped, job.info.skipped);
}

TEST(ClusterJob, WhatIsNoneIsAnErrorAndALaterOneIsLeftAlone) {
  EXPECT_EQ(decode_cluster_job("{}").error().code(), StatusCode::kCorrupt);
  EXPECT_EQ(decode_cluster_job("no").error().code(), StatusCode::kCorrupt);
  EXPECT_EQ(decode_cluster_job(R"({"v":2})").error().code(), StatusCode::kUnsupported);
}

// A candidate for leadership with its own access to the registry; all run jobs on one catalog and
// cache.
struct Leader {
  Leader(Registry& registry, const std::string& name, Executor& on,
         std::function<std::unique_ptr<JobTable>()> make_jobs,
         std::function<void(const std::string&)> forget)
      : executor(on), door(registry) {
    session = RegistrySession::start(door, {.ttl = std::chrono::hours(1)}, executor);
    election = Election::start(door, *session, {.name = name}, executor);
    book = ClusterJobBook::start(door, executor);
    ClusterJobRunnerParts parts{.registry = door,
                                .election = *election,
                                .book = *book,
                                .worker = name,
                                .make_stage = [=]() -> Result<std::unique_ptr<JobStage>> {
                                  return std::make_unique<Stage>(make_jobs(), forget);
                                },
                                .ended_max = 3,
                                .settle = std::chrono::milliseconds(500)};
    runner = ClusterJobRunner::start(std::move(parts), executor);
  }
  ~Leader() {
    const Context context = Context::background().with_timeout(seconds(5));
    executor.wait(runner->stop());
    executor.wait(book->stop());
    executor.wait(election->stop(context));
    executor.wait(session->stop(context));
  }

  struct Stage : JobStage {
    Stage(std::unique_ptr<JobTable> made, std::function<void(const std::string&)> forgets)
        : table(std::move(made)), forget(std::move(forgets)) {}
    JobTable& jobs() override { return *table; }
    void forget_names(const std::string& path) override { forget(path); }
    Task<> stop() override { return table->stop(); }
    std::unique_ptr<JobTable> table;
    std::function<void(const std::string&)> forget;
  };

  Executor& executor;
  RegistryDoor door;
  std::unique_ptr<RegistrySession> session;
  std::unique_ptr<Election> election;
  std::unique_ptr<ClusterJobBook> book;
  std::unique_ptr<ClusterJobRunner> runner;
};

// Verifies and drops only when the test opens its gate; records the run.
class HeldTarget : public HostTarget {
 public:
  using HostTarget::HostTarget;
  Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) override {
    ++drops;
    Result<bool> opened = co_await gate->wait(context, "a gate");
    if (!opened) co_return Error(opened.error());
    co_return co_await HostTarget::drop(std::move(context), std::move(files));
  }
  Task<Result<>> verify(Context context, uint64_t job, HostCache::StepListener) override {
    {
      std::lock_guard lock(mutex_);
      runs_.push_back(job);
    }
    Result<bool> opened = co_await gate->wait(context, "a gate");
    if (!opened) co_return Error(opened.error());
    co_return Result<>();
  }
  std::vector<uint64_t> runs() {
    std::lock_guard lock(mutex_);
    return runs_;
  }

  const std::shared_ptr<SharedResult<bool>> gate = SharedResult<bool>::make();
  std::atomic<int> drops = 0;

 private:
  std::mutex mutex_;  // leaf
  std::vector<uint64_t> runs_;
};

class ClusterJobsTest : public JobRig {
 protected:
  ClusterJobsTest()
      : registry_(EmbeddedRegistry::open({}, make_disk(executor_), executor_).value()) {}
  ~ClusterJobsTest() override { executor_.wait(registry_->stop()); }

  std::unique_ptr<Leader> leader(const std::string& name) {
    auto make_jobs = [this] {
      return std::make_unique<JobTable>(JobTableOptions{.running_max = 2}, *catalog_, target_.get(),
                                        executor_);
    };
    return std::make_unique<Leader>(*registry_, name, executor_, make_jobs,
                                    [this](const std::string& at) { catalog_->invalidate(at); });
  }
  // For the others the leader's session has ended. The leader itself continues until its door opens
  // again.
  void cut_off(Leader& leader) {
    leader.door.close();
    ASSERT_TRUE(executor_.wait(registry_->revoke(patient(), leader.session->lease())));
  }
  uint64_t add(Leader& at, JobOrder order, JobRepeat repeat = {}) {
    auto job = executor_.wait(at.book->add(patient(), std::move(order), repeat, "tester"));
    EXPECT_TRUE(job) << job.error().to_string();
    return job ? job->id : 0;
  }
  static Context patient() { return Context::background().with_timeout(seconds(20)); }
  ClusterJob ended(Leader& at, uint64_t id) {
    EXPECT_TRUE(wait_until([&] {
      auto job = at.book->find(id);
      return job && job->ended();
    }));
    return at.book->find(id).value();
  }

  // Replaces the target that start() made; call before there is a leader.
  HeldTarget& hold_target() {
    auto held = std::make_unique<HeldTarget>(*fetcher_, store_, nullptr, executor_);
    HeldTarget& made = *held;
    target_ = std::move(held);
    return made;
  }

  std::unique_ptr<Registry> registry_;
};

// Written by a worker of a later version, during a rolling upgrade.
TEST_F(ClusterJobsTest, AJobThatNobodyHereCanReadKeepsItsNumberAndItsRecord) {
  start();
  source_->put("a", "0123456789");
  const std::string later = R"({"v":1,"id":7,"order":{"kind":"dance","path":"/"},"info":{}})";
  ASSERT_TRUE(executor_.wait(registry_->commit(
      patient(), {.conditions = {}, .puts = {{cluster_job_key(7), later}}, .removals = {}})));
  auto one = leader("one");
  const uint64_t id = add(*one, {.kind = JobKind::kLoad, .path = "/data"});
  EXPECT_EQ(id, 8u);
  EXPECT_EQ(ended(*one, id).info.state, JobState::kDone);
  const auto there = executor_.wait(registry_->list(patient(), cluster_job_key(7)));
  ASSERT_EQ(there->entries.size(), 1u);
  EXPECT_EQ(there->entries[0].value, later);
  EXPECT_FALSE(cluster_job_number("jobs/x"));
  EXPECT_FALSE(cluster_job_number("mounts/7"));
}

TEST_F(ClusterJobsTest, AnOrderThatComesTwiceIsOneJob) {
  start();
  auto one = leader("one");
  auto order = [&](const std::string& ticket) {
    JobOrder load{.kind = JobKind::kLoad, .path = "/data"};
    return executor_.wait(one->book->add(patient(), std::move(load), {}, "tester", ticket))->id;
  };
  const uint64_t first = order("a");
  EXPECT_EQ(order("a"), first);
  EXPECT_NE(order("b"), first);
  EXPECT_NE(order(""), order(""));
}

TEST_F(ClusterJobsTest, AnOrderGivenToAnyIsDoneByTheLeader) {
  start();
  for (int i = 0; i < 20; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  auto first = leader("a");
  ASSERT_TRUE(wait_until([&] { return first->election->leads(); }));
  auto second = leader("b");
  const uint64_t id = add(*second, {.kind = JobKind::kLoad, .path = "/data//dir/"});
  const ClusterJob job = ended(*second, id);
  EXPECT_EQ(job.info.state, JobState::kDone);
  EXPECT_EQ(job.worker, "a");
  EXPECT_EQ(job.begun, 1u);
  EXPECT_EQ(job.principal, "tester");
  EXPECT_EQ(job.info.path, "/data/dir");
  EXPECT_EQ(job.info.progress.files_done, 20u);
  EXPECT_EQ(job.info.progress.bytes_fetched, 200u);
}

TEST_F(ClusterJobsTest, TheNextLeaderGoesOnWithWhatItsPredecessorBegan) {
  start();
  for (int i = 0; i < 20; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  auto first = leader("a");
  ASSERT_TRUE(wait_until([&] { return first->election->leads(); }));
  auto second = leader("b");
  source_->hold_reads();
  const uint64_t id = add(*second, {.kind = JobKind::kLoad, .path = "/data/dir"});
  ASSERT_TRUE(wait_until([&] { return source_->held() == 16; }));
  ASSERT_TRUE(wait_until([&] { return second->book->find(id)->begun == 1; }));
  cut_off(*first);
  ASSERT_TRUE(wait_until([&] { return second->election->leads(); }));
  source_->release_reads();
  const ClusterJob job = ended(*second, id);
  EXPECT_EQ(job.info.state, JobState::kDone);
  EXPECT_EQ(job.worker, "b");
  EXPECT_EQ(job.begun, 2u);
  EXPECT_EQ(job.info.progress.files_done, 20u);
  EXPECT_EQ(source_->reads(), 20u) << "nothing is asked of the store twice";
  first->door.open();
  EXPECT_TRUE(wait_until([&] { return first->book->find(id)->ended(); }));
  EXPECT_EQ(first->book->find(id)->worker, "b");
}

// Workers identify a verification by its number, and continue the one in flight.
TEST_F(ClusterJobsTest, TheNextLeaderTakesUpTheVerifyThatIsUnderWay) {
  start();
  HeldTarget& target = hold_target();
  auto first = leader("a");
  ASSERT_TRUE(wait_until([&] { return first->election->leads(); }));
  auto second = leader("b");
  // A job that only the first leader runs, so that the leaders' own numbers of the verification
  // differ.
  ended(*first, add(*first, {.kind = JobKind::kLoad, .path = "/data"}));
  const uint64_t id = add(*second, {.kind = JobKind::kVerify, .path = "/"});
  ASSERT_TRUE(wait_until([&] { return target.runs().size() == 1; }));
  cut_off(*first);
  ASSERT_TRUE(wait_until([&] { return target.runs().size() == 2; }));
  target.gate->set(true);
  const ClusterJob job = ended(*second, id);
  EXPECT_EQ(job.info.state, JobState::kDone);
  EXPECT_EQ(job.worker, "b");
  EXPECT_EQ(target.runs()[0], target.runs()[1]);
  first->door.open();
  EXPECT_TRUE(wait_until([&] { return first->book->find(id)->ended(); }));
}

TEST_F(ClusterJobsTest, TheNextLeaderGivesUpWhatItsPredecessorDidNot) {
  start();
  source_->put("dir/a", "0123456789");
  run(JobKind::kLoad, "/data/dir");
  ASSERT_TRUE(cached("/data/dir/a"));
  HeldTarget& target = hold_target();
  auto first = leader("a");
  ASSERT_TRUE(wait_until([&] { return first->election->leads(); }));
  auto second = leader("b");
  const uint64_t id = add(*second, {.kind = JobKind::kFree, .path = "/data/dir"});
  ASSERT_TRUE(wait_until([&] { return target.drops == 1; }));
  cut_off(*first);
  ASSERT_TRUE(wait_until([&] { return target.drops == 2; }));
  target.gate->set(true);
  EXPECT_EQ(ended(*second, id).info.state, JobState::kDone);
  EXPECT_FALSE(cached("/data/dir/a"));
  first->door.open();
  EXPECT_TRUE(wait_until([&] { return first->book->find(id)->ended(); }));
}

// The limits apply to the cluster, since one leader runs all of a job.
TEST_F(ClusterJobsTest, AsManyRequestsAsTheOrderSaysAreUnderWay) {
  start();
  for (int i = 0; i < 40; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  auto one = leader("one");
  const uint64_t id = add(*one, {.kind = JobKind::kLoad, .path = "/data/dir", .requests = 3});
  const ClusterJob job = ended(*one, id);
  EXPECT_EQ(job.info.progress.files_done, 40u);
  EXPECT_LE(source_->peak(), 3u);
}

// The rest of the job is done.
TEST_F(ClusterJobsTest, WhatFailsIsListedByFile) {
  start();
  for (int i = 0; i < 5; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  source_->break_reads_of("dir/3");
  auto one = leader("one");
  const uint64_t id = add(*one, {.kind = JobKind::kLoad, .path = "/data/dir"});
  const ClusterJob job = ended(*one, id);
  EXPECT_EQ(job.info.state, JobState::kFailed);
  EXPECT_EQ(job.info.progress.files_done, 4u);
  ASSERT_EQ(job.info.errors.size(), 1u);
  EXPECT_EQ(job.info.errors[0].path, "/data/dir/3");
  EXPECT_EQ(job.info.errors[0].status.code(), StatusCode::kPermissionDenied);
}

TEST_F(ClusterJobsTest, OneIsCancelledWhereverThatIsAsked) {
  start();
  for (int i = 0; i < 20; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  auto first = leader("a");
  ASSERT_TRUE(wait_until([&] { return first->election->leads(); }));
  auto second = leader("b");
  source_->hold_reads();
  const uint64_t id = add(*first, {.kind = JobKind::kLoad, .path = "/data/dir"});
  ASSERT_TRUE(wait_until([&] { return source_->held() == 16; }));
  ASSERT_TRUE(wait_until([&] { return second->book->find(id).has_value(); }));
  ASSERT_TRUE(executor_.wait(second->book->cancel(patient(), id)));
  EXPECT_EQ(ended(*second, id).info.state, JobState::kCancelled);
  ended(*first, id);  // each one sees the end by itself
  const auto again = executor_.wait(first->book->cancel(patient(), id));
  EXPECT_EQ(again->info.state, JobState::kCancelled) << "as it was";
}

TEST_F(ClusterJobsTest, MoreThanRunAtOnceWaitForTheirTurnAndTheLastAreRemembered) {
  start();
  for (int i = 0; i < 6; ++i) {
    source_->put(std::to_string(i) + "/file", "0123456789");
  }
  auto first = leader("a");
  source_->hold_reads();
  std::vector<uint64_t> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(add(*first, {.kind = JobKind::kLoad, .path = "/data/" + std::to_string(i)}));
  }
  ASSERT_TRUE(wait_until([&] { return source_->held() == 2; }));
  EXPECT_TRUE(first->book->find(ids[5])->worker.empty());
  source_->release_reads();
  EXPECT_EQ(ended(*first, ids[5]).info.state, JobState::kDone);
  EXPECT_TRUE(wait_until([&] { return first->book->jobs().size() == 3; }));
  EXPECT_EQ(first->book->find(ids[0]).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(add(*first, {.kind = JobKind::kFree, .path = "/data"}), ids[5] + 1);
}

TEST_F(ClusterJobsTest, AStandingJobBeginsAgainWhenSomethingHappens) {
  start();
  source_->put("dir/a", "0123456789");
  auto first = leader("a");
  const uint64_t by_change =
      add(*first, {.kind = JobKind::kLoad, .path = "/data/dir"}, {.on_change = true});
  const uint64_t by_mount =
      add(*first, {.kind = JobKind::kLoad, .path = "/data"}, {.on_mount = true});
  const uint64_t by_time =
      add(*first, {.kind = JobKind::kLoad, .path = "/data"}, {.every = seconds(2)});
  auto runs = [&](uint64_t id) { return first->book->find(id)->runs; };
  ASSERT_TRUE(wait_until([&] { return runs(by_change) == 1 && runs(by_mount) == 1; }));
  source_->put("dir/b", "0123456789");
  first->runner->note_change("/other", false);
  first->runner->note_change("/data/dir/b", false);
  ASSERT_TRUE(wait_until([&] { return runs(by_change) == 2; }));
  EXPECT_EQ(first->book->find(by_change)->info.progress.files_done, 2u) << "the new one is there";
  EXPECT_EQ(first->book->find(by_change)->begun, 1u);
  EXPECT_EQ(runs(by_mount), 1u);
  first->runner->note_change("/data/dir", true);
  ASSERT_TRUE(wait_until([&] { return runs(by_mount) == 2; }));
  ASSERT_TRUE(wait_until([&] { return runs(by_time) >= 3; }));
  for (uint64_t id : {by_change, by_mount, by_time}) {
    ASSERT_TRUE(executor_.wait(first->book->cancel(patient(), id)));
    ASSERT_TRUE(wait_until([&] {
      return first->book->find(id)->info.state == JobState::kCancelled;
    })) << id;
  }
  EXPECT_LE(runs(by_change), 2u);
}

TEST_F(ClusterJobsTest, WhatCanBeNoJobIsRefusedAtOnce) {
  start();
  auto first = leader("a");
  const auto code = [&](JobOrder order) {
    return executor_.wait(first->book->add(patient(), std::move(order), {}, "tester"))
        .error()
        .code();
  };
  EXPECT_EQ(code({.kind = JobKind::kSnapshot, .path = "/data"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = JobKind::kLoad, .path = "data"}), StatusCode::kInvalidArgument);
  JobOrder broken{.kind = JobKind::kLoad, .path = "/data"};
  broken.selection.regex = "(";
  EXPECT_EQ(code(broken), StatusCode::kInvalidArgument);
  JobOrder long_list{.kind = JobKind::kLoad, .path = "/data"};
  long_list.selection.files.assign(100'000, "some/name");
  EXPECT_EQ(code(long_list), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace leat
