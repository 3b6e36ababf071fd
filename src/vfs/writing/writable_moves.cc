// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: renames with write=back and local. The pending changes of what the store does
// not have yet get another path and a new place in the queue, since a rename publishes. All others
// are pending changes themselves (writable_queued_renames.cc).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "catalog/mount_table.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {

Task<Result<>> WritableFileSystem::commit_moves(Moves moves) {
  WriteJournal::Edits edits;
  for (const UploadQueue::Withdrawn& one : moves.withdrawn) {
    const uint64_t number = one.change->number;
    const auto moved = moves.moved.find(number);
    if (moved == moves.moved.end()) {
      edits.erase.push_back(number);
    } else {
      edits.update.push_back({number, *moved->second});
    }
  }
  for (const QueuedChangePtr& change : moves.added) edits.insert.push_back({*change});
  const Result<> durable = co_await commit(std::move(edits));
  if (!durable) {
    put_back(moves.withdrawn);
    co_return durable;
  }
  {
    std::lock_guard lock(nodes_.mutex());
    for (const auto& [before, change] : moves.moved) {
      WrittenNode& node = *change->node;
      if (change->kind == ChangeKind::kRemove) {
        node.removed[std::string(last_component(change->path))] = change->number;
      } else if (node.queued == before) {
        node.queued = change->number;
      }
    }
    moves.settle();
  }
  for (const auto& [before, change] : moves.moved) {
    uploads_->add(change, moves.begun.contains(change->number));
  }
  for (const QueuedChangePtr& change : moves.added) uploads_->add(change);
  for (const UploadQueue::Withdrawn& one : moves.withdrawn) {
    uploads_->release(one.change->number);
    if (!moves.moved.contains(one.change->number)) drop_content(*one.change);
  }
  co_return Result<>();
}

Task<Result<WritableFileSystem::RenamedBehind>> WritableFileSystem::rename_behind(
    Context context, WrittenNodePtr node, WrittenNodePtr replaced, Place from, Place to) {
  LEAT_CO_CHECK_OK(co_await executor_.blocking([this] { return need_journal(); }));
  if (node->is_directory()) {
    Result<RenamedBehind> done =
        co_await rename_directory_behind(context, node, replaced, from, to);
    co_return done;
  }
  if (replaced) co_await keep_content(context, replaced);
  Moves moves;
  QueuedChangePtr moved;
  bool in_store;
  do {
    uint64_t queued;
    bool linked_twice;
    {
      std::lock_guard lock(nodes_.mutex());
      queued = node->queued;
      in_store = node->in_store;
      linked_twice = node->links.value_or(1) > 1;
    }
    // Only the store knows all names of such a file.
    if (linked_twice) {
      LEAT_CO_CHECK_OK(co_await drain(context, {}));
      co_return RenamedBehind{.done = false};
    }
    if ((queued == 0 && in_store) || renames_in_store(*node, from)) {
      Result<RenamedBehind> done = co_await queue_rename(node, replaced, from, to);
      co_return done;
    }
    if (queued == 0) break;  // only open so far: its first save has the new name
    const std::string path = below_root(from.path);
    auto withdrawn = co_await withdraw_all(uploads_->changes_of(*node, path));
    if (!withdrawn) continue;
    moves.withdrawn = *std::move(withdrawn);
    in_store = in_store || uploads_->has_renames(path);
    for (const UploadQueue::Withdrawn& one : moves.withdrawn) {
      in_store = in_store || one.begun || one.change->kind == ChangeKind::kRemove;
      if (one.change->number == queued) moved = std::make_shared<QueuedChange>(*one.change);
    }
    if (!moved) put_back(moves.withdrawn);  // the store has it by now
  } while (!moved);
  WrittenNodePtr parent;
  Version version;
  bool replaces = false;
  {
    std::lock_guard lock(nodes_.mutex());
    parent = node->parent;
    if (replaced) {
      replaces = replaced->in_store || replaced->queued != 0;
      // A pending save or rename gives it another one.
      const bool stays = replaced->queued == 0 && !WrittenNodes::is_renamed(*replaced);
      if (stays) version = replaced->version;
    }
  }
  QueuedChangePtr removal;
  auto settle = [&] {
    node->version = version;
    node->in_store = node->replaces = replaces;
    if (removal) parent->removed[node->name] = removal->number;
  };
  if (!moved) {
    std::lock_guard lock(nodes_.mutex());
    settle();
    co_return RenamedBehind();
  }
  const uint64_t before = moved->number;
  moved->number = journal_->next_number();
  moved->path = below_root(to.path);
  moved->local = mode_of(to) == WriteMode::kLocal;
  moved->ordered = true;
  moved->condition = {.absent = !replaces, .version = version};
  moves.moved[before] = moved;
  if (in_store) removal = removal_of(parent, from, /*directory=*/false);
  if (removal) moves.added.push_back(removal);
  moves.settle = settle;
  LEAT_CO_CHECK_OK(co_await commit_moves(std::move(moves)));
  co_return RenamedBehind();
}

