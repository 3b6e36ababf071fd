// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: pending changes on their way to the store, and after a restart.
#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "catalog/mount_table.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "vfs/writing/staged/write_outcome.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

Counter sent_total("leat_vfs_sent_changes_total", "Changes that the store got after their answer",
                   "", Stability::kExperimental);

}  // namespace

std::string WritableFileSystem::mount_of(const Place& place) {
  const MountEntry& mount = place.mount->entry;
  return fmt::format("{} at {}", mount.source.to_string(), mount.path);
}

Result<WritableFileSystem::Place> WritableFileSystem::place_of_change(
    const PendingChange& change) const {
  LEAT_TRY(Place place, place_at(change.path));
  if (change.mount == mount_of(place)) return place;
  return error(
      StatusCode::kUnavailable,
      fmt::format("{} was written to {}, which is not mounted there", place.path, change.mount));
}

Task<Result<>> WritableFileSystem::send_change(Context context, QueuedChangePtr change) {
  LEAT_CO_TRY(const Place place, place_of_change(*change));
  Result<> sent;
  switch (change->kind) {
    case ChangeKind::kSave:
      sent = co_await send_save(context, change, place);
      break;
    case ChangeKind::kMakeDirectory:
      sent = co_await send_directory(context, change, place);
      break;
    case ChangeKind::kRemove:
      sent = co_await send_removal(context, change, place);
      break;
    case ChangeKind::kRename:
      sent = co_await send_rename(context, change, place);
      break;
  }
  if (sent) sent_total.add();
  co_return sent;
}

Task<Result<>> WritableFileSystem::send_save(Context context, QueuedChangePtr change, Place place) {
  const WrittenNodePtr node = change->node;
  WriteRequest request{.key = place.key, .attributes = change->attributes};
  {
    std::lock_guard lock(nodes_.mutex());
    request.condition = condition_of(*node);
    // A node that was replaced since does not know that it replaces another one.
    request.condition.absent = request.condition.absent && change->condition.absent;
  }
  LEAT_CO_TRY(const std::shared_ptr<StagedFile> content, co_await content_to_send(change));
  Result<SourceObject> object = co_await send(context, place, std::move(request), content);
  if (!object && is_condition_failure(object.error().code())) {
    const Result<> kept = co_await keep_conflict(context, node, place, content, object.error());
    bool beside;
    {
      std::lock_guard lock(nodes_.mutex());
      beside = node->conflicted;
    }
    if (!beside) co_return kept;
    record_error(node->id, {}, kept.error(), {});
    co_await end_save(node, change);
    Result<> durable = co_await commit({.erase = {change->number}});
    if (durable) drop_content(*change);
    co_return durable;
  }
  if (!object) {
    co_return error(object.error().with_context(fmt::format("cannot save {}", place.path)));
  }
  std::vector<WrittenNodePtr> made, saved;
  {
    std::lock_guard lock(nodes_.mutex());
    // A new file may have the name by now, after a rename.
    const WrittenNodePtr shown = node_at(change->path);
    for (const WrittenNodePtr& one : {node, shown}) {
      if (!one || one->is_directory()) continue;
      if (one != node && one->queued != change->number) continue;
      note_object(*one, *object);
      one->in_store = true;
      one->replaces = false;
      saved.push_back(one);
      if (one->parent) ++one->parent->changes;
      // A prefix is a directory, whether it was made or not.
      for (WrittenNodePtr at = one->parent; at && one->linked; at = at->parent) {
        if (at->queued != 0 || at->in_store) continue;
        at->in_store = true;
        made.push_back(at);
      }
    }
  }
  for (const WrittenNodePtr& directory : made) {
    const Result<Place> stored = stored_place_of_node(directory);
    if (stored) co_await refresh(context, stored->path);
  }
  co_await publish(context, node, place, *object);
  const FileRefPtr ref = version_of(node->id);
  if (ref && ref->version == object->version) {
    co_await fill_cache(context, ref, content, content->changes());
  }
  co_await end_save(node, change);
  WriteJournal::Edits edits{.erase = {change->number}};
  for (const QueuedChangePtr& next : uploads_->saves_of(saved)) {
    edits.versions.push_back({next->number, object->version});
  }
  const Result<> durable = co_await commit(std::move(edits));
  if (durable) drop_content(*change);
  co_return durable;
}

