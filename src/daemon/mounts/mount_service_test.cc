// SPDX-License-Identifier: Apache-2.0
// Mounts and unmounts, over a FUSE without a kernel.
#include "daemon/mounts/mount_service.h"

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

class MountServiceTest : public ::testing::Test {
 protected:
  // A mount with another one inside.
  void mount_nested(MountRig& rig) {
    ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
    ASSERT_TRUE(rig.mount(folder_.source("b"), inner_));
  }

  const MountFolder folder_;
  const std::string outer_ = folder_.make("mnt");
  const std::string inner_ = outer_ + "/inner";
};

TEST_F(MountServiceTest, MountIsServedAndShown) {
  MountRig rig;
  const auto mounted = rig.mount({.source = folder_.source("a"),
                                  .path = outer_,
                                  .options = {{"priority", "high"}},
                                  .freshness = "max-age=7s",
                                  .uid = 12,
                                  .gid = 34,
                                  .umask = 027});
  ASSERT_TRUE(mounted) << text_of(mounted);
  EXPECT_TRUE(rig.shows(outer_, "a.txt"));
  EXPECT_FALSE(rig.shows(outer_, "b.txt"));
  ASSERT_EQ(rig.service->views().size(), 1u);
  const MountView view = rig.service->views().front();
  EXPECT_EQ(view.path, outer_);
  EXPECT_EQ(view.source, folder_.source("a") + "/");
  EXPECT_EQ(view.freshness, "max-age=7s");
  EXPECT_EQ(view.options, (OptionValues{{"priority", "high"}}));
  EXPECT_EQ(view.uid, 12u);
  EXPECT_EQ(view.gid, 34u);
  EXPECT_EQ(view.umask, 027u);
  EXPECT_TRUE(view.own_fuse_mount);
  EXPECT_FALSE(view.empty);
  EXPECT_FALSE(view.features.at("survives"));
  EXPECT_EQ(view.passthrough_files, 3u);
  EXPECT_EQ(*mounted, view);
}

TEST_F(MountServiceTest, ServerGetsTheOptionsOfTheMount) {
  FuseFeatureSet disabled;
  disabled.add(FuseFeature::kExpire);
  MountRig rig({.io_uring = true, .threads = 5, .disabled_features = disabled, .on_empty = {}});
  ASSERT_TRUE(
      rig.mount({.source = folder_.source("a"),
                 .path = outer_,
                 .options = {{"kernel_readahead", "128KiB"}, {"folder_profile", "small-files"}},
                 .allow_other = true,
                 .passthrough = false}));
  const FuseServerOptions& given = rig.fuse.at(outer_)->options;
  EXPECT_EQ(given.fs_name, "leat:" + folder_.source("a") + "/");
  EXPECT_TRUE(given.allow_other);
  EXPECT_TRUE(given.read_only);
  EXPECT_TRUE(given.no_open) << "by the profile";
  EXPECT_EQ(given.read_ahead_bytes, 128 * kKiB) << "the option has priority over the profile";
  EXPECT_FALSE(given.passthrough);
  EXPECT_TRUE(given.io_uring);
  EXPECT_EQ(given.threads, 5u);
  EXPECT_EQ(given.disabled_features, disabled);
  EXPECT_EQ(given.connection, -1);
  EXPECT_GT(given.request_timeout.count(), 0);
  EXPECT_EQ(rig.view(outer_).freshness, "immutable");
  EXPECT_TRUE(rig.view(outer_).features.at("no_open"));
}

TEST_F(MountServiceTest, LongIoTimeoutHasNoKernelLimit) {
  MountRig rig;
  const std::string other = folder_.make("other");
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_, {{"io_timeout", "never"}}));
  ASSERT_TRUE(rig.mount(folder_.source("b"), other, {{"io_timeout", "1m"}}));
  EXPECT_EQ(rig.fuse.at(outer_)->options.request_timeout.count(), 0);
  EXPECT_GT(rig.fuse.at(other)->options.request_timeout.count(), 0);
  EXPECT_TRUE(rig.mount(folder_.source("c"), outer_ + "/in", {{"io_timeout", "1h"}}));
  const auto refused = rig.mount(folder_.source("c"), other + "/in", {{"io_timeout", "1h"}});
  EXPECT_EQ(code_of(refused), StatusCode::kInvalidArgument);
  EXPECT_THAT(text_of(refused), AllOf(HasSubstr("io_timeout=1h"), HasSubstr(other)));
}