Task<Result<WritableFileSystem::RenamedBehind>> WritableFileSystem::rename_directory_behind(
    Context context, WrittenNodePtr node, WrittenNodePtr replaced, Place from, Place to) {
  if (is_at_or_below(to.path, from.path)) {
    co_return error(StatusCode::kInvalidArgument,
                    fmt::format("{} cannot be moved into itself", from.path));
  }
  if (replaced && !co_await shows_nothing(context, replaced)) {
    co_return error(StatusCode::kNotEmpty, to.path + " is not empty");
  }
  const std::string before = below_root(from.path), after = below_root(to.path);
  Moves moves;
  QueuedChangePtr unneeded;  // the replaced directory; it is this one from now on
  bool replaces = false;     // the store has it
  bool follows = false;      // the store gets it first, by a pending rename
  for (bool taken = false; !taken;) {
    bool in_store, is_simple = true;
    uint64_t made, made_before = 0;
    {
      std::lock_guard lock(nodes_.mutex());
      in_store = node->in_store || node->replaces;
      made = node->queued;
      if (replaced) {
        made_before = replaced->queued;
        is_simple = made != 0 && replaced->removed.empty();
      }
    }
    if (in_store || !is_simple || renames_in_store(*node, from)) {
      Result<RenamedBehind> done = co_await queue_rename(node, replaced, from, to);
      co_return done;
    }
    // Changes of what had this name before the directory was made stay.
    std::vector<QueuedChangePtr> inside = uploads_->changes_below(before);
    std::erase_if(inside, [&](const QueuedChangePtr& change) { return change->number < made; });
    unneeded = uploads_->find(made_before);
    if (unneeded) inside.push_back(unneeded);
    auto withdrawn = co_await withdraw_all(std::move(inside));
    if (!withdrawn) continue;
    {
      std::lock_guard lock(nodes_.mutex());
      taken = !node->in_store;
      // Until a pending rename of it is sent, the store has it elsewhere.
      replaces = replaced && replaced->in_store && replaced->former.empty();
      follows = replaced && (!replaced->former.empty() || replaced->replaces);
    }
    // The store may have made it before its change was withdrawn.
    if (!taken) put_back(*withdrawn);
    moves.withdrawn = *std::move(withdrawn);
  }
  const bool may_replace = unneeded && moves.withdrawn.back().begun;
  QueuedChangePtr last;
  bool begun = false;
  for (const UploadQueue::Withdrawn& one : moves.withdrawn) {
    if (one.change == unneeded) continue;
    begun = begun || one.begun;
    last = std::make_shared<QueuedChange>(*one.change);
    last->number = journal_->next_number();
    last->path = after + one.change->path.substr(before.size());
    const Result<Place> place = place_of_change(*last);
    last->local = mode_of(place ? *place : to) == WriteMode::kLocal;
    moves.moved[one.change->number] = last;
    if (may_replace && one.change->path == before) moves.begun.insert(last->number);
  }
  if (last) last->ordered = true;
  WrittenNodePtr parent;
  {
    std::lock_guard lock(nodes_.mutex());
    parent = node->parent;
  }
  QueuedChangePtr removal;
  if (begun) removal = removal_of(parent, from, /*directory=*/true);
  if (removal) moves.added.push_back(removal);
  moves.settle = [&] {
    if (removal) parent->removed[node->name] = removal->number;
    node->in_store = replaces;
    node->replaces = follows;
  };
  LEAT_CO_CHECK_OK(co_await commit_moves(std::move(moves)));
  co_return RenamedBehind();
}

}  // namespace leat
