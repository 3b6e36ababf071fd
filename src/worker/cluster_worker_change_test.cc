// SPDX-License-Identifier: Apache-2.0
// Changes of the ring and ends of a worker: hand-over, drain, restart, stop() at any moment.
#include <gtest/gtest.h>

#include <future>

#include "worker/cluster_worker.h"
#include "worker/fake_worker_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::FakeClient;
using testing::FaultyRegistry;
using testing::LinkedPeer;
using testing::patient;
using testing::wait_until;
using testing::WorkerNode;

constexpr size_t kBig = 200 * kKiB;  // has a file of its own in the cache

// A registry that never answers.
class SilentRegistry : public FaultyRegistry {
 public:
  using FaultyRegistry::FaultyRegistry;
  Task<Result<RegistryView>> list(Context context, std::string) override {
    return silence<Result<RegistryView>>(std::move(context), &requests);
  }
  Task<Result<RegistryLease>> grant(Context context, std::chrono::seconds) override {
    return silence<Result<RegistryLease>>(std::move(context), &requests);
  }
  Task<Result<>> watch(Context context, std::string, RegistryRevision, RegistrySink) override {
    return silence<Result<>>(std::move(context), &requests);
  }
  std::atomic<int> requests = 0;

 private:
  template <class R>
  static Task<R> silence(Context context, std::atomic<int>* requests) {
    ++*requests;
    Result<> ended = co_await sleep_for(context, std::chrono::hours(1));
    co_return Error(ended.error());
  }
};

class ClusterWorkerChangeTest : public testing::ClusterWorkerTestBase {
 protected:
  struct Files {
    ClusterMount mount;
    std::vector<std::string> names;
    std::vector<FileRefPtr> refs;
  };
  // Mounts `count` files that `node` owns, and makes it cache them.
  Files cache_files(WorkerNode& node, size_t count, size_t size) {
    Files files{.mount = mount_data({&node}), .names = {}, .refs = {}};
    for (size_t i = 0; i < count; ++i) {
      const std::string stem = fmt::format("{}-", i);
      files.names.push_back(name_owned_by(node, *node->view(), files.mount, stem));
      write(files.names.back(), text_of(files.names.back(), size));
    }
    for (const std::string& name : files.names) {
      files.refs.push_back(file(node, files.mount, name));
      EXPECT_TRUE(ensure(node, files.refs.back()));
    }
    EXPECT_TRUE(run(node.cache().flush(patient())));
    return files;
  }
  void remove_all(const Files& files) {
    for (const std::string& name : files.names) remove(name);
  }
  Result<> drain(WorkerNode& node, bool back = false, Context context = patient()) {
    return run(node->drain(std::move(context), back, 0));
  }
  static DrainProgress await_drain_end(WorkerNode& node) {
    EXPECT_TRUE(wait_until([&] {
      const auto progress = node->drain_progress();
      return progress && progress->ended;
    }));
    return node->drain_progress().value_or(DrainProgress());
  }
  ClusterJob await_runs(ClusterJobStore& jobs, uint64_t id, uint64_t runs) {
    const Context context = patient();
    for (RegistryRevision seen = 0; context.check("a run");) {
      const Result<ClusterJob> job = jobs.find(id);
      if (job && job->runs >= runs) return *job;
      run(jobs.wait_for_change(context, &seen));
    }
    ADD_FAILURE() << "the job does not run";
    return {};
  }
};

// --- hand-over -----------------------------------------------------------------------------------

TEST_F(ClusterWorkerChangeTest, NewOwnerReadsFromPreviousOwner) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 24, 10'000);
  WorkerNode b(network_);
  const ClusterViewPtr view = b.await_ring({&a, &b});
  await_served(b, files.mount);
  remove_all(files);
  const double before = store_bytes();
  int moved = 0;
  for (size_t i = 0; i < files.names.size(); ++i) {
    if (owner(*view, files.mount, files.names[i]) != b.id()) continue;
    ++moved;
    std::string text;
    const auto reply = read(b, files.refs[i], &text);
    ASSERT_TRUE(reply.result) << reply.result.error().to_string();
    EXPECT_TRUE(text == text_of(files.names[i], 10'000)) << files.names[i];
    EXPECT_TRUE(wait_until([&] { return is_cached(b, files.refs[i]); }));
  }
  EXPECT_GT(moved, 0);
  EXPECT_EQ(a.link().cached_reads, moved);
  EXPECT_EQ(store_bytes(), before);
}

TEST_F(ClusterWorkerChangeTest, NewOwnerBypassesOneCutOff) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 24, 1000);
  WorkerNode b(network_);
  const ClusterViewPtr view = b.await_ring({&a, &b});
  await_served(b, files.mount);
  a.link().cut_off = true;
  const double before = store_bytes();
  int moved = 0;
  for (size_t i = 0; i < files.names.size(); ++i) {
    if (owner(*view, files.mount, files.names[i]) != b.id()) continue;
    ++moved;
    std::string text;
    EXPECT_TRUE(read(b, files.refs[i], &text).result);
    EXPECT_TRUE(text == text_of(files.names[i], 1000)) << files.names[i];
  }
  EXPECT_GT(moved, 0);
  EXPECT_EQ(store_bytes() - before, moved * 1000.0);
}