TEST_F(MountServiceTest, InspectionFolderIsInTheRoot) {
  std::string asked;
  MountRig rig({.on_empty = {}, .inspection = [&](const std::string& folder, const FileSystem&) {
                  asked = folder;
                  return std::vector<VirtualFile>{
                      {.name = "status", .content = [] { return "fine"; }}};
                }});
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  EXPECT_EQ(asked, outer_);
  EXPECT_TRUE(rig.view(outer_).inspection);
  EXPECT_TRUE(rig.shows(outer_, ".leat/status"));
  const std::string other = folder_.make("other");
  ASSERT_TRUE(rig.mount({.source = folder_.source("a"), .path = other, .inspection = false}));
  EXPECT_EQ(asked, outer_);
  EXPECT_FALSE(rig.view(other).inspection);
  EXPECT_FALSE(rig.shows(other, ".leat/status"));
}

TEST_F(MountServiceTest, NestedMountSharesTheOuterServer) {
  MountRig rig;
  ASSERT_TRUE(rig.mount({.source = folder_.source("a"), .path = outer_, .allow_other = true}));
  EXPECT_FALSE(rig.shows(outer_, "inner")) << "the kernel may hold it as missing";
  const auto nested = rig.mount(folder_.source("b"), inner_);
  ASSERT_TRUE(nested) << text_of(nested);
  EXPECT_FALSE(nested->own_fuse_mount);
  EXPECT_FALSE(nested->inspection);
  EXPECT_TRUE(nested->allow_other) << "as the outer mount";
  EXPECT_THAT(nested->features, IsEmpty());
  EXPECT_EQ(rig.fuse.count(), 1u);
  EXPECT_THAT(rig.paths(), ElementsAre(outer_, inner_));
  EXPECT_THAT(rig.fuse.at(outer_)->take_notified(), Contains("inner"));
  EXPECT_TRUE(rig.shows(outer_, "inner/b.txt"));
  ASSERT_TRUE(rig.mount(folder_.source("c"), inner_ + "/deep"));
  EXPECT_EQ(rig.fuse.count(), 1u);
  EXPECT_TRUE(rig.shows(outer_, "inner/deep/c.txt"));
}

TEST_F(MountServiceTest, NestedMountHasTheOuterOpens) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_, {{"folder_profile", "small-files"}}));
  const auto refused = rig.mount(folder_.source("b"), inner_, {{"freshness", "validate"}});
  EXPECT_EQ(code_of(refused), StatusCode::kInvalidArgument);
  EXPECT_THAT(text_of(refused), HasSubstr("no_open"));
  EXPECT_THAT(rig.paths(), ElementsAre(outer_));
  EXPECT_FALSE(rig.shows(outer_, "inner"));
}

TEST_F(MountServiceTest, SecondMountOfAPathIsRejected) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  const auto second = rig.mount(folder_.source("b"), outer_);
  EXPECT_EQ(code_of(second), StatusCode::kExists);
  EXPECT_THAT(text_of(second), HasSubstr(folder_.source("a")));
  EXPECT_TRUE(rig.shows(outer_, "a.txt"));
  EXPECT_EQ(rig.fuse.count(), 1u);
}

TEST_F(MountServiceTest, MountMayNotHideAnother) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), folder_.make("mnt/inner")));
  const auto above = rig.mount(folder_.source("b"), outer_);
  EXPECT_EQ(code_of(above), StatusCode::kBusy);
  EXPECT_THAT(text_of(above), HasSubstr(inner_));
  EXPECT_TRUE(rig.mount(folder_.source("b"), folder_.make("mnt/inner2"))) << "a path beside it";
  EXPECT_EQ(rig.fuse.count(), 2u);
}

TEST_F(MountServiceTest, WrongMountPointIsReported) {
  MountRig rig;
  const auto missing = rig.mount(folder_.source("a"), folder_ / "missing");
  EXPECT_EQ(code_of(missing), StatusCode::kNotFound);
  EXPECT_THAT(text_of(missing), HasSubstr("mkdir -p " + (folder_ / "missing")));
  folder_.write("file", "x");
  EXPECT_EQ(code_of(rig.mount(folder_.source("a"), folder_ / "file")), StatusCode::kNotDirectory);
  const std::string source = folder_.source("a");
  EXPECT_EQ(code_of(rig.mount(source, folder_.make("sources/a/in"))), StatusCode::kInvalidArgument);
  EXPECT_THAT(rig.paths(), IsEmpty());
  EXPECT_THAT(rig.catalog->mounts(), IsEmpty());
  EXPECT_EQ(rig.fuse.count(), 0u);
}

