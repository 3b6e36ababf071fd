// SPDX-License-Identifier: Apache-2.0
// Which workers receive reads if several serve a stripe, by policy or because it is hot.
#include <gtest/gtest.h>

#include "peer/fake_cluster_test.h"
#include "peer/sources/cluster_source.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeCluster;
using testing::FakePeer;
using testing::worker_id;

constexpr int kReads = 300;

class ReplicaReadsTest : public ::testing::Test {
 protected:
  ReplicaReadsTest() : cluster_(5) {
    version_ = cluster_.store().put("train/a.txt", "aaaa");
    cluster_.mount("/data/train", "train/");
    candidates_ = cluster_.views().view()->ring.candidates(key_, 5);
    make_source("");
  }
  void make_source(const std::string& host_id) {
    ClusterSourceOptions options{.cluster = "made", .host_id = host_id, .seed = 7};
    options.router = {.epoch_timeout = seconds(30), .backoff_min = milliseconds(1)};
    options.hedging.reads_min = hedges_after_;
    source_ = make_cluster_source(options, cluster_.views(), cluster_.table());
  }
  void set_replicas(uint32_t replicas) {
    cluster_.change([&](ClusterView& view) { view.mounts["/data/train"].replicas = replicas; });
  }

  FakePeer& candidate(size_t at) { return cluster_.peer(candidates_[at]); }
  // Returns how many of `count` reads each candidate has served.
  std::vector<int> read(int count) {
    std::vector<int> before, served;
    for (size_t i = 0; i < 5; ++i) before.push_back(candidate(i).served);
    for (int i = 0; i < count; ++i) {
      ReadRequest request{"data/train/a.txt", {0, 4}, version_};
      request.object_size = 4;
      std::string text(4, '\0');
      auto got =
          executor_.block_on(source_->read(Context::background().with_timeout(seconds(30)), request,
                                           std::as_writable_bytes(std::span(text))));
      EXPECT_TRUE(got) << got.error().to_string();
      EXPECT_EQ(text, "aaaa");
    }
    for (size_t i = 0; i < 5; ++i) served.push_back(candidate(i).served - before[i]);
    return served;
  }
  static int sum(const std::vector<int>& all) {
    int sum = 0;
    for (int one : all) sum += one;
    return sum;
  }

  uint32_t hedges_after_ = UINT32_MAX;  // number of reads; by default no hedge
  Executor executor_;
  FakeCluster cluster_;
  Version version_;
  const PlacementKey key_ = PlacementKey::stripe(cluster_.store().id(), "train/a.txt", 0);
  std::vector<WorkerId> candidates_;
  SourcePtr source_;
};

TEST_F(ReplicaReadsTest, ReplicasShareTheReads) {
  EXPECT_EQ(read(kReads)[0], kReads);
  for (uint32_t replicas = 2; replicas <= kReplicasMax; ++replicas) {
    set_replicas(replicas);
    const std::vector<int> served = read(kReads);
    EXPECT_EQ(sum(served), kReads) << "each read is served once";
    for (uint32_t i = 0; i < 5; ++i) {
      const double part = i < replicas ? double(kReads) / replicas : 0;
      EXPECT_NEAR(served[i], part, part * 0.35) << i << " of " << replicas;
    }
  }
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(candidate(i).failovers, 0);
}

TEST_F(ReplicaReadsTest, ReplicaOnOwnHostIsPreferred) {
  set_replicas(3);
  cluster_.change([&](ClusterView& view) {
    for (auto& [id, worker] : view.workers) worker.host_id = "host of " + worker.address;
    view.workers[candidates_[2]].host_id = "here";
    view.workers[candidates_[4]].host_id = "here";
  });
  make_source("here");
  EXPECT_EQ(read(20)[2], 20);
  make_source("elsewhere");
  EXPECT_LT(read(kReads)[2], kReads / 2);
}

TEST_F(ReplicaReadsTest, SilentReplicaCostsNoRead) {
  set_replicas(3);
  candidate(1).up = false;
  EXPECT_EQ(sum(read(60)), 60);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(candidate(i).failovers, 0) << "the first one is there";
  // Candidate 1 gets no request at all.
  candidate(1).circuit_closed = false;
  const int asked = candidate(1).requests;
  EXPECT_EQ(sum(read(60)), 60);
  EXPECT_EQ(candidate(1).requests, asked);
}

TEST_F(ReplicaReadsTest, ReplicasServeWithoutTheOwner) {
  set_replicas(3);
  candidate(0).up = false;
  const std::vector<int> served = read(60);
  EXPECT_EQ(sum(served), 60);
  EXPECT_GT(served[2], 0);
  EXPECT_GT(candidate(1).failovers, 0) << "for the first";
  EXPECT_EQ(candidate(3).requests, 0);
}

TEST_F(ReplicaReadsTest, WorkerWithoutLeaseIsNoReplica) {
  set_replicas(2);
  cluster_.change([&](ClusterView& view) { view.workers.erase(candidates_[1]); });
  EXPECT_EQ(read(60)[0], 60);
  EXPECT_EQ(candidate(1).requests, 0);
}

TEST_F(ReplicaReadsTest, OneThatKnowsAnotherRingIsPassedOver) {
  set_replicas(2);
  candidate(1).known_epoch = 7;
  const std::vector<int> served = read(60);
  EXPECT_EQ(served[0], 60);
  EXPECT_GT(candidate(1).requests, 0);
}

TEST_F(ReplicaReadsTest, HotStripeIsReplicatedWhileOwnerHints) {
  EXPECT_EQ(read(60)[0], 60);
  candidate(0).hinted_replicas = 3;
  const std::vector<int> served = read(kReads);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(served[i], kReads / 3, kReads / 8) << i;
  EXPECT_EQ(candidate(1).replica_reads + candidate(2).replica_reads, served[1] + served[2]);
  candidate(0).hinted_replicas = 1;
  read(60);
  EXPECT_EQ(read(60)[0], 60) << "forgotten with the first answer of the one that said it";
}

TEST_F(ReplicaReadsTest, HintsOfNonOwnersAreIgnored) {
  set_replicas(2);
  candidate(1).hinted_replicas = 4;
  const std::vector<int> served = read(kReads);
  EXPECT_EQ(served[2] + served[3], 0);
  set_replicas(1);
  candidate(0).up = false;
  read(20);
  candidate(0).up = true;
  EXPECT_EQ(read(60)[0], 60) << "nor of who stands in";
}

TEST_F(ReplicaReadsTest, NamesHaveOneOwner) {
  set_replicas(4);
  for (int i = 0; i < 20; ++i) {
    auto page = executor_.block_on(
        source_->list(Context::background(), {.prefix = "data/train/", .token = ""}));
    ASSERT_TRUE(page) << page.error().to_string();
  }
  const auto listing = PlacementKey::listing(cluster_.store().id(), "train/");
  EXPECT_EQ(cluster_.owner_of(listing).requests, 20);
}

}  // namespace
}  // namespace leat
