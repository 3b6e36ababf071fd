// SPDX-License-Identifier: Apache-2.0
#include "vfs/writing/written_nodes.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "vfs/writing/staged/part_stream.h"

namespace leat {

WrittenNodes::WrittenNodes(std::function<void(NodeId, uint64_t)> forget_below)
    : forget_below_(std::move(forget_below)),
      root_(std::make_shared<WrittenNode>(kRootNode, FileKind::kDirectory)) {
  nodes_[kRootNode] = root_;
  by_below_[kRootNode] = kRootNode;
  root_->below = kRootNode;
}

// Directories that were moved into each other hold each other.
WrittenNodes::~WrittenNodes() {
  for (const auto& [id, node] : nodes_) node->former.clear();
}

WrittenNodePtr WrittenNodes::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second;
}

WrittenNodePtr WrittenNodes::child(const WrittenNode& parent, std::string_view name) const {
  const auto found = parent.children.find(name);
  return found == parent.children.end() ? nullptr : find(found->second->id);
}

WrittenNodePtr WrittenNodes::by_below(NodeId below) const {
  const auto found = by_below_.find(below);
  return found == by_below_.end() ? nullptr : find(found->second);
}

WrittenNodePtr WrittenNodes::add(const WrittenNodePtr& parent, std::string name, FileKind kind) {
  auto node = std::make_shared<WrittenNode>(next_++, kind);
  nodes_[node->id] = node;
  move(*node, parent, std::move(name));
  return node;
}

WrittenNodePtr WrittenNodes::add_unnamed(const WrittenNodePtr& near, FileKind kind) {
  auto node = std::make_shared<WrittenNode>(next_++, kind);
  nodes_[node->id] = node;
  node->linked = false;
  node->parent = near;
  node->name = "(unnamed)";
  return node;
}

void WrittenNodes::unlink(WrittenNode& node) {
  if (node.parent && node.linked) node.parent->children.erase(node.name);
  for (const WrittenName& more : node.more_names) more.parent->children.erase(more.name);
  node.more_names.clear();
  node.linked = false;
  if (!node.stream) return;
  if (const std::optional<WallTime> last = node.stream->last_write()) {
    node.mtime = node.ctime = *last;
  }
  std::exchange(node.stream, nullptr)->stop();
  if (node.staged) node.staged->end_order();
}

void WrittenNodes::unlink(WrittenNode& node, const WrittenNode& parent, std::string_view name) {
  const auto more = std::ranges::find_if(node.more_names, [&](const WrittenName& one) {
    return one.parent.get() == &parent && one.name == name;
  });
  if (more != node.more_names.end()) {
    more->parent->children.erase(more->name);
    node.more_names.erase(more);
    return;
  }
  if (!node.linked || node.parent.get() != &parent || node.name != name) return;
  if (node.more_names.empty()) return unlink(node);
  node.parent->children.erase(node.name);
  WrittenName next = std::move(node.more_names.back());
  node.more_names.pop_back();
  node.parent = std::move(next.parent);
  node.name = std::move(next.name);
}

void WrittenNodes::link(WrittenNode& node, const WrittenNodePtr& parent, std::string name) {
  if (!node.linked) return move(node, parent, std::move(name));
  parent->children[name] = &node;
  node.more_names.push_back({parent, std::move(name)});
}

void WrittenNodes::move(WrittenNode& node, const WrittenName& from, const WrittenName& to) {
  unlink(node, *from.parent, from.name);
  link(node, to.parent, to.name);
}

void WrittenNodes::move(WrittenNode& node, const WrittenNodePtr& parent, std::string name) {
  unlink(node);
  node.linked = true;
  node.parent = parent;
  node.name = std::move(name);
  parent->children[node.name] = &node;
}

NodeId WrittenNodes::set_below(WrittenNode& node, NodeId below) {
  const NodeId before = node.below;
  if (before != 0 && before != below) erase_below(node);
  node.below = below;
  node.below_epoch = epoch_;
  if (below != 0) by_below_[below] = node.id;
  return before;
}

void WrittenNodes::outdate_below(WrittenNode& node) {
  erase_below(node);
  node.below_epoch = 0;
}

