// SPDX-License-Identifier: Apache-2.0
// Changes of a cluster's namespace through its source.
#include "peer/sources/cluster_writes.h"

#include <gtest/gtest.h>

#include "peer/fake_cluster_test.h"
#include "peer/sources/cluster_source.h"
#include "runtime/executor.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeCluster;
using testing::FakePeer;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class ClusterWritesTest : public ::testing::Test {
 protected:
  ClusterWritesTest() : cluster_(5) {
    cluster_.store().put("train/a.txt", "aaaa");
    cluster_.mount("/data/train", "train/");
    cluster_.mount("/other", "other/");
    ClusterSourceOptions options{.cluster = "made", .name = "leat://made"};
    options.router = {.backoff_min = milliseconds(1), .timeout = milliseconds(200)};
    source_ = make_cluster_source(options, cluster_.views(), cluster_.table());
  }

  template <class T>
  T run(Task<T> task) {
    return executor_.block_on(std::move(task));
  }
  Result<SourceObject> write(const std::string& key, std::string_view text,
                             WriteCondition condition = {}) {
    WriteRequest request{.key = key, .condition = condition};
    return run(source_->write(context_, std::move(request), bytes_of(text)));
  }
  // Returns the content in the store; "(none)" without an object.
  std::string stored(const std::string& key) {
    auto object = run(cluster_.store().stat(context_, {.key = key}));
    if (!object) return "(none)";
    std::string text(object->size, '\0');
    ReadRequest request{key, {0, object->size}, {}};
    auto got =
        run(cluster_.store().read(context_, request, std::as_writable_bytes(std::span(text))));
    return got ? text : got.error().to_string();
  }
  FakePeer& owner(const std::string& directory) {
    return cluster_.owner_of(PlacementKey::listing(cluster_.store().id(), directory));
  }

  const Context context_ = Context::background().with_timeout(seconds(30));
  Executor executor_;
  FakeCluster cluster_;
  SourcePtr source_;
};

TEST_F(ClusterWritesTest, WriteGoesToTheOwnerOfTheDirectory) {
  auto written = write("data/train/deep/b.txt", "bb");
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(written->key, "data/train/deep/b.txt");
  EXPECT_EQ(written->size, 2U);
  EXPECT_EQ(stored("train/deep/b.txt"), "bb");
  EXPECT_EQ(owner("train/deep/").served, 1);
  EXPECT_EQ(cluster_.requests(), 1);
}

TEST_F(ClusterWritesTest, ConditionsReachTheStore) {
  EXPECT_EQ(write("data/train/a.txt", "b", {.absent = true}).error().code(), StatusCode::kExists);
  const Version old = run(source_->stat(context_, {.key = "data/train/a.txt"}))->version;
  ASSERT_TRUE(write("data/train/a.txt", "b", {.version = old}));
  EXPECT_EQ(write("data/train/a.txt", "c", {.version = old}).error().code(),
            StatusCode::kVersionChanged);
  EXPECT_EQ(stored("train/a.txt"), "b");
}

TEST_F(ClusterWritesTest, LargeObjectIsWrittenInPieces) {
  const std::string large(2 * kWriteBytesMax + 5, 'x');
  auto written = write("other/large", large);
  ASSERT_TRUE(written) << written.error().to_string();
  EXPECT_EQ(written->key, "other/large");
  EXPECT_EQ(stored("other/large"), large);
  EXPECT_EQ(owner("other/").served, 4) << "three pieces and the end";
  EXPECT_EQ(owner("other/").unfinished_writes(), 0U);
}

TEST_F(ClusterWritesTest, AbortedWriteLeavesNothing) {
  auto writer = *source_->begin_write({.key = "other/large"});
  ASSERT_TRUE(run(writer->append(context_, bytes_of("part"), {})));
  EXPECT_EQ(owner("other/").unfinished_writes(), 1U);
  ASSERT_TRUE(run(writer->abort(context_, {})));
  EXPECT_EQ(owner("other/").unfinished_writes(), 0U);
  EXPECT_EQ(stored("other/large"), "(none)");
}

TEST_F(ClusterWritesTest, LostPieceIsSentAgain) {
  auto writer = *source_->begin_write({.key = "other/large"});
  ASSERT_TRUE(run(writer->append(context_, bytes_of("one"), {})));
  owner("other/").lost_answers = 1;
  ASSERT_TRUE(run(writer->append(context_, bytes_of("two"), {})));
  ASSERT_TRUE(run(writer->complete(context_, {})));
  EXPECT_EQ(stored("other/large"), "onetwo");
}

