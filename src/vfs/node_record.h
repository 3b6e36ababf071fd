// SPDX-License-Identifier: Apache-2.0
// NodeRecord: a node as it outlives the process (runtime/shared_records.h), so that the next one
// can go on with what the kernel holds. Format: docs/formats/connection.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/shared_records.h"
#include "vfs/file_system.h"

namespace leat {

struct Node;
struct NodeFacts;

// The first word of each record of a connection: what it is. Others are the door's.
inline constexpr uint32_t kNodeRecordKind = 1;
// Of SharedRecords::head(), from its beginning; the rest is the door's.
inline constexpr uint64_t kNodeHeadBytes = 64;

// What a record says.
struct RecordedNode {
  NodeId id = 0;
  NodeId parent = 0;
  uint64_t lookups = 0;
  uint32_t opens = 0;
  int32_t backing = 0;
  FileKind kind = FileKind::kFile;
  std::string name{};
  std::string mount_path{};     // "": above all mounts
  std::string directory_key{};  // directories only
  std::optional<WallTime> mtime{};
  Clock::time_point fresh_until{};
  FileRefPtr ref{};  // files only
};

// One record, taken back with the object; or none, where nothing is kept. What is kept of a node
// that has no room is nothing: its successor does not know it.
class NodeRecord {
 public:
  NodeRecord() = default;
  // `records` may be null, and outlives it.
  NodeRecord(SharedRecords* records, const Node& node, const NodeFacts& facts);
  // Of one that was found there.
  NodeRecord(SharedRecords* records, std::span<std::byte> found);
  ~NodeRecord();
  NodeRecord(NodeRecord&& other) noexcept;
  NodeRecord& operator=(NodeRecord&& other) noexcept;

  // Words of the record, each changed at once.
  void set_lookups(uint64_t lookups) const;
  // mtime and freshness; none of the latter where it is another mount's now.
  void set_facts(const NodeFacts& facts) const;
  // How often it is open, and the kernel's number for its backing file.
  void set_open(uint32_t opens, int32_t backing) const;

  // 0 for a record that is none of a node.
  static NodeId id_in(std::span<const std::byte> record);
  // Nothing for one that is not whole, either.
  static std::optional<RecordedNode> read(std::span<const std::byte> record);

 private:
  SharedRecords* records_ = nullptr;
  std::byte* data_ = nullptr;
};

// Numbers that this process or one before it gave out are below that one.
uint64_t reserved_node_numbers(const SharedRecords& records);
void reserve_node_numbers(SharedRecords& records, uint64_t below);

}  // namespace leat