// Another node may have the same one below by now.
void WrittenNodes::erase_below(const WrittenNode& node) {
  const auto found = by_below_.find(node.below);
  if (found != by_below_.end() && found->second == node.id) by_below_.erase(found);
}

bool WrittenNodes::has_own_below(const WrittenNode& directory) {
  return std::ranges::any_of(directory.children, [](const auto& child) {
    return child.second->is_own() || has_own_below(*child.second);
  });
}

void WrittenNodes::set_file(WrittenNode& node, const FileIdentity& file) {
  erase_file(node);
  node.file_in_store = file;
  by_file_[file] = node.id;
}

WrittenNodePtr WrittenNodes::by_file(const FileIdentity& file) const {
  const auto found = by_file_.find(file);
  return found == by_file_.end() ? nullptr : find(found->second);
}

// Another node may show the same file by now.
void WrittenNodes::erase_file(const WrittenNode& node) {
  if (!node.file_in_store) return;
  const auto found = by_file_.find(*node.file_in_store);
  if (found != by_file_.end() && found->second == node.id) by_file_.erase(found);
}

std::string WrittenNodes::path_of(const WrittenNode& node) const {
  std::vector<const WrittenNode*> chain;
  for (const WrittenNode* at = &node; at->parent; at = at->parent.get()) chain.push_back(at);
  std::string path;
  for (const WrittenNode* at : chain | std::views::reverse) path.append("/").append(at->name);
  return path;
}

std::string WrittenNodes::stored_path_of(const WrittenNode& node) const {
  return path_below(node, *root_).value_or("");
}

std::string WrittenNodes::stored_path_of(const WrittenNode& parent, std::string_view name) const {
  if (const WrittenNodePtr node = child(parent, name)) return stored_path_of(*node);
  return stored_path_of(parent).append("/").append(name);
}

std::optional<std::string> WrittenNodes::path_below(const WrittenNode& node,
                                                    const WrittenNode& top) {
  std::vector<std::string_view> names;
  for (const WrittenNode* at = &node; at != &top;) {
    if (!at->parent) return std::nullopt;
    names.push_back(at->former.empty() ? at->name : at->former.front().name);
    at = at->former.empty() ? at->parent.get() : at->former.front().parent.get();
  }
  std::string path;
  for (const std::string_view name : names | std::views::reverse) path.append("/").append(name);
  return path;
}

bool WrittenNodes::is_renamed(const WrittenNode& node) {
  for (const WrittenNode* at = &node; at != nullptr; at = at->parent.get()) {
    if (!at->former.empty()) return true;
  }
  return false;
}

std::vector<std::pair<std::string, WrittenNodePtr>> WrittenNodes::stored_below(
    const WrittenNode& top) const {
  std::vector<std::pair<std::string, WrittenNodePtr>> files;
  for (const auto& [id, node] : nodes_) {
    if (node->is_directory()) continue;
    std::optional<std::string> path = path_below(*node, top);
    if (path) files.emplace_back(*std::move(path), node);
  }
  return files;
}

void WrittenNodes::forget(NodeId id, uint64_t count) {
  std::vector<WrittenNodePtr> unused;
  {
    std::lock_guard lock(mutex_);
    WrittenNodePtr node = find(id);
    if (!node) return;
    node->lookups -= std::min(count, node->lookups);
    // A directory may have been held by its last child alone.
    // A removed directory may be gone already, before its last child.
    std::vector<WrittenNodePtr> left{node};
    while (!left.empty()) {
      node = std::move(left.back());
      left.pop_back();
      if (!node || !is_unused(*node) || find(node->id) != node) continue;
      for (const WrittenName& more : node->more_names) left.push_back(more.parent);
      left.push_back(node->parent);
      unlink(*node);
      nodes_.erase(node->id);
      erase_below(*node);
      erase_file(*node);
      unused.push_back(node);
    }
  }
  for (const WrittenNodePtr& node : unused) {
    if (node->below != 0) forget_below_(node->below, 1);
  }
}

std::vector<WrittenNodePtr> WrittenNodes::dirty() const {
  std::vector<WrittenNodePtr> all;
  for (const auto& [id, node] : nodes_) {
    const bool is_direct = node->staged && node->staged->is_direct();
    if (is_direct || node->is_dirty()) all.push_back(node);
  }
  return all;
}

}  // namespace leat
