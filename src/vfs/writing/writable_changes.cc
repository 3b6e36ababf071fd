// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: changes of names.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "catalog/mount_table.h"
#include "telemetry/log.h"
#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
// ---- where names are

Result<WritableFileSystem::Place> WritableFileSystem::place_of(const WrittenNodePtr& parent,
                                                               std::string_view name) const {
  Result<Place> place = place_in(full_path(*parent), name);
  return place;
}

Result<WritableFileSystem::Place> WritableFileSystem::place_in(const std::string& directory,
                                                               std::string_view name) const {
  Place place;
  place.path = join_path(directory, name);
  for (const MountPtr& mount : catalog_.mounts()) {
    if (mount->entry.path == place.path || is_at_or_below(mount->entry.path, place.path)) {
      return error(StatusCode::kBusy,
                   fmt::format("{} has a mount: unmount {} first", place.path, mount->entry.path));
    }
    if (!is_at_or_below(directory, mount->entry.path)) continue;
    const bool nearer = !place.mount || place.mount->entry.path.size() < mount->entry.path.size();
    if (nearer) place.mount = mount;
  }
  if (!place.mount) {
    return error(
        StatusCode::kReadOnly,
        fmt::format("nothing is mounted at {}; 'leat mount' shows a store there", directory));
  }
  if (place.mount->snapshot) {
    return error(StatusCode::kReadOnly,
                 fmt::format("cannot change {}: {} shows a snapshot, which does not change; mount "
                             "it without --snapshot",
                             place.path, place.mount->entry.path));
  }
  place.directory_key = directory_key_in_mount(*place.mount, directory);
  place.key = place.directory_key + std::string(name);
  if (!place.capabilities().writes) {
    return error(StatusCode::kReadOnly,
                 fmt::format("cannot change {}: {}; change it in its store, and "
                             "'leat refresh' shows that",
                             place.path, place.mount->source->why_read_only(place.key)));
  }
  return place;
}

Result<WritableFileSystem::Place> WritableFileSystem::place_at(std::string_view path) const {
  const std::string full = join_path(root_path_, path_below(path, "/"));
  return place_in(std::string(parent_path(full)), last_component(full));
}

Result<WritableFileSystem::Place> WritableFileSystem::stored_place_of(const WrittenNodePtr& parent,
                                                                      std::string_view name) const {
  std::string path;
  {
    std::lock_guard lock(nodes_.mutex());
    path = nodes_.stored_path_of(*parent, name);
  }
  return place_at(path);
}

Task<> WritableFileSystem::refresh(Context context, std::string path) {
  Result<RefreshResult> refreshed = co_await catalog_.refresh_name(context, path);
  if (!refreshed) catalog_.invalidate(path);
}

void WritableFileSystem::note_changed(WrittenNode& directory) {
  const WallTime now = options_.wall_clock();
  std::lock_guard lock(nodes_.mutex());
  directory.changed = true;
  directory.mtime = directory.ctime = now;
}

Task<Result<WrittenNodes::Hold>> WritableFileSystem::named(Context context, NodeId parent,
                                                           std::string name) {
  LEAT_CO_TRY(const NodeAttributes found, co_await lookup(context, parent, name));
  WrittenNodePtr node = find(found.node);
  if (!node) co_return forgotten(found.node);
  co_return WrittenNodes::Hold(nodes_, std::move(node));
}

// ---- new names

Task<Result<>> WritableFileSystem::require_missing(Context context, NodeId parent, std::string name,
                                                   Place place) {
  const Result<NodeAttributes> present = co_await lookup(context, parent, name);
  if (present) {
    nodes_.forget(present->node, 1);
    co_return error(StatusCode::kExists, place.path + " exists");
  }
  if (present.error().code() != StatusCode::kNotFound) co_return Error(present.error());
  co_return Result<>();
}

