// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot_switch.h"

#include "catalog/snapshot/snapshot_diff.h"
#include "catalog/snapshot_mount.h"

namespace leat {
namespace {

constexpr size_t kToldAtOnce = 1000;

// Notifies of paths of one mount; paths under nested mounts have not changed.
class Teller {
 public:
  Teller(Tree& tree, const MountPtr& mount) : tree_(tree), mount_(mount) {}
  ~Teller() { tree_.tell(changes_); }

  void tell(const std::string& path, bool gone) {
    const MountTable::Route route = tree_.route(path);
    if (route.stands || !route.mount || route.mount->entry.path != mount_->entry.path) return;
    changes_.push_back({.parent = std::string(parent_path(path)),
                        .name = std::string(last_component(path)),
                        .gone = gone,
                        .exchange = true,
                        .patient = true});
    if (changes_.size() < kToldAtOnce) return;
    tree_.tell(changes_);
    changes_.clear();
  }
  void tell_below_mount(std::string_view below, bool gone) {
    tell(join_path(mount_->entry.path, below), gone);
  }

 private:
  Tree& tree_;
  const MountPtr mount_;
  std::vector<CatalogChange> changes_;
};

void tell_of_known(Teller& teller, const DirectoryPtr& directory, const MountPtr& after) {
  if (!directory->loaded()) return;
  const ListingPtr old = directory->show({});
  Result<ListingPtr> now = list_snapshot(after, directory->path(), {});
  if (!now) now = Listing::of({}, Clock::time_point::max());
  Listing::Cursor was = old->from(0), is = (*now)->from(0);
  compare_names(was, is, [&](std::string_view name, NameChange change, bool) {
    teller.tell(join_path(directory->path(), name), change == NameChange::kGone);
  });
}

// The present names of the store are unknown. An invalidated directory invalidates everything below
// it.
void tell_of_directories(Teller& teller, const Mount& before) {
  std::optional<Snapshot::Cursor> all = before.snapshot->below(before.root_in_snapshot);
  const size_t prefix = before.root_in_snapshot.empty() ? 0 : before.root_in_snapshot.size() + 1;
  while (all && all->advance()) {
    std::string_view path = std::string_view(all->entry().path).substr(prefix);
    const bool directory = all->entry().kind == FileKind::kDirectory;
    if (directory || path.find('/') == path.npos) teller.tell_below_mount(path, /*gone=*/false);
  }
}

void tell_of_names(Tree& tree, const Tree::Switch& done) {
  Teller teller(tree, done.after);
  const Mount &before = *done.before, &after = *done.after;
  if (before.snapshot && after.snapshot) {
    auto tell = [&](const SnapshotDifference& one) {
      teller.tell_below_mount(one.path, one.kind == SnapshotDifference::Kind::kRemoved);
      return true;
    };
    diff_snapshots(*before.snapshot, *after.snapshot, tell, before.root_in_snapshot,
                   after.root_in_snapshot);
  } else if (after.snapshot) {
    for (const DirectoryPtr& directory : done.forgotten)
      tell_of_known(teller, directory, done.after);
  } else if (before.snapshot) {
    tell_of_directories(teller, before);
  }
}

// Listings cached by a kernel are invalidated as a whole, whatever names it has evicted. For a
// store, the kernel may hold names not cached here: from a previous process, or evicted for lack of
// room.
void tell_of_all(Tree& tree, const Tree::Switch& done) {
  const bool from_store = done.before->snapshot == nullptr;
  tree.tell({{.parent = done.after->entry.path,
              .name = {},
              .whole = from_store,
              .listings = !from_store,
              .patient = true}});
}

}  // namespace

void tell_switch(Tree& tree, const Tree::Switch& done) {
  tell_of_names(tree, done);
  tell_of_all(tree, done);
}

}  // namespace leat