TEST_F(ClusterWritesTest, WriteWithoutAnAnswerIsNotRepeated) {
  owner("other/").lost_answers = 1;
  auto written = write("other/x", "text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), StatusCode::kTimedOut);
  EXPECT_EQ(stored("other/x"), "text") << "it was done";
  EXPECT_EQ(cluster_.requests(), 1);
}

TEST_F(ClusterWritesTest, UnsentWriteGoesToAnotherWorker) {
  owner("other/").up = false;
  ASSERT_TRUE(write("other/x", "text"));
  EXPECT_EQ(stored("other/x"), "text");
}

TEST_F(ClusterWritesTest, RemovalIsRepeatedElsewhere) {
  cluster_.store().put("other/x", "x");
  owner("other/").lost_answers = 1;
  ASSERT_TRUE(run(source_->remove(context_, {.keys = {"other/x", "other/y"}})));
  EXPECT_EQ(stored("other/x"), "(none)");
}

TEST_F(ClusterWritesTest, RemovalGoesToEachOwner) {
  cluster_.store().put("train/d/x", "x");
  cluster_.store().put("other/y", "y");
  RemoveRequest request{.keys = {"data/train/d/x", "data/train/a.txt", "other/y"}};
  ASSERT_TRUE(run(source_->remove(context_, std::move(request))));
  EXPECT_EQ(cluster_.store().object_count(), 0U);
  EXPECT_EQ(cluster_.requests(), 3);
}

TEST_F(ClusterWritesTest, CopyAndRenameKeepTheContent) {
  auto copied = run(source_->copy(context_, {.from = "data/train/a.txt", .to = "data/train/b"}));
  ASSERT_TRUE(copied) << copied.error().to_string();
  EXPECT_EQ(copied->key, "data/train/b");
  ASSERT_TRUE(run(source_->rename(context_, {.from = "data/train/b", .to = "data/train/c/d"})));
  EXPECT_EQ(stored("train/c/d"), "aaaa");
  EXPECT_EQ(stored("train/b"), "(none)");
  EXPECT_EQ(
      run(source_->rename(context_, {.from = "data/train/a.txt", .to = "other/a"})).error().code(),
      StatusCode::kCrossDevice);
}

TEST_F(ClusterWritesTest, ReadOnlyPlacesSayWhy) {
  cluster_.mount("/web", "web/");
  cluster_.mount("/old", "old/");
  cluster_.change([](ClusterView& view) {
    view.mounts.at("/web").writing = StoreWriting();
    view.mounts.at("/old").writing.reset();
  });
  const auto why = [&](const std::string& key) {
    EXPECT_FALSE(source_->capabilities_of(key).writes) << key;
    EXPECT_EQ(write(key, "x").error().code(), StatusCode::kReadOnly) << key;
    EXPECT_EQ(write(key, "x").error().message(), source_->why_read_only(key));
    return source_->why_read_only(key);
  };
  EXPECT_TRUE(why("web/x").contains("takes no writes"));
  EXPECT_TRUE(why("old/x").contains("leat cluster umount /old"));
  EXPECT_TRUE(why("nowhere/x").contains("nothing is mounted at /nowhere/x"));
  EXPECT_TRUE(why("data").contains("leads to a mount"));
  EXPECT_EQ(cluster_.requests(), 0);
  EXPECT_TRUE(source_->capabilities_of("other/x").write_if_version);
}

TEST_F(ClusterWritesTest, DirectoryOfAMountIsThereAlready) {
  auto made = run(source_->write(context_, {.key = "data/train/"}, {}));
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_EQ(made->kind, FileKind::kDirectory);
  EXPECT_EQ(cluster_.requests(), 0);
}

TEST_F(ClusterWritesTest, TreeIsListedInOrder) {
  for (const char* key : {"train/b/1", "train/b/c/2", "train/b-", "train/z"}) {
    cluster_.store().put(key, "x");
  }
  const auto keys = [&](std::string token) {
    std::vector<std::string> keys;
    ListRequest request{.prefix = "data/train/", .recursive = true, .token = std::move(token)};
    const ListPage page = *run(source_->list(context_, std::move(request)));
    for (const SourceObject& object : page.objects) keys.push_back(object.key.substr(11));
    return keys;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys(""), (Keys{"a.txt", "b-", "b/", "b/1", "b/c/", "b/c/2", "z"}));
  EXPECT_EQ(keys("data/train/b/1"), (Keys{"b/c/", "b/c/2", "z"}));
  EXPECT_EQ(keys("data/train/b/c/"), (Keys{"b/c/2", "z"}));
}

}  // namespace
}  // namespace leat