// From now on the store's content is shown, unless a program has the file open.
Task<> WritableFileSystem::end_save(WrittenNodePtr node, QueuedChangePtr change) {
  {
    // First: a close that ends now must not park what is kept open next.
    std::lock_guard lock(nodes_.mutex());
    if (node->queued == change->number) node->queued = 0;
  }
  // Its content goes: a program that reads it goes on with the open file.
  const Result<> kept = co_await change->staged->keep_open();
  if (!kept) log::warning("{} cannot be read any more: {}", change->path, kept.error().to_string());
  drop_saved(node);
}

Task<Result<>> WritableFileSystem::send_directory(Context context, QueuedChangePtr change,
                                                  Place place) {
  Source& source = *place.mount->source;
  const std::string key = place.as_directory();
  LEAT_CO_CHECK_OK(co_await source.write(context, {.key = key}, {}));
  if (place.capabilities().sets_attributes) {
    AttributesRequest request{.key = key, .attributes = change->attributes};
    LEAT_CO_CHECK_OK(co_await source.set_attributes(context, std::move(request)));
  }
  co_await refresh(context, place.path);
  LEAT_CO_CHECK_OK(co_await commit({.erase = {change->number}}));
  std::vector<WrittenNodePtr> nodes{change->node};
  {
    std::lock_guard lock(nodes_.mutex());
    // A rename may have put another directory there.
    const WrittenNodePtr shown = node_at(change->path);
    const bool is_other = shown && shown != change->node && shown->queued == change->number;
    if (is_other) nodes.push_back(shown);
    for (const WrittenNodePtr& node : nodes) {
      if (!node->is_directory()) continue;
      node->in_store = true;
      if (node->queued == change->number) node->queued = 0;
      if (node->parent) ++node->parent->changes;
    }
  }
  for (const WrittenNodePtr& node : nodes) nodes_.drop_if_unused(node->id);
  co_return Result<>();
}

Task<Result<>> WritableFileSystem::send_removal(Context context, QueuedChangePtr change,
                                                Place place) {
  LEAT_CO_CHECK_OK(co_await keep_directory(context, place));
  const std::string key = change->directory ? place.as_directory() : place.key;
  const Result<> removed = co_await place.mount->source->remove(context, {.keys = {key}});
  if (!removed && removed.error().code() == StatusCode::kNotEmpty) {
    log::warning("{} was removed here, but others have put files in it: it stays", place.path);
  } else if (!removed) {
    co_return error(removed.error().with_context(fmt::format("cannot remove {}", place.path)));
  }
  if (change->directory) {
    co_await refresh(context, place.path);
  } else {
    co_await learn_change(context, place, std::nullopt);
  }
  LEAT_CO_CHECK_OK(co_await commit({.erase = {change->number}}));
  const WrittenNodePtr parent = change->node;
  {
    std::lock_guard lock(nodes_.mutex());
    const auto hidden = parent->removed.find(last_component(change->path));
    if (hidden != parent->removed.end() && hidden->second == change->number) {
      parent->removed.erase(hidden);
    }
    ++parent->changes;
  }
  nodes_.drop_if_unused(parent->id);
  co_return Result<>();
}

// ---- after a restart

WrittenNodePtr WritableFileSystem::node_at(std::string_view path) {
  WrittenNodePtr node = nodes_.root();
  while (node && !path.empty()) {
    path.remove_prefix(1);
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(name.size());
    node = nodes_.child(*node, name);
  }
  return node;
}

WrittenNodePtr WritableFileSystem::directory_at(std::string_view path) {
  if (path == "/") return nodes_.root();
  if (WrittenNodePtr present = node_at(path)) return present;
  const WrittenNodePtr parent = directory_at(parent_path(path));
  return nodes_.add(parent, std::string(last_component(path)), FileKind::kDirectory);
}

