// SPDX-License-Identifier: Apache-2.0
// Takeover of mounts by the next daemon, with the state that a daemon leaves when it ends or is
// killed. Both daemons run in this process, one after the other.
#include <gmock/gmock.h>

#include <thread>

#include "daemon/mounts/fd_keeper_test.h"

namespace leat::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class MountServiceTakeoverTest : public ::testing::Test {
 protected:
  // Ends the present daemon, if any, and starts the next one with `left`; without it, with all that
  // the present one leaves.
  MountGeneration& next(std::optional<FdKeeper::Files> left = std::nullopt, bool survives = true) {
    if (now_) now_->rig.prepare_takeover();
    if (!left) left = keeper_.left_now();
    now_ = nullptr;
    now_ = std::make_unique<MountGeneration>(keeper_.next_process(*std::move(left)), survives);
    return *now_;
  }
  // Starts the first daemon.
  MountGeneration& first(bool survives = true) {
    MountGeneration& generation = next(FdKeeper::Files(), survives);
    EXPECT_THAT(generation.restore(), IsEmpty());
    return generation;
  }
  FakeMountPtr mount() const { return now_->rig.fuse.at(outer_); }
  std::future<Result<MountView>> begin_mount(const std::string& source, const std::string& path) {
    return now_->rig.begin(
        now_->rig.service->mount(Context::background(), {.source = source, .path = path}));
  }

  const MountFolder folder_;
  const std::string outer_ = folder_.make("mnt"), inner_ = outer_ + "/inner";
  const std::string other_ = folder_.make("other");
  FdKeeper keeper_;
  std::unique_ptr<MountGeneration> now_;
};

TEST_F(MountServiceTakeoverTest, MountsAreTakenOver) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount({.source = folder_.source("a"),
                         .path = outer_,
                         .options = {{"folder_profile", "small-files"}, {"ttl", "1h"}},
                         .paths = {{"x", {{"cache", "never"}}}},
                         .allow_other = true,
                         .inspection = false,
                         .uid = 7,
                         .umask = 077}));
  ASSERT_TRUE(old.mount(folder_.source("b"), inner_));
  const std::vector<MountView> views = old.service->views();
  EXPECT_TRUE(views.front().features.at("survives"));
  const FakeMountPtr before = mount();
  const NodeId node = before->lookup(old.executor, "inner/b.txt")->node;
  MountGeneration& successor = next();
  EXPECT_TRUE(before->takeover_timeout());
  EXPECT_TRUE(before->mounted());
  EXPECT_THAT(successor.restore(), IsEmpty());
  EXPECT_EQ(successor.rig.service->views(), views);
  EXPECT_EQ(successor.rig.fuse.count(), 1u);
  EXPECT_EQ(mount()->connection_text(), outer_) << "the predecessor's connection";
  EXPECT_NE(mount()->options.connection, -1);
  EXPECT_FALSE(mount()->options.detached);
  EXPECT_TRUE(mount()->options.no_open);
  EXPECT_EQ(mount()->lookup(successor.rig.executor, "inner/b.txt")->node, node);
  EXPECT_EQ(mount()->flushes.arrived(), 0u) << "the kernel knows all";
  EXPECT_TRUE(successor.rig.mount(folder_.source("c"), other_));
  EXPECT_TRUE(successor.rig.unmount(inner_));
  EXPECT_TRUE(successor.rig.unmount(outer_));
  EXPECT_THAT(keeper_.names(), ElementsAre("leat-fuse-2", "leat-mounts", "leat-nodes-2"));
}

TEST_F(MountServiceTakeoverTest, TakeoverSendsNoRequestToAStore) {
  ASSERT_TRUE(first().rig.mount(folder_.source("a"), outer_));
  std::filesystem::remove_all(folder_ / "sources");
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_THAT(now_->rig.paths(), ElementsAre(outer_));
}

