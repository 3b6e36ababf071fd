// SPDX-License-Identifier: Apache-2.0
// A cluster's jobs: their records in the registry, from order to end, and from one leader to the
// next.
#include "jobs/cluster/cluster_job.h"

#include <gtest/gtest.h>

#include "cluster/embedded_registry.h"
#include "cluster/faulty_registry_test.h"
#include "cluster/wait_until_test.h"
#include "jobs/cluster/cluster_job_runner.h"
#include "jobs/job_rig_test.h"

namespace leat {
namespace {

using std::chrono::seconds;
using testing::FaultyRegistry;
using testing::JobRig;
using testing::wait_until;

TEST(ClusterJob, ComesBackAsItWas) {
  ClusterJob job{.id = 7, .principal = "worker:1", .cancel = true, .worker = "ab", .starts = 2};
  job.schedule = {.every = seconds(60), .on_change = true, .on_mount = true};
  job.runs = 9;
  job.idempotency_key = "drawn";
  job.spec = {.kind = JobKind::kLoad, .path = "/a\xff", .verify = true, .bandwidth = 5};
  job.spec.background = true;
  job.spec.selection.include = {"*.jpg", "\xfe*"};
  job.reports = 3;
  job.info.state = JobState::kFailed;
  job.info.duration = std::chrono::milliseconds(1500);
  job.info.progress.planned = true;
  job.info.progress.bytes_done = UINT64_MAX;
  job.info.progress.errors = 2;
  job.info.progress.files_failed = 1;
  job.info.errors = {{"/a\xff/b", Status(StatusCode::kThrottled, "slow down")}};
  auto back = decode_cluster_job(encode_cluster_job(job));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->spec, job.spec);
  EXPECT_EQ(back->principal, job.principal);
  EXPECT_EQ(back->schedule, job.schedule);
  EXPECT_EQ(back->runs, 9u);
  EXPECT_EQ(back->reports, 3u);
  EXPECT_TRUE(back->info.progress.background);
  EXPECT_EQ(back->idempotency_key, "drawn");
  EXPECT_TRUE(back->cancel);
  EXPECT_EQ(back->worker, job.worker);
  EXPECT_EQ(back->starts, 2u);
  EXPECT_TRUE(back->ended());
  EXPECT_EQ(back->info.path, job.spec.path);
  EXPECT_EQ(back->info.duration, job.info.duration);
  EXPECT_EQ(back->info.progress.bytes_done, UINT64_MAX);
  EXPECT_EQ(back->info.progress.files_failed, 1u);
  ASSERT_EQ(back->info.errors.size(), 1u);
  EXPECT_EQ(back->info.errors[0].path, "/a\xff/b");
  EXPECT_EQ(back->info.errors[0].status.code(), StatusCode::kThrottled);
}

TEST(ClusterJob, ACopySaysWhereToAndOverWhat) {
  ClusterJob job{.id = 8};
  job.spec = {.kind = JobKind::kCopy,
              .path = "/a",
              .output = "/b\xff/",
              .overwrite = OverwriteMode::kIfDifferent};
  job.info.progress.files_already_present = 4;
  job.info.progress.names_skipped = 5;
  job.info.skipped = {{"/m/\xff", 5, "d//\xff"}};
  const std::string record = encode_cluster_job(job);
  EXPECT_TRUE(record.contains(R"("over":"other")")) << "as records of earlier programs";
  const auto back = decode_cluster_job(record);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->spec, job.spec);
  EXPECT_EQ(back->info.progress.files_already_present, 4u);
  EXPECT_EQ(back->info.progress.names_skipped, 5u);
  EXPECT_EQ(back->info.skipped, job.info.skipped);
}

TEST(ClusterJob, InvalidRecordFailsAndNewerIsUntouched) {
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
      : executor(on), faulty(registry) {
    session = RegistrySession::start(faulty, {.ttl = std::chrono::hours(1)}, executor);
    election = Election::start(faulty, *session, {.name = name}, executor);
    store = ClusterJobStore::start(faulty, executor);
    ClusterJobRunnerDeps parts{
        .registry = faulty,
        .election = *election,
        .store = *store,
        .worker = name,
        .make_environment = [=]() -> Result<std::unique_ptr<JobEnvironment>> {
          return std::make_unique<Stage>(make_jobs(), forget);
        },
        .ended_max = 3,
        .debounce = std::chrono::milliseconds(500),
        .readers_gone_after = std::chrono::milliseconds(1500)};
    runner = ClusterJobRunner::start(std::move(parts), executor);
  }
  ~Leader() {
    const Context context = Context::background().with_timeout(seconds(5));
    executor.block_on(runner->stop());
    executor.block_on(store->stop());
    executor.block_on(election->stop(context));
    executor.block_on(session->stop(context));
  }

  struct Stage : JobEnvironment {
    Stage(std::unique_ptr<JobTable> made, std::function<void(const std::string&)> forgets)
        : table(std::move(made)), forget(std::move(forgets)) {}
    JobTable& jobs() override { return *table; }
    void invalidate_names(const std::string& path) override { forget(path); }
    Task<> stop() override { return table->stop(); }
    std::unique_ptr<JobTable> table;
    std::function<void(const std::string&)> forget;
  };

  Executor& executor;
  FaultyRegistry faulty;
  std::unique_ptr<RegistrySession> session;
  std::unique_ptr<Election> election;
  std::unique_ptr<ClusterJobStore> store;
  std::unique_ptr<ClusterJobRunner> runner;
};

