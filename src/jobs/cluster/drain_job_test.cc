// SPDX-License-Identifier: Apache-2.0
// A leaving worker hands its cached bytes to the remaining worker and reports its progress.
#include "jobs/cluster/drain_job.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "cache/store_fixture_test.h"
#include "peer/fake_cluster_test.h"

namespace leat {
namespace {

using testing::worker_id;

// A peer that accepts all objects. The first `looks_lost` checks report them as evicted again.
class TakingPeer : public testing::FakePeer {
 public:
  using FakePeer::FakePeer;
  Task<PeerReply<uint64_t>> cache_op(Context, PeerCacheOp request) override {
    std::lock_guard lock(mutex);
    if (request.op == CacheOp::kEnsure) {
      mounts.push_back(request.mount);
      co_return PeerReply<uint64_t>{PeerOutcome::kAnswered, request.range.size, 1};
    }
    const bool lost = looks_lost > 0;
    if (lost) --looks_lost;
    co_return PeerReply<uint64_t>{PeerOutcome::kAnswered, lost ? request.range.size : 0, 1};
  }

  std::mutex mutex;  // leaf
  int looks_lost = 0;
  std::vector<std::string> mounts;  // of accepted objects
};

class DrainJobTest : public ::testing::Test {
 protected:
  DrainJobTest() {
    ClusterView view{.cluster = "made", .ring = Ring(1, {{worker_id(1), 1}})};
    view.workers[worker_id(1)] = {.id = worker_id(1), .address = "w1:1"};
    for (const auto& [path, prefix] :
         std::map<std::string, std::string>{{"/a", "one/"}, {"/b", "one/deep/"}, {"/c", ""}}) {
      view.mounts[path] = {.path = path, .store = store_->id(), .prefix = prefix};
    }
    table_.update(view);
    views_.set(std::move(view));
  }
  ~DrainJobTest() override {
    executor_.block_on(hand_off_.stop());
    executor_.block_on(cache_->close());
  }

  void keep(const std::string& key) {
    const auto ref = std::make_shared<const FileRef>(
        FileRef::make(store_->id(), key, Version::etag("v1"), kMiB));
    const auto kept =
        executor_.block_on(cache_->write(Context::background(), ref, 0, content(ref)));
    ASSERT_TRUE(kept) << kept.error().to_string();
  }
  DrainProgress drained() {
    executor_.block_on(hand_off_.begin(0));
    until([this] { return hand_off_.progress()->ended; });
    return *hand_off_.progress();
  }

  Executor executor_{{.threads = 2}};
  const TempDirectory directory_;
  const std::unique_ptr<HostCache> cache_ =
      executor_
          .block_on(HostCache::open(Context::background(), {TestStore::options(directory_.path())},
                                    executor_, [this] { return make_disk(executor_); }))
          .value();
  const std::shared_ptr<testing::MemorySource> store_ = std::make_shared<testing::MemorySource>();
  testing::FakeViewSource views_;
  const std::shared_ptr<TakingPeer> peer_ =
      std::make_shared<TakingPeer>(worker_id(1), store_, views_);
  PeerTable table_{[this](const WorkerInfo&) { return peer_; }};
  DrainJob hand_off_{*cache_, views_, table_, executor_};
};

TEST_F(DrainJobTest, OthersTakeAllByTheLongestMount) {
  keep("one/x");
  keep("one/deep/y");
  keep("z");
  const DrainProgress progress = drained();
  EXPECT_FALSE(progress.stopped);
  EXPECT_EQ(progress.objects_done, 3u);
  EXPECT_EQ(progress.bytes_done, 3 * kMiB);
  EXPECT_EQ(progress.bytes_total, 3 * kMiB);
  EXPECT_EQ(progress.objects_failed, 0u);
  EXPECT_TRUE(progress.errors.empty());
  std::ranges::sort(peer_->mounts);
  EXPECT_EQ(peer_->mounts, (std::vector<std::string>{"/a", "/b", "/c"}));
}

TEST_F(DrainJobTest, WhatOthersLoseIsGivenAgain) {
  keep("one/x");
  peer_->looks_lost = 1;
  const DrainProgress progress = drained();
  EXPECT_EQ(peer_->mounts.size(), 2u);
  EXPECT_EQ(progress.objects_done, 1u);
  EXPECT_EQ(progress.bytes_done, kMiB);
  EXPECT_EQ(progress.objects_failed, 0u);
  EXPECT_TRUE(progress.errors.empty());
}

TEST_F(DrainJobTest, WhatOthersDoNotKeepIsSaid) {
  keep("one/x");
  peer_->looks_lost = 100;
  const DrainProgress progress = drained();
  EXPECT_EQ(progress.objects_done, 0u);
  EXPECT_EQ(progress.bytes_done, 0u);
  EXPECT_EQ(progress.objects_failed, 1u);
  ASSERT_EQ(progress.errors.size(), 1u);
  EXPECT_TRUE(progress.errors[0].contains("make them larger")) << progress.errors[0];
}

// At 1 byte/s the turn of the second object comes only after days.
TEST_F(DrainJobTest, DrainKeepsToItsBandwidth) {
  for (int i = 0; i < 10; ++i) keep("one/" + std::to_string(i));
  executor_.block_on(hand_off_.begin(1));
  until([this] { return hand_off_.progress()->objects_done > 0; });
  executor_.block_on(hand_off_.stop());
  EXPECT_EQ(hand_off_.progress()->objects_done, 1u);
  EXPECT_TRUE(hand_off_.progress()->stopped);
  EXPECT_EQ(peer_->mounts.size(), 1u);
}

}  // namespace
}  // namespace leat
