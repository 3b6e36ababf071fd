// SPDX-License-Identifier: Apache-2.0
// A leaving worker hands its cached bytes to the remaining worker and reports its progress.
#include "jobs/cluster/hand_off.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "cache/store_fixture_test.h"
#include "peer/made_cluster_test.h"

namespace leat {
namespace {

using testing::worker_id;

// A peer that accepts all objects. The first `looks_lost` checks report them as evicted again.
class TakingPeer : public testing::MadePeer {
 public:
  using MadePeer::MadePeer;
  Task<PeerReply<uint64_t>> upkeep(Context, PeerUpkeep request) override {
    std::lock_guard lock(mutex);
    if (request.action == UpkeepAction::kEnsure) {
      mounts.push_back(request.mount);
      co_return PeerReply<uint64_t>{PeerReach::kAnswered, request.range.size, 1};
    }
    const bool lost = looks_lost > 0;
    if (lost) --looks_lost;
    co_return PeerReply<uint64_t>{PeerReach::kAnswered, lost ? request.range.size : 0, 1};
  }

  std::mutex mutex;  // leaf
  int looks_lost = 0;
  std::vector<std::string> mounts;  // of accepted objects
};

class HandOffTest : public ::testing::Test {
 protected:
  HandOffTest() {
    ClusterView view{.cluster = "made", .ring = Ring(1, {{worker_id(1), 1}})};
    view.workers[worker_id(1)] = {.id = worker_id(1), .address = "w1:1"};
    for (const auto& [path, prefix] :
         std::map<std::string, std::string>{{"/a", "one/"}, {"/b", "one/deep/"}, {"/c", ""}}) {
      view.mounts[path] = {.path = path, .store = store_->id(), .prefix = prefix};
    }
    table_.update(view);
    map_.set(std::move(view));
  }
  ~HandOffTest() override {
    executor_.wait(hand_off_.stop());
    executor_.wait(cache_->close());
  }

  void keep(const std::string& key) {
    const auto ref = std::make_shared<const FileRef>(
        FileRef::make(store_->id(), key, Version::etag("v1"), kMiB));
    const auto kept = executor_.wait(cache_->write(Context::background(), ref, 0, content(ref)));
    ASSERT_TRUE(kept) << kept.error().to_string();
  }
  HandOffState drained() {
    executor_.wait(hand_off_.begin(0));
    until([this] { return hand_off_.state()->ended; });
    return *hand_off_.state();
  }

  Executor executor_{{.threads = 2}};
  const TempDirectory directory_;
  const std::unique_ptr<HostCache> cache_ =
      executor_
          .wait(HostCache::open(Context::background(), {TestStore::options(directory_.path())},
                                executor_, [this] { return make_disk(executor_); }))
          .value();
  const std::shared_ptr<testing::MemorySource> store_ = std::make_shared<testing::MemorySource>();
  testing::MadeMap map_;
  const std::shared_ptr<TakingPeer> peer_ =
      std::make_shared<TakingPeer>(worker_id(1), store_, map_);
  PeerTable table_{[this](const WorkerInfo&) { return peer_; }};
  HandOff hand_off_{*cache_, map_, table_, executor_};
};

TEST_F(HandOffTest, OthersTakeAllByTheLongestMount) {
  keep("one/x");
  keep("one/deep/y");
  keep("z");
  const HandOffState state = drained();
  EXPECT_FALSE(state.stopped);
  EXPECT_EQ(state.objects_done, 3u);
  EXPECT_EQ(state.bytes_done, 3 * kMiB);
  EXPECT_EQ(state.bytes_total, 3 * kMiB);
  EXPECT_EQ(state.objects_failed, 0u);
  EXPECT_TRUE(state.errors.empty());
  std::ranges::sort(peer_->mounts);
  EXPECT_EQ(peer_->mounts, (std::vector<std::string>{"/a", "/b", "/c"}));
}

TEST_F(HandOffTest, WhatOthersLoseIsGivenAgain) {
  keep("one/x");
  peer_->looks_lost = 1;
  const HandOffState state = drained();
  EXPECT_EQ(peer_->mounts.size(), 2u);
  EXPECT_EQ(state.objects_done, 1u);
  EXPECT_EQ(state.bytes_done, kMiB);
  EXPECT_EQ(state.objects_failed, 0u);
  EXPECT_TRUE(state.errors.empty());
}

TEST_F(HandOffTest, WhatOthersDoNotKeepIsSaid) {
  keep("one/x");
  peer_->looks_lost = 100;
  const HandOffState state = drained();
  EXPECT_EQ(state.objects_done, 0u);
  EXPECT_EQ(state.bytes_done, 0u);
  EXPECT_EQ(state.objects_failed, 1u);
  ASSERT_EQ(state.errors.size(), 1u);
  EXPECT_TRUE(state.errors[0].contains("make them larger")) << state.errors[0];
}

// At 1 byte/s the turn of the second object comes only after days.
TEST_F(HandOffTest, DrainKeepsToItsBandwidth) {
  for (int i = 0; i < 10; ++i) keep("one/" + std::to_string(i));
  executor_.wait(hand_off_.begin(1));
  until([this] { return hand_off_.state()->objects_done > 0; });
  executor_.wait(hand_off_.stop());
  EXPECT_EQ(hand_off_.state()->objects_done, 1u);
  EXPECT_TRUE(hand_off_.state()->stopped);
  EXPECT_EQ(peer_->mounts.size(), 1u);
}

}  // namespace
}  // namespace leat