Task<Result<CreatedFile>> WritableFileSystem::create(Context context, NodeId id, std::string name,
                                                     NewName as, int flags) {
  const WrittenNodePtr parent = find(id);
  if (!parent) co_return forgotten(id);
  LEAT_CO_CHECK_OK(place_of(parent, name));
  as = inherit_group(*parent, as, /*is_directory=*/false);
  Result<NodeAttributes> found = co_await lookup(context, id, name);
  if (found) {
    Result<std::shared_ptr<OpenFile>> opened = error(StatusCode::kExists, name + " exists");
    if ((flags & O_EXCL) == 0) opened = co_await open(context, found->node, flags);
    if (!opened) {
      nodes_.forget(found->node, 1);
      co_return Error(opened.error());
    }
    co_return CreatedFile{*found, *opened};
  }
  if (found.error().code() != StatusCode::kNotFound) co_return Error(found.error());
  auto make = [this] {
    return StagedFile::create(options_.staging_directory, executor_, nullptr, 0);
  };
  LEAT_CO_TRY(std::shared_ptr<StagedFile> staged, co_await executor_.blocking(make));
  WrittenNodePtr node;
  CreatedFile created;
  const WallTime now = options_.wall_clock();
  {
    std::lock_guard lock(nodes_.mutex());
    if (!parent->linked) co_return forgotten(id);
    if (nodes_.child(*parent, name)) co_return error(StatusCode::kExists, name + " exists");
    node = nodes_.add(parent, name, FileKind::kFile);
    node->in_store = false;
    node->unsaved = true;
    node->saved_changes = staged->changes();
    node->staged = std::move(staged);
    node->mode = as.mode;
    node->uid = as.uid;
    node->gid = as.gid;
    node->attributes_known = true;
    node->atime = node->mtime = node->ctime = now;
    node->lookups = node->opens = 1;
    created.attributes = describe(*node, {});
  }
  note_changed(*parent);
  created.file = file_of(node);
  co_return created;
}

Task<Result<NodeAttributes>> WritableFileSystem::make_directory(Context context, NodeId id,
                                                                std::string name, NewName as) {
  const WrittenNodePtr parent = find(id);
  if (!parent) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  LEAT_CO_CHECK_OK(co_await require_missing(context, id, name, place));
  {
    std::lock_guard lock(nodes_.mutex());
    if (!parent->linked) co_return forgotten(id);
  }
  as = inherit_group(*parent, as, /*is_directory=*/true);
  if (is_behind(place)) {
    Result<NodeAttributes> made = co_await make_directory_behind(context, parent, name, as);
    co_return made;
  }
  WriteRequest request{.key = place.as_directory()};
  LEAT_CO_TRY(SourceObject object,
              co_await place.mount->source->write(context, std::move(request), {}));
  // Names may be cached from a directory that had the path before.
  catalog_.invalidate(place.path);
  object.kind = FileKind::kDirectory;
  co_await learn_change(context, place, std::move(object));
  LEAT_CO_TRY(const NodeAttributes made, co_await lookup(context, id, name));
  note_changed(*parent);
  {
    std::lock_guard lock(nodes_.mutex());
    count_directory(*parent, 1);
    const WrittenNodePtr node = nodes_.find(made.node);
    if (node && !node->links) node->links = 2;
  }
  if (place.capabilities().sets_attributes) {
    AttributeChange change{.mode = as.mode};
    if (made.uid != as.uid) change.uid = as.uid;
    if (made.gid != as.gid) change.gid = as.gid;
    Result<NodeAttributes> set = co_await set_attributes(context, made.node, change);
    co_return set ? *set : made;
  }
  const WallTime now = options_.wall_clock();
  std::lock_guard lock(nodes_.mutex());
  const WrittenNodePtr node = nodes_.find(made.node);
  if (!node) co_return made;
  node->mode = as.mode;
  node->uid = as.uid;
  node->gid = as.gid;
  node->atime = node->mtime = node->ctime = now;
  co_return describe(*node, made);
}

// ---- removed names

Task<Result<>> WritableFileSystem::keep_directory(Context context, Place place) {
  Source& source = *place.mount->source;
  const std::string root = directory_key_in_mount(*place.mount, place.mount->entry.path);
  if (place.capabilities().real_directories || place.directory_key == root) co_return Result<>();
  const std::string directory(parent_path(place.path));
  uint64_t names = 0;
  if (const ListingPtr listing = catalog_.last_list(directory)) {
    for (Listing::Cursor cursor = listing->from(0); names < 2 && cursor.next();) ++names;
  }
  if (names > 1) co_return Result<>();
  WriteRequest request{.key = place.directory_key};
  Result<SourceObject> kept = co_await source.write(context, std::move(request), {});
  if (!kept) co_return Error(kept.error());
  co_return Result<>();
}

