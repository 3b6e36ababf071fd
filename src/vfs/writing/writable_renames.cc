// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: renames.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "telemetry/log.h"
#include "vfs/forgotten_node.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
Task<Result<>> WritableFileSystem::rename(Context context, RenameOp op) {
  const WrittenNodePtr parent = find(op.parent), new_parent = find(op.new_parent);
  if (!parent || !new_parent) co_return forgotten(parent ? op.new_parent : op.parent);
  LEAT_CO_TRY(Place from, place_of(parent, op.name));
  LEAT_CO_TRY(Place to, place_of(new_parent, op.new_name));
  if (op.exchange) {
    Result<> exchanged = co_await exchange(context, op);
    co_return exchanged;
  }
  if (from.mount->entry.path != to.mount->entry.path) {
    co_return error(StatusCode::kCrossDevice,
                    fmt::format("{} and {} are in different mounts; copy it and remove it",
                                from.path, to.path));
  }
  LEAT_CO_TRY(const WrittenNodes::Hold held, co_await named(context, op.parent, op.name));
  const WrittenNodePtr& node = held.node();
  WrittenNodePtr replaced;
  Result<WrittenNodes::Hold> present = co_await named(context, op.new_parent, op.new_name);
  if (present) {
    if (op.no_replace) co_return error(StatusCode::kExists, to.path + " exists");
    replaced = present->node();
    if (replaced == node) co_return Result<>();
    if (replaced->is_directory() && !node->is_directory()) {
      co_return error(StatusCode::kIsDirectory, to.path + " is a directory");
    }
    if (!replaced->is_directory() && node->is_directory()) {
      co_return error(StatusCode::kNotDirectory, to.path + " is a file");
    }
  } else if (present.error().code() != StatusCode::kNotFound) {
    co_return Error(present.error());
  }
  std::vector<WrittenNodePtr> changing = staged_below(*node);
  if (!node->is_directory()) changing = {node};
  if (replaced && !replaced->is_directory()) changing.push_back(replaced);
  auto permits = co_await acquire_changing(context, std::move(changing));
  if (!permits) co_return Error(permits.error());
  RenamedBehind behind{.done = is_behind(from) || is_behind(to)};
  CopiedNamesPtr copied;
  bool waits = false;
  if (!behind.done) {
    LEAT_CO_TRY(copied, co_await list_few_to_copy(context, node, from));
    waits = copied && copied->is_partial && !options_.journal_directory.empty();
    behind.done = waits;
  }
  Result<Semaphore::Permit> tree;
  if (behind.done) {
    tree = co_await enter_tree(context, node->is_directory() ? kTreeChangesMax : 1);
    if (!tree) co_return Error(tree.error());
    LEAT_CO_TRY(from, place_of(parent, op.name));
    LEAT_CO_TRY(to, place_of(new_parent, op.new_name));
    LEAT_CO_TRY(behind, co_await rename_behind(context, node, replaced, from, to));
  }
  if (!behind.done) {
    LEAT_CO_CHECK_OK(
        co_await rename_in_store(context, node, replaced, from, to, op.no_replace, copied));
  }
  {
    std::lock_guard lock(nodes_.mutex());
    if (replaced) note_removed(*replaced, *new_parent, op.new_name);
    if (const WrittenNodePtr other = nodes_.child(*new_parent, op.new_name)) {
      nodes_.unlink(*other, *new_parent, op.new_name);
    }
    nodes_.move(*node, {parent, op.name}, {new_parent, op.new_name});
    nodes_.outdate_below(*node);
    ++parent->changes;
    ++new_parent->changes;
    if (node->is_directory()) {
      nodes_.new_epoch();
      count_directory(*parent, -1);
      count_directory(*new_parent, 1);
    }
    node->ctime = options_.wall_clock();
    if (replaced) replaced->ctime = node->ctime;
  }
  if (behind.pending) uploads_->put_back(behind.pending->number);
  if (!behind.pending) co_await find_version_of_names(Context::background(), node);
  if (replaced) {
    co_await find_version_of_names(Context::background(), replaced);
    drop_saved(replaced);
  }
  note_changed(*parent);
  note_changed(*new_parent);
  if (!waits || !behind.pending) co_return Result<>();
  // Its names may be changed meanwhile.
  permits->clear();
  tree = Semaphore::Permit();
  Result<> renamed = co_await await_rename(context, from, to);
  co_return renamed;
}

// The rename is durable on this host. The next daemon goes on with it after a crash.
Task<Result<>> WritableFileSystem::await_rename(Context context, Place from, Place to) {
  const Result<> renamed = co_await drain(context, below_root(to.path));
  if (renamed) co_return Result<>();
  co_return error(renamed.error().with_context(
      fmt::format("{} has its new name {} here, and the store gets it later ('leat flush' waits)",
                  from.path, to.path)));
}

Task<Result<>> WritableFileSystem::rename_in_store(Context context, WrittenNodePtr node,
                                                   WrittenNodePtr replaced, Place from, Place to,
                                                   bool no_replace, CopiedNamesPtr copied) {
  if (!node->is_directory()) {
    Result<> renamed = co_await rename_file(context, node, replaced, from, to, no_replace);
    co_return renamed;
  }
  Result<> renamed = co_await rename_directory(context, node, replaced, from, to, copied);
  // Names below it may be cached from another directory that had the path.
  catalog_.invalidate(from.path);
  catalog_.invalidate(to.path);
  // Also after a failure, since the store may have done it.
  co_await refresh(Context::background(), from.path);
  co_await refresh(Context::background(), to.path);
  co_return renamed;
}

