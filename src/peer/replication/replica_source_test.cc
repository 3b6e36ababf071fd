// SPDX-License-Identifier: Apache-2.0
// Where a replica gets the bytes of a stripe.
#include "peer/replication/replica_source.h"

#include <gtest/gtest.h>

#include "peer/fake_cluster_test.h"

namespace leat {
namespace {

using testing::FakeCluster;
using testing::FakePeer;

class ReplicaSourceTest : public ::testing::Test {
 protected:
  ReplicaSourceTest() : cluster_(4) {
    cluster_.store().put("train/a.txt", "aaaa");
    cluster_.mount("/data/train", "train/");
    candidates_ = cluster_.views().view()->ring.candidates(key_, 4);
    source_ = of(candidates_[2]);
  }

  SourcePtr of(const WorkerId& self) {
    return make_replica_source(self, cluster_.store().id(), cluster_.views(), cluster_.table());
  }
  FakePeer& candidate(size_t at) { return cluster_.peer(candidates_[at]); }
  Result<std::string> read() {
    auto object = executor_.block_on(cluster_.store().stat(Context::background(), {"train/a.txt"}));
    ReadRequest request{"train/a.txt", {1, 2}, object->version};
    request.object_size = 4;
    std::string text(2, '\0');
    auto got = executor_.block_on(
        source_->read(Context::background().with_timeout(std::chrono::seconds(30)), request,
                      std::as_writable_bytes(std::span(text))));
    if (!got) return error(got.error());
    return text;
  }

  Executor executor_;
  FakeCluster cluster_;
  const PlacementKey key_ = PlacementKey::stripe(cluster_.store().id(), "train/a.txt", 0);
  std::vector<WorkerId> candidates_;
  SourcePtr source_;
};

TEST_F(ReplicaSourceTest, ReadsFromTheOwner) {
  EXPECT_EQ(read().value(), "aa");
  EXPECT_EQ(candidate(0).served, 1);
  EXPECT_EQ(candidate(0).replica_reads, 0) << "that one fetches what it has not";
  EXPECT_EQ(cluster_.requests(), 1);
}

TEST_F(ReplicaSourceTest, ReadsOneVersion) {
  EXPECT_TRUE(source_->capabilities().conditional_read);
  cluster_.store().put("train/a.txt", "bbbb");
  EXPECT_EQ(read().value(), "bb");
  ReadRequest request{"train/a.txt", {1, 2}, Version::etag("another")};
  request.object_size = 4;
  std::string text(2, '\0');
  auto got = executor_.block_on(
      source_->read(Context::background(), request, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(got.error().code(), StatusCode::kVersionChanged);
}

TEST_F(ReplicaSourceTest, ReadsFromTheFailoverWorker) {
  candidate(0).up = false;
  EXPECT_EQ(read().value(), "aa");
  EXPECT_EQ(candidate(1).failovers, 1);
  candidate(0).circuit_closed = false;
  const int asked = candidate(0).requests;
  EXPECT_EQ(read().value(), "aa");
  EXPECT_EQ(candidate(0).requests, asked) << "one whose circuit is open costs nothing";
}

TEST_F(ReplicaSourceTest, FirstRespondingReplicaActsAsOwner) {
  candidate(0).up = false;
  candidate(1).circuit_closed = false;
  const auto first = read();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code(), StatusCode::kBusy);
  EXPECT_EQ(candidate(2).requests, 0) << "it does not ask itself";
  EXPECT_EQ(candidate(3).requests, 0);
}

TEST_F(ReplicaSourceTest, AfterAChangeOfTheRingByTheNewOne) {
  candidate(0).known_epoch = 2;
  cluster_.change([&](ClusterView& view) {
    std::vector<RingMember> members;
    for (const WorkerId& id : candidates_) {
      if (id != candidates_[0]) members.push_back({id, 1});
    }
    view.ring = Ring(2, members);
  });
  EXPECT_EQ(read().value(), "aa");
  EXPECT_EQ(candidate(1).served, 1);
  EXPECT_EQ(candidate(1).failovers, 0);
}

TEST_F(ReplicaSourceTest, AnAnswerThatIsBadIsTheAnswer) {
  ReadRequest request{"train/none", {0, 1}, {}};
  request.object_size = 1;
  std::byte byte;
  auto got = executor_.block_on(source_->read(Context::background(), request, std::span(&byte, 1)));
  EXPECT_EQ(got.error().code(), StatusCode::kNotFound);
}

TEST_F(ReplicaSourceTest, HasNoNames) {
  EXPECT_EQ(
      executor_.block_on(source_->stat(Context::background(), {"train/a.txt"})).error().code(),
      StatusCode::kUnsupported);
  EXPECT_EQ(executor_.block_on(source_->list(Context::background(), {})).error().code(),
            StatusCode::kUnsupported);
}

}  // namespace
}  // namespace leat
