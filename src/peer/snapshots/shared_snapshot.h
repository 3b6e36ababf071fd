// SPDX-License-Identifier: Apache-2.0
// SharedSnapshot: what a cluster's registry knows of a snapshot of it, and what is asked and
// answered about one: /peer/v1/snapshots, both ways. Format: docs/formats/peer-protocol.md.
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
// Of the registry, below the cluster's own prefix; and the name.
inline constexpr std::string_view kSnapshotKeys = "snapshots/";
// Of a file, in one request.
inline constexpr uint64_t kSnapshotPieceBytes = 8 * kMiB;

struct SharedSnapshot {
  std::string name{};
  Id128 id{};              // of the file, SnapshotHead::id; another build has another one
  std::string mount{};     // that it lies in: a path of the namespace
  std::string folder{};    // what was listed: "train/a/", a path without its leading slash
  int64_t created_ns = 0;  // nanoseconds since the epoch: before anything was listed
  uint64_t files = 0, directories = 0, bytes = 0, left_out = 0;
  uint64_t file_bytes = 0;
  uint32_t crc = 0;   // CRC-32C of the file
  std::string run{};  // by which it was asked for

  friend bool operator==(const SharedSnapshot&, const SharedSnapshot&) = default;
};

// Who makes and holds those of that name.
PlacementKey snapshot_place(std::string_view name);
std::string snapshot_key(std::string_view name);

// The registry's record, and the body of a request to hold it.
std::string encode_snapshot(const SharedSnapshot& snapshot);
Result<SharedSnapshot> decode_snapshot(std::string_view text);
std::string encode_snapshots(const std::vector<SharedSnapshot>& snapshots);
Result<std::vector<SharedSnapshot>> decode_snapshots(std::string_view text);

struct SnapshotOrder {
  std::string name{};
  std::string folder{};  // as SharedSnapshot::folder
  // Drawn by who asks, the same in each of its questions: who asks again is told of what was made.
  std::string run{};
  bool may_replace = true;  // one of that name; the receiver's to know, so it does not travel
};
HttpRequest to_http(const SnapshotOrder& order);
Result<SnapshotOrder> snapshot_order_from(const HttpRequest& request);

// How far it is.
struct SnapshotBuild {
  uint64_t files = 0, bytes = 0;         // so far
  std::optional<SharedSnapshot> made{};  // at the end

  friend bool operator==(const SnapshotBuild&, const SnapshotBuild&) = default;
};
std::string encode_snapshot_build(const SnapshotBuild& build);
Result<SnapshotBuild> decode_snapshot_build(std::string_view text);

}  // namespace leat
