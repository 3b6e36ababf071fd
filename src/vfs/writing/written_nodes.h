// SPDX-License-Identifier: Apache-2.0
// WrittenNodes: the nodes of a mount that takes writes, by number and by name. All functions but
// those of a lookup count expect the caller to hold mutex().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vfs/writing/written_node.h"

namespace leat {

class WrittenNodes {
 public:
  // A lookup count, for as long as this lives.
  class Hold {
   public:
    Hold(WrittenNodes& nodes, WrittenNodePtr node) : nodes_(&nodes), node_(std::move(node)) {}
    Hold(Hold&& other) noexcept = default;
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (node_) nodes_->forget(node_->id, 1);
    }
    const WrittenNodePtr& node() const { return node_; }

   private:
    WrittenNodes* nodes_;
    WrittenNodePtr node_;
  };

  // `forget_below` returns lookup counts of the file system below; called without the mutex.
  explicit WrittenNodes(std::function<void(NodeId, uint64_t)> forget_below);
  ~WrittenNodes();

  std::mutex& mutex() const { return mutex_; }

  const WrittenNodePtr& root() const { return root_; }
  // Return null for what is not held.
  WrittenNodePtr find(NodeId id) const;
  WrittenNodePtr child(const WrittenNode& parent, std::string_view name) const;
  WrittenNodePtr by_below(NodeId below) const;

  // Adds a node under a name that no other has.
  WrittenNodePtr add(const WrittenNodePtr& parent, std::string name, FileKind kind);
  // Adds a node that has no name yet. `near`: the directory for messages about it.
  WrittenNodePtr add_unnamed(const WrittenNodePtr& near, FileKind kind);
  // Takes all names away; open files keep the node.
  void unlink(WrittenNode& node);
  // Takes one name away. The node is no longer linked without another.
  void unlink(WrittenNode& node, const WrittenNode& parent, std::string_view name);
  // Gives the node one more name, that no other has.
  void link(WrittenNode& node, const WrittenNodePtr& parent, std::string name);
  // Gives the node a name that no other has, instead of all its names, or of one of them.
  void move(WrittenNode& node, const WrittenNodePtr& parent, std::string name);
  void move(WrittenNode& node, const WrittenName& from, const WrittenName& to);
  // Remembers the file in the store that the node shows, and finds the node that shows one.
  void set_file(WrittenNode& node, const FileIdentity& file);
  WrittenNodePtr by_file(const FileIdentity& file) const;
  // `below` comes with one lookup count, or is 0. Returns the count to forget; 0: none.
  [[nodiscard]] NodeId set_below(WrittenNode& node, NodeId below);
  // The node below shows the attributes still, but no longer the name.
  void outdate_below(WrittenNode& node);
  // The nodes below have moved: theirs below must be looked up again.
  void new_epoch() { ++epoch_; }
  uint64_t epoch() const { return epoch_; }
  // Differs after each change of names and versions in the directory, and after each rename of one.
  uint64_t state_of(const WrittenNode& directory) const { return directory.changes + epoch_; }
  bool has_below(const WrittenNode& node) const {
    return node.below != 0 && (node.id == kRootNode || node.below_epoch == epoch_);
  }

  // Returns whether something in this directory is not as the file system below shows it.
  static bool has_own_below(const WrittenNode& directory);

  // Path below the root, "/a/b"; "" for the root.
  std::string path_of(const WrittenNode& node) const;
  // The path that the store has it under, or will have before its next pending rename.
  std::string stored_path_of(const WrittenNode& node) const;
  std::string stored_path_of(const WrittenNode& parent, std::string_view name) const;
  // Returns whether a rename of the node, or of a directory that it is in, is pending. Both paths
  // may be the same all the same, after a rename and one back.
  static bool is_renamed(const WrittenNode& node);
  // Returns the files that the store has at and below `top`, with their path below it there:
  // "/a/b",
  // "" for itself. Also those that were replaced or removed since.
  std::vector<std::pair<std::string, WrittenNodePtr>> stored_below(const WrittenNode& top) const;

  // Returns nodes that nothing needs any more to the file system below.
  void forget(NodeId id, uint64_t count);
  // The same after the end of its open file or its content.
  void drop_if_unused(NodeId id) { forget(id, 0); }

  uint64_t size() const {
    std::lock_guard lock(mutex_);
    return nodes_.size();
  }
  // Returns all nodes with content that the store has not.
  std::vector<WrittenNodePtr> dirty() const;

 private:
  static bool is_unused(const WrittenNode& node) {
    return node.id != kRootNode && node.lookups == 0 && node.opens == 0 && !node.staged &&
           node.queued == 0 && node.children.empty() && node.removed.empty() && node.former.empty();
  }

  // The path of a node in the store below another one; nothing: it is not below it.
  static std::optional<std::string> path_below(const WrittenNode& node, const WrittenNode& top);
  void erase_below(const WrittenNode& node);
  void erase_file(const WrittenNode& node);

  const std::function<void(NodeId, uint64_t)> forget_below_;
  mutable std::mutex mutex_;
  std::unordered_map<NodeId, WrittenNodePtr> nodes_;
  std::unordered_map<NodeId, NodeId> by_below_;
  std::map<FileIdentity, NodeId> by_file_;
  NodeId next_ = kRootNode + 1;
  uint64_t epoch_ = 1;
  WrittenNodePtr root_;
};

}  // namespace leat
