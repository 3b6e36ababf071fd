// SPDX-License-Identifier: Apache-2.0
// Invariant: a name in `names` views the string of its node, so both are added and removed under
// one lock. Numbers below kShards are reserved for the root.
#include "vfs/node_table.h"

#include <algorithm>
#include <map>

namespace leat {
namespace {

bool same_version(const Node& node, const CatalogEntry& entry) {
  if (node.kind != entry.info.kind) return false;
  if (node.kind == FileKind::kDirectory) return true;
  return node.ref->id == entry.ref->id;
}

// `ref`: the node's own; null for directories.
NodeFacts facts_of(const CatalogEntry& entry, const FileRefPtr& ref, uint32_t as_of) {
  return {
      .mount = entry.mount,
      .key = entry.directory_key,
      .mtime = entry.info.mtime,
      .fresh_until = entry.fresh_until,
      .place = entry.index,
      .as_of = as_of,
      .same_policy =
          !ref || !entry.ref || (ref->cache == entry.ref->cache && ref->pool == entry.ref->pool),
  };
}

// Numbers that may be lost when the process ends.
constexpr uint64_t kReservedAhead = 1 << 20;

}  // namespace

NodeTable::NodeTable(MemfdRecordTable* records) : records_(records) {
  root_ = std::make_shared<const Node>(Node{.id = kRootNode});
  shard_of(kRootNode).slots.emplace(kRootNode, Slot{.node = root_, .lookups = 1});
}

NodePtr NodeTable::find_or_add(const NodePtr& parent, std::string_view name,
                               const CatalogEntry& entry, uint32_t as_of) {
  return find_or_add(parent, name, entry, as_of, true);
}

NodePtr NodeTable::find_or_add_listed(const NodePtr& parent, std::string_view name,
                                      const CatalogEntry& entry) {
  return find_or_add(parent, name, entry, kAsOfUnknown, false);
}

NodePtr NodeTable::find_or_add(const NodePtr& parent, std::string_view name,
                               const CatalogEntry& entry, uint32_t as_of, bool replace) {
  Name key{parent->id, name};
  const uint64_t index = shard_index(key);
  Shard& shard = shards_[index];
  std::lock_guard lock(shard.mutex);
  auto known = shard.names.find(key);
  if (known != shard.names.end()) {
    Slot& slot = shard.slots.at(known->second);
    if (same_version(*slot.node, entry)) {
      slot.facts = facts_of(entry, slot.node->ref, as_of);
      slot.node->record.set_facts(slot.facts);
      slot.node->record.set_lookups(++slot.lookups);
      return slot.node;
    }
    if (!replace) return nullptr;
    slot.facts.fresh_until = Clock::time_point::min();
    slot.node->record.set_facts(slot.facts);
    shard.names.erase(known);  // it views the old version's string
  }
  const NodeId id = new_number() * kShards + index;
  NodeFacts facts = facts_of(entry, entry.ref, as_of);
  auto node = std::make_shared<Node>(Node{
      .id = id,
      .parent = parent,
      .name = std::string(name),
      .kind = entry.info.kind,
      .ref = entry.ref,
  });
  node->record = NodeRecord(records_, *node, facts);
  shard.names.emplace(Name{parent->id, node->name}, id);
  shard.slots.emplace(id, Slot{.node = node, .facts = std::move(facts), .lookups = 1});
  size_.fetch_add(1, std::memory_order_relaxed);
  return node;
}

uint64_t NodeTable::new_number() {
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (records_ != nullptr && number >= reserved_.load(std::memory_order_acquire)) {
    reserve_node_numbers(*records_, number + kReservedAhead);
    reserved_.store(number + kReservedAhead, std::memory_order_release);
  }
  return number;
}

std::vector<NodeTable::Reopened> NodeTable::take_over(
    const std::function<MountPtr(const std::string&)>& mount_at) {
  struct Found {
    std::span<std::byte> record;
    NodePtr node;
  };
  boost::unordered_flat_map<NodeId, Found, IdHash64> found;
  records_->visit([&found](std::span<std::byte> record) {
    if (const NodeId id = NodeRecord::id_in(record)) found.emplace(id, Found{record, nullptr});
  });
  next_ = reserved_node_numbers(*records_) + 1;

  std::map<std::string, MountPtr> mounts;
  auto mount_of = [&](const std::string& path) -> const MountPtr& {
    auto known = mounts.find(path);
    if (known == mounts.end()) {
      known = mounts.emplace(path, path.empty() ? nullptr : mount_at(path)).first;
    }
    return known->second;
  };
  std::vector<Reopened> open;
  // Parents before children; the recursion is as deep as the path.
  auto make = [&](auto& self, NodeId id) -> NodePtr {
    if (id == kRootNode) return root_;
    auto at = found.find(id);
    if (at == found.end()) return nullptr;
    Found& one = at->second;
    if (one.node) return one.node;
    const std::optional<RecordedNode> recorded = NodeRecord::read(one.record);
    // A parent is older than its children.
    const bool whole = recorded && recorded->parent / kShards < id / kShards;
    NodePtr parent = whole ? self(self, recorded->parent) : nullptr;
    if (!parent) {
      // Its path is unknown: it is looked up again.
      records_->free(one.record.data());
      found.erase(at);
      return nullptr;
    }
    auto node = std::make_shared<Node>(Node{
        .id = id,
        .parent = std::move(parent),
        .name = recorded->name,
        .kind = recorded->kind,
        .ref = recorded->ref,
    });
    node->record = NodeRecord(records_, one.record);
    one.node = node;
    if (recorded->opens > 0) open.push_back({node, recorded->opens, recorded->backing});
    if (recorded->lookups == 0) return node;
    Shard& shard = shard_of(id);
    std::lock_guard lock(shard.mutex);
    auto [name, fresh] = shard.names.try_emplace(Name{node->parent->id, node->name}, id);
    if (!fresh && name->second < id) {  // the newest version answers for the name
      shard.names.erase(name);
      shard.names.emplace(Name{node->parent->id, node->name}, id);
    }
    shard.slots.emplace(id, Slot{.node = node,
                                 .facts = {.mount = mount_of(recorded->mount_path),
                                           .key = recorded->directory_key,
                                           .mtime = recorded->mtime,
                                           .fresh_until = recorded->fresh_until},
                                 .lookups = recorded->lookups});
    size_.fetch_add(1, std::memory_order_relaxed);
    return node;
  };
  std::vector<NodeId> ids;
  ids.reserve(found.size());
  for (const auto& [id, one] : found) ids.push_back(id);
  for (NodeId id : ids) make(make, id);
  return open;
}

void NodeTable::forget(NodeId id, uint64_t count) {
  if (id == kRootNode) return;
  NodePtr gone;  // may end a chain of parents: not under the lock
  Shard& shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  auto found = shard.slots.find(id);
  if (found == shard.slots.end()) return;
  Slot& slot = found->second;
  slot.lookups -= std::min(count, slot.lookups);
  slot.node->record.set_lookups(slot.lookups);
  if (slot.lookups > 0) return;
  gone = std::move(slot.node);
  auto name = shard.names.find(Name{gone->parent->id, gone->name});
  if (name != shard.names.end() && name->second == id) shard.names.erase(name);
  shard.slots.erase(found);
  size_.fetch_sub(1, std::memory_order_relaxed);
}

NodePtr NodeTable::find(NodeId id) const {
  const Shard& shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  auto found = shard.slots.find(id);
  return found == shard.slots.end() ? nullptr : found->second.node;
}

NodePtr NodeTable::find_child(NodeId parent, std::string_view name) const {
  Name key{parent, name};
  const Shard& shard = shards_[shard_index(key)];
  std::lock_guard lock(shard.mutex);
  auto known = shard.names.find(key);
  return known == shard.names.end() ? nullptr : shard.slots.at(known->second).node;
}

std::optional<NodeFacts> NodeTable::facts(NodeId id) const {
  const Shard& shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  auto found = shard.slots.find(id);
  if (found == shard.slots.end()) return std::nullopt;
  return found->second.facts;
}

void NodeTable::refresh(NodeId id, const CatalogEntry& entry, uint32_t as_of) {
  Shard& shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  auto found = shard.slots.find(id);
  if (found == shard.slots.end()) return;
  found->second.facts = facts_of(entry, found->second.node->ref, as_of);
  found->second.node->record.set_facts(found->second.facts);
}

void NodeTable::expire(NodeId id) {
  Shard& shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  auto found = shard.slots.find(id);
  if (found == shard.slots.end()) return;
  found->second.facts.fresh_until = Clock::time_point::min();
  found->second.node->record.set_facts(found->second.facts);
}

void NodeTable::retire(NodeId id) {
  Shard& shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  auto found = shard.slots.find(id);
  if (found == shard.slots.end() || id == kRootNode) return;
  Slot& slot = found->second;
  slot.facts.retired = true;
  slot.facts.fresh_until = Clock::time_point::min();
  slot.node->record.set_facts(slot.facts);
  auto name = shard.names.find(Name{slot.node->parent->id, slot.node->name});
  if (name != shard.names.end() && name->second == id) shard.names.erase(name);
}

bool NodeTable::is_retired(NodeId id) const {
  bool retired = false;
  inspect(id, [&](const NodePtr&, const NodeFacts& facts) { retired = facts.retired; });
  return retired;
}

void NodeTable::visit(const std::function<bool(const Node&, const NodeFacts&)>& wanted,
                      const std::function<void(const std::vector<NodePtr>&)>& visitor) const {
  for (const Shard& shard : shards_) {
    std::vector<NodePtr> found;
    {
      std::lock_guard lock(shard.mutex);
      for (const auto& [id, slot] : shard.slots) {
        if (wanted(*slot.node, slot.facts)) found.push_back(slot.node);
      }
    }
    if (!found.empty()) visitor(found);
  }
}

}  // namespace leat
