// SPDX-License-Identifier: Apache-2.0
#include "vfs/file_system.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "vfs/tree_rig_test.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::metric;
using ::testing::Not;
using testing::pattern;
using testing::TreeRig;
using ::testing::UnorderedElementsAre;

constexpr Freshness kImmutable{.mode = Freshness::Mode::kImmutable};
constexpr Freshness kValidate{.mode = Freshness::Mode::kValidate};
constexpr Freshness kMinute{.mode = Freshness::Mode::kMaxAge, .max_age = 60s};

TEST(Versions, TheSameVersionOfAPathIsTheSameNode) {
  TreeRig rig;
  rig.source->put("a/x.png", "one");
  const NodeId a = rig.node(kRootNode, "a");
  EXPECT_EQ(rig.node(a, "x.png"), rig.node(a, "x.png"));
  EXPECT_EQ(rig.node(kRootNode, "a"), a);
}

TEST(Versions, ChangedObjectIsANewNode) {
  TreeRig rig({.freshness = kMinute});
  rig.source->put("a/x.png", "one");
  const NodeId a = rig.node(kRootNode, "a");
  const NodeId old_node = rig.node(a, "x.png");
  rig.source->put("a/x.png", "twotwo");
  EXPECT_EQ(rig.node(a, "x.png"), old_node) << "still fresh";
  rig.advance(61s);
  EXPECT_EQ(rig.node(kRootNode, "a"), a);
  const Result<NodeAttributes> now = rig.lookup(a, "x.png");
  ASSERT_TRUE(now);
  EXPECT_NE(now->node, old_node);
  EXPECT_EQ(now->size, 6u);
  EXPECT_EQ(rig.attributes(old_node)->size, 3u) << "an old open keeps what it has";
}

TEST(Versions, AnOpenFileIsOneVersionToItsEnd) {
  TreeRig rig({.freshness = kValidate, .cached = false});
  const std::string before = pattern(32 * kMiB, 1);
  rig.source->put("big", before);
  const NodeId node = rig.node(kRootNode, "big");
  const auto file = rig.open(node).value();
  EXPECT_EQ(rig.read(*file, 0, 4096).value(), before.substr(0, 4096));

  rig.source->put("big", pattern(1000, 2));
  const Result<std::string> gone = rig.read(*file, 30 * kMiB, 4096);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), StatusCode::kVersionChanged);
  EXPECT_THAT(gone.error().to_string(), HasSubstr("cannot read /data/big"));
  EXPECT_THAT(rig.files->attribute_value(node, "user.leat.last_error").value(),
              HasSubstr("cannot read /data/big"));

  const Result<NodeAttributes> now = rig.lookup(kRootNode, "big");
  ASSERT_TRUE(now);
  EXPECT_NE(now->node, node);
  EXPECT_EQ(rig.read(*rig.open(now->node).value(), 0, 4096).value(), pattern(1000, 2));
}

TEST(Versions, NodeOfAReplacedVersionDoesNotOpen) {
  TreeRig rig({.freshness = kValidate});
  rig.source->put("x", "one");
  const NodeId node = rig.node(kRootNode, "x");
  rig.source->put("x", "two");
  EXPECT_EQ(rig.open(node).error().code(), StatusCode::kVersionChanged);
  rig.source->remove("x");
  EXPECT_EQ(rig.open(node).error().code(), StatusCode::kVersionChanged);
}

TEST(Versions, ADirectoryThatBecameAFileIsChanged) {
  TreeRig rig({.freshness = kMinute});
  rig.source->put("a/x", "one");
  const NodeId a = rig.node(kRootNode, "a");
  const double before = metric("leat_vfs_changed_total");
  EXPECT_TRUE(rig.attributes(a));
  EXPECT_EQ(metric("leat_vfs_changed_total"), before);
  rig.source->remove("a/x");
  rig.source->put("a", "two");
  rig.advance(61s);
  EXPECT_EQ(rig.attributes(a).error().code(), StatusCode::kVersionChanged);
  EXPECT_EQ(metric("leat_vfs_changed_total"), before + 1);
}

