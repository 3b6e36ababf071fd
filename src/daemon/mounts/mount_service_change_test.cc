// SPDX-License-Identifier: Apache-2.0
// Changes, moves and snapshots of mounts, and the notifications of the kernel after them.
#include <gmock/gmock.h>

#include "daemon/mounts/fake_fuse_server_test.h"

namespace leat::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class MountServiceChangeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(rig_.mount(folder_.source("a"), outer_)); }

  std::future<Result<MountView>> begin_change(MountChange change) {
    return rig_.begin(rig_.service->change(Context::background(), std::move(change)));
  }
  static bool ready(const auto& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  FakeMountPtr mount() const { return rig_.fuse.at(outer_); }
  // Makes the kernel hold the only file.
  void hold_file() {
    ASSERT_TRUE(rig_.shows(outer_, "a.txt"));
    mount()->take_queued();
    mount()->take_notified();
  }

  const MountFolder folder_;
  const std::string outer_ = folder_.make("mnt"), inner_ = outer_ + "/inner";
  const std::string to_ = folder_.make("to");
  MountRig rig_;
};

TEST_F(MountServiceChangeTest, ChangedOptionsAreShown) {
  ASSERT_TRUE(rig_.change({.path = outer_, .set = {{"priority", "high"}, {"ttl", "1h"}}}));
  hold_file();
  const auto changed = rig_.change({.path = outer_,
                                    .set = {{"freshness", "immutable"}, {"umask", "077"}},
                                    .unset = {"priority"}});
  ASSERT_TRUE(changed) << text_of(changed);
  EXPECT_EQ(changed->freshness, "immutable");
  EXPECT_EQ(changed->umask, 077u);
  EXPECT_THAT(changed->options, ElementsAre(Pair("ttl", "1h")));
  EXPECT_EQ(rig_.view(outer_), *changed);
  EXPECT_EQ(rig_.catalog->mounts().front()->entry.policy.freshness.to_string(), "immutable");
  EXPECT_EQ(mount()->lookup(rig_.executor, "a.txt")->mode & 0777u, 0600u);
  EXPECT_THAT(mount()->take_notified(), AllOf(Contains("a.txt"), Contains("#1")));
}

TEST_F(MountServiceChangeTest, PathInAMountHasItsOwnOptions) {
  const std::string path = outer_ + "/train";
  const auto changed = rig_.change({.path = path, .set = {{"cache", "never"}, {"ttl", "1h"}}});
  ASSERT_TRUE(changed) << text_of(changed);
  EXPECT_EQ(changed->path, outer_);
  EXPECT_THAT(changed->options, IsEmpty());
  EXPECT_THAT(changed->paths,
              ElementsAre(Pair("train", ElementsAre(Pair("cache", "never"), Pair("ttl", "1h")))));
  EXPECT_EQ(rig_.catalog->mounts().front()->entry.policy.of("train").cache, CacheMode::kNever);
  ASSERT_TRUE(rig_.change({.path = path, .set = {}, .unset = {"cache", "ttl"}}));
  EXPECT_THAT(rig_.view(outer_).paths, IsEmpty());
  EXPECT_EQ(rig_.catalog->mounts().front()->entry.policy.of("train").cache, CacheMode::kAuto);
}

TEST_F(MountServiceChangeTest, WrongChangeIsRejected) {
  const MountView before = rig_.view(outer_);
  auto rejection = [&](const std::string& path, OptionValues set) {
    const auto changed = rig_.change({.path = path, .set = std::move(set)});
    EXPECT_EQ(code_of(changed), StatusCode::kInvalidArgument);
    EXPECT_THAT(text_of(changed), HasSubstr("cannot change " + path));
    return text_of(changed);
  };
  EXPECT_THAT(rejection(outer_, {{"prioritty", "high"}}), HasSubstr("prioritty"));
  EXPECT_THAT(rejection(outer_, {{"ttl", "soon"}}), HasSubstr("ttl"));
  EXPECT_THAT(rejection(outer_, {{"isolated", "true"}}), HasSubstr("isolated"));
  EXPECT_THAT(rejection(outer_, {{"freshness", "snapshot"}}), HasSubstr("leat snapshot use"));
  EXPECT_THAT(rejection(inner_, {{"uid", "1"}}), HasSubstr("whole mounts"));
  EXPECT_EQ(code_of(rig_.change({.path = outer_, .set = {}, .unset = {"odd"}})),
            StatusCode::kInvalidArgument);
  const auto nowhere = rig_.change({.path = to_, .set = {{"ttl", "1h"}}});
  EXPECT_EQ(code_of(nowhere), StatusCode::kNotFound);
  EXPECT_EQ(rig_.view(outer_), before);
  EXPECT_EQ(mount()->flushes.arrived(), 0u);
}

