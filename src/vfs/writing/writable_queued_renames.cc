// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: renames that are pending changes. Until the store has done one, the node is
// found below under its former name; what is in a directory follows, since its parent is found so.
#include <fmt/format.h>

#include <utility>

#include "catalog/mount_table.h"
#include "telemetry/log.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {

bool WritableFileSystem::renames_in_store(const WrittenNode& node, const Place& from) const {
  {
    // Changes of it are pending under an earlier name.
    std::lock_guard lock(nodes_.mutex());
    if (WrittenNodes::is_renamed(node)) return true;
  }
  if (!node.is_directory() || mode_of(from) == WriteMode::kLocal) return false;
  // The rename publishes a directory as a whole where the store can do that.
  const SourceCapabilities store = from.capabilities();
  if (store.renames && store.real_directories) return true;
  return uploads_->has_renames(below_root(from.path));
}

Task<Result<WritableFileSystem::RenamedBehind>> WritableFileSystem::queue_rename(
    WrittenNodePtr node, WrittenNodePtr replaced, Place from, Place to) {
  if (mode_of(from) == WriteMode::kLocal || mode_of(to) == WriteMode::kLocal) {
    co_return error(
        StatusCode::kCrossDevice,
        fmt::format("{} is in the store, and write=local keeps changes from there; copy "
                    "it and remove it",
                    from.path));
  }
  for (const QueuedChangePtr& pending : uploads_->changes_below(below_root(from.path))) {
    if (!pending->local) continue;
    co_return error(
        StatusCode::kCrossDevice,
        fmt::format("{} has files that are kept from the store (write=local); copy it and "
                    "remove it",
                    from.path));
  }
  const SourceCapabilities store = from.capabilities();
  if (node->is_directory() && !(store.renames && store.real_directories) && !store.copies) {
    co_return error(StatusCode::kCrossDevice,
                    fmt::format("{} cannot rename directories; copy {} and remove it",
                                from.mount->source->name(), from.path));
  }
  auto change = std::make_shared<QueuedChange>();
  change->number = journal_->next_number();
  change->kind = ChangeKind::kRename;
  change->from = below_root(from.path);
  change->path = below_root(to.path);
  change->mount = mount_of(to);
  change->directory = node->is_directory();
  change->node = node;
  change->since = options_.wall_clock();
  change->condition.absent = replaced == nullptr;
  LEAT_CO_CHECK_OK(co_await commit({.insert = {{*change}}}));
  uploads_->add_held(change);
  std::lock_guard lock(nodes_.mutex());
  change->old_parent = node->parent;
  node->parent->removed[node->name] = change->number;
  node->former.push_back({{node->parent, node->name}, change->number});
  co_return RenamedBehind{.pending = change};
}

Task<Result<>> WritableFileSystem::send_rename(Context context, QueuedChangePtr change, Place to) {
  LEAT_CO_TRY(const Place from, place_at(change->from));
  LEAT_CO_CHECK_OK(co_await fill_staged(context, change->node));
  Source& source = *to.mount->source;
  const std::string target = change->directory ? to.as_directory() : to.key;
  // The empty directory that it replaces; what an earlier attempt put there stays.
  if (change->directory && !change->condition.absent) {
    LEAT_CO_TRY(const bool is_left, co_await has_in_store(context, from, /*directory=*/true));
    Result<> removed;
    if (is_left) removed = co_await source.remove(context, {.keys = {target}});
    if (!removed && removed.error().code() != StatusCode::kNotEmpty) co_return removed;
  }
  LEAT_CO_CHECK_OK(co_await keep_directory(context, from));
  Result<> renamed = co_await rename_stored(context, change, from, to);
  if (!renamed && renamed.error().code() == StatusCode::kNotFound) {
    // An earlier attempt may have done it.
    LEAT_CO_TRY(const bool is_left, co_await has_in_store(context, from, change->directory));
    LEAT_CO_TRY(const bool is_there, co_await has_in_store(context, to, change->directory));
    if (is_left) co_return renamed;
    if (!is_there) {
      log::warning("{} was renamed to {} here, but the store has not {} any more", from.path,
                   to.path, from.path);
    }
    renamed = co_await end_rename(context, change, from, to, NewVersions());
  }
  if (!renamed) {
    // It may be done all the same.
    co_await refresh_own(context, from.path);
    co_await refresh_own(context, to.path);
    co_return error(
        renamed.error().with_context(fmt::format("cannot rename {} to {}", from.path, to.path)));
  }
  LEAT_CO_CHECK_OK(co_await commit({.erase = {change->number}}));
  {
    std::lock_guard lock(nodes_.mutex());
    WrittenNode& parent = *change->old_parent;
    const auto hidden = parent.removed.find(last_component(change->from));
    if (hidden != parent.removed.end() && hidden->second == change->number) {
      parent.removed.erase(hidden);
    }
    ++parent.changes;
  }
  nodes_.drop_if_unused(change->old_parent->id);
  nodes_.drop_if_unused(change->node->id);
  co_return Result<>();
}

// A copy that has not begun would find nothing under the old key.
Task<Result<>> WritableFileSystem::fill_staged(Context context, WrittenNodePtr node) {
  std::vector<WrittenNodePtr> staged = staged_below(*node);
  staged.push_back(node);
  for (const WrittenNodePtr& one : staged) {
    if (const std::shared_ptr<StagedFile> content = staged_of(*one)) {
      LEAT_CO_CHECK_OK(co_await content->fill(context));
    }
  }
  co_return Result<>();
}

