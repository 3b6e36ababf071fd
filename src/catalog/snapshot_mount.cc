// SPDX-License-Identifier: Apache-2.0
#include "catalog/snapshot_mount.h"

#include <fmt/format.h>

#include "catalog/mount_table.h"
#include "catalog/snapshot_name_table.h"

namespace leat {
namespace {

// Returns the path in the snapshot; "" is the root.
std::string path_in_snapshot(const Mount& mount, std::string_view path) {
  std::string inside = mount.root_in_snapshot;
  std::string_view below = path_below_mount(mount, path);
  if (!inside.empty() && !below.empty()) inside += '/';
  return inside.append(below);
}

Status not_found(const Mount& mount, std::string_view path) {
  const SnapshotHead& head = mount.snapshot->head();
  return {StatusCode::kNotFound,
          fmt::format("{} does not exist: it is not in the snapshot {} of {}", path,
                      head.id.to_hex().substr(0, 12), head.source)};
}

Status missing(const Mount& mount, std::string_view path) {
  for (std::string_view at = parent_path(path); is_at_or_below(at, mount.entry.path);
       at = parent_path(at)) {
    if (at == mount.entry.path) break;
    std::optional<SnapshotEntry> above = mount.snapshot->find(path_in_snapshot(mount, at));
    if (above && above->kind == FileKind::kFile) {
      return {StatusCode::kNotDirectory, fmt::format("{} is a file, not a directory", at)};
    }
    if (above) break;
  }
  return not_found(mount, path);
}

}  // namespace

StoreId cluster_names_id() {
  return make_store_id("leat", "", "", "");
}

Result<Mount> with_snapshot(const Mount& mount, SnapshotPtr snapshot) {
  Mount other = mount;
  other.snapshot = snapshot;
  other.root_in_snapshot.clear();
  if (mount.snapshot == nullptr) {
    other.store_freshness = mount.entry.policy.freshness;
    if (other.store_freshness.mode == Freshness::Mode::kSnapshot) {
      other.store_freshness.mode = Freshness::Mode::kMaxAge;
    }
  }
  if (!snapshot) {
    other.entry.policy.freshness = other.store_freshness;
    return other;
  }
  const SnapshotHead& head = snapshot->head();
  const std::string shown = mount.entry.source.to_string();
  const bool of_cluster = mount.entry.source.scheme == "leat";
  if (head.store != mount.source->id() && !(of_cluster && head.store == cluster_names_id())) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("the snapshot is of {}, which is another store than that of {} at {}; "
                             "build one of {}",
                             head.source, shown, mount.entry.path, shown));
  }
  const std::string& prefix = mount.entry.source.prefix;
  const bool whole = head.prefix.empty() || head.prefix.ends_with('/');
  if (!whole || !prefix.starts_with(head.prefix)) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("the snapshot is of {} alone and {} shows {}; build one of {}",
                             head.source, mount.entry.path, shown, shown));
  }
  other.root_in_snapshot = prefix.substr(head.prefix.size());
  if (other.root_in_snapshot.ends_with('/')) other.root_in_snapshot.pop_back();
  other.entry.policy.freshness.mode = Freshness::Mode::kSnapshot;
  return other;
}

Mount with_policy(const Mount& mount, Policy policy) {
  Mount other = mount;
  other.entry.policy = std::move(policy);
  if (!mount.snapshot) return other;
  other.store_freshness = other.entry.policy.freshness;
  other.entry.policy.freshness.mode = Freshness::Mode::kSnapshot;
  return other;
}

Result<CatalogEntry> find_in_snapshot(const MountPtr& mount, std::string_view path) {
  const Snapshot& snapshot = *mount->snapshot;
  std::optional<SnapshotEntry> found = mount->root_in_snapshot.empty()
                                           ? snapshot.find(path_below_mount(*mount, path))
                                           : snapshot.find(path_in_snapshot(*mount, path));
  if (!found) return error(missing(*mount, path));
  CatalogEntry entry;
  entry.info.name = last_component(path);
  entry.info.kind = found->kind;
  entry.info.size = found->size;
  entry.info.mtime = to_mtime(found->mtime_ns.value_or(kNoTime));
  entry.mount = mount;
  entry.fresh_until = Clock::time_point::max();
  entry.index = found->number;
  entry.ref = make_file_ref(snapshot, mount->source->id(), *found,
                            mount->entry.policy.of(path_below_mount(*mount, path)));
  if (!entry.ref) entry.directory_key = directory_key_in_mount(*mount, path);
  return entry;
}

Result<ListingPtr> list_snapshot(const MountPtr& mount, std::string_view path,
                                 std::vector<CatalogEntry> mounted) {
  const std::string inside = path_in_snapshot(*mount, path);
  const bool is_root = path == mount->entry.path;
  const uint64_t skipped = inside.empty() ? mount->snapshot->head().skipped : 0;
  DirectoryPolicy policy = mount->entry.policy.of_directory(path_below_mount(*mount, path));
  NameTablePtr names = SnapshotNameTable::of(mount->snapshot, mount->source->id(), inside,
                                             std::move(policy), skipped);
  if (!names && !is_root && mounted.empty()) {
    Result<CatalogEntry> found = find_in_snapshot(mount, path);
    if (!found) return error(found.error());
    return error(StatusCode::kNotDirectory, fmt::format("{} is a file, not a directory", path));
  }
  Listing::Layers layers{.names = names,
                         .mount = mount,
                         .key = directory_key_in_mount(*mount, path),
                         .names_fresh_until = Clock::time_point::max(),
                         .overlays = {},
                         .fresh_until = Clock::time_point::max(),
                         .skipped = skipped};
  for (CatalogEntry& entry : mounted) layers.overlays.push_back({std::move(entry)});
  return std::make_shared<const Listing>(std::move(layers));
}

}  // namespace leat