TEST_F(MountServiceChangeTest, ChangeAppliesToTheNearestMount) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), inner_));
  ASSERT_TRUE(rig_.change({.path = inner_ + "/x", .set = {{"ttl", "1h"}}}));
  ASSERT_TRUE(rig_.change({.path = outer_ + "/innermost", .set = {{"ttl", "2h"}}}));
  EXPECT_THAT(rig_.view(inner_).paths, ElementsAre(Pair("x", ElementsAre(Pair("ttl", "1h")))));
  EXPECT_THAT(rig_.view(outer_).paths,
              ElementsAre(Pair("innermost", ElementsAre(Pair("ttl", "2h")))));
}

TEST_F(MountServiceChangeTest, ChangeThatNeedsOpensIsRejected) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), to_, {{"folder_profile", "small-files"}}));
  const auto changed = rig_.change({.path = to_, .set = {{"freshness", "validate"}}});
  EXPECT_EQ(code_of(changed), StatusCode::kInvalidArgument);
  EXPECT_THAT(text_of(changed), HasSubstr("no_open"));
  EXPECT_EQ(rig_.view(to_).freshness, "immutable");
  EXPECT_TRUE(rig_.change({.path = outer_, .set = {{"freshness", "validate"}}}));
}

TEST_F(MountServiceChangeTest, ViewFollowsTheCatalogOnRefresh) {
  Policy policy = rig_.catalog->mounts().front()->entry.policy;
  policy.gid = 77;
  ASSERT_TRUE(rig_.executor.block_on(rig_.catalog->set_policy(outer_, policy)));
  EXPECT_EQ(rig_.view(outer_).gid, 0u);
  rig_.service->refresh_view(inner_);
  EXPECT_EQ(rig_.view(outer_).gid, 0u);
  rig_.service->refresh_view(outer_);
  EXPECT_EQ(rig_.view(outer_).gid, 77u);
}

TEST_F(MountServiceChangeTest, ErrorsOfAllMountsAreListed) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), to_));
  EXPECT_THAT(rig_.service->errors(), IsEmpty());
  mount()->files().record_error(kRootNode, "lost", Status(StatusCode::kUnavailable, "store off"));
  rig_.fuse.at(to_)->files().record_error(kRootNode, "", Status(StatusCode::kThrottled, "slow"));
  std::vector<std::string> listed;
  for (const ErrorView& failed : rig_.service->errors()) {
    listed.push_back(failed.mount + ":" + failed.path + ":" + std::string(to_string(failed.code)));
  }
  EXPECT_THAT(listed, UnorderedElementsAre(outer_ + ":lost:unavailable", to_ + ":.:throttled"));
}

TEST_F(MountServiceChangeTest, ChangeReturnsWhenTheKernelKnows) {
  hold_file();
  mount()->flushes.hold();
  auto changed = begin_change({.path = outer_, .set = {{"uid", "5"}}});
  mount()->flushes.await_arrivals(1);
  EXPECT_EQ(rig_.view(outer_).uid, 5u) << "it is in effect";
  EXPECT_FALSE(ready(changed));
  mount()->flushes.release();
  EXPECT_TRUE(changed.get());
  EXPECT_THAT(mount()->take_notified(), Contains("a.txt"));
}

TEST_F(MountServiceChangeTest, ConcurrentChangesAreBothKept) {
  mount()->flushes.hold();
  auto first = begin_change({.path = outer_, .set = {{"ttl", "1h"}}});
  mount()->flushes.await_arrivals(1);
  auto second = begin_change({.path = outer_, .set = {{"priority", "low"}}});
  auto unmounted = rig_.begin(rig_.service->unmount(Context::background(), inner_, false));
  EXPECT_EQ(code_of(unmounted.get()), StatusCode::kNotFound) << "other paths are not delayed";
  EXPECT_FALSE(ready(second));
  mount()->flushes.release();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_THAT(rig_.view(outer_).options, ElementsAre(Pair("priority", "low"), Pair("ttl", "1h")));
}

TEST_F(MountServiceChangeTest, FailedNotificationIsNoFailedChange) {
  hold_file();
  mount()->set_jammed(true);
  ASSERT_TRUE(rig_.change({.path = outer_, .set = {{"uid", "5"}}}));
  EXPECT_EQ(rig_.view(outer_).uid, 5u);
  EXPECT_THAT(mount()->take_notified(), IsEmpty());
  mount()->set_jammed(false);
  rig_.executor.block_on(rig_.service->revalidate_held(to_));
  EXPECT_THAT(mount()->take_notified(), IsEmpty()) << "that is another path";
  ASSERT_TRUE(rig_.change({.path = outer_ + "/x", .set = {{"ttl", "1h"}}}));
  EXPECT_THAT(mount()->take_notified(), Contains("a.txt"));
}

