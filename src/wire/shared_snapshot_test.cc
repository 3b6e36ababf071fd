// SPDX-License-Identifier: Apache-2.0
#include "wire/shared_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat {
namespace {

SharedSnapshot one() {
  return {.name = "monday",
          .id = Id128::from_hex("00112233445566778899aabbccddeeff").value(),
          .mount = "/train",
          .folder = "train/\xff/",
          .created_ns = 1'700'000'000'000'000'001,
          .files = 1,
          .directories = 2,
          .bytes = UINT64_MAX,
          .skipped = 3,
          .file_bytes = 4096,
          .crc = 0xfedcba98,
          .run = "r"};
}

TEST(SharedSnapshotTest, RecordsAndListsAreReadAsTheyWereWritten) {
  EXPECT_EQ(decode_snapshot(encode_snapshot(one())).value(), one());
  const std::vector<SharedSnapshot> all = {one(), one()};
  EXPECT_EQ(decode_snapshots(encode_snapshots(all)).value(), all);
  EXPECT_TRUE(decode_snapshots(encode_snapshots({}))->empty());
  const SnapshotBuild building{.files = 7, .bytes = 9};
  EXPECT_EQ(decode_snapshot_build(encode_snapshot_build(building)).value(), building);
  const SnapshotBuild made{.files = 7, .bytes = 9, .built = one()};
  EXPECT_EQ(decode_snapshot_build(encode_snapshot_build(made)).value(), made);
}

TEST(SharedSnapshotTest, MalformedRecordsAreRejected) {
  for (const char* text : {"", "{}", "[]", R"({"name": 1})", R"({"v": 2})",
                           R"({"name": "n", "id": "xx", "mount": "/", "folder": "", "crc": 1})",
                           R"({"name": "n", "id": "00112233445566778899aabbccddeeff"})"}) {
    EXPECT_FALSE(decode_snapshot(text)) << text;
  }
  EXPECT_FALSE(decode_snapshots(R"({"snapshots": [{}]})"));
  EXPECT_FALSE(decode_snapshots("{}"));
  EXPECT_FALSE(decode_snapshot_build(R"({"files": "x"})"));
}

TEST(SharedSnapshotTest, RequestsTravelInTheQuery) {
  HttpRequest http = to_http(SnapshotRequest{.name = "n", .folder = "a/\xff/", .run = "r"});
  const SnapshotRequest read = snapshot_request_from(http).value();
  EXPECT_EQ(read.name, "n");
  EXPECT_EQ(read.folder, "a/\xff/");
  EXPECT_EQ(read.run, "r");
  EXPECT_TRUE(read.may_replace);
  http.query["run"] = "";
  EXPECT_FALSE(snapshot_request_from(http));
  http.query["run"] = std::string(65, 'r');
  EXPECT_FALSE(snapshot_request_from(http));
  http.query["run"] = "r";
  for (const char* folder : {"a", "/a/", "a/../b/", "a//"}) {
    http.query["folder"] = folder;
    EXPECT_FALSE(snapshot_request_from(http)) << folder;
  }
}

}  // namespace
}  // namespace leat