Task<Result<>> WritableFileSystem::remove_file(Context context, NodeId id, std::string name) {
  const WrittenNodePtr parent = find(id);
  if (!parent) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  LEAT_CO_TRY(const WrittenNodes::Hold held, co_await named(context, id, name));
  const WrittenNodePtr& node = held.node();
  if (node->is_directory()) co_return error(StatusCode::kIsDirectory, place.path);
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  co_await keep_content(context, node);
  if (is_behind(place)) {
    Result<> removed = co_await remove_behind(context, parent, node, name);
    drop_saved(node);
    if (removed) note_changed(*parent);
    co_return removed;
  }
  bool in_store;
  {
    std::lock_guard lock(nodes_.mutex());
    in_store = node->in_store || node->version.known();
  }
  if (in_store) {
    LEAT_CO_CHECK_OK(co_await keep_directory(context, place));
    const Result<> removed = co_await place.mount->source->remove(context, {.keys = {place.key}});
    if (removed) {
      co_await learn_change(Context::background(), place, std::nullopt);
    } else {
      co_await refresh(Context::background(), place.path);
      drop_saved(node);
      co_return removed;
    }
  }
  {
    std::lock_guard lock(nodes_.mutex());
    note_removed(*node, *parent, name);
    node->ctime = options_.wall_clock();
    ++parent->changes;
  }
  co_await find_version_of_names(Context::background(), node);
  drop_saved(node);
  note_changed(*parent);
  co_return Result<>();
}

Task<Result<>> WritableFileSystem::require_empty(Context context, WrittenNodePtr directory,
                                                 Place place) {
  bool empty;
  {
    std::lock_guard lock(nodes_.mutex());
    empty = std::ranges::none_of(directory->children,
                                 [](const auto& child) { return child.second->is_own(); });
  }
  std::string token;
  while (empty) {
    ListRequest request{.prefix = place.as_directory(), .token = token};
    LEAT_CO_TRY(const ListPage page,
                co_await place.mount->source->list(context, std::move(request)));
    empty = page.objects.empty() && page.skipped == 0;
    if (page.next_token.empty()) break;
    token = page.next_token;
  }
  if (empty) co_return Result<>();
  co_return error(StatusCode::kNotEmpty, place.path + " is not empty");
}

Task<Result<>> WritableFileSystem::remove_directory(Context context, NodeId id, std::string name) {
  const WrittenNodePtr parent = find(id);
  if (!parent) co_return forgotten(id);
  LEAT_CO_TRY(const Place place, place_of(parent, name));
  LEAT_CO_TRY(const WrittenNodes::Hold held, co_await named(context, id, name));
  const WrittenNodePtr& node = held.node();
  if (!node->is_directory()) co_return error(StatusCode::kNotDirectory, place.path);
  if (is_behind(place)) {
    if (!co_await shows_nothing(context, node)) {
      co_return error(StatusCode::kNotEmpty, place.path + " is not empty");
    }
    Result<> removed = co_await remove_behind(context, parent, node, name);
    if (removed) note_changed(*parent);
    co_return removed;
  }
  LEAT_CO_CHECK_OK(co_await require_empty(context, node, place));
  LEAT_CO_CHECK_OK(co_await keep_directory(context, place));
  const std::string key = place.as_directory();
  LEAT_CO_CHECK_OK(co_await place.mount->source->remove(context, {.keys = {key}}));
  co_await refresh(context, place.path);
  {
    std::lock_guard lock(nodes_.mutex());
    note_removed(*node, *parent, name);
  }
  note_changed(*parent);
  co_return Result<>();
}

// ---- attributes

Task<Result<NodeAttributes>> WritableFileSystem::set_attributes(Context context, NodeId id,
                                                                AttributeChange change) {
  const WrittenNodePtr node = find(id);
  if (!node) co_return forgotten(id);
  if (change.size) {
    if (node->is_directory()) co_return error(StatusCode::kIsDirectory, full_path(*node));
    {
      std::lock_guard lock(nodes_.mutex());
      ++node->opens;  // as an open, a truncation and a close
    }
    Result<bool> done = false;
    while (done && !*done) {
      const Result<> staged = co_await stage(context, node, *change.size == 0);
      if (staged) {
        done = co_await staged_of(*node)->truncate(context, *change.size);
      } else {
        done = Error(staged.error());
      }
    }
    if (done) note_written(*node);
    const Result<> closed = co_await close(context, node);
    if (!done) co_return Error(done.error());
    if (!closed) co_return Error(closed.error());
  }
  auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
  if (!permit) co_return Error(permit.error());
  note_direct_writes(*node);
  {
    const WallTime now = options_.wall_clock();
    std::lock_guard lock(nodes_.mutex());
    end_stream(*node);
    if (change.mode) node->mode = *change.mode;
    if (change.uid) node->uid = *change.uid;
    if (change.gid) node->gid = *change.gid;
    if (change.atime) node->atime = *change.atime;
    if (change.mtime) node->mtime = *change.mtime;
    node->ctime = now;
  }
  if (change.mode || change.uid || change.gid || change.atime || change.mtime) {
    LEAT_CO_CHECK_OK(co_await save_attributes(context, node));
  }
  Result<NodeAttributes> now = co_await attributes(context, id);
  co_return now;
}

}  // namespace leat