TEST_F(MountServiceChangeTest, CancelledWaitEndsTheChange) {
  hold_file();
  mount()->flushes.hold();
  auto changed = begin_change({.path = outer_, .set = {{"uid", "5"}}});
  auto waiting = begin_change({.path = outer_, .set = {{"uid", "6"}}});
  mount()->flushes.await_arrivals(1);
  rig_.service->cancel_waits();
  const auto first = changed.get(), second = waiting.get();
  EXPECT_TRUE(first || second) << "the change is in effect";
  EXPECT_THAT(mount()->take_notified(), IsEmpty());
  EXPECT_THAT(mount()->take_queued(), Contains("a.txt")) << "it continues in the background";
}

TEST_F(MountServiceChangeTest, CatalogChangeReachesTheServer) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), to_));
  hold_file();
  folder_.write("sources/a/a.txt", "longer than before");
  const auto refreshed =
      rig_.executor.block_on(rig_.catalog->refresh(Context::background(), outer_));
  ASSERT_TRUE(refreshed) << text_of(refreshed);
  EXPECT_EQ(refreshed->changed, 1u);
  EXPECT_THAT(mount()->take_queued(), Contains("a.txt"));
  EXPECT_THAT(rig_.fuse.at(to_)->take_queued(), Not(Contains("a.txt")));
}

TEST_F(MountServiceChangeTest, RevalidationReachesItsMountOnly) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), to_));
  hold_file();
  ASSERT_TRUE(rig_.shows(to_, "b.txt"));
  rig_.catalog->invalidate("/");
  rig_.executor.block_on(rig_.service->revalidate_held(outer_));
  EXPECT_THAT(mount()->take_notified(), AllOf(Contains("a.txt"), Contains("#1")));
  EXPECT_EQ(rig_.fuse.at(to_)->flushes.arrived(), 0u);
  EXPECT_THAT(rig_.fuse.at(to_)->take_queued(), IsEmpty());
}

TEST_F(MountServiceChangeTest, DroppedBytesReachEveryServer) {
  hold_file();
  const auto entry =
      rig_.executor.block_on(rig_.catalog->lookup(Context::background(), outer_ + "/a.txt"));
  ASSERT_TRUE(entry) << text_of(entry);
  ASSERT_TRUE(rig_.mount(folder_.source("a"), to_));
  ASSERT_TRUE(rig_.shows(to_, "a.txt"));
  const FakeMountPtr lingering = mount();
  lingering->open_file();
  ASSERT_TRUE(rig_.unmount(outer_, /*lazy=*/true));
  lingering->take_queued();
  rig_.executor.block_on(rig_.service->bytes_dropped({FileId{}}));
  EXPECT_THAT(rig_.fuse.at(to_)->take_notified(), Not(Contains("a.txt")));
  rig_.executor.block_on(rig_.service->bytes_dropped({entry->ref->id}));
  EXPECT_THAT(rig_.fuse.at(to_)->take_notified(), Contains("a.txt"));
  EXPECT_THAT(lingering->take_queued(), Contains("a.txt")) << "its open files have those bytes";
}

TEST_F(MountServiceChangeTest, MoveKeepsSourceAndOptions) {
  ASSERT_TRUE(rig_.unmount(outer_));
  ASSERT_TRUE(rig_.mount({.source = folder_.source("a"),
                          .path = outer_,
                          .options = {{"no_open", "true"}, {"ttl", "1h"}},
                          .freshness = "max-age=9s",
                          .paths = {{"x", {{"cache", "never"}}}},
                          .uid = 5}));
  ASSERT_TRUE(rig_.change({.path = outer_, .set = {{"priority", "low"}}, .unset = {"ttl"}}));
  MountView expected = rig_.view(outer_);
  const FakeMountPtr old = mount();
  const auto moved = rig_.move(outer_, to_);
  ASSERT_TRUE(moved) << text_of(moved);
  expected.path = to_;
  EXPECT_EQ(*moved, expected);
  EXPECT_EQ(rig_.service->views(), std::vector<MountView>{expected});
  EXPECT_TRUE(old->destroyed());
  EXPECT_TRUE(rig_.fuse.at(to_)->options.no_open);
  EXPECT_TRUE(rig_.shows(to_, "a.txt"));
  ASSERT_EQ(rig_.catalog->mounts().size(), 1u);
  EXPECT_EQ(rig_.catalog->mounts().front()->entry.policy.of("x").cache, CacheMode::kNever);
  EXPECT_TRUE(rig_.mount(folder_.source("b"), outer_)) << "the old path is free";
}

