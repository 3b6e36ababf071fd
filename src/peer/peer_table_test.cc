// SPDX-License-Identifier: Apache-2.0
// When a client is recreated.
#include "peer/peer_table.h"

#include <gtest/gtest.h>

#include "peer/made_cluster_test.h"

namespace leat {
namespace {

using testing::MadeMap;
using testing::MadePeer;
using testing::MemorySource;
using testing::worker_id;

class PeerTableTest : public ::testing::Test {
 protected:
  PeerTableTest() {
    view_.workers[worker_id(0)] = {.id = worker_id(0), .address = "a:1", .protocol = 1};
    table_.update(view_);
  }
  WorkerInfo& info() { return view_.workers[worker_id(0)]; }

  int made_ = 0;
  MadeMap map_;
  std::shared_ptr<MemorySource> source_ = std::make_shared<MemorySource>();
  ClusterView view_;
  PeerTable table_{[this](const WorkerInfo& info) {
    ++made_;
    return std::make_shared<MadePeer>(info.id, source_, map_);
  }};
};

TEST_F(PeerTableTest, AClientStaysAsLongAsItsWorkerIsReachedTheSameWay) {
  const PeerPtr before = table_.find(worker_id(0));
  info().capacity_bytes = 7;
  info().state = WorkerState::kDraining;
  info().version = "9.8.7";
  table_.update(view_);
  EXPECT_EQ(table_.find(worker_id(0)), before);
  EXPECT_EQ(made_, 1);
}

TEST_F(PeerTableTest, AnotherAddressOrProtocolWantsAnotherClient) {
  info().address = "a:2";
  table_.update(view_);
  EXPECT_EQ(made_, 2);
  info().protocol = 0;
  table_.update(view_);
  EXPECT_EQ(made_, 3);
}

TEST_F(PeerTableTest, WhoIsNeitherThereNorInTheRingIsForgotten) {
  view_.ring = Ring(1, {{worker_id(0), 1}});
  view_.workers.clear();
  table_.update(view_);
  EXPECT_NE(table_.find(worker_id(0)), nullptr) << "it may be back in a moment";
  view_.ring = Ring();
  table_.update(view_);
  EXPECT_EQ(table_.find(worker_id(0)), nullptr);
}

}  // namespace
}  // namespace leat
