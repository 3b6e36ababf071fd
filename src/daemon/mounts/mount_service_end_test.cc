// SPDX-License-Identifier: Apache-2.0
// Ends of mounts by other programs, and the end of the service.
#include <gmock/gmock.h>

#include <thread>

#include "daemon/mounts/fake_fuse_server_test.h"

namespace leat::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MountServiceEndTest : public ::testing::Test {
 protected:
  // Creates a service that closes when its last mount is removed.
  std::unique_ptr<MountRig> closing_rig() {
    return std::make_unique<MountRig>(
        MountServiceOptions{.close_when_empty = true, .on_empty = [this] {
                              ++emptied_;
                              emptied_.notify_all();
                            }});
  }
  void await_empty() const { emptied_.wait(0); }
  static StatusCode closed_code(MountRig& rig, const std::string& source, const std::string& path) {
    const auto mounted = rig.mount(source, path);
    if (!mounted) EXPECT_THAT(text_of(mounted), HasSubstr(kDaemonEnding));
    return code_of(mounted);
  }
  // Returns once the service rejects operations.
  static void await_closed(MountRig& rig) {
    while (code_of(rig.unmount("/nowhere")) != StatusCode::kUnavailable) std::this_thread::yield();
  }

  const MountFolder folder_;
  const std::string outer_ = folder_.make("mnt"), inner_ = outer_ + "/inner";
  const std::string other_ = folder_.make("other");
  std::atomic<int> emptied_ = 0;
};

TEST_F(MountServiceEndTest, EndedMountIsReaped) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(rig.mount(folder_.source("b"), other_));
  const FakeMountPtr mount = rig.fuse.at(outer_);
  mount->end();
  mount->await_destroyed();
  EXPECT_THAT(rig.paths(), ElementsAre(other_));
  EXPECT_EQ(rig.catalog->mounts().size(), 1u);
  EXPECT_EQ(code_of(rig.unmount(outer_)), StatusCode::kNotFound);
  EXPECT_TRUE(rig.mount(folder_.source("a"), outer_));
}

TEST_F(MountServiceEndTest, MountThatEndsInAChangeIsReaped) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  const FakeMountPtr mount = rig.fuse.at(outer_);
  mount->flushes.hold();
  auto changed = rig.begin(
      rig.service->change(Context::background(), {.path = outer_, .set = {{"uid", "5"}}}));
  mount->flushes.await_arrivals(1);
  mount->end();
  EXPECT_FALSE(mount->destroyed()) << "the change uses it";
  mount->flushes.release();
  EXPECT_TRUE(changed.get());
  mount->await_destroyed();
  EXPECT_THAT(rig.paths(), IsEmpty());
}

TEST_F(MountServiceEndTest, UnmountOfAnEndedMountSucceeds) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  const FakeMountPtr mount = rig.fuse.at(outer_);
  mount->unmounts.hold();
  auto unmounted = rig.begin(rig.service->unmount(Context::background(), outer_, false));
  mount->unmounts.await_arrivals(1);
  mount->end();
  mount->unmounts.release();
  const auto done = unmounted.get();
  EXPECT_TRUE(done) << text_of(done);
  EXPECT_THAT(rig.paths(), IsEmpty());
}

TEST_F(MountServiceEndTest, NestedMountEndsWithTheOuter) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  ASSERT_TRUE(rig->mount(folder_.source("b"), inner_));
  ASSERT_TRUE(rig->mount(folder_.source("c"), inner_ + "/deep"));
  ASSERT_TRUE(rig->mount(folder_.source("d"), other_));
  rig->fuse.at(outer_)->end();
  rig->fuse.at(outer_)->await_destroyed();
  ASSERT_TRUE(rig->unmount(other_));
  await_empty();
  EXPECT_THAT(rig->paths(), IsEmpty()) << "no server shows them";
  EXPECT_THAT(rig->catalog->mounts(), IsEmpty());
}

TEST_F(MountServiceEndTest, NestedMountInAnEndedOneIsReaped) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  const FakeMountPtr mount = rig->fuse.at(outer_);
  ASSERT_TRUE(rig->mount(folder_.source("b"), inner_));
  mount->flushes.hold();
  const unsigned before = mount->flushes.arrived();
  auto changed = rig->begin(
      rig->service->change(Context::background(), {.path = inner_, .set = {{"uid", "5"}}}));
  mount->flushes.await_arrivals(before + 1);
  mount->end();
  mount->flushes.release();
  EXPECT_TRUE(changed.get());
  await_empty();
  mount->await_destroyed();
  EXPECT_THAT(rig->paths(), IsEmpty());
}

TEST_F(MountServiceEndTest, LastUnmountClosesTheService) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  ASSERT_TRUE(rig->mount(folder_.source("b"), other_));
  ASSERT_TRUE(rig->unmount(outer_));
  EXPECT_EQ(emptied_, 0);
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  ASSERT_TRUE(rig->unmount(other_));
  ASSERT_TRUE(rig->unmount(outer_));
  EXPECT_EQ(emptied_, 1);
  EXPECT_EQ(closed_code(*rig, folder_.source("a"), outer_), StatusCode::kUnavailable);
  EXPECT_EQ(emptied_, 1);
}

TEST_F(MountServiceEndTest, OtherServiceStaysOpen) {
  MountRig rig({.on_empty = [this] { ++emptied_; }});
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(rig.unmount(outer_));
  rig.service->close_if_empty();
  EXPECT_TRUE(rig.mount(folder_.source("a"), outer_));
  EXPECT_EQ(emptied_, 0);
}