TEST_F(MountServiceChangeTest, BusyMountIsNotMoved) {
  mount()->set_busy(true);
  const auto moved = rig_.move(outer_, to_);
  EXPECT_EQ(code_of(moved), StatusCode::kBusy);
  EXPECT_THAT(text_of(moved), AllOf(HasSubstr("cannot move"), HasSubstr("fuser -vm " + outer_)));
  EXPECT_TRUE(rig_.fuse.at(to_)->destroyed());
  EXPECT_THAT(rig_.paths(), ElementsAre(outer_));
  EXPECT_TRUE(rig_.shows(outer_, "a.txt"));
  mount()->set_busy(false);
  EXPECT_TRUE(rig_.move(outer_, to_)) << "the target is free";
}

TEST_F(MountServiceChangeTest, MountWithOneInsideIsNotMoved) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), inner_));
  const auto moved = rig_.move(outer_, to_);
  EXPECT_EQ(code_of(moved), StatusCode::kBusy);
  EXPECT_THAT(text_of(moved), AllOf(HasSubstr("cannot move " + outer_), HasSubstr(inner_)));
  EXPECT_THAT(rig_.paths(), ElementsAre(outer_, inner_));
  EXPECT_EQ(rig_.fuse.count(), 1u);
}

TEST_F(MountServiceChangeTest, MoveNeedsAUsableTarget) {
  folder_.write("file", "x");
  const std::string taken = folder_.make("taken");
  ASSERT_TRUE(rig_.mount(folder_.source("b"), taken));
  auto code = [&](const std::string& from, const std::string& to) {
    return code_of(rig_.move(from, to));
  };
  EXPECT_EQ(code(outer_, taken), StatusCode::kExists);
  EXPECT_EQ(code(outer_, folder_ / "missing"), StatusCode::kNotFound);
  EXPECT_EQ(code(outer_, folder_ / "file"), StatusCode::kNotDirectory);
  EXPECT_EQ(code(outer_, outer_), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(outer_, inner_), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(outer_, folder_.make("sources/a/in")), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(to_, folder_.make("free")), StatusCode::kNotFound);
  rig_.fuse.fail_mounts(Status(StatusCode::kPermissionDenied, "no fuse"));
  EXPECT_EQ(code(outer_, to_), StatusCode::kPermissionDenied);
  rig_.fuse.fail_mounts(std::nullopt);
  EXPECT_THAT(rig_.paths(), ElementsAre(outer_, taken));
  EXPECT_TRUE(rig_.shows(outer_, "a.txt"));
  folder_.write("to/file", "x");
  EXPECT_TRUE(rig_.move(outer_, to_)) << "a mount may hide files";
}

TEST_F(MountServiceChangeTest, IsolatedMountIsNotMoved) {
  const std::string alone = folder_.make("alone");
  ASSERT_TRUE(rig_.mount(folder_.source("b"), alone, {{"isolated", "true"}}));
  EXPECT_EQ(code_of(rig_.move(alone, to_)), StatusCode::kUnsupported);
  EXPECT_TRUE(rig_.shows(alone, "b.txt"));
}

TEST_F(MountServiceChangeTest, MoveIntoAMountNeedsNoServer) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), to_, {{"no_open", "true"}}));
  EXPECT_FALSE(rig_.shows(outer_, "inner"));
  const FakeMountPtr old = rig_.fuse.at(to_);
  const auto moved = rig_.move(to_, inner_);
  ASSERT_TRUE(moved) << text_of(moved);
  EXPECT_FALSE(moved->own_fuse_mount);
  EXPECT_TRUE(old->destroyed());
  EXPECT_EQ(rig_.fuse.count(), 2u);
  EXPECT_THAT(mount()->take_notified(), Contains("inner"));
  EXPECT_TRUE(rig_.shows(outer_, "inner/b.txt"));
}

