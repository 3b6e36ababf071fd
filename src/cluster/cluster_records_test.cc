// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_records.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace leat {
namespace {

WorkerId worker(const std::string& name) {
  const std::string_view part = name;
  return WorkerId(Id128::digest({&part, 1}));
}

const WorkerInfo kWorker{.id = worker("a"),
                         .address = "10.0.0.1:7480",
                         .host_id = "8f3c",
                         .host_name = "trainer-1",
                         .fd_socket = "/run/leat/descriptors.sock",
                         .capacity_bytes = 3 * kTiB,
                         .state = WorkerState::kDraining,
                         .version = "0.1.0",
                         .protocol = kPeerProtocol};
const ClusterMount kMount{.path = "/data/train",
                          .source = "s3://bucket/train",
                          .options = {{"region", "us-east-1"}},
                          .store = make_store_id("s3", "http://127.0.0.1:7070", "", "bucket"),
                          .prefix = "train/",
                          .replicas = 2,
                          .write_copies = 2,
                          .writing = StoreWriting{.writes = true, .write_if_version = true}};

TEST(ClusterRecords, AreWhatTheyWereAfterwards) {
  EXPECT_EQ(decode_worker(encode_worker(kWorker)).value(), kWorker);
  EXPECT_EQ(decode_mount(encode_mount(kMount)).value(), kMount);
  RingRecord ring{.members = {{worker("a"), kTiB}, {worker("b"), 2 * kTiB}},
                  .previous = {{worker("a"), kTiB}},
                  .previous_epoch = 41,
                  .previous_bound = 12};
  std::ranges::sort(ring.members, {}, &RingRecord::Member::worker);
  EXPECT_EQ(decode_ring(encode_ring(ring)).value(), ring);
}

TEST(ClusterRecords, StagingRecordIsWhatItWas) {
  const StagingRecord record{.mount = "/data",
                             .store = kMount.store,
                             .log = Id128::digest({}),
                             .term = 3,
                             .primary = worker("a"),
                             .members = {worker("a"), worker("b")}};
  EXPECT_EQ(decode_staging(encode_staging(record)).value(), record);
  EXPECT_TRUE(record.has_member(worker("b")));
  EXPECT_FALSE(record.has_member(worker("c")));
  RegistryView entries{.revision = 9};
  entries.entries.push_back(
      {.key = staging_key("/data"), .value = encode_staging(record), .changed = 7});
  const ClusterView view = view_of(entries, "test");
  ASSERT_TRUE(view.staging.contains("/data"));
  EXPECT_EQ(view.staging.at("/data").changed, 7);
}

TEST(ClusterRecords, OldMountHasNoWriting) {
  ClusterMount mount = kMount;
  mount.writing.reset();
  EXPECT_EQ(decode_mount(encode_mount(mount)).value(), mount);
  mount.writing.emplace();
  EXPECT_EQ(decode_mount(encode_mount(mount)).value(), mount);
}

TEST(ClusterRecords, MembersOfANextVersionArePassedOver) {
  std::string text = encode_mount(kMount);
  text.insert(1, R"("colour": {"of": "the next version"},)");
  EXPECT_EQ(decode_mount(text).value(), kMount);
}

TEST(ClusterRecords, NewerRecordVersionIsRejected) {
  const auto refused = decode_mount(R"({"v": 2, "path": "/a", "source": "s3://b"})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kUnsupported);
  EXPECT_NE(refused.error().message().find("upgrade"), std::string::npos);
}

TEST(ClusterRecords, RubbishIsCorrupt) {
  for (const char* text : {"", "{", "[]", "{}", R"({"id": "zz", "address": "", "capacity": 1})",
                           R"({"id": 7})", R"({"id": "00", "capacity": -1})"}) {
    const auto broken = decode_worker(text);
    ASSERT_FALSE(broken) << text;
    EXPECT_EQ(broken.error().code(), StatusCode::kCorrupt) << text;
  }
  const std::string id = worker("a").to_hex();
  EXPECT_FALSE(decode_ring(R"({"members": [{"worker": ")" + id +
                           R"(", "capacity": 1}, {"worker": ")" + id + R"(", "capacity": 1}]})"));
}