// Verifies and drops only when the test opens its gate; records the run.
class HeldTarget : public LocalJobCache {
 public:
  using LocalJobCache::LocalJobCache;
  Task<Result<uint64_t>> drop(Context context, std::vector<FileRefPtr> files) override {
    ++drops;
    Result<bool> opened = co_await gate->wait(context, "a gate");
    if (!opened) co_return Error(opened.error());
    co_return co_await LocalJobCache::drop(std::move(context), std::move(files));
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

  const std::shared_ptr<SharedPromise<bool>> gate = SharedPromise<bool>::make();
  std::atomic<int> drops = 0;

 private:
  std::mutex mutex_;  // leaf
  std::vector<uint64_t> runs_;
};

class ClusterJobsTest : public JobRig {
 protected:
  ClusterJobsTest()
      : registry_(EmbeddedRegistry::open({}, make_disk(executor_), executor_).value()) {}
  ~ClusterJobsTest() override { executor_.block_on(registry_->stop()); }

  std::unique_ptr<Leader> leader(const std::string& name) {
    auto make_jobs = [this] {
      return std::make_unique<JobTable>(JobTableOptions{.running_max = 2}, *catalog_, cache_.get(),
                                        executor_);
    };
    return std::make_unique<Leader>(*registry_, name, executor_, make_jobs,
                                    [this](const std::string& at) { catalog_->invalidate(at); });
  }
  // For the others the leader's session has ended. The leader itself continues until its registry
  // responds again.
  void cut_off(Leader& leader) {
    leader.faulty.disconnect();
    ASSERT_TRUE(executor_.block_on(registry_->revoke(patient(), leader.session->lease())));
  }
  uint64_t add(Leader& at, JobSpec spec, JobSchedule repeat = {}) {
    auto job = executor_.block_on(at.store->add(patient(), std::move(spec), repeat, "tester"));
    EXPECT_TRUE(job) << job.error().to_string();
    return job ? job->id : 0;
  }
  static Context patient() { return Context::background().with_timeout(seconds(20)); }
  ClusterJob ended(Leader& at, uint64_t id) {
    EXPECT_TRUE(wait_until([&] {
      auto job = at.store->find(id);
      return job && job->ended();
    }));
    return at.store->find(id).value();
  }

  // Replaces the target that start() made; call before there is a leader.
  HeldTarget& hold_target() {
    auto held = std::make_unique<HeldTarget>(*fetcher_, store_, nullptr, executor_);
    HeldTarget& made = *held;
    cache_ = std::move(held);
    return made;
  }

