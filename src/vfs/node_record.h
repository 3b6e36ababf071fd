// SPDX-License-Identifier: Apache-2.0
// NodeRecord: a node in a form that outlives the process (runtime/memfd_record_table.h), so that
// the next process continues with the nodes that the kernel holds. Format:
// docs/formats/connection.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/memfd_record_table.h"
#include "vfs/file_system.h"

namespace leat {

struct Node;
struct NodeFacts;

// Kind of record, the first word of each record of a connection. The frontend defines the others.
inline constexpr uint32_t kNodeRecordKind = 1;
// First bytes of MemfdRecordTable::head(); the rest belongs to the frontend.
inline constexpr uint64_t kNodeHeadBytes = 64;

// Decoded record.
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

// Owner of one record, freed with the object; empty if nothing is recorded. A node without room for
// a record is unknown after a takeover.
class NodeRecord {
 public:
  NodeRecord() = default;
  // `records` may be null, and outlives it.
  NodeRecord(MemfdRecordTable* records, const Node& node, const NodeFacts& facts);
  // For a record found after a takeover.
  NodeRecord(MemfdRecordTable* records, std::span<std::byte> found);
  ~NodeRecord();
  NodeRecord(NodeRecord&& other) noexcept;
  NodeRecord& operator=(NodeRecord&& other) noexcept;

  // Set words of the record, each atomically.
  void set_lookups(uint64_t lookups) const;
  // Sets mtime and freshness; no freshness if the node has another mount now.
  void set_facts(const NodeFacts& facts) const;
  // Sets the number of opens, and the kernel's backing id.
  void set_open(uint32_t opens, int32_t backing) const;

  // Returns 0 if the record is not one of a node.
  static NodeId id_in(std::span<const std::byte> record);
  // Returns nothing for an incomplete record, too.
  static std::optional<RecordedNode> read(std::span<const std::byte> record);

 private:
  MemfdRecordTable* records_ = nullptr;
  std::byte* data_ = nullptr;
};

// Numbers used by this process or an earlier one are below this.
uint64_t reserved_node_numbers(const MemfdRecordTable& records);
void reserve_node_numbers(MemfdRecordTable& records, uint64_t below);

}  // namespace leat
