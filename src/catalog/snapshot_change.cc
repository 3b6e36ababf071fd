// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot_change.h"

#include "catalog/snapshot/snapshot_diff.h"
#include "catalog/snapshot_mount.h"

namespace leat {
namespace {

constexpr size_t kBatchMax = 1000;

// Notifies of paths of one mount; paths under nested mounts have not changed.
class ChangeNotifier {
 public:
  ChangeNotifier(Tree& tree, const MountPtr& mount) : tree_(tree), mount_(mount) {}
  ~ChangeNotifier() { tree_.notify(changes_); }

  void notify(const std::string& path, bool removed) {
    const MountTable::Route route = tree_.route(path);
    if (route.in_mount_table || !route.mount || route.mount->entry.path != mount_->entry.path)
      return;
    changes_.push_back({.parent = std::string(parent_path(path)),
                        .name = std::string(last_component(path)),
                        .removed = removed,
                        .snapshot_change = true,
                        .may_block = true});
    if (changes_.size() < kBatchMax) return;
    tree_.notify(changes_);
    changes_.clear();
  }
  void notify_below_mount(std::string_view below, bool removed) {
    notify(join_path(mount_->entry.path, below), removed);
  }

 private:
  Tree& tree_;
  const MountPtr mount_;
  std::vector<CatalogChange> changes_;
};

void notify_cached_directory(ChangeNotifier& notifier, const DirectoryPtr& directory,
                             const MountPtr& after) {
  if (!directory->loaded()) return;
  const ListingPtr old = directory->show({});
  Result<ListingPtr> now = list_snapshot(after, directory->path(), {});
  if (!now) now = Listing::of({}, Clock::time_point::max());
  Listing::Cursor was = old->from(0), is = (*now)->from(0);
  compare_names(was, is, [&](std::string_view name, NameChange change, bool) {
    notifier.notify(join_path(directory->path(), name), change == NameChange::kRemoved);
  });
}

// The present names of the store are unknown. An invalidated directory invalidates everything below
// it.
void notify_directories(ChangeNotifier& notifier, const Mount& before) {
  std::optional<Snapshot::Cursor> all = before.snapshot->below(before.root_in_snapshot);
  const size_t prefix = before.root_in_snapshot.empty() ? 0 : before.root_in_snapshot.size() + 1;
  while (all && all->advance()) {
    std::string_view path = std::string_view(all->entry().path).substr(prefix);
    const bool directory = all->entry().kind == FileKind::kDirectory;
    if (directory || path.find('/') == path.npos)
      notifier.notify_below_mount(path, /*removed=*/false);
  }
}

void notify_names(Tree& tree, const Tree::MountSwap& swap) {
  ChangeNotifier notifier(tree, swap.after);
  const Mount &before = *swap.before, &after = *swap.after;
  if (before.snapshot && after.snapshot) {
    auto notify = [&](const SnapshotDifference& one) {
      notifier.notify_below_mount(one.path, one.kind == SnapshotDifference::Kind::kRemoved);
      return true;
    };
    diff_snapshots(*before.snapshot, *after.snapshot, notify, before.root_in_snapshot,
                   after.root_in_snapshot);
  } else if (after.snapshot) {
    for (const DirectoryPtr& directory : swap.evicted)
      notify_cached_directory(notifier, directory, swap.after);
  } else if (before.snapshot) {
    notify_directories(notifier, before);
  }
}

// Listings cached by a kernel are invalidated as a whole, whatever names it has evicted. For a
// store, the kernel may hold names not cached here: from a previous process, or evicted for lack of
// room.
void notify_all(Tree& tree, const Tree::MountSwap& swap) {
  const bool from_store = swap.before->snapshot == nullptr;
  tree.notify({{.parent = swap.after->entry.path,
                .name = {},
                .whole = from_store,
                .listings = !from_store,
                .may_block = true}});
}

}  // namespace

void notify_snapshot_change(Tree& tree, const Tree::MountSwap& swap) {
  notify_names(tree, swap);
  notify_all(tree, swap);
}

}  // namespace leat