TEST_F(MountServiceChangeTest, MountMovedOutHasItsOptions) {
  ASSERT_TRUE(rig_.mount(folder_.source("b"), inner_,
                         {{"no_open", "true"}, {"kernel_readahead", "256KiB"}}));
  ASSERT_TRUE(rig_.shows(outer_, "inner/b.txt"));
  mount()->take_notified();
  const auto moved = rig_.move(inner_, to_);
  ASSERT_TRUE(moved) << text_of(moved);
  EXPECT_TRUE(moved->own_fuse_mount);
  EXPECT_EQ(moved->options.at("kernel_readahead"), "256KiB");
  EXPECT_EQ(rig_.fuse.at(to_)->options.read_ahead_bytes, 256 * kKiB) << "not the outer mount's";
  EXPECT_TRUE(rig_.fuse.at(to_)->options.no_open);
  EXPECT_THAT(mount()->take_notified(), Contains("inner"));
  EXPECT_FALSE(rig_.shows(outer_, "inner"));
  EXPECT_TRUE(rig_.shows(to_, "b.txt"));
}

TEST_F(MountServiceChangeTest, TargetOfAMoveIsReserved) {
  rig_.fuse.mounts.hold();
  auto moved = rig_.begin(rig_.service->move(Context::background(), {.from = outer_, .to = to_}));
  rig_.fuse.mounts.await_arrivals(2);
  EXPECT_EQ(code_of(rig_.mount(folder_.source("b"), to_)), StatusCode::kExists);
  EXPECT_EQ(code_of(rig_.mount(folder_.source("b"), inner_)), StatusCode::kBusy);
  EXPECT_THAT(rig_.paths(), ElementsAre(outer_));
  rig_.fuse.mounts.release();
  EXPECT_TRUE(moved.get());
  EXPECT_THAT(rig_.paths(), ElementsAre(to_));
}

TEST_F(MountServiceChangeTest, SnapshotHidesLaterFiles) {
  const SnapshotPtr snapshot = folder_.snapshot(rig_.executor, "b");
  folder_.write("sources/b/late.txt", "x");
  const auto mounted =
      rig_.mount({.source = folder_.source("b"), .path = to_, .snapshot = "monday"}, snapshot);
  ASSERT_TRUE(mounted) << text_of(mounted);
  EXPECT_EQ(mounted->freshness, "snapshot");
  EXPECT_TRUE(rig_.shows(to_, "b.txt"));
  EXPECT_FALSE(rig_.shows(to_, "late.txt"));
}

TEST_F(MountServiceChangeTest, MountExchangesItsSnapshot) {
  ASSERT_TRUE(rig_.change({.path = outer_, .set = {{"freshness", "max-age=1h"}}}));
  const SnapshotPtr monday = folder_.snapshot(rig_.executor, "a");
  folder_.write("sources/a/late.txt", "x");
  ASSERT_TRUE(rig_.shows(outer_, "late.txt"));
  mount()->take_notified();
  ASSERT_TRUE(rig_.use_snapshot(outer_, "monday", monday));
  EXPECT_EQ(rig_.view(outer_).freshness, "snapshot");
  EXPECT_FALSE(rig_.shows(outer_, "late.txt"));
  EXPECT_THAT(mount()->take_notified(), Contains("#1"));
  ASSERT_TRUE(rig_.use_snapshot(outer_, "tuesday", folder_.snapshot(rig_.executor, "a")));
  EXPECT_THAT(mount()->take_notified(), Contains("late.txt"));
  EXPECT_TRUE(rig_.shows(outer_, "late.txt"));
  ASSERT_TRUE(rig_.change({.path = outer_, .set = {{"freshness", "max-age=2h"}}}));
  EXPECT_EQ(rig_.view(outer_).freshness, "snapshot") << "a change keeps it";
  const auto moved = rig_.move(outer_, to_);
  ASSERT_TRUE(moved) << text_of(moved);
  EXPECT_EQ(moved->freshness, "snapshot") << "a move keeps it, too";
  ASSERT_TRUE(rig_.use_snapshot(to_, "", nullptr));
  EXPECT_EQ(rig_.view(to_).freshness, "max-age=2h");
}

TEST_F(MountServiceChangeTest, SnapshotOfOtherFilesIsRejected) {
  const SnapshotPtr other = folder_.snapshot(rig_.executor, "b");
  const MountView before = rig_.view(outer_);
  EXPECT_EQ(code_of(rig_.use_snapshot(outer_, "b", other)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(rig_.use_snapshot(inner_, "b", other)), StatusCode::kNotFound);
  EXPECT_EQ(
      code_of(rig_.mount({.source = folder_.source("c"), .path = to_, .snapshot = "b"}, other)),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(rig_.service->views(), std::vector<MountView>{before});
  EXPECT_TRUE(rig_.shows(outer_, "a.txt"));
  EXPECT_TRUE(rig_.change({.path = outer_, .set = {{"ttl", "1h"}}})) << "nothing holds the mount";
}

}  // namespace
}  // namespace leat::testing