TEST_F(MountServiceEndTest, FailedFirstMountClosesTheService) {
  auto rig = closing_rig();
  EXPECT_EQ(code_of(rig->mount("file://" + (folder_ / "gone"), outer_)), StatusCode::kNotFound);
  EXPECT_EQ(emptied_, 1);
  EXPECT_EQ(closed_code(*rig, folder_.source("a"), outer_), StatusCode::kUnavailable);
}

TEST_F(MountServiceEndTest, FailedMountBesideAnotherClosesNone) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  EXPECT_FALSE(rig->mount("file://" + (folder_ / "gone"), other_));
  EXPECT_EQ(emptied_, 0);
  EXPECT_TRUE(rig->mount(folder_.source("b"), other_));
}

TEST_F(MountServiceEndTest, MountInFlightKeepsTheServiceOpen) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  rig->fuse.mounts.hold();
  auto mounted = rig->begin(
      rig->service->mount(Context::background(), {.source = folder_.source("b"), .path = other_}));
  rig->fuse.mounts.await_arrivals(2);
  ASSERT_TRUE(rig->unmount(outer_));
  EXPECT_EQ(emptied_, 0);
  rig->fuse.mounts.release();
  EXPECT_TRUE(mounted.get());
  EXPECT_THAT(rig->paths(), ElementsAre(other_));
}

TEST_F(MountServiceEndTest, OpenFilesKeepTheServiceOpen) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  const FakeMountPtr mount = rig->fuse.at(outer_);
  mount->open_file();
  ASSERT_TRUE(rig->unmount(outer_, /*lazy=*/true));
  rig->service->close_if_empty();
  EXPECT_EQ(emptied_, 0);
  mount->close_files();
  await_empty();
  EXPECT_TRUE(mount->destroyed());
  EXPECT_EQ(closed_code(*rig, folder_.source("a"), outer_), StatusCode::kUnavailable);
}

TEST_F(MountServiceEndTest, EndOfTheLastMountClosesTheService) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), outer_));
  rig->fuse.at(outer_)->end();
  await_empty();
  EXPECT_EQ(closed_code(*rig, folder_.source("a"), outer_), StatusCode::kUnavailable);
}

TEST_F(MountServiceEndTest, UnusedServiceIsClosed) {
  auto rig = closing_rig();
  rig->service->close_if_empty();
  rig->service->close_if_empty();
  EXPECT_EQ(emptied_, 1);
  EXPECT_EQ(closed_code(*rig, folder_.source("a"), outer_), StatusCode::kUnavailable);
}

TEST_F(MountServiceEndTest, StopUnmountsAll) {
  auto rig = closing_rig();
  ASSERT_TRUE(rig->mount(folder_.source("a"), other_));
  const FakeMountPtr lingering = rig->fuse.at(other_);
  lingering->open_file();
  ASSERT_TRUE(rig->mount(folder_.source("b"), outer_));
  ASSERT_TRUE(rig->mount(folder_.source("c"), inner_));
  ASSERT_TRUE(rig->unmount(other_, /*lazy=*/true));
  const FakeMountPtr busy = rig->fuse.at(outer_);
  busy->set_busy(true);
  rig->executor.block_on(rig->service->stop());
  EXPECT_TRUE(busy->destroyed());
  EXPECT_FALSE(busy->serving());
  EXPECT_TRUE(lingering->destroyed());
  EXPECT_THAT(rig->paths(), IsEmpty());
  EXPECT_EQ(emptied_, 0) << "the daemon ends already";
}

TEST_F(MountServiceEndTest, StoppedServiceRejectsOperations) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  rig.executor.block_on(rig.service->stop());
  EXPECT_EQ(closed_code(rig, folder_.source("b"), other_), StatusCode::kUnavailable);
  EXPECT_EQ(code_of(rig.unmount(outer_)), StatusCode::kUnavailable);
  EXPECT_EQ(code_of(rig.change({.path = outer_})), StatusCode::kUnavailable);
  EXPECT_EQ(code_of(rig.move(outer_, other_)), StatusCode::kUnavailable);
  EXPECT_EQ(code_of(rig.use_snapshot(outer_, "", nullptr)), StatusCode::kUnavailable);
  rig.executor.block_on(rig.service->revalidate_held("/"));
  rig.executor.block_on(rig.service->bytes_dropped({}));
}

TEST_F(MountServiceEndTest, StopWaitsForAMountInFlight) {
  MountRig rig;
  rig.fuse.mounts.hold();
  auto mounted = rig.begin(
      rig.service->mount(Context::background(), {.source = folder_.source("a"), .path = outer_}));
  rig.fuse.mounts.await_arrivals(1);
  auto stopped = rig.begin(rig.service->stop());
  await_closed(rig);
  EXPECT_EQ(stopped.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  rig.fuse.mounts.release();
  stopped.get();
  EXPECT_TRUE(mounted.get());
  EXPECT_TRUE(rig.fuse.at(outer_)->destroyed());
  EXPECT_THAT(rig.paths(), IsEmpty());
}

TEST_F(MountServiceEndTest, StopEndsAWaitForTheKernel) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  rig.fuse.at(outer_)->flushes.hold();
  auto changed = rig.begin(
      rig.service->change(Context::background(), {.path = outer_, .set = {{"uid", "5"}}}));
  rig.fuse.at(outer_)->flushes.await_arrivals(1);
  auto second = rig.begin(
      rig.service->change(Context::background(), {.path = outer_, .set = {{"gid", "5"}}}));
  rig.executor.block_on(rig.service->stop());
  EXPECT_TRUE(changed.get());
  const auto waiting = second.get();
  if (!waiting) EXPECT_EQ(code_of(waiting), StatusCode::kUnavailable);
  EXPECT_TRUE(rig.fuse.at(outer_)->destroyed());
}

}  // namespace
}  // namespace leat::testing