TEST_F(MountServiceTakeoverTest, ChangesAreTakenOver) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), other_, {{"ttl", "1h"}, {"no_open", "true"}}));
  ASSERT_TRUE(old.change({.path = other_, .set = {{"freshness", "immutable"}, {"uid", "5"}}}));
  ASSERT_TRUE(old.change({.path = other_ + "/x", .set = {{"quota", "1GiB"}}, .unset = {}}));
  ASSERT_TRUE(old.move(other_, outer_));
  ASSERT_TRUE(old.change({.path = outer_, .set = {}, .unset = {"ttl"}}));
  const std::vector<MountView> views = old.service->views();
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_EQ(now_->rig.service->views(), views);
  EXPECT_EQ(views.front().uid, 5u);
  EXPECT_TRUE(mount()->options.no_open);
  EXPECT_EQ(mount()->connection_text(), outer_);
  EXPECT_FALSE(now_->saved.front().invalidation_pending);
}

TEST_F(MountServiceTakeoverTest, UnmountedMountIsNotRestored) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  EXPECT_THAT(keeper_.names(), ElementsAre("leat-fuse-1", "leat-mounts", "leat-nodes-1"));
  ASSERT_TRUE(old.mount(folder_.source("b"), inner_));
  ASSERT_TRUE(old.unmount(inner_));
  ASSERT_TRUE(old.unmount(outer_));
  EXPECT_THAT(keeper_.names(), ElementsAre("leat-mounts"));
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_THAT(now_->saved, IsEmpty());
}

TEST_F(MountServiceTakeoverTest, RejectedNotificationIsRepeated) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.shows(outer_, "a.txt"));
  mount()->set_jammed(true);
  ASSERT_TRUE(old.change({.path = outer_, .set = {{"uid", "5"}}}));
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_TRUE(now_->saved.front().invalidation_pending);
  mount()->flushes.await_arrivals(1);
  const FakeMountPtr second = mount();
  MountGeneration& third = next();
  EXPECT_THAT(second->take_notified(), AllOf(Contains("#1"), Contains("a.txt")));
  EXPECT_THAT(third.restore(), IsEmpty());
  EXPECT_FALSE(third.saved.front().invalidation_pending);
}

TEST_F(MountServiceTakeoverTest, LaterNotificationClearsAnEarlierOne) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  mount()->set_jammed(true);
  ASSERT_TRUE(old.change({.path = outer_, .set = {{"uid", "5"}}}));
  ASSERT_TRUE(old.change({.path = outer_, .set = {{"uid", "6"}}}));
  mount()->set_jammed(false);
  ASSERT_TRUE(old.change({.path = outer_, .set = {{"uid", "7"}}}));
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_FALSE(now_->saved.front().invalidation_pending);
}

TEST_F(MountServiceTakeoverTest, KilledChangeIsNotifiedBySuccessor) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.shows(outer_, "a.txt"));
  mount()->flushes.hold();
  auto changed = old.begin(
      old.service->change(Context::background(), {.path = outer_, .set = {{"uid", "5"}}}));
  mount()->flushes.await_arrivals(1);
  FdKeeper::Files left = keeper_.left_now();
  MountGeneration& successor = next(std::move(left));
  EXPECT_TRUE(changed.get());
  EXPECT_THAT(successor.restore(), IsEmpty());
  EXPECT_EQ(successor.rig.view(outer_).uid, 5u);
  mount()->flushes.await_arrivals(1);
  const FakeMountPtr second = mount();
  next();
  EXPECT_THAT(second->take_notified(), Contains("a.txt"));
}

// The directory of the mount exists in the outer source, so the kernel may hold it from there.
TEST_F(MountServiceTakeoverTest, KilledNestedMountIsNotified) {
  MountRig& old = first().rig;
  folder_.write("sources/a/inner/hidden.txt", "x");
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.shows(outer_, "inner/hidden.txt"));
  mount()->flushes.hold();
  auto mounted = begin_mount(folder_.source("b"), inner_);
  mount()->flushes.await_arrivals(1);
  EXPECT_THAT(next(keeper_.left_now()).restore(), IsEmpty());
  EXPECT_TRUE(mounted.get());
  EXPECT_THAT(now_->rig.paths(), ElementsAre(outer_, inner_));
  ASSERT_TRUE(now_->saved.front().invalidation_pending) << "the kernel may show the old directory";
  mount()->flushes.await_arrivals(1);
  const FakeMountPtr second = mount();
  next();
  EXPECT_THAT(second->take_notified(), Contains("inner"));
}