TEST_F(MountServiceTest, MissingSourceIsReportedAtMount) {
  MountRig rig;
  const std::string source = "file://" + (folder_ / "gone");
  const auto probed = rig.mount(source, outer_);
  EXPECT_EQ(code_of(probed), StatusCode::kNotFound);
  EXPECT_THAT(text_of(probed), AllOf(HasSubstr(source), HasSubstr(outer_)));
  EXPECT_THAT(rig.paths(), IsEmpty());
  const auto unprobed = rig.mount({.source = source, .path = outer_, .probe = false});
  ASSERT_TRUE(unprobed) << text_of(unprobed);
  EXPECT_FALSE(unprobed->empty);
}

TEST_F(MountServiceTest, EmptySourceIsReportedOnlyOnce) {
  MountRig rig;
  const std::string source = "file://" + folder_.make("sources/empty");
  const auto mounted = rig.mount(source, outer_);
  ASSERT_TRUE(mounted) << text_of(mounted);
  EXPECT_TRUE(mounted->empty);
  EXPECT_FALSE(rig.view(outer_).empty) << "files may have come since";
  const std::string other = folder_.make("other");
  EXPECT_FALSE(rig.mount({.source = source, .path = other, .probe = false})->empty);
}

TEST_F(MountServiceTest, WrongOptionsAreRejected) {
  MountRig rig;
  auto rejection = [&](OptionValues options) {
    const auto mounted = rig.mount(folder_.source("a"), outer_, std::move(options));
    EXPECT_EQ(code_of(mounted), StatusCode::kInvalidArgument);
    return text_of(mounted);
  };
  EXPECT_THAT(rejection({{"prioritty", "high"}}), HasSubstr("'priority'"));
  EXPECT_THAT(rejection({{"priority", "odd"}}), HasSubstr("priority"));
  EXPECT_THAT(rejection({{"umask", "999"}}), HasSubstr("octal"));
  EXPECT_THAT(rejection({{"kernel_readahead", "1TiB"}}), HasSubstr("64"));
  EXPECT_THAT(rejection({{"folder_profile", "odd"}}), HasSubstr("small-files"));
  EXPECT_THAT(rejection({{"io_timeout", "soon"}}), HasSubstr("io_timeout"));
  EXPECT_THAT(rejection({{"freshness", "validate"}, {"no_open", "true"}}), HasSubstr("no_open"));
  EXPECT_EQ(code_of(rig.mount("nope://bucket/", outer_)), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(rig.mount("leat://cluster/", outer_)), StatusCode::kInvalidArgument)
      << "this service has no clusters";
  EXPECT_THAT(rig.paths(), IsEmpty());
  EXPECT_TRUE(rig.mount(folder_.source("a"), outer_)) << "the path is free again";
}

TEST_F(MountServiceTest, SecretsInOptionsAreNotRepeated) {
  MountRig rig;
  const auto mounted = rig.mount(folder_.source("a"), outer_, {{"secret_key", "hunter2"}});
  EXPECT_EQ(code_of(mounted), StatusCode::kInvalidArgument);
  EXPECT_THAT(text_of(mounted), AllOf(HasSubstr("secret_key"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(rig.service->views(), IsEmpty());
}

TEST_F(MountServiceTest, UmaskOptionIsShown) {
  MountRig rig;
  const auto mounted = rig.mount(folder_.source("a"), outer_, {{"umask", "077"}, {"uid", "5"}});
  ASSERT_TRUE(mounted) << text_of(mounted);
  EXPECT_EQ(mounted->umask, 077u);
  EXPECT_EQ(mounted->uid, 5u);
  EXPECT_THAT(mounted->options, IsEmpty()) << "both have members of their own";
  const auto attributes = rig.fuse.at(outer_)->lookup(rig.executor, "a.txt");
  ASSERT_TRUE(attributes) << text_of(attributes);
  EXPECT_EQ(attributes->mode & 0777u, 0600u);
  EXPECT_EQ(attributes->uid, 5u);
}

TEST_F(MountServiceTest, FailedServerLeavesNothing) {
  MountRig rig;
  rig.fuse.fail_mounts(Status(StatusCode::kUnsupported, "no /dev/fuse here"));
  const auto failed = rig.mount(folder_.source("a"), outer_);
  EXPECT_EQ(code_of(failed), StatusCode::kUnsupported);
  EXPECT_THAT(text_of(failed), AllOf(HasSubstr("no /dev/fuse here"), HasSubstr(outer_)));
  EXPECT_THAT(rig.paths(), IsEmpty());
  EXPECT_THAT(rig.catalog->mounts(), IsEmpty());
  rig.fuse.fail_mounts(std::nullopt);
  EXPECT_TRUE(rig.mount(folder_.source("a"), outer_));
}

TEST_F(MountServiceTest, UnmountRemovesTheMount) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  const FakeMountPtr mount = rig.fuse.at(outer_);
  const auto unmounted = rig.unmount(outer_);
  ASSERT_TRUE(unmounted) << text_of(unmounted);
  EXPECT_TRUE(mount->destroyed());
  EXPECT_THAT(rig.paths(), IsEmpty());
  EXPECT_THAT(rig.catalog->mounts(), IsEmpty());
  const auto again = rig.unmount(outer_);
  EXPECT_EQ(code_of(again), StatusCode::kNotFound);
  EXPECT_THAT(text_of(again), HasSubstr(outer_));
  EXPECT_TRUE(rig.mount(folder_.source("a"), outer_));
}

TEST_F(MountServiceTest, UnmountOfAPathInAMountFails) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  EXPECT_EQ(code_of(rig.unmount(inner_)), StatusCode::kNotFound);
  EXPECT_THAT(rig.paths(), ElementsAre(outer_));
}

TEST_F(MountServiceTest, BusyMountStays) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  rig.fuse.at(outer_)->set_busy(true);
  const auto busy = rig.unmount(outer_);
  EXPECT_EQ(code_of(busy), StatusCode::kBusy);
  EXPECT_THAT(text_of(busy), AllOf(HasSubstr(outer_), HasSubstr("--lazy")));
  EXPECT_THAT(rig.paths(), ElementsAre(outer_));
  EXPECT_TRUE(rig.shows(outer_, "a.txt"));
  rig.fuse.at(outer_)->set_busy(false);
  EXPECT_TRUE(rig.unmount(outer_));
}

