// SPDX-License-Identifier: Apache-2.0
// SharedSnapshot: the registry's record of a cluster snapshot, and the messages of
// /peer/v1/snapshots, both ways. Format: docs/formats/peer-protocol.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id128.h"
#include "base/status.h"
#include "base/units.h"
#include "cluster/ring.h"
#include "http/message.h"

namespace leat {

inline constexpr char kSnapshotsPath[] = "/peer/v1/snapshots";
inline constexpr char kHoldSnapshotPath[] = "/peer/v1/snapshots/hold";
inline constexpr char kSnapshotFilePath[] = "/peer/v1/snapshots/file";
// Registry key below the cluster's prefix; the snapshot's name follows.
inline constexpr std::string_view kSnapshotKeys = "snapshots/";
// Largest part of a file in one request.
inline constexpr uint64_t kSnapshotPieceBytes = 8 * kMiB;

struct SharedSnapshot {
  std::string name{};
  Id128 id{};              // Id of the file, SnapshotHead::id; differs for each build.
  std::string mount{};     // Namespace path of the containing mount.
  std::string folder{};    // Listed directory: "train/a/", a path without its leading slash.
  int64_t created_ns = 0;  // Nanoseconds since the epoch, taken before the listing began.
  uint64_t files = 0, directories = 0, bytes = 0, skipped = 0;
  uint64_t file_bytes = 0;
  uint32_t crc = 0;   // CRC-32C of the file
  std::string run{};  // id of the client's build run

  friend bool operator==(const SharedSnapshot&, const SharedSnapshot&) = default;
};

// Key of the workers that build and hold the snapshot of that name.
PlacementKey snapshot_placement(std::string_view name);
std::string snapshot_key(std::string_view name);

// Used as the registry's record and as the body of a hold request.
std::string encode_snapshot(const SharedSnapshot& snapshot);
Result<SharedSnapshot> decode_snapshot(std::string_view text);
std::string encode_snapshots(const std::vector<SharedSnapshot>& snapshots);
Result<std::vector<SharedSnapshot>> decode_snapshots(std::string_view text);

struct SnapshotRequest {
  std::string name{};
  std::string folder{};  // as SharedSnapshot::folder
  // Random id of the client's run, the same in each of its requests: a retry returns the snapshot
  // that the run has built.
  std::string run{};
  bool may_replace = true;  // of one of that name; set by the receiver, so not sent
};
HttpRequest to_http(const SnapshotRequest& request);
Result<SnapshotRequest> snapshot_request_from(const HttpRequest& request);

// Progress of a build.
struct SnapshotBuild {
  uint64_t files = 0, bytes = 0;          // so far
  std::optional<SharedSnapshot> built{};  // set at the end

  friend bool operator==(const SnapshotBuild&, const SnapshotBuild&) = default;
};
std::string encode_snapshot_build(const SnapshotBuild& build);
Result<SnapshotBuild> decode_snapshot_build(std::string_view text);

}  // namespace leat