// A listing in use may be older than later metadata.
TEST(Versions, OldListingDoesNotRestoreOldVersion) {
  TreeRig rig({.freshness = kImmutable});
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const auto directory = rig.open_directory(d).value();
  rig.source->put("d/x", "two");
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->refresh(Context::background(), "/data/d")));
  Listing::Cursor cursor = directory->from(0);
  ASSERT_TRUE(cursor.next());
  const NodeAttributes listed = rig.files->lookup_from_listing(d, cursor.entry());
  ASSERT_NE(listed.node, 0u);
  EXPECT_EQ(rig.open(listed.node).error().code(), StatusCode::kVersionChanged);
  const auto file = rig.open(rig.node(d, "x")).value();
  EXPECT_EQ(rig.read(*file, 0, 10).value(), "two");
}

// A lookup from before a change is repeated.
TEST(Versions, NodeFromBeforeAChangeDoesNotOpen) {
  TreeRig rig({.freshness = kImmutable});
  rig.source->put("d/x", "one");
  const NodeId d = rig.node(kRootNode, "d");
  const NodeId node = rig.node(d, "x");
  EXPECT_TRUE(rig.open(node));
  EXPECT_TRUE(rig.open(node));
  rig.source->put("d/x", "two");
  ASSERT_TRUE(rig.executor.block_on(rig.catalog->refresh(Context::background(), "/data/d")));
  EXPECT_EQ(rig.open(node).error().code(), StatusCode::kVersionChanged);
}

TEST(Versions, AReadThatMeetsAChangeInvalidatesTheName) {
  TreeRig rig({.freshness = kImmutable, .cached = false});
  rig.source->put("d/x", pattern(32 * kMiB, 1));
  const NodeId d = rig.node(kRootNode, "d");
  const NodeId node = rig.node(d, "x");
  std::vector<KernelInvalidation> told;
  std::mutex mutex;
  rig.files->set_invalidation_listener([&](const KernelInvalidation& name) {
    std::lock_guard lock(mutex);
    told.push_back(name);
  });
  const auto file = rig.open(node).value();
  rig.source->put("d/x", "new");
  EXPECT_EQ(rig.read(*file, 20 * kMiB, 100).error().code(), StatusCode::kVersionChanged);
  const Result<NodeAttributes> now = rig.lookup(d, "x");
  ASSERT_TRUE(now);
  EXPECT_NE(now->node, node);
  std::lock_guard lock(mutex);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].parent, d);
  EXPECT_EQ(told[0].name, "x");
  EXPECT_EQ(told[0].node, node);
}

TEST(Names, ForgottenNodesAreRemovedRootStays) {
  TreeRig rig;
  rig.source->put("a/b/c", "x");
  const NodeId a = rig.node(kRootNode, "a");
  const NodeId b = rig.node(a, "b");
  const NodeId c = rig.node(b, "c");
  rig.node(b, "c");
  const auto file = rig.open(c).value();
  EXPECT_EQ(rig.files->nodes(), 4u);
  rig.files->forget(a, 1);
  rig.files->forget(b, 1);
  rig.files->forget(c, 1);
  EXPECT_EQ(rig.files->nodes(), 2u) << "c was looked up twice";
  EXPECT_EQ(rig.read(*file, 0, 10).value(), "x");
  EXPECT_THAT(rig.files->reject_change(c, "truncate").message(), HasSubstr("/data/a/b/c"));
  rig.files->forget(c, 1);
  rig.files->forget(kRootNode, 100);
  EXPECT_EQ(rig.files->nodes(), 1u);
  EXPECT_EQ(rig.attributes(c).error().code(), StatusCode::kVersionChanged);
  EXPECT_TRUE(rig.attributes(kRootNode));
}

TEST(Names, MissingNamesAreMissingForTheirOwnAge) {
  TreeRig rig;
  rig.source->put("a", "x");
  EXPECT_EQ(rig.lookup(kRootNode, "b").error().code(), StatusCode::kNotFound);
  EXPECT_EQ(rig.files->negative_ttl(rig.attributes(kRootNode)->node, "x"), 5s);
}

