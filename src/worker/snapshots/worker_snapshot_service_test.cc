// SPDX-License-Identifier: Apache-2.0
// A cluster's snapshots: builders, holders, and recovery after worker crashes, corrupt disks and a
// restart of all.
#include "worker/snapshots/worker_snapshot_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "catalog/snapshot/snapshot.h"
#include "catalog/snapshot_mount.h"
#include "cluster/embedded_registry.h"
#include "cluster/wait_until_test.h"
#include "peer/fake_cluster_test.h"
#include "peer/snapshots/shared_snapshots.h"
#include "runtime/disk.h"

namespace leat::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A worker with names and a snapshot service.
class PeerWithSnapshots : public FakePeer {
 public:
  using FakePeer::FakePeer;
  SnapshotPeer* snapshots() override { return up ? keeper.get() : nullptr; }
  bool usable() const override { return up; }

  std::unique_ptr<WorkerSnapshotService> keeper;
};

class WorkerSnapshotServiceTest : public ::testing::Test {
 protected:
  static constexpr size_t kWorkers = 5;

  WorkerSnapshotServiceTest()
      : folder_(::testing::TempDir() + "/leat_keeper_" + Id128::random().to_hex()) {
    fs::create_directories(folder_);
    registry_ =
        EmbeddedRegistry::open({.path = folder_ + "/registry"}, make_disk(executor_), executor_)
            .value();
    for (int d = 0; d < 12; ++d) {
      for (int i = 0; i < 4; ++i) store_->put(fmt::format("set/{}/{}", d, i), "x");
    }
    view_.cluster = "made";
    view_.mounts["/train"] = {.path = "/train",
                              .source = "memory://bucket/set",
                              .options = {},
                              .store = store_->id(),
                              .prefix = "set/"};
    std::vector<RingMember> members;
    for (size_t i = 0; i < kWorkers; ++i) {
      const WorkerId id = worker_id(i);
      peers_[id] = std::make_shared<PeerWithSnapshots>(id, store_, views_);
      view_.workers[id] = {.id = id, .address = fmt::format("w{}:1", i)};
      members.push_back({id, 1});
    }
    view_.ring = Ring(1, members);
    publish();
    for (const auto& [id, peer] : peers_) start(id);
  }
  ~WorkerSnapshotServiceTest() override {
    // Each sends requests to others until it has ended.
    for (const auto& [id, peer] : peers_) {
      if (peer->keeper != nullptr) executor_.block_on(peer->keeper->stop());
    }
    for (const auto& [id, peer] : peers_) peer->keeper = nullptr;
    executor_.block_on(registry_->stop());
    fs::remove_all(folder_);
  }

  void publish() {
    ++view_.revision;
    table_.update(view_);
    views_.set(view_);
  }
  std::string directory_of(const WorkerId& id) const { return folder_ + "/" + id.to_hex(); }
  void start(const WorkerId& id, Clock::duration check_interval = std::chrono::milliseconds(20)) {
    peers_[id]->keeper = WorkerSnapshotService::start({.self = id,
                                                       .registry = *registry_,
                                                       .views = views_,
                                                       .peers = table_,
                                                       .directory = directory_of(id),
                                                       .check_interval = check_interval},
                                                      executor_);
  }
  void end(const WorkerId& id) {
    if (peers_[id]->keeper == nullptr) return;
    executor_.block_on(peers_[id]->keeper->stop());
    peers_[id]->keeper = nullptr;
  }

  Result<SharedSnapshot> build(const std::string& name, const std::string& folder = "train/") {
    return executor_.block_on(shared_.build(patient(), name, folder, {}));
  }
  Result<> fetch(const SharedSnapshot& snapshot) {
    return executor_.block_on(shared_.fetch(patient(), snapshot, fetched()));
  }
  std::string fetched() const { return folder_ + "/fetched.snapshot"; }
  static Context patient() { return Context::background().with_timeout(std::chrono::seconds(60)); }
  std::vector<WorkerId> holders(const Id128& id) const {
    std::vector<WorkerId> all;
    for (const auto& [worker, peer] : peers_) {
      if (peer->keeper != nullptr && peer->keeper->find_stored(id)) all.push_back(worker);
    }
    return all;
  }
  void damage(const WorkerId& worker, const Id128& id) {
    const std::string file = directory_of(worker) + "/" + id.to_hex() + ".snapshot";
    std::fstream open(file, std::ios::in | std::ios::out | std::ios::binary);
    open.seekp(200);
    open.put('!');
    ASSERT_TRUE(open.good()) << file;
  }