Task<Result<bool>> WritableFileSystem::has_in_store(Context context, Place place, bool directory) {
  Source& source = *place.mount->source;
  const std::string key = directory ? place.as_directory() : place.key;
  const Result<SourceObject> found = co_await source.stat(context, {.key = key});
  if (found) co_return true;
  if (found.error().code() != StatusCode::kNotFound) co_return Error(found.error());
  if (!directory || place.capabilities().real_directories) co_return false;
  LEAT_CO_TRY(const ListPage page, co_await source.list(context, {.prefix = key}));
  co_return !page.objects.empty();
}

// Where names are copied, readers find the copies before the old ones go.
Task<Result<>> WritableFileSystem::rename_stored(Context context, QueuedChangePtr change,
                                                 Place from, Place to) {
  Source& source = *to.mount->source;
  const SourceCapabilities store = to.capabilities();
  NewVersions versions;
  if (store.renames && !change->directory) {
    LEAT_CO_TRY(const SourceObject object,
                co_await rename_natively(context, from, to, /*no_replace=*/false));
    versions[""] = object.version;
    Result<> ended = co_await end_rename(context, change, from, to, std::move(versions));
    co_return ended;
  }
  if (store.renames && store.real_directories) {
    LEAT_CO_CHECK_OK(
        co_await source.rename(context, {.from = from.as_directory(), .to = to.as_directory()}));
    Result<> ended = co_await end_rename(context, change, from, to, std::nullopt);
    co_return ended;
  }
  if (!change->directory) {
    CopyRequest request{.from = from.key, .to = to.key};
    LEAT_CO_TRY(const SourceObject copied, co_await source.copy(context, std::move(request)));
    versions[""] = copied.version;
    LEAT_CO_CHECK_OK(co_await end_rename(context, change, from, to, versions));
    LEAT_CO_CHECK_OK(co_await fill_staged(context, change->node));
    LEAT_CO_CHECK_OK(co_await source.remove(context, {.keys = {from.key}}));
    co_await refresh_own(context, from.path);
    co_return Result<>();
  }
  LEAT_CO_TRY(const CopiedNamesPtr copied, co_await list_to_copy(context, from, SIZE_MAX));
  if (copied->names.size() == 1) {
    const Result<SourceObject> marker = co_await source.stat(context, {.key = from.as_directory()});
    if (!marker) co_return Error(marker.error());
  }
  co_await copy_names(context, from, to, copied);
  if (copied->failure) co_return Error(*copied->failure);
  for (const auto& [name, version] : copied->versions) {
    if (!name.empty() && !name.ends_with('/')) versions["/" + name] = version;
  }
  // The versions of names that an earlier attempt copied are not known.
  LEAT_CO_CHECK_OK(co_await end_rename(context, change, from, to, versions));
  LEAT_CO_CHECK_OK(co_await fill_staged(context, change->node));
  LEAT_CO_CHECK_OK(co_await remove_names(context, from, copied));
  co_await refresh_own(context, from.path);
  co_return Result<>();
}

Task<Result<>> WritableFileSystem::end_rename(Context context, QueuedChangePtr change, Place from,
                                              Place to, std::optional<NewVersions> versions) {
  // First, so that no lookup finds the new name missing, or a directory that had it before.
  if (change->directory) catalog_.invalidate(to.path);
  co_await refresh_own(context, to.path);
  std::vector<WrittenNodePtr> files;
  {
    std::lock_guard lock(nodes_.mutex());
    WrittenNode& node = *change->node;
    for (const auto& [path, file] : nodes_.stored_below(node)) {
      nodes_.outdate_below(*file);
      // A new file may have the name since, which the store gets later.
      if (!versions || !file->in_store) continue;
      const auto found = versions->find(path);
      const bool is_known = found != versions->end() && !file->replaces;
      file->version = is_known ? found->second : Version();
      files.push_back(file);
    }
    const bool is_first = !node.former.empty() && node.former.front().rename == change->number;
    if (is_first) node.former.pop_front();
    node.in_store = true;
    if (node.parent) ++node.parent->changes;
    nodes_.outdate_below(node);
    nodes_.new_epoch();
  }
  co_await refresh_own(context, from.path);
  // Where a version includes the time of the rename.
  bool has_place;
  {
    std::lock_guard lock(nodes_.mutex());
    has_place = !WrittenNodes::is_renamed(*change->node);
  }
  if (has_place) co_await find_version_of_names(context, change->node);
  WriteJournal::Edits edits;
  for (const QueuedChangePtr& save : uploads_->saves_of(files)) {
    std::lock_guard lock(nodes_.mutex());
    edits.versions.push_back({save->number, save->node->version});
  }
  if (edits.versions.empty()) co_return Result<>();
  Result<> durable = co_await commit(std::move(edits));
  co_return durable;
}

void WritableFileSystem::restore_rename(const QueuedChangePtr& change) {
  const WrittenNodePtr parent = directory_at(parent_path(change->from));
  const WrittenNodePtr new_parent = directory_at(parent_path(change->path));
  const std::string name(last_component(change->from));
  const std::string new_name(last_component(change->path));
  WrittenNodePtr node = nodes_.child(*parent, name);
  if (!node) {
    node = nodes_.add(parent, name, change->directory ? FileKind::kDirectory : FileKind::kFile);
  }
  const WrittenNodePtr replaced = nodes_.child(*new_parent, new_name);
  if (replaced) nodes_.unlink(*replaced);
  node->former.push_back({{parent, name}, change->number});
  nodes_.move(*node, new_parent, new_name);
  parent->removed[name] = change->number;
  change->node = node;
  change->old_parent = parent;
}

}  // namespace leat