TEST(Names, DirectoryIsStableWhileItIsRead) {
  TreeRig rig({.freshness = kValidate});
  for (int i = 0; i < 100; ++i) rig.source->put(fmt::format("d/{:03}", i), "x");
  rig.source->put("d/sub/y", "x");
  const NodeId d = rig.node(kRootNode, "d");
  const auto directory = rig.open_directory(d).value();
  rig.source->remove("d/050");
  rig.source->put("d/0500", "x");
  Listing::Cursor cursor = directory->from(0);
  uint64_t seventh = 0;
  for (int i = 0; i < 100; ++i) {
    if (i == 7) seventh = cursor.position();
    ASSERT_TRUE(cursor.next());
    EXPECT_EQ(cursor.view().name, fmt::format("{:03}", i));
    EXPECT_EQ(cursor.view().kind, FileKind::kFile);
  }
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.view().name, "sub");
  EXPECT_EQ(cursor.view().kind, FileKind::kDirectory);
  EXPECT_FALSE(cursor.next());
  EXPECT_FALSE(directory->from(cursor.position()).next());
  Listing::Cursor again = directory->from(seventh);
  ASSERT_TRUE(again.next());
  const NodeAttributes adopted = rig.files->lookup_from_listing(d, again.entry());
  EXPECT_EQ(adopted.node, rig.node(d, "007"));
  EXPECT_EQ(adopted.size, 1u);
}

TEST(Directories, OpenListingDoesNotRestoreOldVersion) {
  TreeRig rig({.freshness = Freshness{.mode = Freshness::Mode::kMaxAge, .max_age = 0s}});
  rig.source->put("d/x", "old");
  const NodeId d = rig.node(kRootNode, "d");
  const auto directory = rig.open_directory(d).value();
  rig.source->put("d/x", "newer");
  const NodeId newer = rig.node(d, "x");
  Listing::Cursor cursor = directory->from(0);
  ASSERT_TRUE(cursor.next());
  const NodeAttributes adopted = rig.files->lookup_from_listing(d, cursor.entry());
  EXPECT_EQ(adopted.node, 0u);
  EXPECT_EQ(adopted.kind, FileKind::kFile);
  EXPECT_EQ(rig.node(d, "x"), newer);
}

TEST(Freshness, NoNameIsCachedBeyondItsFreshness) {
  {
    TreeRig rig({.freshness = kMinute});
    rig.source->put("x", "one");
    const Result<NodeAttributes> first = rig.lookup(kRootNode, "x");
    ASSERT_TRUE(first);
    EXPECT_EQ(first->valid_for, Clock::duration(60s));
    rig.advance(45s);
    EXPECT_EQ(rig.lookup(kRootNode, "x")->valid_for, Clock::duration(15s));
    EXPECT_EQ(rig.attributes(first->node)->valid_for, Clock::duration(15s));
    rig.advance(20s);
    EXPECT_EQ(rig.attributes(first->node)->valid_for, Clock::duration::zero());
  }
  {
    TreeRig rig({.freshness = kImmutable});
    rig.source->put("x", "one");
    EXPECT_EQ(rig.lookup(kRootNode, "x")->valid_for, kForever);
    EXPECT_EQ(rig.open_directory(kRootNode).value()->valid_for(), kForever);
  }
  {
    TreeRig rig({.freshness = kValidate});
    rig.source->put("x", "one");
    EXPECT_LE(rig.lookup(kRootNode, "x")->valid_for, Clock::duration(kValidate.max_age))
        << "each open sends a request; names between opens age as everywhere";
  }
}