  const std::string folder_;
  const std::shared_ptr<MemorySource> store_ = std::make_shared<MemorySource>();
  FakeViewSource views_;
  ClusterView view_;
  std::map<WorkerId, std::shared_ptr<PeerWithSnapshots>> peers_;
  PeerTable table_{[this](const WorkerInfo& info) { return peers_.at(info.id); }};
  Executor executor_{{.threads = 2}};
  std::unique_ptr<Registry> registry_;
  SharedSnapshots shared_{views_, table_, executor_};
};

TEST_F(WorkerSnapshotServiceTest, IsMadeOnceForAllWhoAsk) {
  const uint64_t before = store_->lists();
  std::vector<Result<SharedSnapshot>> made(8, error(StatusCode::kInternal, "not asked"));
  {
    std::vector<std::jthread> clients;
    for (auto& one : made) clients.emplace_back([&] { one = build("monday"); });
  }
  ASSERT_TRUE(made[0]) << made[0].error().to_string();
  // A request after the build's end starts another build; here all came before, or got its result.
  std::set<Id128> ids;
  for (const auto& one : made) {
    ASSERT_TRUE(one) << one.error().to_string();
    ids.insert(one->id);
  }
  EXPECT_EQ(store_->lists() - before, ids.size() * 13) << "a request a directory";
  EXPECT_EQ(made[0]->files, 48u);
  EXPECT_EQ(made[0]->directories, 12u);
  EXPECT_EQ(made[0]->mount, "/train");
  const auto all = executor_.block_on(shared_.list(patient()));
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ(holders(all->front().id).size(), 3u);
  // All clients get the same file.
  const uint64_t listed = store_->lists();
  ASSERT_TRUE(fetch(all->front()));
  const auto snapshot = Snapshot::open(fetched());
  ASSERT_TRUE(snapshot) << snapshot.error().to_string();
  EXPECT_EQ((*snapshot)->head().store, cluster_names_id());
  EXPECT_EQ((*snapshot)->head().prefix, "train/");
  EXPECT_TRUE((*snapshot)->find("7/3"));
  EXPECT_EQ(store_->lists(), listed);
}

TEST_F(WorkerSnapshotServiceTest, SurvivesWhileOneReplicaIsLeft) {
  const SharedSnapshot made = build("monday").value();
  std::vector<WorkerId> there = holders(made.id);
  ASSERT_EQ(there.size(), 3u);
  const WorkerId maker = views_.view()->ring.owner(snapshot_placement("monday"));
  peers_[maker]->up = false;
  ASSERT_TRUE(fetch(made));
  for (size_t i = 0; i < there.size(); ++i) {
    peers_[there[i]]->up = i == 2;
  }
  fs::remove(fetched());
  ASSERT_TRUE(fetch(made));
  // Without any holder the fetch fails with a message.
  peers_[there[2]]->up = false;
  fs::remove(fetched());
  const Result<> gone = fetch(made);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(gone.error().message(), HasSubstr("the snapshot 'monday'"));
  EXPECT_FALSE(fs::exists(fetched()));
  EXPECT_FALSE(fs::exists(fetched() + ".partial"));
}

TEST_F(WorkerSnapshotServiceTest, SurvivesThatAllStartAnew) {
  const SharedSnapshot made = build("monday").value();
  const auto before = holders(made.id);
  for (const auto& [id, peer] : peers_) end(id);
  const uint64_t listed = store_->lists();
  for (const auto& [id, peer] : peers_) start(id);
  EXPECT_EQ(holders(made.id), before);
  EXPECT_EQ(executor_.block_on(shared_.find(patient(), "monday")).value(), made);
  ASSERT_TRUE(fetch(made));
  EXPECT_EQ(store_->lists(), listed) << "nothing was made again";
}

TEST_F(WorkerSnapshotServiceTest, ADamagedFileIsFoundAndTakenFromAnother) {
  const SharedSnapshot made = build("monday").value();
  const auto first = views_.view()->ring.candidates(snapshot_placement("monday"), 3);
  damage(first[0], made.id);
  const Result<> other = fetch(made);
  ASSERT_TRUE(other) << other.error().to_string();
  EXPECT_TRUE(Snapshot::open(fetched()));
  // A starting worker checks its files, and fetches bad ones from others.
  end(first[0]);
  start(first[0]);
  EXPECT_TRUE(wait_until([&] {
    const auto held = peers_[first[0]]->keeper->find_stored(made.id);
    if (!held) return false;
    const auto sum = sum_of(*held->file, "it");
    return sum && sum->crc == made.crc;
  }));
  // No worker checks from here on, so none repairs its file from an undamaged one.
  for (const WorkerId& id : first) {
    end(id);
    start(id, std::chrono::hours(1));
  }
  for (const WorkerId& id : first) damage(id, made.id);
  fs::remove(fetched());
  const Result<> lie = fetch(made);
  ASSERT_FALSE(lie);
  EXPECT_EQ(lie.error().code(), StatusCode::kCorrupt);
  EXPECT_FALSE(fs::exists(fetched()));
}