TEST_F(MountServiceTest, BusyMountNamesItsHolders) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  folder_.write("mnt/held", "x");
  std::ifstream held(outer_ + "/held");
  rig.fuse.at(outer_)->set_busy(true);
  EXPECT_THAT(text_of(rig.unmount(outer_)),
              AllOf(HasSubstr("pid " + std::to_string(getpid())), HasSubstr("held")));
}

TEST_F(MountServiceTest, FailedUnmountLeavesTheMount) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  rig.fuse.at(outer_)->fail_unmounts(Status(StatusCode::kPermissionDenied, "not yours"));
  const auto failed = rig.unmount(outer_);
  EXPECT_EQ(code_of(failed), StatusCode::kPermissionDenied);
  EXPECT_THAT(text_of(failed), HasSubstr("not yours"));
  EXPECT_TRUE(rig.shows(outer_, "a.txt"));
  EXPECT_THAT(rig.paths(), ElementsAre(outer_));
}

TEST_F(MountServiceTest, LazyUnmountServesOpenFiles) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  const FakeMountPtr mount = rig.fuse.at(outer_);
  const auto file = mount->lookup(rig.executor, "a.txt");
  ASSERT_TRUE(file) << text_of(file);
  const StoreId store = rig.catalog->mounts().front()->source->id();
  mount->set_busy(true);
  mount->open_file();
  ASSERT_TRUE(rig.unmount(outer_, /*lazy=*/true));
  EXPECT_THAT(rig.paths(), IsEmpty());
  EXPECT_FALSE(mount->destroyed());
  EXPECT_TRUE(mount->serving());
  EXPECT_NE(rig.sources.find(store), nullptr) << "open files read from it";
  ASSERT_TRUE(rig.mount(folder_.source("b"), outer_)) << "the path is free";
  mount->close_files();
  mount->await_destroyed();
  EXPECT_THAT(rig.paths(), ElementsAre(outer_));
  EXPECT_TRUE(rig.shows(outer_, "b.txt"));
}

TEST_F(MountServiceTest, OuterMountStaysWhileOneIsInside) {
  MountRig rig;
  mount_nested(rig);
  const auto refused = rig.unmount(outer_);
  EXPECT_EQ(code_of(refused), StatusCode::kBusy);
  EXPECT_THAT(text_of(refused), HasSubstr(inner_));
  EXPECT_EQ(code_of(rig.unmount(outer_, /*lazy=*/true)), StatusCode::kBusy);
  EXPECT_TRUE(rig.shows(outer_, "inner/b.txt"));
  EXPECT_TRUE(rig.unmount(inner_));
  EXPECT_TRUE(rig.unmount(outer_));
}

