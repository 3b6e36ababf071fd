// SPDX-License-Identifier: Apache-2.0
// CatalogFileSystem: invalidations: converts a change in the catalog to the names that the kernel
// may hold.
#include <utility>

#include "vfs/catalog_file_system.h"

namespace leat {

std::optional<KernelInvalidation> CatalogFileSystem::first_held(const CatalogChange& change) const {
  std::string_view path = change.parent;
  if (root_path_ != "/") {
    if (!is_at_or_below(path, root_path_)) return std::nullopt;
    path.remove_prefix(root_path_.size());
  }
  NodePtr directory = nodes_.root();
  while (path.size() > 1) {
    path.remove_prefix(1);
    const std::string_view name = path.substr(0, path.find('/'));
    NodePtr next = nodes_.find_child(directory->id, name);
    if (!next) return KernelInvalidation{directory->id, std::string(name), 0};
    directory = std::move(next);
    path.remove_prefix(name.size());
  }
  const NodePtr node = nodes_.find_child(directory->id, change.name);
  return KernelInvalidation{directory->id, change.name, node ? node->id : 0};
}

void CatalogFileSystem::catalog_changed(const CatalogChange& change) {
  if (!is_at_or_below(change.parent, root_path_) && !is_at_or_below(root_path_, change.parent)) {
    return;
  }
  begin_change();
  if (change.whole) return mount_changed(change.parent);
  if (change.listings) return listings_changed(change.parent);
  // The mount there was added or removed.
  if (join_path(change.parent, change.name) == root_path_) {
    return invalidate_root(root_path_, change.may_block);
  }
  std::optional<KernelInvalidation> name = first_held(change);
  if (!name) return;
  if (name->node != 0) nodes_.expire(name->node);
  // A removed name without a node may still be in a listing that the kernel keeps. It keeps only
  // those of immutable directories and snapshots, and an exchange reports them separately. A new
  // name may be held as missing.
  const bool listed = !change.snapshot_change && kernel_keeps_listing(name->parent);
  if (name->node == 0 && change.removed && !listed) return;
  name->may_block = change.may_block;
  notify(*name);
}

// Before the search for nodes: an answer received meanwhile may describe the state before the
// change.
void CatalogFileSystem::begin_change() {
  if (++changes_ == kAsOfUnknown) ++changes_;
}

bool CatalogFileSystem::kernel_keeps_listing(NodeId directory) {
  const NodePtr node = nodes_.find(directory);
  const std::optional<NodeFacts> facts = nodes_.facts(directory);
  if (!node || !facts || !facts->mount) return false;
  const MountPtr mount = latest(facts->mount);
  return mount &&
         (mount->snapshot || freshness_of(*node, mount).mode == Freshness::Mode::kImmutable);
}

// Invalidates each name of the mount that the kernel holds: owner, mode, freshness, and attributes
// of open files may have changed.
void CatalogFileSystem::mount_changed(const std::string& mount_path) {
  invalidate_root(mount_path, /*may_block=*/true);
  visit_mount(mount_path, [this](const std::vector<NodePtr>& nodes) {
    for (const NodePtr& node : nodes) expire_in_kernel(node);
  });
}

// Includes nodes of a removed mount below it, which may remain from a previous process.
void CatalogFileSystem::visit_mount(
    const std::string& mount_path,
    const std::function<void(const std::vector<NodePtr>&)>& visitor) {
  auto wanted = [&](const Node& node, const NodeFacts& facts) {
    return facts.mount ? facts.mount->entry.path == mount_path
                       : is_at_or_below(path_of(node), mount_path);
  };
  nodes_.visit(wanted, visitor);
}

void CatalogFileSystem::expire_in_kernel(const NodePtr& node) {
  if (node->id == kRootNode) return;
  nodes_.expire(node->id);
  notify({.parent = node->parent->id,
          .name = node->name,
          .node = node->id,
          .expire_only = true,
          .directory = node->kind == FileKind::kDirectory,
          .may_block = true});
}

void CatalogFileSystem::revalidate_held(const std::string& path) {
  if (!is_at_or_below(path, root_path_) && !is_at_or_below(root_path_, path)) return;
  begin_change();
  invalidate_root(path, /*may_block=*/true);
  // A snapshot does not change, and its exchange was reported.
  auto wanted = [&](const Node& node, const NodeFacts& facts) {
    return !(facts.mount && facts.mount->snapshot) && is_at_or_below(path_of(node), path);
  };
  nodes_.visit(wanted, [this](const std::vector<NodePtr>& nodes) {
    for (const NodePtr& node : nodes) {
      if (!matches_catalog(*node)) expire_in_kernel(node);
    }
  });
}

void CatalogFileSystem::bytes_dropped(const FileIdSet& files) {
  auto wanted = [&](const Node& node, const NodeFacts&) {
    return node.ref && files.contains(node.ref->id);
  };
  nodes_.visit(wanted, [this](const std::vector<NodePtr>& nodes) {
    for (const NodePtr& node : nodes) {
      notify({.parent = node->parent->id,
              .name = node->name,
              .node = node->id,
              .expire_only = true,
              .may_block = true,
              .pages = true});
    }
  });
}

// Never true for a directory: the kernel may keep a listing that the catalog has evicted.
bool CatalogFileSystem::matches_catalog(const Node& node) {
  if (node.kind == FileKind::kDirectory) return false;
  const auto entry = catalog_.try_lookup(path_of(node));
  return entry && *entry && (**entry).ref && (**entry).ref->id == node.ref->id;
}

// After a restart the root may not know its mount yet.
void CatalogFileSystem::invalidate_root(const std::string& mount_path, bool may_block) {
  if (!is_at_or_below(root_path_, mount_path)) return;
  nodes_.expire(kRootNode);
  invalidate_listing(kRootNode, may_block);
}

void CatalogFileSystem::listings_changed(const std::string& mount_path) {
  invalidate_root(mount_path, /*may_block=*/true);
  visit_mount(mount_path, [this](const std::vector<NodePtr>& nodes) {
    for (const NodePtr& node : nodes) {
      const bool directory = node->kind == FileKind::kDirectory;
      if (directory && node->id != kRootNode) invalidate_listing(node->id, /*may_block=*/true);
    }
  });
}

void CatalogFileSystem::invalidate_listing(NodeId directory, bool may_block) {
  notify({.parent = 0,
          .name = {},
          .node = directory,
          .expire_only = true,
          .directory = true,
          .may_block = may_block});
}

void CatalogFileSystem::notify(const KernelInvalidation& name) {
  std::shared_ptr<const std::function<void(const KernelInvalidation&)>> listener;
  {
    std::lock_guard lock(listener_mutex_);
    listener = listener_;
  }
  if (listener) (*listener)(name);
}

void CatalogFileSystem::set_invalidation_listener(
    std::function<void(const KernelInvalidation&)> listener) {
  std::lock_guard lock(listener_mutex_);
  if (listener) {
    listener_ =
        std::make_shared<const std::function<void(const KernelInvalidation&)>>(std::move(listener));
  } else {
    listener_ = nullptr;
  }
}

}  // namespace leat
