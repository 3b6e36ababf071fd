// SPDX-License-Identifier: Apache-2.0
// The worker that copies a file, and the errors when it is lost.
#include "jobs/cluster/peer_copier.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "peer/fake_cluster_test.h"
#include "peer/sources/cluster_source.h"

namespace leat {
namespace {

using testing::FakeCluster;

class PeerCopierTest : public ::testing::Test {
 protected:
  PeerCopierTest() { cluster_.mount("/train", "prefix/"); }

  FileRefPtr file(const std::string& path, uint64_t size) {
    return std::make_shared<const FileRef>(
        FileRef::make(cluster_store_id("made"), path, Version::etag("\"x\""), size));
  }
  testing::FakePeer& owner(const std::string& key) {
    return cluster_.owner_of(PlacementKey::stripe(cluster_.store().id(), key, 0));
  }
  Result<CopyStep> step(FileCopy& copy, ByteRange range) {
    return executor_.block_on(
        copy.step(Context::background().with_timeout(std::chrono::seconds(20)), range));
  }

  Executor executor_{{.threads = 2}};
  FakeCluster cluster_{4};
  PeerCopier copier_{cluster_.views(), cluster_.table()};
};

TEST_F(PeerCopierTest, AllStepsGoToWhoHoldsTheFirstStripe) {
  const auto copy = copier_.begin(file("train/large", 640 * kMiB), {.to = "/out/large"});
  for (uint64_t at = 0; at < 640 * kMiB; at += 16 * kMiB) {
    const auto went = step(*copy, {at, 16 * kMiB});
    ASSERT_TRUE(went) << went.error().to_string();
    EXPECT_EQ(went->state == CopyState::kWritten, at + 16 * kMiB == 640 * kMiB);
  }
  ASSERT_EQ(owner("prefix/large").copied.size(), 1u);
  EXPECT_EQ(owner("prefix/large").copied[0].to, "/out/large");
  EXPECT_EQ(cluster_.requests(), 40);
}

TEST_F(PeerCopierTest, UnresponsiveWorkerFailsOverAtStart) {
  owner("prefix/small").up = false;
  const auto copy = copier_.begin(file("train/small", 100), {.to = "/out/small"});
  EXPECT_EQ(step(*copy, {0, 100})->state, CopyState::kWritten);
}

TEST_F(PeerCopierTest, LostWorkerIsUnavailableAndCopyRestarts) {
  const auto copy = copier_.begin(file("train/large", 16 * kMiB), {.to = "/out/large"});
  ASSERT_TRUE(step(*copy, {0, 8 * kMiB}));
  owner("prefix/large").up = false;
  EXPECT_EQ(step(*copy, {8 * kMiB, 8 * kMiB}).error().code(), StatusCode::kUnavailable);
  const auto again = copier_.begin(file("train/large", 16 * kMiB), {.to = "/out/large"});
  ASSERT_TRUE(step(*again, {0, 8 * kMiB}));
  EXPECT_EQ(step(*again, {8 * kMiB, 8 * kMiB})->state, CopyState::kWritten);
}

TEST_F(PeerCopierTest, WhatIsMountedNoMoreIsNotFound) {
  const auto copy = copier_.begin(file("gone/file", 10), {.to = "/out/file"});
  EXPECT_EQ(step(*copy, {0, 10}).error().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace leat