TEST(Attributes, ComeFromTheObjectAndTheMountsPolicy) {
  TreeRig rig({.uid = 1000, .gid = 100, .umask = 027});
  rig.source->put("d/x", "12345");
  const Result<NodeAttributes> d = rig.lookup(kRootNode, "d");
  const Result<NodeAttributes> x = rig.lookup(d->node, "x");
  EXPECT_EQ(d->mode, static_cast<mode_t>(S_IFDIR | 0750));
  EXPECT_EQ(x->mode, static_cast<mode_t>(S_IFREG | 0640));
  EXPECT_EQ(x->uid, 1000u);
  EXPECT_EQ(x->gid, 100u);
  EXPECT_EQ(x->size, 5u);
  EXPECT_EQ(x->mtime, WallTime(1'700'000'001s));
  EXPECT_TRUE(S_ISDIR(rig.attributes(kRootNode)->mode));
}

TEST(ReadOnly, WritingOpensAreRejectedWithTheReason) {
  TreeRig rig;
  rig.source->put("d/x", "one");
  const NodeId x = rig.node(rig.node(kRootNode, "d"), "x");
  for (int flags :
       {O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_RDONLY | O_CREAT, O_WRONLY | O_APPEND}) {
    const auto refused = rig.open(x, flags);
    ASSERT_FALSE(refused) << flags;
    EXPECT_EQ(refused.error().code(), StatusCode::kReadOnly) << flags;
    EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("/data/d/x"), HasSubstr("read-only"),
                                                 HasSubstr("memory://bucket/d/x")));
  }
  EXPECT_TRUE(rig.open(x, O_RDONLY | O_APPEND | O_NOATIME));
  EXPECT_THAT(rig.files->attribute_value(x, "user.leat.last_error").value(),
              HasSubstr("read-only"));
}