TEST_F(MountServiceTest, UnmountOfANestedMountIsNotified) {
  MountRig rig;
  mount_nested(rig);
  ASSERT_TRUE(rig.shows(outer_, "inner/b.txt"));
  rig.fuse.at(outer_)->take_notified();
  ASSERT_TRUE(rig.unmount(inner_));
  EXPECT_THAT(rig.fuse.at(outer_)->take_notified(), Contains("inner"));
  EXPECT_FALSE(rig.shows(outer_, "inner"));
  EXPECT_TRUE(rig.shows(outer_, "a.txt"));
  EXPECT_THAT(rig.paths(), ElementsAre(outer_));
  EXPECT_FALSE(rig.fuse.at(outer_)->destroyed());
}

TEST_F(MountServiceTest, NestedMountInUseStays) {
  MountRig rig;
  mount_nested(rig);
  folder_.write("mnt/inner/held", "x");
  std::ifstream held(inner_ + "/held");
  const auto busy = rig.unmount(inner_);
  EXPECT_EQ(code_of(busy), StatusCode::kBusy);
  EXPECT_THAT(text_of(busy), HasSubstr("pid " + std::to_string(getpid())));
  EXPECT_THAT(rig.paths(), ElementsAre(outer_, inner_));
  EXPECT_TRUE(rig.unmount(inner_, /*lazy=*/true));
  EXPECT_THAT(rig.paths(), ElementsAre(outer_));
}

TEST_F(MountServiceTest, NestedSourceStaysForOpenFiles) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  ASSERT_TRUE(rig.mount(folder_.source("b"), inner_, {{"isolated", "true"}}));
  StoreId store;
  for (const MountPtr& mount : rig.catalog->mounts()) {
    if (mount->entry.path == inner_) store = mount->source->id();
  }
  ASSERT_NE(rig.sources.find(store), nullptr);
  ASSERT_TRUE(rig.unmount(inner_, /*lazy=*/true));
  EXPECT_NE(rig.sources.find(store), nullptr) << "the outer server may serve files opened there";
  ASSERT_TRUE(rig.unmount(outer_));
  EXPECT_EQ(rig.sources.find(store), nullptr);
}

TEST_F(MountServiceTest, OneOfTwoMountsOfAPathSucceeds) {
  MountRig rig;
  rig.fuse.mounts.hold();
  auto first = rig.begin(
      rig.service->mount(Context::background(), {.source = folder_.source("a"), .path = outer_}));
  rig.fuse.mounts.await_arrivals(1);
  EXPECT_THAT(rig.paths(), IsEmpty()) << "it is not usable yet";
  EXPECT_EQ(code_of(rig.mount(folder_.source("b"), outer_)), StatusCode::kExists);
  EXPECT_EQ(code_of(rig.mount(folder_.source("b"), inner_)), StatusCode::kBusy);
  rig.fuse.mounts.release();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(rig.shows(outer_, "a.txt"));
}

TEST_F(MountServiceTest, UnmountWaitsForTheMount) {
  MountRig rig;
  rig.fuse.mounts.hold();
  auto mounted = rig.begin(
      rig.service->mount(Context::background(), {.source = folder_.source("a"), .path = outer_}));
  rig.fuse.mounts.await_arrivals(1);
  auto unmounted = rig.begin(rig.service->unmount(Context::background(), outer_, false));
  std::stop_source gave_up;
  gave_up.request_stop();
  const Context cancelled = Context::background().with_cancel(gave_up.get_token());
  EXPECT_EQ(code_of(rig.executor.block_on(rig.service->unmount(cancelled, outer_, false))),
            StatusCode::kBusy);
  rig.fuse.mounts.release();
  EXPECT_TRUE(mounted.get());
  EXPECT_TRUE(unmounted.get());
  EXPECT_TRUE(rig.fuse.at(outer_)->destroyed());
  EXPECT_THAT(rig.paths(), IsEmpty());
}

TEST_F(MountServiceTest, OneOfTwoUnmountsSucceeds) {
  MountRig rig;
  ASSERT_TRUE(rig.mount(folder_.source("a"), outer_));
  rig.fuse.at(outer_)->unmounts.hold();
  auto first = rig.begin(rig.service->unmount(Context::background(), outer_, false));
  rig.fuse.at(outer_)->unmounts.await_arrivals(1);
  auto second = rig.begin(rig.service->unmount(Context::background(), outer_, false));
  EXPECT_EQ(code_of(rig.mount(folder_.source("b"), outer_)), StatusCode::kExists);
  rig.fuse.at(outer_)->unmounts.release();
  EXPECT_TRUE(first.get());
  EXPECT_EQ(code_of(second.get()), StatusCode::kNotFound);
  EXPECT_EQ(rig.fuse.at(outer_)->unmounts.arrived(), 1u);
}

}  // namespace
}  // namespace leat::testing