// The first read waits for the previous owner, later ones skip it.
TEST_F(ClusterWorkerChangeTest, HangingPreviousOwnerIsSkipped) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 24, 1000);
  WorkerNode b(network_);
  const ClusterViewPtr view = b.await_ring({&a, &b});
  await_served(b, files.mount);
  a.link().hangs = true;
  int moved = 0;
  for (size_t i = 0; i < files.names.size(); ++i) {
    if (owner(*view, files.mount, files.names[i]) != b.id() || moved == 3) continue;
    ++moved;
    std::string text;
    EXPECT_TRUE(read(b, files.refs[i], &text).result);
    EXPECT_TRUE(text == text_of(files.names[i], 1000)) << files.names[i];
  }
  EXPECT_GT(moved, 1);
  EXPECT_EQ(a.link().cached_reads, 1);
}

TEST_F(ClusterWorkerChangeTest, OtherWorkerServesForOneThatLeft) {
  auto b = std::make_unique<WorkerNode>(network_);
  WorkerNode a(network_);
  const ClusterViewPtr view = a.await_ring({&a, b.get()});
  const ClusterMount mount = mount_data({&a, b.get()});
  const std::string name = name_owned_by(*b, *view, mount);
  write(name, "text");
  const WorkerId left = b->id();
  b.reset();
  const auto now =
      a.await_view([&](const ClusterView& seen) { return seen.worker(left) == nullptr; });
  EXPECT_EQ(now->ring.members().size(), 2u) << "a restart would move its share twice";
  FakeClient client(a);
  const auto text = client.read("data/" + name);
  ASSERT_TRUE(text) << text.error().to_string();
  EXPECT_EQ(*text, "text");
}

TEST_F(ClusterWorkerChangeTest, AbsentWorkerLosesItsShare) {
  WorkerNode a(network_, {.absence_timeout = milliseconds(1)});
  a.await_ring({&a});
  WorkerNode b(network_);
  a.await_ring({&a, &b});
  b.stop();
  const ClusterViewPtr view = a.await_ring({&a});
  ASSERT_TRUE(view->previous);
  EXPECT_EQ(view->previous->members().size(), 2u);
}

TEST_F(ClusterWorkerChangeTest, RestartedWorkerServesItsCache) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 4, 1000);
  const int64_t epoch = a->view()->ring.epoch();
  a.stop();
  EXPECT_TRUE(network_.keys("cluster/workers/").empty());
  remove_all(files);
  a.start();
  EXPECT_EQ(a.await_ring({&a})->ring.epoch(), epoch);
  await_served(a, files.mount);
  for (size_t i = 0; i < files.names.size(); ++i) {
    std::string text;
    EXPECT_TRUE(read(a, files.refs[i], &text).result);
    EXPECT_TRUE(text == text_of(files.names[i], 1000)) << files.names[i];
  }
}

// --- drain ---------------------------------------------------------------------------------------

TEST_F(ClusterWorkerChangeTest, DrainOfTheOnlyWorkerIsRefused) {
  WorkerNode a(network_);
  a.await_ring({&a});
  auto refused = drain(a);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kBusy);
  EXPECT_EQ(a->self().state, WorkerState::kActive);
  EXPECT_FALSE(a->drain_progress());
  WorkerNode b(network_);
  a.await_ring({&a, &b});
  b.stop();
  a.await_view([&](const ClusterView& view) { return view.worker(b.id()) == nullptr; });
  refused = drain(a);
  ASSERT_FALSE(refused) << "a worker that is absent takes no share";
  EXPECT_EQ(refused.error().code(), StatusCode::kBusy);
}

