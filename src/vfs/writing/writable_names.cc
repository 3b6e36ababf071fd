// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: files with several names. On such a store a version includes the ctime, so a
// change by one name gives each name another version: all are refreshed.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

bool is_special(mode_t type) {
  return type == S_IFIFO || type == S_IFSOCK || type == S_IFCHR || type == S_IFBLK;
}

// A name that no mount has, to find the directory around it.
constexpr std::string_view kSelf = ".";

}  // namespace

Result<WritableFileSystem::Place> WritableFileSystem::place_of_node(
    const WrittenNodePtr& node) const {
  WrittenNodePtr parent;
  std::string name;
  {
    std::lock_guard lock(nodes_.mutex());
    parent = node->parent;
    name = node->name;
  }
  LEAT_TRY(Place place, place_of(parent ? parent : node, parent ? name : kSelf));
  if (!parent) {
    place.key = place.directory_key;
    place.path = full_path(*node);
  } else if (node->is_directory()) {
    place.key += '/';
  }
  return place;
}

Result<WritableFileSystem::Place> WritableFileSystem::stored_place_of_node(
    const WrittenNodePtr& node) const {
  if (node->id == kRootNode) return place_of_node(node);
  std::string path;
  {
    std::lock_guard lock(nodes_.mutex());
    path = nodes_.stored_path_of(*node);
  }
  LEAT_TRY(Place place, place_at(path));
  if (node->is_directory()) place.key += '/';
  return place;
}

void WritableFileSystem::learn_file(const WrittenNodePtr& parent, std::string_view name,
                                    const WrittenNodePtr& node, const PosixAttributes& kept) {
  const mode_t type = kept.mode.value_or(0) & S_IFMT;
  if (is_special(type)) {
    node->special = type;
    node->device = kept.device.value_or(0);
  }
  node->links = kept.links;
  if (!kept.file || node->is_directory()) return;
  const WrittenNodePtr other = nodes_.by_file(*kept.file);
  // The kernel may have used the inode number for another file meanwhile.
  const bool same = other && other != node && other->linked && kept.links.value_or(1) > 1 &&
                    other->version == node->version && !node->staged && node->opens == 0;
  if (!same) return nodes_.set_file(*node, *kept.file);
  nodes_.unlink(*node, *parent, name);
  nodes_.link(*other, parent, std::string(name));
}

Task<> WritableFileSystem::refresh_linked(Context context, WrittenNodePtr parent,
                                          std::string name) {
  const Result<Place> place = stored_place_of(parent, name);
  if (!place) co_return;  // a mount has the name
  const bool asks = place->mount->source->posix() != nullptr;
  {
    std::lock_guard lock(nodes_.mutex());
    parent->always_asks = asks;
  }
  if (asks) co_await refresh(context, place->path);
}

Task<> WritableFileSystem::learn_root(Context context) {
  const WrittenNodePtr root = find(kRootNode);
  {
    std::lock_guard lock(nodes_.mutex());
    if (root->attributes_known) co_return;
  }
  std::shared_ptr<const PosixAttributes> kept;
  const Result<Place> place = place_of_node(root);
  if (place && place->capabilities().real_directories) {
    Result<SourceObject> found = co_await place->mount->source->stat(context, {.key = place->key});
    if (found) kept = found->attributes;
  }
  std::lock_guard lock(nodes_.mutex());
  if (std::exchange(root->attributes_known, true) || !kept) co_return;
  if (kept->mode) root->mode = *kept->mode & 07777;
  root->uid = kept->uid;
  root->gid = kept->gid;
  root->links = kept->links;
  if (!root->mtime) root->mtime = kept->mtime;
  if (!root->ctime) root->ctime = kept->ctime;
  root->atime = kept->atime;
}

NodeAttributes WritableFileSystem::describe_learnt(const WrittenNode& parent, std::string_view name,
                                                   const NodeAttributes& found) {
  NodeAttributes shown = found;
  NodeId joined = 0;
  {
    std::lock_guard lock(nodes_.mutex());
    const WrittenNodePtr node = nodes_.find(found.node);
    if (!node) return found;
    const WrittenNodePtr other = nodes_.child(parent, name);
    // learn_file() gave the name to the node that has the file's other names.
    const bool is_joined = other && other != node && !node->linked && !node->superseded &&
                           other->version == node->version;
    if (is_joined) {
      ++other->lookups;
      joined = node->id;
    }
    shown = describe(is_joined ? *other : *node, found);
  }
  if (joined != 0) nodes_.forget(joined, 1);
  return shown;
}

void WritableFileSystem::note_object(WrittenNode& node, const SourceObject& object) {
  node.version = object.version;
  if (!object.attributes) return;
  if (object.attributes->links) node.links = object.attributes->links;
  if (!object.attributes->file) return;
  nodes_.set_file(node, *object.attributes->file);
  // A node that is forgotten and found again shows the same time.
  if (object.attributes->ctime) node.ctime = object.attributes->ctime;
}

void WritableFileSystem::note_removed(WrittenNode& node, WrittenNode& parent,
                                      std::string_view name) {
  nodes_.unlink(node, parent, name);
  if (node.is_directory()) {
    node.links = 0;
    return count_directory(parent, -1);
  }
  const uint64_t links = node.links.value_or(1);
  node.links = links == 0 ? 0 : links - 1;
  // Saves before the removal or rename may be pending still.
  if (!node.linked && node.queued == 0) node.in_store = false;
}

void WritableFileSystem::count_directory(WrittenNode& parent, int change) {
  if (parent.links) *parent.links += static_cast<uint64_t>(change);
}

Task<> WritableFileSystem::refresh_own(Context context, std::string path) {
  {
    std::lock_guard lock(nodes_.mutex());
    own_changes_.insert(path);
  }
  co_await refresh(context, path);
  std::lock_guard lock(nodes_.mutex());
  own_changes_.erase(own_changes_.find(path));
}

