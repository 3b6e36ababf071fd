// SPDX-License-Identifier: Apache-2.0
// NodeTable: the names that the kernel holds, as nodes. A node is one version of one path; its
// parent lives as long as it does, so that the path of an old open can always be told. Thread-safe.
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

// What never changes while the node lives.
struct Node {
  NodeId id = 0;
  std::shared_ptr<const Node> parent{};  // null for the root
  std::string name{};                    // empty for the root
  FileKind kind = FileKind::kDirectory;
  FileRefPtr ref{};  // files only
  NodeRecord record{};
};
using NodePtr = std::shared_ptr<const Node>;

inline constexpr uint32_t kNoMoment = 0;

// What the catalog may say anew of the same version.
struct NodeFacts {
  // Null above all mounts, for a root that was not asked for yet, and after a predecessor's end for
  // what was in a mount that is gone.
  MountPtr mount;
  std::string key{};  // directories only; a file's key is in its ref
  std::optional<WallTime> mtime{};
  Clock::time_point fresh_until = Clock::time_point::min();
  uint64_t place = kNoPlace;  // files: CatalogEntry::place, as it was told last
  // The file system's count of changes when the catalog was asked. While it is the same an open
  // need not ask again; kNoMoment: not known, of a listing or from a predecessor.
  uint32_t as_of = kNoMoment;
  // Files: the wishes of the mount are those in the node's own ref.
  bool same_wishes = true;
  bool retired = false;  // not opened any more; not known to a successor
};

class NodeTable {
 public:
  // What is held is kept in `records`, which may be null and outlives the table and its nodes.
  explicit NodeTable(SharedRecords* records = nullptr);

  // A node that a predecessor's kernel has open.
  struct Reopened {
    NodePtr node;
    uint32_t opens;
    int32_t backing;
  };
  // Takes over what is in `records`, once, before anything else. `mount_at`: the mount at a path of
  // the namespace, or null.
  std::vector<Reopened> take_over(const std::function<MountPtr(const std::string&)>& mount_at);

  const NodePtr& root() const { return root_; }

  // The node of `name` below `parent` in the version of `entry`: the one that is there, or a new
  // one. Adds one to its lookup count. `as_of`: NodeFacts.
  NodePtr adopt(const NodePtr& parent, std::string_view name, const CatalogEntry& entry,
                uint32_t as_of = kNoMoment);
  // The same, but null where the name is held in another version.
  NodePtr adopt_listed(const NodePtr& parent, std::string_view name, const CatalogEntry& entry);
  // Takes `count` from the lookup count; at zero the node goes. The root stays.
  void forget(NodeId id, uint64_t count);

  // Null when the node is not held (any more).
  NodePtr find(NodeId id) const;
  // The newest version of the name, or null.
  NodePtr find_child(NodeId parent, std::string_view name) const;

  // Nothing for a node that was forgotten.
  std::optional<NodeFacts> facts(NodeId id) const;
  // `look(node, facts)` as both are now, without a copy; it must not call out. False for a node
  // that was forgotten.
  template <class Look>
  bool look_at(NodeId id, Look&& look) const {
    const Shard& shard = shard_of(id);
    std::lock_guard lock(shard.mutex);
    auto found = shard.slots.find(id);
    if (found == shard.slots.end()) return false;
    look(found->second.node, found->second.facts);
    return true;
  }
  // `entry` was just learnt and is of the same version. `as_of`: NodeFacts.
  void refresh(NodeId id, const CatalogEntry& entry, uint32_t as_of);
  // Nothing that is known of the node is fresh any more.
  void expire(NodeId id);

  // The name gets another node at its next look-up, in whatever version.
  void retire(NodeId id);
  bool is_retired(NodeId id) const;

  // All nodes that are wanted, some thousands at a time, without a lock held meanwhile; `wanted`
  // must not call out. What comes or goes meanwhile may be left out.
  void visit(const std::function<bool(const Node&, const NodeFacts&)>& wanted,
             const std::function<void(const std::vector<NodePtr>&)>& visitor) const;

  uint64_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  // A node's number holds its shard, and a name's shard is the shard of all its versions, so every
  // operation takes exactly one lock.
  static constexpr uint64_t kShards = 64;

  struct Name {
    NodeId parent;
    std::string_view name;  // lives in the node that the name stands for
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

  NodePtr adopt(const NodePtr& parent, std::string_view name, const CatalogEntry& entry,
                uint32_t as_of, bool replace);
  uint64_t new_number();

  Shard& shard_of(NodeId id) { return shards_[id % kShards]; }
  const Shard& shard_of(NodeId id) const { return shards_[id % kShards]; }
  static uint64_t shard_index(const Name& name) { return NameHash{}(name) % kShards; }

  SharedRecords* const records_;
  std::array<Shard, kShards> shards_;
  std::atomic<uint64_t> next_ = 1;      // numbers are never used twice
  std::atomic<uint64_t> reserved_ = 0;  // a successor begins there
  std::atomic<uint64_t> size_ = 1;
  NodePtr root_;
};

}  // namespace leat