TEST_F(ClusterWorkerChangeTest, DrainMovesShareAndCache) {
  WorkerNode a(network_), b(network_);
  b.await_ring({&a, &b});
  a.await_ring({&a, &b});
  const Files files = cache_files(a, 12, kBig);
  await_served(b, files.mount);
  remove_all(files);
  const double before = store_bytes();
  const auto drained = drain(a);
  ASSERT_TRUE(drained) << drained.error().to_string();
  EXPECT_EQ(a->view()->ring.members().size(), 1u);
  EXPECT_EQ(a->view()->ring.members().front().worker, b.id());
  EXPECT_EQ(a->view()->worker(a.id())->state, WorkerState::kDraining);
  const DrainProgress progress = await_drain_end(a);
  EXPECT_FALSE(progress.stopped);
  EXPECT_EQ(progress.objects_done, files.refs.size());
  EXPECT_EQ(progress.objects_failed, 0u) << fmt::format("{}", fmt::join(progress.errors, "; "));
  EXPECT_GE(progress.bytes_done, files.refs.size() * kBig);
  EXPECT_EQ(store_bytes(), before) << "the new owner reads from the draining one";
  for (size_t i = 0; i < files.refs.size(); ++i) {
    EXPECT_TRUE(is_cached(b, files.refs[i])) << files.names[i];
    std::string text;
    EXPECT_TRUE(read(b, files.refs[i], &text).result);
    EXPECT_TRUE(text == text_of(files.names[i], kBig)) << files.names[i];
  }
}

// The new owner reaches neither the draining worker nor the files in the store.
TEST_F(ClusterWorkerChangeTest, DrainCountsWhatDoesNotMove) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 3, kBig);
  WorkerNode b(network_);
  a.await_ring({&a, &b});
  await_served(b, files.mount);
  a.link().cut_off = true;
  remove_all(files);
  ASSERT_TRUE(drain(a));
  const DrainProgress progress = await_drain_end(a);
  EXPECT_FALSE(progress.stopped);
  EXPECT_EQ(progress.objects_done, 0u);
  EXPECT_EQ(progress.objects_failed, files.refs.size());
  EXPECT_FALSE(progress.errors.empty());
  EXPECT_TRUE(is_cached(a, files.refs.front()));
}

TEST_F(ClusterWorkerChangeTest, UndrainTakesTheShareBack) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 3, kBig);
  WorkerNode b(network_);
  a.await_ring({&a, &b});
  ASSERT_TRUE(drain(a));
  await_drain_end(a);
  const auto back = drain(a, /*back=*/true);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(a->view()->ring.members().size(), 2u);
  EXPECT_EQ(a->self().state, WorkerState::kActive);
  EXPECT_FALSE(a->drain_progress());
  const ClusterViewPtr view = b.await_ring({&a, &b});
  EXPECT_EQ(view->worker(a.id())->state, WorkerState::kActive);
  EXPECT_TRUE(is_cached(a, files.refs.front())) << "a drain drops nothing";
}

TEST_F(ClusterWorkerChangeTest, DrainWithoutRegistrySaysWhatToDo) {
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  a.registry().disconnect();
  const auto late = drain(a, false, Context::background().with_timeout(milliseconds(50)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), StatusCode::kTimedOut);
  EXPECT_TRUE(late.error().to_string().contains("the ring does not change"));
  EXPECT_FALSE(a->drain_progress());
  // The request stays: the share goes when the registry is back.
  a.registry().connect();
  a.await_view([&](const ClusterView& view) { return view.ring.members().size() == 1; });
  EXPECT_TRUE(drain(a, /*back=*/true));
  a.await_ring({&a, &b});
}

// --- jobs ----------------------------------------------------------------------------------------

// The leader waits a few seconds after a change before it runs a job again.
TEST_F(ClusterWorkerChangeTest, NewMountStartsItsJobs) {
  write("a", text_of("a", kBig));
  WorkerNode a(network_), b(network_);
  const ClusterViewPtr view = a.await_ring({&a, &b});
  b.await_ring({&a, &b});
  const auto job = run(b->jobs().add(patient(), {.kind = JobKind::kLoad, .path = kData},
                                     {.on_mount = true}, "tester"));
  ASSERT_TRUE(job) << job.error().to_string();
  const ClusterJob first = await_runs(b->jobs(), job->id, 1);
  EXPECT_EQ(first.info.progress.bytes_done, 0u);
  const ClusterMount mount = mount_data({&b, &a});
  const ClusterJob second = await_runs(b->jobs(), job->id, first.runs + 1);
  EXPECT_EQ(second.info.state, JobState::kDone);
  EXPECT_EQ(second.info.progress.bytes_done, kBig);
  WorkerNode& owning = owner(*view, mount, "a") == a.id() ? a : b;
  EXPECT_TRUE(is_cached(owning, file(a, mount, "a")));
}

// --- stop ----------------------------------------------------------------------------------------