TEST(Inspection, ExtendedAttributesNameTheSource) {
  TreeRig rig;
  const std::string content = pattern(100'000, 3);
  const Version version = rig.source->put("d/x", content);
  const NodeId d = rig.node(kRootNode, "d");
  const NodeId x = rig.node(d, "x");
  auto value = [&](NodeId node, std::string_view name) {
    return rig.files->attribute_value(node, name).value_or("none");
  };
  EXPECT_EQ(value(x, "user.leat.source"), "memory://bucket/d/x");
  EXPECT_EQ(value(x, "user.leat.version"), version.to_string());
  EXPECT_EQ(value(x, "user.leat.size"), "100000");
  EXPECT_EQ(value(x, "user.leat.node"), std::to_string(x));
  EXPECT_EQ(value(x, "user.leat.cached_bytes"), "0");
  EXPECT_EQ(value(x, "user.leat.cached"), "none");
  EXPECT_EQ(value(x, "user.leat.freshness"), "max-age=1m");
  ASSERT_TRUE(rig.load(rig.open(x).value()->ref()));
  EXPECT_EQ(value(x, "user.leat.cached_bytes"), "100000");
  EXPECT_EQ(value(x, "user.leat.cached"), "complete");
  EXPECT_EQ(value(d, "user.leat.source"), "memory://bucket/d/");
  EXPECT_EQ(value(d, "user.leat.version"), "none");
  EXPECT_EQ(value(d, "user.leat.freshness"), "max-age=1m");
  EXPECT_EQ(value(x, "security.capability"), "none");
  EXPECT_THAT(rig.files->attribute_names(x), Not(Contains("user.leat.last_error")));
  rig.files->record_error(x, {}, Status(StatusCode::kUnavailable, "it rained"));
  EXPECT_THAT(rig.files->attribute_names(x), Contains("user.leat.last_error"));
  EXPECT_THAT(value(x, "user.leat.last_error"), MatchesRegex("20..-..-..T..:..:..Z it rained"));
}

TEST(Inspection, WithoutACacheNothingIsCached) {
  TreeRig rig({.cached = false});
  rig.source->put("x", "12345");
  const NodeId x = rig.node(kRootNode, "x");
  EXPECT_EQ(rig.files->attribute_value(x, "user.leat.cached_bytes").value(), "0");
  EXPECT_EQ(rig.files->attribute_value(x, "user.leat.cached").value(), "none");
}

TEST(Reading, IsCountedWhetherItWaitsOrNot) {
  TreeRig rig;
  rig.source->put("x", pattern(100'000, 4));
  const auto file = rig.open(rig.node(kRootNode, "x")).value();
  const auto bytes = [] { return metric("leat_vfs_read_bytes_total", R"(folder="/data")"); };
  const auto reads = [](std::string_view answered) {
    return metric("leat_vfs_reads_total", fmt::format(R"(folder="/data",path="{}")", answered));
  };
  ASSERT_TRUE(rig.read(*file, 0, 1000));
  EXPECT_EQ(bytes(), 1000);
  EXPECT_EQ(reads("from_store"), 1);
  EXPECT_EQ(reads("inline"), 0);
  ASSERT_TRUE(rig.load(file->ref()));
  ASSERT_TRUE(file->try_read(99'500, 1000));
  EXPECT_EQ(bytes(), 1500);
  EXPECT_EQ(reads("from_store"), 1);
  EXPECT_EQ(reads("inline"), 1);
}

TEST(Reading, ReturnsTheBytesAndEndsAtTheEnd) {
  TreeRig rig;
  const std::string content = pattern(300'000, 4);
  rig.source->put("x", content);
  rig.source->put("empty", "");
  const auto file = rig.open(rig.node(kRootNode, "x")).value();
  EXPECT_EQ(rig.read(*file, 299'000, 5000).value(), content.substr(299'000));
  EXPECT_EQ(rig.read(*file, 300'000, 1).value(), "");
  EXPECT_EQ(rig.read(*file, ~0ull - 5, 100).value(), "");
  EXPECT_EQ(rig.read(*file, 123, 70'000).value(), content.substr(123, 70'000));
  EXPECT_EQ(rig.read(*rig.open(rig.node(kRootNode, "empty")).value(), 0, 100).value(), "");
}

TEST(Reading, SequentialReaderIsPrefetched) {
  TreeRig rig;
  const std::string content = pattern(32 * kMiB, 5);
  rig.source->put("x", content);
  const auto file = rig.open(rig.node(kRootNode, "x")).value();
  constexpr uint64_t kStep = 256 * kKiB;
  uint64_t at = 0;
  for (; at < 4 * kMiB; at += kStep) {
    ASSERT_EQ(rig.read(*file, at, kStep).value(), content.substr(at, kStep));
  }
  // Before the stop, which cancels requests without a waiter.
  const auto end = Clock::now() + 30s;
  while (rig.source->read_bytes() < at + kMiB && Clock::now() < end) std::this_thread::yield();
  rig.executor.block_on(rig.fetcher->stop());
  EXPECT_GE(rig.source->read_bytes(), at + kMiB);
}

TEST(Reading, AReaderThatGivesUpIsNotAnErrorOfTheFile) {
  TreeRig rig;
  rig.source->put("x", pattern(kMiB, 6));
  const NodeId node = rig.node(kRootNode, "x");
  const auto file = rig.open(node).value();
  rig.source->block_reads();
  std::stop_source stop;
  stop.request_stop();
  const auto cancelled =
      rig.read(*file, 0, 100, Context::background().with_cancel(stop.get_token()));
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code(), StatusCode::kCancelled);
  EXPECT_FALSE(rig.files->attribute_value(node, "user.leat.last_error"));
  rig.source->release_reads();
}

// The kernel repeats a failed readahead: that read does not wait for the store again.
TEST(Reading, LongWaitFailureAnswersRepeatedRead) {
  TreeRig rig;
  rig.source->put("x", pattern(1000, 6));
  const auto file = rig.open(rig.node(kRootNode, "x")).value();
  rig.source->block_reads();
  std::thread kernel([&] {
    while (rig.source->blocked_reads() == 0) std::this_thread::yield();
    rig.advance(5s);
    rig.source->fail_next(StatusCode::kUnavailable, 1000);
    rig.source->release_reads();
  });
  EXPECT_EQ(rig.read(*file, 0, 100).error().code(), StatusCode::kUnavailable);
  kernel.join();
  const uint64_t reads = rig.source->reads();
  EXPECT_EQ(rig.read(*file, 0, 100).error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(rig.source->reads(), reads) << "the store gets no request";
  rig.source->fail_next(StatusCode::kUnavailable, 0);
  rig.advance(1s);
  EXPECT_TRUE(rig.read(*file, 0, 100)) << "a later one is";
}

TEST(Invalidation, ConcernsOnlyNamesThatAreHeldBelowTheRoot) {
  TreeRig rig({.root = "/data/a"});
  rig.source->put("a/b/x", "one");
  rig.source->put("ab/b/x", "one");
  const NodeId b = rig.node(kRootNode, "b");
  const NodeId x = rig.node(b, "x");
  std::vector<NodeId> told;
  rig.files->set_invalidation_listener(
      [&](const KernelInvalidation& name) { told.push_back(name.node); });
  rig.files->catalog_changed({.parent = "/data/ab/b", .name = "x", .removed = true});
  rig.files->catalog_changed({.parent = "/data", .name = "ab", .removed = true});
  rig.files->catalog_changed({.parent = "/data/a/b", .name = "y", .removed = true});
  rig.files->catalog_changed({.parent = "/data/a/c", .name = "x", .removed = true});
  EXPECT_TRUE(told.empty());
  rig.files->catalog_changed({.parent = "/data/a/b", .name = "x", .removed = true});
  rig.files->catalog_changed({.parent = "/data/a", .name = "b", .removed = true});
  EXPECT_EQ(told, (std::vector<NodeId>{x, b}));
  rig.files->catalog_changed({.parent = "/data", .name = "a", .removed = true});
  EXPECT_EQ(told, (std::vector<NodeId>{x, b, kRootNode}));
  rig.files->set_invalidation_listener({});
  rig.files->catalog_changed({.parent = "/data/a", .name = "b", .removed = true});
  EXPECT_EQ(told.size(), 3u);
}

TEST(Invalidation, NewNameMayBeCachedAsMissing) {
  TreeRig rig({.root = "/data"});
  rig.source->put("b/x", "one");
  const NodeId b = rig.node(kRootNode, "b");
  std::vector<std::string> told;
  rig.files->set_invalidation_listener([&](const KernelInvalidation& name) {
    EXPECT_EQ(name.node, 0u);
    told.push_back(fmt::format("{}/{}", name.parent == b ? "b" : "", name.name));
  });
  rig.files->catalog_changed({.parent = "/data/b", .name = "new", .removed = false});
  rig.files->catalog_changed({.parent = "/data/b/way/to", .name = "it", .removed = false});
  rig.files->catalog_changed({.parent = "/data", .name = "top", .removed = false});
  EXPECT_EQ(told, (std::vector<std::string>{"b/new", "b/way", "/top"}));
}

// For changes that the catalog could not report: it had evicted the metadata, or gets it later.
TEST(Invalidation, RevalidationReportsUnknownNames) {
  TreeRig rig({.freshness = kMinute});
  for (const char* key : {"d/x", "d/y", "e/z"}) rig.source->put(key, "one");
  const NodeId d = rig.node(kRootNode, "d"), e = rig.node(kRootNode, "e");
  const NodeId x = rig.node(d, "x");
  rig.node(d, "y");
  rig.node(e, "z");
  rig.catalog->invalidate("/data/d/x");
  std::vector<NodeId> told;
  rig.files->set_invalidation_listener([&](const KernelInvalidation& name) {
    EXPECT_TRUE(name.expire_only && name.may_block);
    told.push_back(name.node);
  });
  rig.files->revalidate_held("/data/d");
  EXPECT_THAT(told, UnorderedElementsAre(d, x));
  for (const char* path : {"/data", "/"}) {
    told.clear();
    rig.files->revalidate_held(path);
    EXPECT_THAT(told, UnorderedElementsAre(kRootNode, d, e, x)) << path;
  }
  told.clear();
  rig.files->revalidate_held("/dat");
  EXPECT_THAT(told, ElementsAre());
  rig.files->set_invalidation_listener({});
}

}  // namespace
}  // namespace leat