TEST_F(MountServiceTakeoverTest, KilledMoveIntoAMountIsNotified) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.mount(folder_.source("b"), other_));
  mount()->flushes.hold();
  auto moved = old.begin(old.service->move(Context::background(), {.from = other_, .to = inner_}));
  mount()->flushes.await_arrivals(1);
  EXPECT_THAT(next(keeper_.left_now()).restore(), IsEmpty());
  EXPECT_TRUE(moved.get());
  EXPECT_THAT(now_->rig.paths(), ElementsAre(outer_, inner_));
  EXPECT_TRUE(now_->saved.front().invalidation_pending);
}

TEST_F(MountServiceTakeoverTest, CompletedNestedMountIsNotPending) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.mount(folder_.source("b"), inner_));
  EXPECT_FALSE(old.mount(folder_.source("c"), inner_));
  ASSERT_TRUE(old.mount(folder_.source("c"), other_));
  ASSERT_TRUE(old.move(other_, outer_ + "/moved"));
  ASSERT_FALSE(old.move(outer_ + "/moved", inner_));
  EXPECT_FALSE(old.mount("file://" + (folder_ / "gone"), outer_ + "/gone"));
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_EQ(now_->saved.size(), 3u);
  for (const SavedMount& saved : now_->saved) EXPECT_FALSE(saved.invalidation_pending);
}

TEST_F(MountServiceTakeoverTest, MountInFlightIsTakenOver) {
  MountRig& old = first().rig;
  old.fuse.mounts.hold();
  auto mounted = begin_mount(folder_.source("a"), outer_);
  old.fuse.mounts.await_arrivals(1);
  auto prepared = old.begin(old.service->prepare_takeover());
  while (code_of(old.unmount("/nowhere")) != StatusCode::kUnavailable) std::this_thread::yield();
  old.fuse.mounts.release();
  EXPECT_TRUE(mounted.get());
  prepared.get();
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_THAT(now_->rig.paths(), ElementsAre(outer_));
}

TEST_F(MountServiceTakeoverTest, PreparedServiceRejectsOperations) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  old.prepare_takeover();
  const auto refused = old.mount(folder_.source("b"), other_);
  EXPECT_EQ(code_of(refused), StatusCode::kUnavailable);
  EXPECT_THAT(text_of(refused), HasSubstr(kDaemonEnding));
  EXPECT_EQ(code_of(old.unmount(outer_)), StatusCode::kUnavailable);
  EXPECT_TRUE(mount()->mounted());
}

TEST_F(MountServiceTakeoverTest, ListStaysUntilAllIsRestored) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.mount(folder_.source("b"), other_));
  EXPECT_THAT(next().restore_mounts(), IsEmpty());
  EXPECT_THAT(next().restore(), IsEmpty()) << "the second one died in its start";
  EXPECT_THAT(now_->rig.paths(), ElementsAre(outer_, other_));
}

TEST_F(MountServiceTakeoverTest, LazilyUnmountedIsServedOn) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  const StoreId store = old.catalog->mounts().front()->source->id();
  mount()->open_file();
  ASSERT_TRUE(old.unmount(outer_, /*lazy=*/true));
  ASSERT_TRUE(old.mount(folder_.source("b"), other_));
  MountGeneration& successor = next();
  EXPECT_THAT(successor.restore(), IsEmpty());
  EXPECT_THAT(successor.rig.paths(), ElementsAre(other_));
  EXPECT_TRUE(mount()->options.detached);
  EXPECT_EQ(mount()->connection_text(), outer_);
  EXPECT_NE(successor.rig.sources.find(store), nullptr);
  EXPECT_THAT(keeper_.names(), Contains("leat-fuse-1"));
  const FakeMountPtr detached = mount();
  ASSERT_TRUE(successor.rig.mount(folder_.source("c"), outer_)) << "the path is free";
  detached->close_files();
  detached->await_destroyed();
  EXPECT_THAT(next().restore(), IsEmpty());
  EXPECT_EQ(now_->saved.size(), 2u);
  EXPECT_THAT(keeper_.names(), Not(Contains("leat-fuse-1")));
}