// The server waits until the other worker has seen that this one left.
TEST_F(ClusterWorkerChangeTest, WorkerLeavesBeforeItsServerStops) {
  std::promise<void> seen;
  std::atomic<bool> in_time = false;
  WorkerNode a(network_, {.on_server_stop = [&, left = seen.get_future().share()] {
                 in_time = left.wait_for(minutes(1)) == std::future_status::ready;
               }});
  WorkerNode b(network_);
  b.await_ring({&a, &b});
  auto stopping = std::async(std::launch::async, [&] { run(a->stop()); });
  b.await_view([&](const ClusterView& view) { return view.worker(a.id()) == nullptr; });
  seen.set_value();
  stopping.get();
  EXPECT_TRUE(in_time);
}

TEST_F(ClusterWorkerChangeTest, StopBeforeTheRegistryAnswersEnds) {
  SilentRegistry* registry = nullptr;
  WorkerNode a(network_, {.connect_registry = [&](Registry& behind) {
                 auto silent = std::make_unique<SilentRegistry>(behind);
                 registry = silent.get();
                 return silent;
               }});
  ASSERT_TRUE(wait_until([&] { return registry->requests > 0; }));
  EXPECT_EQ(a->view()->revision, 0);
  EXPECT_FALSE(a.server().deps.view_is_current()) << "clients would take it for the cluster's";
  EXPECT_FALSE(a->trouble());
  a.stop();
  EXPECT_TRUE(network_.keys("").empty());
}

TEST_F(ClusterWorkerChangeTest, StopWithoutRegistryEnds) {
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  a.registry().disconnect();
  ASSERT_TRUE(wait_until([&] { return a->trouble().has_value(); }));
  a.stop();
  EXPECT_NE(b->view()->worker(a.id()), nullptr) << "its lease is there until it ends";
}

TEST_F(ClusterWorkerChangeTest, StopEndsADrain) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 6, kBig);
  WorkerNode b(network_);
  a.await_ring({&a, &b});
  b.link().hangs = true;
  ASSERT_TRUE(drain(a));
  ASSERT_TRUE(wait_until([&] { return b.link().cache_ops > 0; }));
  run(a->stop());
  const auto progress = a->drain_progress();
  ASSERT_TRUE(progress);
  EXPECT_TRUE(progress->ended);
  EXPECT_TRUE(progress->stopped);
  EXPECT_EQ(progress->objects_done, 0u);
  EXPECT_TRUE(is_cached(a, files.refs.front()));
}

TEST_F(ClusterWorkerChangeTest, StopWhileADrainWaitsForTheRing) {
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  a.registry().disconnect();
  std::stop_source giving_up;
  auto waiting = std::async(std::launch::async, [&] {
    return drain(a, false, Context::background().with_cancel(giving_up.get_token()));
  });
  ASSERT_TRUE(wait_until([&] { return a->self().state == WorkerState::kDraining; }));
  run(a->stop());
  giving_up.request_stop();
  const auto drained = waiting.get();
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code(), StatusCode::kCancelled);
}

TEST_F(ClusterWorkerChangeTest, StopEndsReadsInFlight) {
  WorkerNode a(network_);
  a.await_ring({&a});
  const Files files = cache_files(a, 24, 1000);
  WorkerNode b(network_);
  const ClusterViewPtr view = b.await_ring({&a, &b});
  await_served(b, files.mount);
  size_t moved = 0;
  while (owner(*view, files.mount, files.names[moved]) != b.id()) ++moved;
  a.link().hangs = true;
  std::string text(1000, '\0');
  auto reading = std::async(std::launch::async, [&] {
    LinkedPeer peer(network_.link(b.id()));
    PeerRead read{.mount = kData, .file = files.refs[moved], .range = {0, 1000}};
    return run(peer.read(patient(), std::move(read), std::as_writable_bytes(std::span(text))));
  });
  ASSERT_TRUE(wait_until([&] { return a.link().cached_reads > 0; }));
  b.stop();
  const auto reply = reading.get();
  ASSERT_FALSE(reply.result);
  EXPECT_EQ(reply.result.error().code(), StatusCode::kCancelled);
}

TEST_F(ClusterWorkerChangeTest, SecondStopDoesNothing) {
  WorkerNode a(network_), b(network_);
  a.await_ring({&a, &b});
  run(a->stop());
  b.await_view([&](const ClusterView& view) { return view.worker(a.id()) == nullptr; });
  run(a->stop());
  EXPECT_EQ(b->view()->worker(a.id()), nullptr);
  EXPECT_EQ(network_.keys("cluster/workers/").size(), 1u);
}

}  // namespace
}  // namespace leat
