// SPDX-License-Identifier: Apache-2.0
// NodeTable: the names that the kernel holds, as nodes. A node is one version of one path. Its
// parent lives as long as it does, so the path of an old open is always known. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "catalog/catalog.h"
#include "vfs/file_system.h"
#include "vfs/node_record.h"

namespace leat {

// Constant part of a node.
struct Node {
  NodeId id = 0;
  std::shared_ptr<const Node> parent{};  // null for the root
  std::string name{};                    // empty for the root
  FileKind kind = FileKind::kDirectory;
  FileRefPtr ref{};  // files only
  NodeRecord record{};
};
using NodePtr = std::shared_ptr<const Node>;

inline constexpr uint32_t kAsOfUnknown = 0;

// Metadata that may change for the same version.
struct NodeFacts {
  // Null above all mounts, for a root that was not looked up yet, and after a takeover for nodes of
  // a removed mount.
  MountPtr mount;
  std::string key{};  // directories only; a file's key is in its ref
  std::optional<WallTime> mtime{};
  Clock::time_point fresh_until = Clock::time_point::min();
  uint64_t place = kNoIndex;  // files: latest CatalogEntry::place
  // The file system's count of changes at the request to the catalog. While it is unchanged an open
  // sends no request. kNoMoment: unknown, from a listing or a takeover.
  uint32_t as_of = kAsOfUnknown;
  // Files: the mount's present policy equals that in the node's ref.
  bool same_policy = true;
  bool retired = false;  // cannot be opened again; unknown after a takeover
};

class NodeTable {
 public:
  // Records held nodes in `records`, which may be null and outlives the table and its nodes.
  explicit NodeTable(MemfdRecordTable* records = nullptr);

  // A node that the kernel has had open since before a takeover.
  struct Reopened {
    NodePtr node;
    uint32_t opens;
    int32_t backing;
  };
  // Restores the nodes in `records`; call once, before anything else. `mount_at` returns the mount
  // at a path of the namespace, or null.
  std::vector<Reopened> take_over(const std::function<MountPtr(const std::string&)>& mount_at);

  const NodePtr& root() const { return root_; }

  // Returns the node of `name` below `parent` in the version of `entry`: the existing one, or a new
  // one. Adds one to its lookup count. `as_of`: see NodeFacts.
  NodePtr find_or_add(const NodePtr& parent, std::string_view name, const CatalogEntry& entry,
                      uint32_t as_of = kAsOfUnknown);
  // Same, but returns null if the name is held in another version.
  NodePtr find_or_add_listed(const NodePtr& parent, std::string_view name,
                             const CatalogEntry& entry);
  // Subtracts `count` from the lookup count; at zero the node is removed. The root stays.
  void forget(NodeId id, uint64_t count);

  // Returns null if the node is not held.
  NodePtr find(NodeId id) const;
  // Returns the newest version of the name, or null.
  NodePtr find_child(NodeId parent, std::string_view name) const;

  // Returns nothing for a node that was forgotten.
  std::optional<NodeFacts> facts(NodeId id) const;
  // Calls `visitor(node, facts)` under the lock, without a copy; it must not call other objects.
  // Returns false for a node that was forgotten.
  template <class Visitor>
  bool inspect(NodeId id, Visitor&& visitor) const {
    const Shard& shard = shard_of(id);
    std::lock_guard lock(shard.mutex);
    auto found = shard.slots.find(id);
    if (found == shard.slots.end()) return false;
    visitor(found->second.node, found->second.facts);
    return true;
  }
  // `entry` is a new answer for the same version. `as_of`: see NodeFacts.
  void refresh(NodeId id, const CatalogEntry& entry, uint32_t as_of);
  // Marks the node's metadata as stale.
  void expire(NodeId id);

  // The name gets another node at its next lookup, in whatever version.
  void retire(NodeId id);
  bool is_retired(NodeId id) const;

  // Passes all nodes that match `wanted` to `visitor`, some thousands at a time, without a lock
  // held; `wanted` must not call other objects. Nodes added or removed meanwhile may be skipped.
  void visit(const std::function<bool(const Node&, const NodeFacts&)>& wanted,
             const std::function<void(const std::vector<NodePtr>&)>& visitor) const;

  uint64_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  // A node's number contains its shard, and all versions of a name have the same shard, so every
  // operation takes exactly one lock.
  static constexpr uint64_t kShards = 64;

  struct Name {
    NodeId parent;
    std::string_view name;  // lives in the node of the name
    friend bool operator==(const Name&, const Name&) = default;
  };
  struct NameHash {
    using is_avalanching = void;
    size_t operator()(const Name& name) const { return hash_bytes(name.name, name.parent); }
  };
  struct IdHash64 {
    using is_avalanching = void;
    size_t operator()(NodeId id) const { return (id / kShards) * 0x9e3779b97f4a7c15ull; }
  };
  struct Slot {
    NodePtr node;
    NodeFacts facts{};
    uint64_t lookups = 0;
  };
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    boost::unordered_flat_map<NodeId, Slot, IdHash64> slots;
    boost::unordered_flat_map<Name, NodeId, NameHash> names;
  };

  NodePtr find_or_add(const NodePtr& parent, std::string_view name, const CatalogEntry& entry,
                      uint32_t as_of, bool replace);
  uint64_t new_number();

  Shard& shard_of(NodeId id) { return shards_[id % kShards]; }
  const Shard& shard_of(NodeId id) const { return shards_[id % kShards]; }
  static uint64_t shard_index(const Name& name) { return NameHash{}(name) % kShards; }

  MemfdRecordTable* const records_;
  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> next_ = 1;      // numbers are never used twice
  std::atomic<uint64_t> reserved_ = 0;  // the next process begins there
  std::atomic<uint64_t> size_ = 1;
  NodePtr root_;
};

}  // namespace leat