TEST_F(WorkerSnapshotServiceTest, NewCandidateCopiesAndRemovalDeletes) {
  const SharedSnapshot made = build("monday").value();
  const auto first = views_.view()->ring.candidates(snapshot_placement("monday"), kWorkers);
  // Without the first two, the next two are among the first three.
  std::vector<RingMember> members;
  for (size_t i = 2; i < kWorkers; ++i) members.push_back({first[i], 1});
  view_.ring = Ring(2, members);
  publish();
  EXPECT_TRUE(wait_until([&] { return holders(made.id).size() == kWorkers; }));
  ASSERT_TRUE(executor_.block_on(shared_.remove(patient(), "monday")));
  EXPECT_EQ(executor_.block_on(shared_.find(patient(), "monday")).error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(executor_.block_on(shared_.remove(patient(), "monday")).error().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(wait_until([&] { return holders(made.id).empty(); }));
  EXPECT_TRUE(wait_until([&] { return fs::is_empty(directory_of(first[2])); }));
}

TEST_F(WorkerSnapshotServiceTest, OneOfANameTakesThePlaceOfAnother) {
  const SharedSnapshot one = build("monday").value();
  store_->put("set/new", "x");
  const SharedSnapshot two = build("monday").value();
  EXPECT_NE(one.id, two.id);
  EXPECT_EQ(two.files, one.files + 1);
  EXPECT_EQ(executor_.block_on(shared_.find(patient(), "monday")).value(), two);
  EXPECT_TRUE(wait_until([&] { return holders(one.id).empty(); }));
  EXPECT_EQ(holders(two.id).size(), 3u);
  // Not by a client without permission.
  const WorkerId maker = views_.view()->ring.owner(snapshot_placement("monday"));
  SnapshotRequest request{.name = "monday", .folder = "train/", .run = "r", .may_replace = false};
  const auto refused =
      executor_.block_on(peers_[maker]->keeper->build(patient(), request, {.epoch = 1}));
  ASSERT_FALSE(refused.result);
  EXPECT_EQ(refused.result.error().code(), StatusCode::kExists);
}

// Simulates two workers that do not see each other.
TEST_F(WorkerSnapshotServiceTest, OfTwoThatMakeItAtOnceOneIsIt) {
  const auto first = views_.view()->ring.candidates(snapshot_placement("monday"), 2);
  std::vector<Result<SharedSnapshot>> made(2, error(StatusCode::kInternal, "not asked"));
  {
    std::vector<std::jthread> both;
    for (size_t i = 0; i < 2; ++i) {
      both.emplace_back([&, i] {
        SnapshotRequest request{.name = "monday", .folder = "train/", .run = fmt::format("r{}", i)};
        PeerRoute route{.epoch = 1, .failover_for = first[1 - i]};
        while (true) {
          auto now = executor_.block_on(peers_[first[i]]->keeper->build(patient(), request, route));
          if (now.result && !now.result->built) continue;
          made[i] = now.result ? Result<SharedSnapshot>(*now.result->built)
                               : Result<SharedSnapshot>(Error(now.result.error()));
          break;
        }
      });
    }
  }
  const SharedSnapshot there = executor_.block_on(shared_.find(patient(), "monday")).value();
  for (const auto& one : made) ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_TRUE(made[0]->id == there.id || made[1]->id == there.id);
  EXPECT_TRUE(wait_until([&] { return holders(there.id).size() >= 3; }));
}

TEST_F(WorkerSnapshotServiceTest, ForWhatIsNoFolderOfOneMountIsRefused) {
  EXPECT_EQ(build("monday", "").error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(build("monday", "elsewhere/").error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(build("../monday").error().code(), StatusCode::kInvalidArgument);
  view_.mounts["/train/3/in"] = view_.mounts["/train"];
  view_.mounts["/train/3/in"].path = "/train/3/in";
  publish();
  EXPECT_EQ(build("monday").error().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(build("part", "train/4/"));
  EXPECT_EQ(executor_.block_on(shared_.list(patient()))->size(), 1u);
}

TEST_F(WorkerSnapshotServiceTest, AStoreThatFailsLeavesNothing) {
  for (const auto& [id, peer] : peers_) peer->up = false;
  Result<SharedSnapshot> none = executor_.block_on(shared_.build(
      Context::background().with_timeout(std::chrono::seconds(1)), "monday", "train/", {}));
  ASSERT_FALSE(none);
  for (const auto& [id, peer] : peers_) peer->up = true;
  EXPECT_TRUE(executor_.block_on(shared_.list(patient()))->empty());
}

}  // namespace
}  // namespace leat::testing
