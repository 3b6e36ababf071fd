// SPDX-License-Identifier: Apache-2.0
// Staged writes of a cluster in this process: three workers, and a store of files.
#include <gtest/gtest.h>

#include <fstream>

#include "worker/cluster_worker.h"
#include "worker/fake_worker_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using testing::FakeClient;
using testing::patient;
using testing::wait_until;
using testing::WorkerNode;
using testing::WorkerNodeOptions;

class StagingClusterTest : public testing::ClusterWorkerTestBase {
 protected:
  static constexpr auto kNever = std::chrono::hours(1);

  void SetUp() override {
    std::filesystem::create_directories(folder());
    for (int i = 0; i < 3; ++i) nodes_.push_back(make_node(i));
    for (auto& node : nodes_) node->await_ring(all());
  }
  std::unique_ptr<WorkerNode> make_node(int number) {
    WorkerNodeOptions options;
    options.failure_domain = fmt::format("rack {}", number);
    options.staging.sending.delay = delay_;
    options.staging.sending.pause_min = milliseconds(20);
    options.staging.member_interval = milliseconds(50);
    options.staging.member_timeout = milliseconds(500);
    return std::make_unique<WorkerNode>(network_, options);
  }
  std::vector<const WorkerNode*> all() const {
    std::vector<const WorkerNode*> all;
    for (const auto& node : nodes_) {
      if (node != nullptr) all.push_back(node.get());
    }
    return all;
  }
  ClusterMount mount(uint32_t copies = 2) {
    const ClusterMount mount =
        add_mount(*nodes_[0], kData, "file://" + folder(),
                  {{"write", "back"}, {"write_copies", std::to_string(copies)}})
            .value();
    for (auto& node : nodes_) await_served(*node, mount);
    return mount;
  }
  std::optional<std::string> stored(const std::string& name) const {
    std::ifstream file(folder() + "/" + name);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  StagingRecord record(WorkerNode& node) { return node->view()->staging.at(kData); }
  WorkerNode& node_of(const WorkerId& id) {
    for (auto& node : nodes_) {
      if (node != nullptr && node->id() == id) return *node;
    }
    ADD_FAILURE() << "no such node";
    return *nodes_[0];
  }
  void expect_everywhere(const std::string& key, const std::string& text) {
    for (auto& node : nodes_) {
      if (node == nullptr) continue;
      FakeClient client(*node);
      const auto got = client.read(key);
      EXPECT_TRUE(got) << key << ": " << got.error().to_string();
      EXPECT_EQ(got.value_or(""), text) << key;
    }
  }
  void stop(WorkerNode& node) {
    for (auto& one : nodes_) {
      if (one.get() == &node) one.reset();
    }
  }
  Result<> flush(WorkerNode& node) { return run(node->flush(patient(), "/")); }

  Clock::duration delay_ = milliseconds(10);
  std::vector<std::unique_ptr<WorkerNode>> nodes_;
};

class StagingHeldTest : public StagingClusterTest {
 protected:
  StagingHeldTest() { delay_ = kNever; }
};

TEST_F(StagingHeldTest, WriteIsSeenAtAllWorkersAtOnce) {
  mount();
  FakeClient client(*nodes_[0]);
  const auto written = client.write("data/a", "hello");
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(stored("a"), std::nullopt);
  expect_everywhere("data/a", "hello");
  const StagingRecord kept = record(*nodes_[0]);
  EXPECT_EQ(kept.members.size(), 2u);
}

TEST_F(StagingHeldTest, RenamedDirectoryIsSeenAtOnce) {
  mount();
  FakeClient client(*nodes_[1]);
  for (const char* name : {"x", "y", "s/z"}) {
    ASSERT_TRUE(client.write(std::string("data/tmp/") + name, name));
  }
  ASSERT_TRUE(client.rename("data/tmp/", "data/final/"));
  expect_everywhere("data/final/x", "x");
  expect_everywhere("data/final/s/z", "s/z");
  for (auto& node : nodes_) {
    FakeClient other(*node);
    EXPECT_EQ(other.read("data/tmp/x").error().code(), StatusCode::kNotFound);
    const auto page = other.list("data/");
    ASSERT_TRUE(page) << page.error().to_string();
    ASSERT_EQ(page->objects.size(), 1u);
    EXPECT_EQ(page->objects[0].key, "data/final/");
  }
  EXPECT_FALSE(std::filesystem::exists(folder() + "/final"));
  ASSERT_TRUE(flush(*nodes_[2]));
  EXPECT_EQ(stored("final/s/z"), "s/z");
  EXPECT_FALSE(std::filesystem::exists(folder() + "/tmp"));
  expect_everywhere("data/final/x", "x");
}

TEST_F(StagingHeldTest, LossOfThePrimaryLosesNothing) {
  mount();
  FakeClient client(*nodes_[0]);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client.write(fmt::format("data/{}", i), fmt::format("content {}", i)));
  }
  const std::string large = text_of("large", 9 * kMiB);
  {
    auto writer = client.source().begin_write({.key = "data/large"}).value();
    ASSERT_TRUE(run(writer->append(patient(), std::as_bytes(std::span(large)), {})));
    ASSERT_TRUE(run(writer->complete(patient(), {})));
  }
  const StagingRecord before = record(*nodes_[0]);
  ASSERT_EQ(before.members.size(), 2u);
  // Without its disk, for good.
  stop(node_of(before.primary));
  WorkerNode& left = nodes_[0] ? *nodes_[0] : *nodes_[1];
  left.await_view(
      [&](const ClusterView& view) { return view.staging.at(kData).primary != before.primary; });
  for (int i = 0; i < 20; ++i) {
    expect_everywhere(fmt::format("data/{}", i), fmt::format("content {}", i));
  }
  ASSERT_TRUE(flush(left));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(stored(std::to_string(i)), fmt::format("content {}", i));
  EXPECT_EQ(stored("large"), large);
  EXPECT_EQ(record(left).term, before.term + 1);
}