  std::unique_ptr<Registry> registry_;
};

// Written by a worker of a later version, during a rolling upgrade.
TEST_F(ClusterJobsTest, UnreadableJobKeepsNumberAndRecord) {
  start();
  source_->put("a", "0123456789");
  const std::string later = R"({"v":1,"id":7,"order":{"kind":"dance","path":"/"},"info":{}})";
  ASSERT_TRUE(executor_.block_on(registry_->commit(
      patient(), {.conditions = {}, .puts = {{cluster_job_key(7), later}}, .removals = {}})));
  auto one = leader("one");
  const uint64_t id = add(*one, {.kind = JobKind::kLoad, .path = "/data"});
  EXPECT_EQ(id, 8u);
  EXPECT_EQ(ended(*one, id).info.state, JobState::kDone);
  const auto there = executor_.block_on(registry_->list(patient(), cluster_job_key(7)));
  ASSERT_EQ(there->entries.size(), 1u);
  EXPECT_EQ(there->entries[0].value, later);
  EXPECT_FALSE(cluster_job_number("jobs/x"));
  EXPECT_FALSE(cluster_job_number("mounts/7"));
}

TEST_F(ClusterJobsTest, AnOrderThatComesTwiceIsOneJob) {
  start();
  auto one = leader("one");
  auto add_job = [&](const std::string& idempotency_key) {
    JobSpec load{.kind = JobKind::kLoad, .path = "/data"};
    return executor_
        .block_on(one->store->add(patient(), std::move(load), {}, "tester", idempotency_key))
        ->id;
  };
  const uint64_t first = add_job("a");
  EXPECT_EQ(add_job("a"), first);
  EXPECT_NE(add_job("b"), first);
  EXPECT_NE(add_job(""), add_job(""));
}

TEST_F(ClusterJobsTest, ReadersOfOneTreeShareALoad) {
  start();
  source_->put("dir/a", "0123456789");
  auto one = leader("one");
  auto report = [&](const std::string& path) {
    return add(*one, {.kind = JobKind::kLoad, .path = path, .background = true});
  };
  source_->block_reads();
  const uint64_t load = report("/data/dir");
  EXPECT_EQ(report("/data/dir"), load);
  EXPECT_EQ(report("/data/dir/sub"), load);
  EXPECT_TRUE(wait_until([&] { return one->store->find(load)->reports == 1; }));
  const uint64_t larger = report("/data");
  EXPECT_NE(larger, load);
  EXPECT_NE(add(*one, {.kind = JobKind::kLoad, .path = "/data/dir"}), load)
      << "one that was asked for";
  source_->release_reads();
  EXPECT_EQ(ended(*one, load).info.state, JobState::kDone);
  ended(*one, larger);
  const uint64_t last = report("/data/dir");
  EXPECT_TRUE(last == load || last == larger) << "a load rests after its end";
}

TEST_F(ClusterJobsTest, LoadEndsWhenReadersAreGone) {
  start();
  source_->put("dir/a", "0123456789");
  auto one = leader("one");
  source_->block_reads();
  const JobSpec spec{.kind = JobKind::kLoad, .path = "/data/dir", .background = true};
  const uint64_t load = add(*one, spec);
  EXPECT_EQ(ended(*one, load).info.state, JobState::kCancelled);
  const uint64_t next = add(*one, spec);
  EXPECT_NE(next, load) << "readers that return";
  source_->release_reads();
  EXPECT_EQ(ended(*one, next).info.state, JobState::kDone);
}

TEST_F(ClusterJobsTest, CancelledLoadRests) {
  start();
  source_->put("dir/a", "0123456789");
  auto one = leader("one");
  source_->block_reads();
  const JobSpec spec{.kind = JobKind::kLoad, .path = "/data/dir", .background = true};
  const uint64_t load = add(*one, spec);
  ASSERT_TRUE(executor_.block_on(one->store->cancel(patient(), load)));
  EXPECT_EQ(add(*one, spec), load);
  source_->release_reads();
  ended(*one, load);
  EXPECT_EQ(add(*one, spec), load);
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
  EXPECT_EQ(job.starts, 1u);
  EXPECT_EQ(job.principal, "tester");
  EXPECT_EQ(job.info.path, "/data/dir");
  EXPECT_EQ(job.info.progress.files_done, 20u);
  EXPECT_EQ(job.info.progress.bytes_fetched, 200u);
}

TEST_F(ClusterJobsTest, NextLeaderResumesJobs) {
  start();
  for (int i = 0; i < 20; ++i) source_->put("dir/" + std::to_string(i), "0123456789");
  auto first = leader("a");
  ASSERT_TRUE(wait_until([&] { return first->election->leads(); }));
  auto second = leader("b");
  source_->block_reads();
  const uint64_t id = add(*second, {.kind = JobKind::kLoad, .path = "/data/dir"});
  ASSERT_TRUE(wait_until([&] { return source_->blocked_reads() == 20; }));
  ASSERT_TRUE(wait_until([&] { return second->store->find(id)->starts == 1; }));
  cut_off(*first);
  ASSERT_TRUE(wait_until([&] { return second->election->leads(); }));
  source_->release_reads();
  const ClusterJob job = ended(*second, id);
  EXPECT_EQ(job.info.state, JobState::kDone);
  EXPECT_EQ(job.worker, "b");
  EXPECT_EQ(job.starts, 2u);
  EXPECT_EQ(job.info.progress.files_done, 20u);
  EXPECT_EQ(source_->reads(), 20u) << "nothing is asked of the store twice";
  first->faulty.connect();
  EXPECT_TRUE(wait_until([&] { return first->store->find(id)->ended(); }));
  EXPECT_EQ(first->store->find(id)->worker, "b");
}

// Workers identify a verification by its number, and continue the one in flight.
TEST_F(ClusterJobsTest, NextLeaderResumesVerifyInFlight) {
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
  first->faulty.connect();
  EXPECT_TRUE(wait_until([&] { return first->store->find(id)->ended(); }));
}

TEST_F(ClusterJobsTest, NextLeaderCancelsPendingCancellation) {
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
  first->faulty.connect();
  EXPECT_TRUE(wait_until([&] { return first->store->find(id)->ended(); }));
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
  source_->block_reads();
  const uint64_t id = add(*first, {.kind = JobKind::kLoad, .path = "/data/dir"});
  ASSERT_TRUE(wait_until([&] { return source_->blocked_reads() == 20; }));
  ASSERT_TRUE(wait_until([&] { return second->store->find(id).has_value(); }));
  ASSERT_TRUE(executor_.block_on(second->store->cancel(patient(), id)));
  EXPECT_EQ(ended(*second, id).info.state, JobState::kCancelled);
  ended(*first, id);  // each one sees the end by itself
  const auto again = executor_.block_on(first->store->cancel(patient(), id));
  EXPECT_EQ(again->info.state, JobState::kCancelled) << "as it was";
}

TEST_F(ClusterJobsTest, ExcessJobsWaitAndLastEndedAreKept) {
  start();
  for (int i = 0; i < 6; ++i) {
    source_->put(std::to_string(i) + "/file", "0123456789");
  }
  auto first = leader("a");
  source_->block_reads();
  std::vector<uint64_t> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(add(*first, {.kind = JobKind::kLoad, .path = "/data/" + std::to_string(i)}));
  }
  ASSERT_TRUE(wait_until([&] { return source_->blocked_reads() == 2; }));
  EXPECT_TRUE(first->store->find(ids[5])->worker.empty());
  source_->release_reads();
  EXPECT_EQ(ended(*first, ids[5]).info.state, JobState::kDone);
  EXPECT_TRUE(wait_until([&] { return first->store->jobs().size() == 3; }));
  EXPECT_EQ(first->store->find(ids[0]).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(add(*first, {.kind = JobKind::kFree, .path = "/data"}), ids[5] + 1);
}

TEST_F(ClusterJobsTest, RecurringJobRestartsOnEvents) {
  start();
  source_->put("dir/a", "0123456789");
  auto first = leader("a");
  const uint64_t by_change =
      add(*first, {.kind = JobKind::kLoad, .path = "/data/dir"}, {.on_change = true});
  const uint64_t by_mount =
      add(*first, {.kind = JobKind::kLoad, .path = "/data"}, {.on_mount = true});
  const uint64_t by_time =
      add(*first, {.kind = JobKind::kLoad, .path = "/data"}, {.every = seconds(2)});
  auto runs = [&](uint64_t id) { return first->store->find(id)->runs; };
  ASSERT_TRUE(wait_until([&] { return runs(by_change) == 1 && runs(by_mount) == 1; }));
  source_->put("dir/b", "0123456789");
  first->runner->note_change("/other", false);
  first->runner->note_change("/data/dir/b", false);
  ASSERT_TRUE(wait_until([&] { return runs(by_change) == 2; }));
  EXPECT_EQ(first->store->find(by_change)->info.progress.files_done, 2u) << "the new one is there";
  EXPECT_EQ(first->store->find(by_change)->starts, 1u);
  EXPECT_EQ(runs(by_mount), 1u);
  first->runner->note_change("/data/dir", true);
  ASSERT_TRUE(wait_until([&] { return runs(by_mount) == 2; }));
  ASSERT_TRUE(wait_until([&] { return runs(by_time) >= 3; }));
  for (uint64_t id : {by_change, by_mount, by_time}) {
    ASSERT_TRUE(executor_.block_on(first->store->cancel(patient(), id)));
    ASSERT_TRUE(wait_until([&] {
      return first->store->find(id)->info.state == JobState::kCancelled;
    })) << id;
  }
  EXPECT_LE(runs(by_change), 2u);
}

TEST_F(ClusterJobsTest, WhatCanBeNoJobIsRefusedAtOnce) {
  start();
  auto first = leader("a");
  const auto code = [&](JobSpec spec) {
    return executor_.block_on(first->store->add(patient(), std::move(spec), {}, "tester"))
        .error()
        .code();
  };
  EXPECT_EQ(code({.kind = JobKind::kSnapshot, .path = "/data"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.kind = JobKind::kLoad, .path = "data"}), StatusCode::kInvalidArgument);
  JobSpec broken{.kind = JobKind::kLoad, .path = "/data"};
  broken.selection.regex = "(";
  EXPECT_EQ(code(broken), StatusCode::kInvalidArgument);
  JobSpec long_list{.kind = JobKind::kLoad, .path = "/data"};
  long_list.selection.files.assign(100'000, "some/name");
  EXPECT_EQ(code(long_list), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace leat