TEST(ClusterRecords, UnitOfWeightsIsAPowerOfTwo) {
  const auto with_unit = [](uint64_t unit) {
    return decode_ring(R"({"members": [], "unit": )" + std::to_string(unit) + "}");
  };
  for (const uint64_t unit : {uint64_t{kMiB}, kRingUnit, kCoarseRingUnit}) {
    const auto ring = with_unit(unit);
    ASSERT_TRUE(ring) << ring.error().to_string();
    EXPECT_EQ(ring->unit, unit);
  }
  for (const uint64_t unit :
       {uint64_t{0}, uint64_t{kMiB / 2}, 3 * kRingUnit, 2 * kCoarseRingUnit}) {
    const auto ring = with_unit(unit);
    ASSERT_FALSE(ring) << unit;
    EXPECT_EQ(ring.error().code(), StatusCode::kCorrupt);
  }
}

RegistryView entries() {
  RegistryView view{.revision = 90};
  auto add = [&](std::string key, std::string value, RegistryRevision changed) {
    view.entries.push_back({.key = std::move(key), .value = std::move(value), .changed = changed});
  };
  add(worker_key(kWorker.id), encode_worker(kWorker), 70);
  add(mount_key(kMount.path), encode_mount(kMount), 71);
  add(mount_key("/broken"), "{", 72);
  add(std::string(kRingKey),
      encode_ring({.members = {{worker("a"), kTiB}},
                   .previous = {{worker("b"), kTiB}},
                   .previous_epoch = 60}),
      73);
  add(std::string(kLeaderKey), worker("a").to_hex(), 74);
  return view;
}

TEST(ClusterRecords, MakeAViewAndLeaveOutWhatIsBroken) {
  const ClusterView view = view_of(entries(), "training");
  EXPECT_EQ(view.revision, 90);
  EXPECT_EQ(view.cluster, "training");
  ASSERT_NE(view.worker(kWorker.id), nullptr);
  EXPECT_EQ(*view.worker(kWorker.id), kWorker);
  EXPECT_EQ(view.mounts.size(), 1u);
  EXPECT_EQ(view.ring.epoch(), 73);
  ASSERT_TRUE(view.previous);
  EXPECT_EQ(view.previous->epoch(), 60);
  EXPECT_EQ(view.leader, worker("a").to_hex());
}

TEST(ClusterRecords, AViewIsWhatItWasAfterwards) {
  const ClusterView view = view_of(entries(), "training");
  const ClusterView again = decode_view(encode_view(view)).value();
  EXPECT_EQ(again.revision, view.revision);
  EXPECT_EQ(again.cluster, view.cluster);
  EXPECT_EQ(again.ring.epoch(), view.ring.epoch());
  EXPECT_EQ(again.ring.members(), view.ring.members());
  ASSERT_TRUE(again.previous);
  EXPECT_EQ(again.previous->members(), view.previous->members());
  EXPECT_EQ(again.previous->epoch(), view.previous->epoch());
  EXPECT_EQ(again.workers, view.workers);
  EXPECT_EQ(again.mounts, view.mounts);
  EXPECT_EQ(again.leader, view.leader);
}

TEST(ClusterView, TheLongestMountIsResponsible) {
  ClusterView view;
  for (const char* path : {"/", "/data", "/data/train"}) view.mounts[path] = {.path = path};
  EXPECT_EQ(view.mount_of("/data/train/1")->path, "/data/train");
  EXPECT_EQ(view.mount_of("/data/train")->path, "/data/train");
  EXPECT_EQ(view.mount_of("/data/training")->path, "/data");
  EXPECT_EQ(view.mount_of("/other")->path, "/");
  view.mounts.erase("/");
  EXPECT_EQ(view.mount_of("/other"), nullptr);
  view.mounts["/models"] = {.path = "/models"};
  ASSERT_NE(view.mount_of("/models/1"), nullptr);
  EXPECT_EQ(view.mount_of("/models/1")->path, "/models");
}

}  // namespace
}  // namespace leat
