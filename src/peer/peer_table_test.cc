// SPDX-License-Identifier: Apache-2.0
// When a client is recreated.
#include "peer/peer_table.h"

#include <gtest/gtest.h>

#include "peer/fake_cluster_test.h"

namespace leat {
namespace {

using testing::FakePeer;
using testing::FakeViewSource;
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
  FakeViewSource views_;
  std::shared_ptr<MemorySource> source_ = std::make_shared<MemorySource>();
  ClusterView view_;
  PeerTable table_{[this](const WorkerInfo& info) {
    ++made_;
    return std::make_shared<FakePeer>(info.id, source_, views_);
  }};
};

TEST_F(PeerTableTest, ClientStaysWhileRouteIsTheSame) {
  const PeerPtr before = table_.find(worker_id(0));
  info().capacity_bytes = 7;
  info().state = WorkerState::kDraining;
  info().version = "9.8.7";
  table_.update(view_);
  EXPECT_EQ(table_.find(worker_id(0)), before);
  EXPECT_EQ(made_, 1);
}

TEST_F(PeerTableTest, AddressOrProtocolChangeRecreatesClient) {
  info().address = "a:2";
  table_.update(view_);
  EXPECT_EQ(made_, 2);
  info().protocol = 0;
  table_.update(view_);
  EXPECT_EQ(made_, 3);
}

TEST_F(PeerTableTest, AbsentNonMemberIsRemoved) {
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
