// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: listings of directories.
#include <map>
#include <utility>

#include "vfs/forgotten_node.h"
#include "vfs/listed_directory.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {
namespace {

constexpr int kListAttempts = 8;

}  // namespace

Task<Result<std::shared_ptr<OpenDirectory>>> WritableFileSystem::open_directory(Context context,
                                                                                NodeId id) {
  const WrittenNodePtr node = find(id);
  if (!node) co_return forgotten(id);
  // The names of the store and those laid over them have to be of one moment.
  Result<Listed> listed = error(StatusCode::kBusy, full_path(*node) + " changes all the time");
  bool is_of_one_moment = false;
  for (int attempt = 0; attempt < kListAttempts && !is_of_one_moment; ++attempt) {
    const uint64_t state = changes_of(*node);
    listed = co_await list_once(context, node);
    is_of_one_moment = changes_of(*node) == state;
  }
  if (!listed) co_return Error(listed.error());
  {
    std::lock_guard lock(nodes_.mutex());
    node->listing = listed->names;
  }
  co_return std::make_shared<ListedDirectory>(id, std::move(listed->names), listed->valid_for);
}

Task<Result<WritableFileSystem::Listed>> WritableFileSystem::list_once(Context context,
                                                                       WrittenNodePtr node) {
  bool in_store;
  WrittenNodePtr parent;
  std::string name;
  {
    std::lock_guard lock(nodes_.mutex());
    in_store = node->in_store;
    parent = node->parent;
    name = node->name;
  }
  Listed listed;
  if (in_store) {
    LEAT_CO_TRY(const NodeId directory, co_await find_below(context, node));
    LEAT_CO_TRY(const std::shared_ptr<OpenDirectory> opened,
                co_await below_->open_directory(context, directory));
    listed.names = opened->listing();
    listed.valid_for = opened->valid_for();
  } else {
    LEAT_CO_TRY(const Place place, place_of(parent, name));
    listed.names = std::make_shared<Listing>(Listing::Layers{.mount = place.mount});
  }
  co_await find_renamed(context, node);
  std::vector<Listing::Overlay> written = written_in(*node, *listed.names);
  if (!written.empty()) {
    listed.names = listed.names->with(std::move(written));
    listed.valid_for = Clock::duration::zero();
  }
  co_return listed;
}

// Their sizes are those of the files below, which a restart forgets.
Task<> WritableFileSystem::find_renamed(Context context, WrittenNodePtr directory) {
  std::vector<WrittenNodePtr> renamed;
  {
    std::lock_guard lock(nodes_.mutex());
    for (const auto& [name, child] : directory->children) {
      if (needs_below(*child)) renamed.push_back(nodes_.find(child->id));
    }
  }
  for (const WrittenNodePtr& node : renamed) {
    static_cast<void>(co_await find_below(context, node));
  }
}

std::vector<Listing::Overlay> WritableFileSystem::written_in(const WrittenNode& directory,
                                                             const Listing& below) const {
  std::map<std::string, Listing::Overlay> written;
  std::lock_guard lock(nodes_.mutex());
  for (const auto& [name, number] : directory.removed) {
    CatalogEntry entry;
    entry.info.name = name;
    written[name] = {.entry = std::move(entry), .shown = false};
  }
  for (const auto& [name, child] : directory.children) {
    if (!child->is_own()) continue;
    CatalogEntry entry;
    entry.info.name = name;
    entry.info.kind = child->kind;
    entry.info.size = child->staged ? child->staged->size() : known_below(*child).size;
    entry.mount = below.mount();
    written[name] = {.entry = std::move(entry)};
  }
  std::vector<Listing::Overlay> sorted;
  for (auto& [name, overlay] : written) sorted.push_back(std::move(overlay));
  return sorted;
}

}  // namespace leat