TEST_F(MountServiceTakeoverTest, IsolatedOpenFilesKeepTheirStore) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_, {{"isolated", "true"}}));
  const StoreId store = old.catalog->mounts().front()->source->id();
  mount()->open_file();
  ASSERT_TRUE(old.unmount(outer_, /*lazy=*/true));
  for (int takeover = 0; takeover < 3; ++takeover) {
    EXPECT_THAT(next().restore(), IsEmpty());
    EXPECT_NE(now_->rig.sources.find(store), nullptr) << "takeover " << takeover;
  }
}

TEST_F(MountServiceTakeoverTest, UnusableDetachedMountIsEnded) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  mount()->open_file();
  ASSERT_TRUE(old.unmount(outer_, /*lazy=*/true));
  MountGeneration& successor = next();
  SavedMount saved = successor.state.load().at(0);
  ASSERT_TRUE(saved.lingering);
  saved.request.options["unknown"] = "1";
  EXPECT_EQ(code_of(successor.rig.executor.block_on(
                successor.rig.service->restore(Context::background(), saved, nullptr))),
            StatusCode::kInvalidArgument);
  successor.rig.service->finish_restore();
  successor.state.close_unclaimed();
  EXPECT_THAT(keeper_.names(), ElementsAre("leat-mounts"))
      << "otherwise its programs wait for ever";
}

TEST_F(MountServiceTakeoverTest, LostServerLosesMountsInside) {
  MountRig& old = first().rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.mount(folder_.source("b"), inner_));
  MountGeneration& successor = next();
  successor.rig.fuse.fail_mounts(Status(StatusCode::kCorrupt, "bad records"));
  EXPECT_THAT(successor.restore(),
              ElementsAre(AllOf(StartsWith(outer_ + ":"), HasSubstr("bad records")),
                          AllOf(StartsWith(inner_ + ":"), HasSubstr("around it is lost"))));
  EXPECT_THAT(successor.rig.paths(), IsEmpty());
  EXPECT_THAT(successor.rig.catalog->mounts(), IsEmpty());
  EXPECT_THAT(keeper_.names(), ElementsAre("leat-mounts"));
  successor.rig.fuse.fail_mounts(std::nullopt);
  EXPECT_TRUE(successor.rig.mount(folder_.source("a"), outer_));
}

TEST_F(MountServiceTakeoverTest, UnmountedMeanwhileIsNotMounted) {
  MountRig& old = first(/*survives=*/false).rig;
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.mount(folder_.source("b"), inner_));
  EXPECT_FALSE(old.view(outer_).features.at("survives"));
  EXPECT_THAT(keeper_.names(), ElementsAre("leat-mounts"));
  const std::vector<std::string> lost = next().restore();
  EXPECT_EQ(lost.size(), 2u);
  EXPECT_THAT(lost, Each(HasSubstr("unmounted")));
  EXPECT_EQ(now_->rig.fuse.count(), 0u);
  EXPECT_THAT(now_->rig.paths(), IsEmpty());
}

TEST_F(MountServiceTakeoverTest, SnapshotIsTakenOver) {
  MountRig& old = first().rig;
  const SnapshotPtr monday = folder_.snapshot(old.executor, "a");
  folder_.write("sources/a/late.txt", "x");
  ASSERT_TRUE(old.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(old.use_snapshot(outer_, "daily", monday));
  EXPECT_THAT(next().restore(monday), IsEmpty());
  EXPECT_EQ(now_->saved.front().request.snapshot, "daily");
  EXPECT_FALSE(now_->rig.shows(outer_, "late.txt"));
  EXPECT_EQ(now_->rig.view(outer_).freshness, "snapshot");
  EXPECT_EQ(mount()->flushes.arrived(), 0u);
  const SnapshotPtr tuesday = folder_.snapshot(now_->rig.executor, "a");
  EXPECT_THAT(next().restore(tuesday), IsEmpty());
  mount()->flushes.await_arrivals(1);
  EXPECT_TRUE(now_->rig.shows(outer_, "late.txt")) << "a new snapshot has the name";
}

}  // namespace
}  // namespace leat::testing