TEST_F(StagingHeldTest, PrimaryThatIsCutOffIsReplaced) {
  mount();
  FakeClient client(*nodes_[0]);
  ASSERT_TRUE(client.write("data/a", "1"));
  const StagingRecord before = record(*nodes_[0]);
  WorkerNode& primary = node_of(before.primary);
  primary.registry().disconnect();
  primary.link().cut_off = true;
  WorkerNode* other = nullptr;
  for (auto& node : nodes_) {
    if (node->id() != before.primary) other = node.get();
  }
  other->await_view(
      [&](const ClusterView& view) { return view.staging.at(kData).primary != before.primary; });
  FakeClient second(*other);
  ASSERT_TRUE(second.write("data/a", "2"));
  EXPECT_EQ(second.read("data/a").value(), "2");
  // It takes the others for its members, and they know better.
  FakeClient cut(primary);
  const auto refused =
      run(cut.source().write(Context::background().with_timeout(std::chrono::seconds(2)),
                             {.key = "data/a"}, std::as_bytes(std::span("3", 1))));
  EXPECT_FALSE(refused);
  ASSERT_TRUE(flush(*other));
  EXPECT_EQ(stored("a"), "2");
}

// The member's disk has an event that the log does not get, and its position comes again.
TEST_F(StagingHeldTest, FailedWriteLeavesNoGap) {
  mount();
  FakeClient client(*nodes_[0]);
  ASSERT_TRUE(client.write("data/a", "1"));
  const StagingRecord before = record(*nodes_[0]);
  WorkerNode& primary = node_of(before.primary);
  WorkerNode& member =
      node_of(before.members[0] == before.primary ? before.members[1] : before.members[0]);
  primary.registry().disconnect();
  member.link().cut_off = true;
  FakeClient at_primary(primary);
  EXPECT_FALSE(
      run(at_primary.source().write(Context::background().with_timeout(std::chrono::seconds(3)),
                                    {.key = "data/b"}, std::as_bytes(std::span("x", 1)))));
  primary.registry().connect();
  member.link().cut_off = false;
  EXPECT_TRUE(wait_until([&] { return at_primary.write("data/c", "3").has_value(); }));
  expect_everywhere("data/a", "1");
  expect_everywhere("data/c", "3");
  stop(primary);
  WorkerNode& left = nodes_[0] ? *nodes_[0] : *nodes_[1];
  left.await_view(
      [&](const ClusterView& view) { return view.staging.at(kData).primary != before.primary; });
  expect_everywhere("data/a", "1");
  expect_everywhere("data/c", "3");
  ASSERT_TRUE(flush(left));
  EXPECT_EQ(stored("c"), "3");
}

