// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: attributes that a store keeps.
#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

// Names with attributes that are requested together.
constexpr size_t kLearntAhead = 64;

}  // namespace

bool WritableFileSystem::must_learn(const WrittenNode& parent, std::string_view name) const {
  if (parent.keeps_attributes == false) return false;
  const WrittenNodePtr node = nodes_.child(parent, name);
  return !node || !node->attributes_known;
}

Task<> WritableFileSystem::learn_attributes(Context context, WrittenNodePtr parent,
                                            std::string name) {
  WrittenNodePtr node;
  {
    std::lock_guard lock(nodes_.mutex());
    if (!must_learn(*parent, name)) co_return;
    node = nodes_.child(*parent, name);
  }
  const Result<Place> place = stored_place_of(parent, name);
  const SourceCapabilities none;
  const SourceCapabilities& store = place ? place->capabilities() : none;
  // Object stores have no directories, but for markers of some.
  const bool has = node && store.attributes && (!node->is_directory() || store.real_directories);
  std::shared_ptr<const PosixAttributes> kept;
  if (has && node->is_directory()) {
    Result<SourceObject> found =
        co_await place->mount->source->stat(context, {.key = place->as_directory()});
    if (!found) co_return;
    kept = found->attributes;
  } else if (has) {
    if (!has_learnt(*parent, name)) co_await learn_ahead(context, parent, name);
    std::lock_guard lock(nodes_.mutex());
    const auto learnt = parent->learnt.find(name);
    // Not for the version that the name has below: the next lookup asks again.
    if (learnt == parent->learnt.end() || learnt->second.version != node->version) co_return;
    kept = learnt->second.attributes;
    parent->learnt.erase(learnt);
  }
  std::lock_guard lock(nodes_.mutex());
  parent->keeps_attributes = store.attributes;
  if (!node || std::exchange(node->attributes_known, true) || !kept) co_return;
  node->is_symlink = kept->mode && S_ISLNK(*kept->mode);
  auto learn = [](auto& own, const auto& theirs) {
    if (!own) own = theirs;
  };
  if (kept->mode && !node->mode) node->mode = *kept->mode & 07777;
  learn(node->uid, kept->uid);
  learn(node->gid, kept->gid);
  learn(node->atime, kept->atime);
  learn(node->mtime, kept->mtime);
  learn(node->ctime, kept->ctime);
  learn_file(parent, name, node, *kept);
}

bool WritableFileSystem::has_learnt(const WrittenNode& parent, std::string_view name) const {
  std::lock_guard lock(nodes_.mutex());
  return parent.learnt.contains(name);
}

// A program that lists a directory looks all names up, one after the other.
Task<> WritableFileSystem::learn_ahead(Context context, WrittenNodePtr parent, std::string name) {
  std::vector<std::string> names = {name};
  {
    std::lock_guard lock(nodes_.mutex());
    const std::shared_ptr<const Listing> listing = parent->listing.lock();
    if (listing) {
      for (Listing::Cursor next = listing->after(name);
           names.size() < kLearntAhead && next.next();) {
        const std::string one(next.view().name);
        if (!next.view().is_directory() && must_learn(*parent, one)) names.push_back(one);
      }
    }
    parent->learnt.clear();
  }
  Gate gate;
  for (const std::string& one : names) {
    Result<Place> place = stored_place_of(parent, one);
    if (!place) continue;
    executor_.spawn(learn_one(*gate.enter(), context, parent, one, *std::move(place)));
  }
  gate.close();
  co_await gate.wait_idle();
}

Task<> WritableFileSystem::learn_one(Gate::Holder, Context context, WrittenNodePtr parent,
                                     std::string name, Place place) {
  Result<SourceObject> found = co_await place.mount->source->stat(context, {.key = place.key});
  if (!found) co_return;
  std::lock_guard lock(nodes_.mutex());
  parent->learnt[name] = {found->version, found->attributes};
}

PosixAttributes WritableFileSystem::attributes_of(const WrittenNode& node) const {
  PosixAttributes all{.uid = node.uid,
                      .gid = node.gid,
                      .atime = node.atime,
                      .mtime = node.mtime,
                      .ctime = node.ctime};
  const mode_t type = node.is_symlink       ? S_IFLNK
                      : node.special != 0   ? node.special
                      : node.is_directory() ? S_IFDIR
                                            : S_IFREG;
  if (node.mode) all.mode = type | *node.mode;
  return all;
}

Task<Result<>> WritableFileSystem::save_attributes(Context context, WrittenNodePtr node) {
  PosixAttributes wanted;
  {
    std::lock_guard lock(nodes_.mutex());
    if (!node->linked) co_return Result<>();
    wanted = attributes_of(*node);
  }
  LEAT_CO_TRY(const Place place, place_of_node(node));
  if (is_behind(place)) {
    LEAT_CO_TRY(const bool queued, co_await requeue_attributes(node));
    if (queued) co_return Result<>();
    if (mode_of(place) == WriteMode::kLocal && !staged_of(*node)) {
      co_return error(StatusCode::kPermissionDenied,
                      fmt::format("{} is in the store, and what is changed here is not to get "
                                  "there (write=local); copy it",
                                  place.path));
    }
    LEAT_CO_CHECK_OK(co_await drain(context, below_root(place.path)));
  }
  Source& source = *place.mount->source;
  const SourceCapabilities& store = place.capabilities();
  if (!store.attributes && !store.sets_attributes) co_return Result<>();
  {
    std::lock_guard lock(nodes_.mutex());
    // Its next save has them.
    if (node->staged) {
      node->unsaved = true;
      co_return Result<>();
    }
  }
  if (store.sets_attributes) {
    AttributesRequest request{.key = place.key, .attributes = wanted};
    LEAT_CO_TRY(const SourceObject object,
                co_await source.set_attributes(context, std::move(request)));
    if (node->is_directory()) co_return Result<>();
    {
      std::lock_guard lock(nodes_.mutex());
      note_object(*node, object);
    }
    co_await publish(context, node, place, object);
    co_return Result<>();
  }
  if (node->is_directory()) co_return Result<>();
  // The store takes them with the content only.
  LEAT_CO_CHECK_OK(co_await stage_locked(context, node, /*empty=*/false));
  {
    std::lock_guard lock(nodes_.mutex());
    node->unsaved = true;
  }
  Result<> saved = co_await save_locked(context, node);
  drop_saved(node);
  co_return saved;
}

}  // namespace leat