Task<Result<std::vector<WritableFileSystem::ChangePermit>>> WritableFileSystem::acquire_changing(
    Context context, std::vector<WrittenNodePtr> nodes) {
  std::ranges::sort(nodes, {}, &WrittenNode::id);
  nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
  std::vector<ChangePermit> permits;
  for (const WrittenNodePtr& node : nodes) {
    auto permit = co_await node->changing.acquire(context, 1, "a change of a file");
    if (!permit) co_return Error(permit.error());
    permits.push_back({node, *std::move(permit)});
  }
  co_return permits;
}

std::vector<WrittenNodePtr> WritableFileSystem::staged_below(const WrittenNode& directory) const {
  std::vector<WrittenNodePtr> staged;
  std::lock_guard lock(nodes_.mutex());
  std::vector<const WrittenNode*> directories{&directory};
  while (!directories.empty()) {
    const WrittenNode* next = directories.back();
    directories.pop_back();
    for (const auto& [name, child] : next->children) {
      if (child->is_directory()) directories.push_back(child);
      if (child->staged) staged.push_back(nodes_.find(child->id));
    }
  }
  return staged;
}

Task<Result<>> WritableFileSystem::rename_file(Context context, WrittenNodePtr node,
                                               WrittenNodePtr replaced, Place from, Place to,
                                               bool no_replace) {
  LEAT_CO_CHECK_OK(co_await fill_staged(context, node));
  if (replaced) co_await keep_content(context, replaced);
  bool in_store;
  {
    std::lock_guard lock(nodes_.mutex());
    in_store = node->in_store;
    if (!in_store) node->version = replaced ? replaced->version : Version();
  }
  if (!in_store) co_return Result<>();  // only open so far: its first save has the new name
  LEAT_CO_CHECK_OK(co_await keep_directory(context, from));
  const Result<SourceObject> renamed = co_await rename_object(context, from, to, no_replace);
  if (!renamed) {
    // The store may have done it.
    co_await refresh(Context::background(), from.path);
    co_await refresh(Context::background(), to.path);
    co_return Error(renamed.error());
  }
  co_await learn_change(Context::background(), from, std::nullopt);
  co_await learn_change(Context::background(), to, *renamed);
  std::lock_guard lock(nodes_.mutex());
  node->version = renamed->version;
  co_return Result<>();
}

// Without an answer about the new name its version is not known, and its next save does not compare
// it.
Task<Result<SourceObject>> WritableFileSystem::rename_natively(Context context, Place from,
                                                               Place to, bool no_replace) {
  Source& source = *from.mount->source;
  LEAT_CO_CHECK_OK(
      co_await source.rename(context, {.from = from.key, .to = to.key, .no_replace = no_replace}));
  const Result<SourceObject> object = co_await source.stat(context, {.key = to.key});
  co_return object.value_or(SourceObject());
}

Task<Result<SourceObject>> WritableFileSystem::rename_object(Context context, Place from, Place to,
                                                             bool no_replace) {
  Source& source = *from.mount->source;
  if (from.capabilities().renames) {
    Result<SourceObject> renamed = co_await rename_natively(context, from, to, no_replace);
    co_return renamed;
  }
  LEAT_CO_TRY(const SourceObject copied,
              co_await source.copy(context, {.from = from.key, .to = to.key}));
  LEAT_CO_CHECK_OK(co_await source.remove(context, {.keys = {from.key}}));
  co_return copied;
}

Task<Result<>> WritableFileSystem::rename_directory(Context context, WrittenNodePtr node,
                                                    WrittenNodePtr replaced, Place from, Place to,
                                                    CopiedNamesPtr copied) {
  if (is_at_or_below(to.path, from.path)) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("{} cannot be moved into itself", from.path));
  }
  Source& source = *from.mount->source;
  const SourceCapabilities& store = from.capabilities();
  const bool renames = store.renames && (store.real_directories || store.renames_directories);
  if (!renames && !store.copies) {
    co_return error(StatusCode::kCrossDevice,
                    fmt::format("{} cannot rename directories; copy {} and remove it",
                                source.name(), from.path));
  }
  // Everything in it keeps its version where the store says so; files in progress are saved under
  // their new names.
  if (replaced) {
    LEAT_CO_CHECK_OK(co_await require_empty(context, replaced, to));
    LEAT_CO_CHECK_OK(co_await source.remove(context, {.keys = {to.as_directory()}}));
  }
  LEAT_CO_CHECK_OK(co_await fill_staged(context, node));
  Result<> renamed;
  if (renames) {
    LEAT_CO_CHECK_OK(co_await keep_directory(context, from));
    RenameRequest request{.from = from.as_directory(), .to = to.as_directory()};
    renamed = co_await source.rename(context, std::move(request));
  } else {
    renamed = co_await copy_directory(context, node, from, to, copied);
  }
  catalog_.invalidate(from.path);
  catalog_.invalidate(to.path);
  co_return renamed;
}

}  // namespace leat