TEST_F(StagingHeldTest, RestartedClusterHasItsWrites) {
  mount();
  {
    FakeClient client(*nodes_[0]);
    ASSERT_TRUE(client.write("data/a", "hello"));
    ASSERT_TRUE(client.rename("data/a", "data/b"));
  }
  for (auto& node : nodes_) node->stop();
  for (auto& node : nodes_) node->start();
  for (auto& node : nodes_) node->await_ring(all());
  expect_everywhere("data/b", "hello");
  ASSERT_TRUE(flush(*nodes_[0]));
  EXPECT_EQ(stored("b"), "hello");
  EXPECT_EQ(stored("a"), std::nullopt);
}

TEST_F(StagingHeldTest, WithoutASecondWorkerTheStoreHasIt) {
  mount(3);
  stop(*nodes_[2]);
  FakeClient client(*nodes_[0]);
  ASSERT_TRUE(client.write("data/a", "hello"));
  EXPECT_EQ(stored("a"), "hello");
}

TEST_F(StagingHeldTest, SecondWriterOfAVersionFails) {
  mount();
  FakeClient client(*nodes_[0]), other(*nodes_[1]);
  const auto first = client.write("data/a", "1", {.absent = true});
  ASSERT_TRUE(first);
  EXPECT_EQ(other.write("data/a", "2", {.absent = true}).error().code(), StatusCode::kExists);
  const auto second = other.write("data/a", "2", {.version = first->version});
  ASSERT_TRUE(second);
  EXPECT_EQ(client.write("data/a", "3", {.version = first->version}).error().code(),
            StatusCode::kVersionChanged);
  expect_everywhere("data/a", "2");
}

TEST_F(StagingHeldTest, AttributesOfAPendingFileAreSet) {
  mount();
  FakeClient client(*nodes_[0]);
  ASSERT_TRUE(client.write("data/a", "hello"));
  PosixAttributes attributes;
  attributes.mode = 0100600;
  const AttributesRequest set{.key = "data/a", .attributes = attributes};
  const auto changed = run(client.source().set_attributes(patient(), set));
  ASSERT_TRUE(changed) << changed.error().to_string();
  EXPECT_EQ(stored("a"), std::nullopt);
  FakeClient other(*nodes_[1]);
  EXPECT_EQ(other.stat("data/a")->attributes->mode, 0100600);
  expect_everywhere("data/a", "hello");
}

TEST_F(StagingHeldTest, DrainedWorkerLeavesNothingBehind) {
  mount();
  FakeClient client(*nodes_[0]);
  ASSERT_TRUE(client.write("data/a", "hello"));
  const WorkerId primary = record(*nodes_[0]).primary;
  WorkerNode& leaving = node_of(primary);
  ASSERT_TRUE(run(leaving->drain(patient(), false, 0)));
  WorkerNode& other = leaving.id() == nodes_[0]->id() ? *nodes_[1] : *nodes_[0];
  other.await_view([&](const ClusterView& view) {
    const StagingRecord& now = view.staging.at(kData);
    return now.primary != primary && !now.has_member(primary);
  });
  expect_everywhere("data/a", "hello");
}

TEST_F(StagingClusterTest, StoreGetsWritesInTheirOrder) {
  mount();
  FakeClient client(*nodes_[0]);
  for (int i = 0; i < 30; ++i) {
    const std::string tmp = fmt::format("data/tmp-{}", i);
    ASSERT_TRUE(client.write(tmp, fmt::format("content {}", i)));
    ASSERT_TRUE(client.rename(tmp, "data/latest"));
    expect_everywhere("data/latest", fmt::format("content {}", i));
  }
  ASSERT_TRUE(flush(*nodes_[1]));
  EXPECT_EQ(stored("latest"), "content 29");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder()), {}), 1);
}

TEST_F(StagingClusterTest, WrittenFileKeepsItsVersionInTheStore) {
  mount();
  FakeClient client(*nodes_[0]);
  const auto written = client.write("data/a", "hello");
  ASSERT_TRUE(written);
  ASSERT_TRUE(flush(*nodes_[0]));
  for (auto& node : nodes_) {
    FakeClient other(*node);
    const auto now = other.stat("data/a");
    ASSERT_TRUE(now);
    EXPECT_EQ(now->version, written->version);
    EXPECT_EQ(other.read(*written).value(), "hello");
  }
}

TEST_F(StagingClusterTest, MountGoesWithoutLosingWrites) {
  mount();
  FakeClient client(*nodes_[0]);
  ASSERT_TRUE(client.write("data/a", "hello"));
  ASSERT_TRUE(run((*nodes_[1])->remove_mount(patient(), kData)));
  EXPECT_EQ(stored("a"), "hello");
  EXPECT_TRUE(network_.keys("cluster/staging").empty());
}

}  // namespace
}  // namespace leat
