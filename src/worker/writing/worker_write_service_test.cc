// SPDX-License-Identifier: Apache-2.0
// Changes of a store through workers of a cluster, over a real folder.
#include "worker/writing/worker_write_service.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "worker/fake_worker_test.h"

namespace leat {
namespace {

using testing::patient;
using testing::wait_until;
using testing::WorkerNode;
using Step = WritePiece::Step;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class WorkerWriteServiceTest : public testing::ClusterWorkerTestBase {
 protected:
  WorkerWriteServiceTest() {
    node_.await_ring({&node_});
    mount_ = mount_data({&node_});
  }

  PeerWrite write_of(const std::string& name) const {
    return {.mount = mount_.path, .store = mount_.store, .key = mount_.prefix + name};
  }
  PeerReply<SourceObject> send(PeerWrite request, std::string_view content, PeerRoute route = {}) {
    return run(
        node_->service()->writes()->write(patient(), std::move(request), route, bytes_of(content)));
  }
  Result<SourceObject> write(const std::string& name, std::string_view content,
                             WriteCondition condition = {}) {
    PeerWrite request = write_of(name);
    request.condition = condition;
    return send(std::move(request), content).result;
  }
  PeerReply<SourceObject> change(ChangeOp op, std::vector<std::string> names,
                                 bool exclusive = false) {
    PeerChange request{.op = op, .mount = mount_.path, .store = mount_.store};
    for (const std::string& name : names) request.keys.push_back(mount_.prefix + name);
    request.exclusive = exclusive;
    return run(node_->service()->writes()->change(patient(), std::move(request), {}));
  }
  Result<SourceObject> piece(Id128 id, uint64_t offset, std::string_view content,
                             Step step = Step::kAppend, const std::string& name = "large") {
    PeerWrite request = write_of(name);
    request.piece = {id, offset, step};
    return send(std::move(request), content).result;
  }
  // Returns the content in the store; "(none)" without a file.
  std::string stored(const std::string& name) const {
    std::ifstream file(folder() + "/" + name, std::ios::binary);
    if (!file) return "(none)";
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> listed(WorkerNode& node) {
    PeerList list{.mount = mount_.path, .store = mount_.store, .prefix = mount_.prefix};
    list.age_max = std::chrono::hours(1);
    list.route = to_any(node);
    std::vector<std::string> names;
    const auto page = run(node->service()->list(patient(), std::move(list))).result;
    if (!page) return {page.error().to_string()};
    for (const SourceObject& object : page->objects) {
      names.push_back(object.key.substr(mount_.prefix.size()));
    }
    return names;
  }

  WorkerNode node_{network_};
  ClusterMount mount_;
};

using Names = std::vector<std::string>;

TEST_F(WorkerWriteServiceTest, MountRecordsHowItsStoreTakesWrites) {
  ASSERT_TRUE(mount_.writing);
  EXPECT_TRUE(mount_.writing->writes);
  EXPECT_TRUE(mount_.writing->write_if_absent);
  EXPECT_TRUE(mount_.writing->renames);
  EXPECT_FALSE(mount_.writing->write_if_version);
}

TEST_F(WorkerWriteServiceTest, WriteIsListedAtOnce) {
  EXPECT_EQ(listed(node_), Names{});
  const auto written = write("a", "content");
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(written->size, 7U);
  EXPECT_EQ(stored("a"), "content");
  EXPECT_EQ(listed(node_), Names{"a"});
  EXPECT_EQ(write("a", "other", {.absent = true}).error().code(), StatusCode::kExists);
  EXPECT_EQ(stored("a"), "content");
}

TEST_F(WorkerWriteServiceTest, ChangesOfNamesAreListedAtOnce) {
  ASSERT_TRUE(write("a", "x"));
  ASSERT_TRUE(write("dir/", ""));
  EXPECT_EQ(listed(node_), (Names{"a", "dir/"}));
  ASSERT_TRUE(change(ChangeOp::kRename, {"a", "b"}).result);
  ASSERT_TRUE(change(ChangeOp::kRename, {"dir/", "moved/"}).result);
  EXPECT_EQ(listed(node_), (Names{"b", "moved/"}));
  ASSERT_TRUE(change(ChangeOp::kCopy, {"b", "c"}).result);
  EXPECT_EQ(change(ChangeOp::kCopy, {"b", "c"}, true).result.error().code(), StatusCode::kExists);
  ASSERT_TRUE(change(ChangeOp::kRemove, {"b", "moved/"}).result);
  EXPECT_EQ(listed(node_), Names{"c"});
}

TEST_F(WorkerWriteServiceTest, ChangesArePublished) {
  InvalidationLog& log = node_.server().deps.invalidations;
  const auto subscribed = run(log.wait_after(patient(), 0, std::chrono::seconds(1)));
  const uint64_t before = subscribed.value()->number;
  ASSERT_TRUE(write("deep/a", "x"));
  const auto news = run(log.wait_after(patient(), before, std::chrono::seconds(10)));
  ASSERT_TRUE(news && *news);
  EXPECT_EQ((*news)->items.back(),
            (Invalidation{mount_.path, "deep/a", Invalidation::Kind::kObject}));
}

// A directory vanishes with its last name, which another worker has removed.
TEST_F(WorkerWriteServiceTest, StatFindsWhatExpiredNamesHide) {
  ASSERT_TRUE(write("d/", "") && write("d/x", "x"));
  EXPECT_EQ(listed(node_), Names{"d/"});
  std::filesystem::remove_all(folder() + "/d");
  const Invalidation removed{mount_.path, "d/x", Invalidation::Kind::kObject};
  node_.server().deps.on_invalidations({.number = 0, .items = {removed}});
  PeerStat stat{.mount = mount_.path, .store = mount_.store, .key = mount_.prefix + "d/"};
  EXPECT_EQ(run(node_->service()->stat(patient(), stat)).result.error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(listed(node_), Names{});
}

TEST_F(WorkerWriteServiceTest, ObjectIsWrittenInPieces) {
  const Id128 id = Id128::random();
  ASSERT_TRUE(piece(id, 0, "one"));
  EXPECT_EQ(stored("large"), "(none)");
  ASSERT_TRUE(piece(id, 3, "two"));
  EXPECT_TRUE(piece(id, 3, "two")) << "sent again";
  const auto written = piece(id, 6, "end", Step::kComplete);
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(written->size, 9U);
  EXPECT_EQ(stored("large"), "onetwoend");
  EXPECT_EQ(listed(node_), Names{"large"});
  EXPECT_EQ(piece(id, 9, "", Step::kComplete).error().code(), StatusCode::kUnavailable);
}

TEST_F(WorkerWriteServiceTest, MissingPieceEndsTheWrite) {
  const Id128 id = Id128::random();
  EXPECT_EQ(piece(id, 3, "two").error().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(piece(id, 0, "one"));
  EXPECT_EQ(piece(id, 6, "three").error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(piece(id, 3, "two").error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(stored("large"), "(none)");
}

TEST_F(WorkerWriteServiceTest, AbortLeavesNothing) {
  const Id128 id = Id128::random();
  ASSERT_TRUE(piece(id, 0, "one"));
  ASSERT_TRUE(piece(id, 0, "", Step::kAbort));
  EXPECT_TRUE(piece(id, 0, "", Step::kAbort)) << "nothing is left to abort";
  EXPECT_EQ(piece(id, 3, "two").error().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(WorkerWriteServiceTest, PieceBelongsToItsObject) {
  const Id128 id = Id128::random();
  ASSERT_TRUE(piece(id, 0, "one"));
  EXPECT_EQ(piece(id, 3, "two", Step::kComplete, "other").error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(piece(id, 3, "two", Step::kComplete));
}

TEST_F(WorkerWriteServiceTest, TooManyWritesAreRejected) {
  for (size_t i = 0; i < WriteSessions::kSessionsMax; ++i) {
    ASSERT_TRUE(piece(Id128::random(), 0, "x", Step::kAppend, fmt::format("f{}", i)));
  }
  EXPECT_EQ(piece(Id128::random(), 0, "x").error().code(), StatusCode::kThrottled);
}

TEST_F(WorkerWriteServiceTest, KeysOutsideTheMountAreRejected) {
  PeerWrite request = write_of("a");
  request.key = "elsewhere/a";
  EXPECT_EQ(send(request, "x").result.error().code(), StatusCode::kPermissionDenied);
  request.key = mount_.prefix;
  EXPECT_EQ(send(request, "").result.error().code(), StatusCode::kPermissionDenied);
  request.mount = "/unknown";
  EXPECT_EQ(send(request, "").outcome, PeerOutcome::kNotOwner);
}

TEST_F(WorkerWriteServiceTest, LinkOutOfTheFoldersIsRejected) {
  std::filesystem::create_directory_symlink("/tmp", folder() + "/out");
  EXPECT_EQ(write("out/a", "x").error().code(), StatusCode::kPermissionDenied);
}

TEST_F(WorkerWriteServiceTest, HiddenNamesAreRejected) {
  const std::string hiding = network_.stores() + "/hiding";
  std::filesystem::create_directories(hiding);
  ASSERT_TRUE(add_mount(node_, std::string(kData) + "/sub", "file://" + hiding));
  EXPECT_EQ(write("sub/a", "x").error().code(), StatusCode::kReadOnly);
  EXPECT_TRUE(write("beside", "x"));
}

TEST_F(WorkerWriteServiceTest, OtherWorkerIsNotTheOwner) {
  WorkerNode other(network_);
  const ClusterViewPtr view = node_.await_ring({&node_, &other});
  await_served(other, mount_);
  const auto owner = view->ring.owner(PlacementKey::listing(mount_.store, mount_.prefix));
  WorkerNode& not_owner = owner == node_.id() ? other : node_;
  auto to = [&](PeerRoute route) {
    return run(
        not_owner->service()->writes()->write(patient(), write_of("a"), route, bytes_of("x")));
  };
  EXPECT_EQ(to({}).outcome, PeerOutcome::kNotOwner);
  EXPECT_EQ(stored("a"), "(none)");
  EXPECT_TRUE(to({.failover_for = owner}).result);
  EXPECT_EQ(stored("a"), "x");
}

}  // namespace
}  // namespace leat