Result<> WritableFileSystem::restore() {
  if (options_.journal_directory.empty() || !WriteJournal::exists(options_.journal_directory)) {
    return {};
  }
  LEAT_CHECK_OK(need_journal());
  LEAT_TRY(const std::vector<PendingChange> changes, journal_->load());
  std::vector<QueuedChangePtr> restored;
  for (const PendingChange& change : changes) restored.push_back(restore_change(change));
  // Sent from here on: each change is restored on top of all before it. The last daemon may have
  // sent it.
  for (const QueuedChangePtr& change : restored) uploads_->add(change, /*begun=*/!change->local);
  const UnsentChanges unsent = uploads_->unsent();
  if (unsent.changes > 0) {
    log::info("{} has {} changes with {} that its store does not have yet; they are sent now",
              root_path_, unsent.changes, format_bytes(unsent.bytes));
  }
  return {};
}

QueuedChangePtr WritableFileSystem::restore_change(const PendingChange& pending) {
  auto change = std::make_shared<QueuedChange>();
  static_cast<PendingChange&>(*change) = pending;
  if (change->kind == ChangeKind::kSave && !change->is_small) {
    // A program may have written to it after it was kept.
    struct stat now{};
    if (::stat(journal_->content_path(change->content).c_str(), &now) == 0) {
      change->size = static_cast<uint64_t>(now.st_size);
    }
  }
  {
    std::lock_guard lock(nodes_.mutex());
    const WrittenNodePtr parent = directory_at(parent_path(change->path));
    const std::string name(last_component(change->path));
    WrittenNodePtr node = nodes_.child(*parent, name);
    if (change->kind == ChangeKind::kRename) {
      restore_rename(change);
    } else if (change->kind == ChangeKind::kRemove) {
      if (node) nodes_.unlink(*node);
      parent->removed[name] = change->number;
      change->node = parent;
    } else {
      const bool directory = change->kind == ChangeKind::kMakeDirectory;
      if (node && node->is_directory() != directory) {
        nodes_.unlink(*node);  // removed meanwhile
        node = nullptr;
      }
      if (!node) {
        node = nodes_.add(parent, name, directory ? FileKind::kDirectory : FileKind::kFile);
        node->in_store = !directory && !change->condition.absent;
        node->version = change->condition.version;
      }
      change->node = node;
      node->queued = change->number;
      if (!directory) node->staged = StagedFile::sealed(executor_, change->size, reopener(*change));
      change->staged = node->staged;
      node->attributes_known = true;
      if (change->attributes.mode) node->mode = *change->attributes.mode & 07777;
      node->uid = change->attributes.uid;
      node->gid = change->attributes.gid;
      node->atime = change->attributes.atime;
      node->mtime = change->attributes.mtime;
      node->ctime = change->attributes.ctime;
      node->is_symlink = change->attributes.mode && S_ISLNK(*change->attributes.mode);
      node->saved_changes = node->staged ? node->staged->changes() : 0;
    }
  }
  return change;
}

// ---- the operator's view

Task<Result<>> WritableFileSystem::flush(Context context, std::string path) {
  // A save that has begun is not to begin again with each call.
  Context unlimited = context;
  unlimited.deadline = Clock::time_point::max();
  LEAT_CO_CHECK_OK(co_await save_all(unlimited));
  // A path above the root of this mount means all of it.
  const std::string below = is_at_or_below(path, root_path_) ? below_root(path) : std::string();
  Result<> done = co_await drain(context, below == "/" ? std::string() : below);
  co_return done;
}

UnsentChanges WritableFileSystem::unsent() const {
  return has_journal_ ? uploads_->unsent() : UnsentChanges{};
}

Task<> WritableFileSystem::stop() {
  if (!has_journal_) co_return;
  co_await uploads_->stop();
  journal_->close();
}

}  // namespace leat