Task<> WritableFileSystem::learn_change(Context context, Place place,
                                        std::optional<SourceObject> now) {
  const bool is_known = !now || now->kind == FileKind::kDirectory || now->version.known();
  if (!is_known || place.mount->source->posix() != nullptr) {
    co_await refresh_own(context, place.path);
    co_return;
  }
  // Few stores say the time of a write.
  if (now && !now->mtime) now->mtime = options_.wall_clock();
  {
    std::lock_guard lock(nodes_.mutex());
    own_changes_.insert(place.path);
  }
  catalog_.note_changed(place.path, now);
  std::lock_guard lock(nodes_.mutex());
  own_changes_.erase(own_changes_.find(place.path));
}

Task<> WritableFileSystem::refresh_names(Context context, WrittenNodePtr node) {
  std::vector<WrittenName> names;
  {
    std::lock_guard lock(nodes_.mutex());
    names = node->more_names;
  }
  for (const WrittenName& one : names) {
    co_await refresh_own(context, full_path(*one.parent, one.name));
  }
}

Task<> WritableFileSystem::find_version_of_names(Context context, WrittenNodePtr node) {
  {
    std::lock_guard lock(nodes_.mutex());
    if (!node->linked || node->is_directory()) co_return;
  }
  const Result<Place> place = place_of_node(node);
  if (!place || place->mount->source->posix() == nullptr) co_return;
  const Result<SourceObject> object =
      co_await place->mount->source->stat(context, {.key = place->key});
  if (!object) {
    co_await refresh_own(context, place->path);
    co_return;
  }
  {
    std::lock_guard lock(nodes_.mutex());
    note_object(*node, *object);
  }
  co_await publish(context, node, *place, *object);
}

NewName WritableFileSystem::inherit_group(const WrittenNode& parent, NewName as,
                                          bool is_directory) const {
  std::lock_guard lock(nodes_.mutex());
  if ((parent.mode.value_or(0) & S_ISGID) == 0) return as;
  if (parent.gid) as.gid = *parent.gid;
  if (is_directory) as.mode |= S_ISGID;
  return as;
}

Task<Result<>> WritableFileSystem::exchange(Context context, RenameOp op) {
  const WrittenNodePtr parent = find(op.parent), new_parent = find(op.new_parent);
  if (!parent || !new_parent) co_return forgotten(parent ? op.new_parent : op.parent);
  LEAT_CO_TRY(const Place from, place_of(parent, op.name));
  LEAT_CO_TRY(const Place to, place_of(new_parent, op.new_name));
  PosixFiles* const posix = from.mount->source->posix();
  if (from.mount->entry.path != to.mount->entry.path || posix == nullptr) {
    co_return error(StatusCode::kInvalidArgument,
                    from.mount->source->name() + " cannot exchange two names");
  }
  LEAT_CO_TRY(const WrittenNodes::Hold held, co_await named(context, op.parent, op.name));
  LEAT_CO_TRY(const WrittenNodes::Hold other, co_await named(context, op.new_parent, op.new_name));
  const WrittenNodePtr nodes[] = {held.node(), other.node()};
  if (nodes[0] == nodes[1]) co_return Result<>();
  std::vector<WrittenNodePtr> changing;
  for (const WrittenNodePtr& node : nodes) {
    std::ranges::copy(staged_below(*node), std::back_inserter(changing));
    if (!node->is_directory()) changing.push_back(node);
  }
  const auto permits = co_await acquire_changing(context, changing);
  if (!permits) co_return Error(permits.error());
  // The store exchanges what it has, and a copy that has not begun uses the old name.
  for (const WrittenNodePtr& one : changing) {
    const bool is_exchanged = one == nodes[0] || one == nodes[1];
    if (is_exchanged) LEAT_CO_CHECK_OK(co_await save_locked(context, one));
    const std::shared_ptr<StagedFile> staged = staged_of(*one);
    if (staged) LEAT_CO_CHECK_OK(co_await staged->fill(context));
  }
  for (const Place& place : {from, to}) {
    LEAT_CO_CHECK_OK(co_await prepare_store(context, place));
  }
  Result<> exchanged = co_await posix->exchange(context, {.from = from.key, .to = to.key});
  const Place* const places[] = {&from, &to};
  for (const Place* place : places) co_await refresh_own(Context::background(), place->path);
  for (const WrittenNodePtr& node : nodes) {
    if (!node->is_directory()) continue;
    for (const Place* place : places) catalog_.invalidate(place->path);  // and all below
  }
  if (!exchanged) co_return exchanged;
  {
    std::lock_guard lock(nodes_.mutex());
    nodes_.unlink(*nodes[0], *parent, op.name);
    nodes_.unlink(*nodes[1], *new_parent, op.new_name);
    nodes_.link(*nodes[0], new_parent, op.new_name);
    nodes_.link(*nodes[1], parent, op.name);
    for (const WrittenNodePtr& node : nodes) {
      nodes_.outdate_below(*node);
      if (node->is_directory()) nodes_.new_epoch();
      node->ctime = options_.wall_clock();
    }
    if (nodes[0]->is_directory()) {
      count_directory(*parent, -1);
      count_directory(*new_parent, 1);
    }
    if (nodes[1]->is_directory()) {
      count_directory(*new_parent, -1);
      count_directory(*parent, 1);
    }
    ++parent->changes;
    ++new_parent->changes;
  }
  for (const WrittenNodePtr& node : nodes) {
    co_await find_version_of_names(Context::background(), node);
    drop_saved(node);
  }
  note_changed(*parent);
  note_changed(*new_parent);
  co_return Result<>();
}

}  // namespace leat
