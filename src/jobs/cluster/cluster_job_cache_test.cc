// SPDX-License-Identifier: Apache-2.0
// The cache of a cluster as jobs see it: the workers that receive each request.
#include "jobs/cluster/cluster_job_cache.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "peer/fake_cluster_test.h"
#include "peer/sources/cluster_source.h"

namespace leat {
namespace {

using testing::FakeCluster;
using testing::worker_id;

class ClusterJobCacheTest : public ::testing::Test {
 protected:
  ClusterJobCacheTest() { cluster_.mount("/train", "prefix/"); }

  FileRefPtr file(const std::string& path, uint64_t size) {
    return std::make_shared<const FileRef>(
        FileRef::make(cluster_store_id("made"), path, Version::etag("\"x\""), size));
  }
  static Context patient() { return Context::background().with_timeout(std::chrono::seconds(20)); }
  uint64_t ensure(const FileRefPtr& ref, ByteRange range) {
    return executor_.block_on(cache_.ensure(patient(), ref, range)).value();
  }

  Executor executor_{{.threads = 2}};
  FakeCluster cluster_{4};
  ClusterJobCache cache_{cluster_.views(), cluster_.table(), executor_};
};

TEST_F(ClusterJobCacheTest, EachPartGoesToWhoHoldsItsStripe) {
  const FileRefPtr large = file("train/large", 640 * kMiB);
  for (uint64_t at = 0; at < large->size; at += 8 * kMiB) {
    const auto key =
        PlacementKey::stripe(cluster_.store().id(), "prefix/large", stripe_at(at, large->size));
    const int before = cluster_.owner_of(key).requests;
    EXPECT_EQ(ensure(large, {at, 8 * kMiB}), 8 * kMiB);
    EXPECT_EQ(cluster_.owner_of(key).requests, before + 1);
  }
  EXPECT_EQ(ensure(large, {0, 8 * kMiB}), 0u);
}

TEST_F(ClusterJobCacheTest, NextCandidateIsTheFailover) {
  const FileRefPtr small = file("train/small", 100);
  cluster_.owner_of(PlacementKey::stripe(cluster_.store().id(), "prefix/small", 0)).up = false;
  EXPECT_EQ(ensure(small, {0, 100}), 100u);
}

TEST_F(ClusterJobCacheTest, AllGiveUpWhatIsFreedAndWhoCannotIsNamed) {
  std::vector<FileRefPtr> files;
  for (int i = 0; i < 40; ++i) {
    files.push_back(file("train/" + std::to_string(i), 10));
    ensure(files.back(), {0, 10});
  }
  EXPECT_EQ(executor_.block_on(cache_.drop(patient(), files)).value(), 40u);
  cluster_.peer(worker_id(2)).up = false;
  const auto left = executor_.block_on(cache_.drop(patient(), files));
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(left.error().message().contains("w2:1")) << left.error().message();
}

// It has left the other workers, and returns with its cache.
TEST_F(ClusterJobCacheTest, WhoIsGoneAndStillInTheRingIsNamed) {
  const std::vector<FileRefPtr> files{file("train/a", 10)};
  cluster_.change([](ClusterView& view) { view.workers.erase(worker_id(2)); });
  cluster_.peer(worker_id(2)).up = false;
  const auto left = executor_.block_on(cache_.drop(patient(), files));
  ASSERT_FALSE(left);
  EXPECT_TRUE(left.error().message().contains("w2:1")) << left.error().message();
  // No wait for a worker that is known to be down.
  cluster_.peer(worker_id(2)).circuit_closed = false;
  const auto unasked = executor_.block_on(cache_.drop(patient(), files));
  ASSERT_FALSE(unasked);
  EXPECT_TRUE(unasked.error().message().contains("does not respond")) << unasked.error().message();
  const auto looked = executor_.block_on(cache_.verify(patient(), 1, [](const VerifyStep&) {}));
  ASSERT_FALSE(looked);
  EXPECT_TRUE(looked.error().message().contains("w2:1")) << looked.error().message();
}

TEST_F(ClusterJobCacheTest, AWorkerWithoutRoomIsNamed) {
  for (size_t i = 0; i < 4; ++i) cluster_.peer(worker_id(i)).full = true;
  const auto refused = executor_.block_on(cache_.ensure(patient(), file("train/a", 10), {0, 10}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kNoSpace);
  const std::string text = refused.error().to_string();
  EXPECT_TRUE(text.starts_with("worker w") && text.ends_with("no room in /cache")) << text;
}

TEST_F(ClusterJobCacheTest, VerifyAddsUpAllWorkers) {
  for (int i = 0; i < 40; ++i) ensure(file("train/" + std::to_string(i), 10), {0, 10});
  EXPECT_EQ(executor_.block_on(cache_.content(patient(), 1)).objects, 40u);
  uint64_t objects = 0;
  auto add = [&](const VerifyStep& step) { objects += step.objects; };
  EXPECT_TRUE(executor_.block_on(cache_.verify(patient(), 1, add)));
  EXPECT_EQ(objects, 40u);
  cluster_.change([](ClusterView& view) { view.workers.erase(worker_id(1)); });
  cluster_.peer(worker_id(3)).up = false;
  EXPECT_FALSE(executor_.block_on(
      cache_.verify(Context::background().with_timeout(std::chrono::seconds(3)), 2, add)));
}

TEST_F(ClusterJobCacheTest, VerifyNamesWhatAWorkerCouldNotDo) {
  class TroubledPeer : public testing::FakePeer {
   public:
    using FakePeer::FakePeer;
    Task<PeerReply<VerifyProgress>> verify(Context, uint64_t) override {
      VerifyProgress ended{.ended = true, .error = "the disk is gone"};
      co_return PeerReply<VerifyProgress>{PeerOutcome::kAnswered, std::move(ended), 1};
    }
  };
  testing::FakeViewSource views;
  const auto peer = std::make_shared<TroubledPeer>(
      worker_id(1), std::make_shared<testing::MemorySource>(), views);
  PeerTable table([&](const WorkerInfo&) { return peer; });
  ClusterView view{.cluster = "made", .ring = Ring(1, {{worker_id(1), 1}})};
  view.workers[worker_id(1)] = {.id = worker_id(1), .address = "w1:1"};
  table.update(view);
  views.set(view);
  ClusterJobCache target(views, table, executor_);
  const auto looked = executor_.block_on(target.verify(patient(), 1, [](const VerifyStep&) {}));
  ASSERT_FALSE(looked);
  EXPECT_TRUE(looked.error().message().contains("w1:1")) << looked.error().message();
  EXPECT_TRUE(looked.error().message().contains("the disk is gone")) << looked.error().message();
}

TEST_F(ClusterJobCacheTest, WhatIsMountedNoMoreIsNotFound) {
  const FileRefPtr gone = file("gone/file", 10);
  EXPECT_EQ(executor_.block_on(cache_.ensure(patient(), gone, {0, 10})).error().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace leat
