// SPDX-License-Identifier: Apache-2.0
// WritableFileSystem: listings of directories.
#include <map>
#include <utility>

#include "vfs/forgotten_node.h"
#include "vfs/listed_directory.h"
#include "vfs/writing/writable_file_system.h"

namespace leat {

Task<Result<std::shared_ptr<OpenDirectory>>> WritableFileSystem::open_directory(Context context,
                                                                                NodeId id) {
  const WrittenNodePtr node = find(id);
  if (!node) co_return forgotten(id);
  bool in_store;
  WrittenNodePtr parent;
  std::string name;
  {
    std::lock_guard lock(nodes_.mutex());
    in_store = node->in_store;
    parent = node->parent;
    name = node->name;
  }
  ListingPtr below;
  Clock::duration valid_for = Clock::duration::zero();
  if (in_store) {
    LEAT_CO_TRY(const NodeId directory, co_await find_below(context, node));
    LEAT_CO_TRY(const std::shared_ptr<OpenDirectory> opened,
                co_await below_->open_directory(context, directory));
    below = opened->listing();
    valid_for = opened->valid_for();
  } else {
    LEAT_CO_TRY(const Place place, place_of(parent, name));
    below = std::make_shared<Listing>(Listing::Layers{.mount = place.mount});
  }
  std::vector<Listing::Overlay> written = written_in(*node, *below);
  if (!written.empty()) {
    below = below->with(std::move(written));
    valid_for = Clock::duration::zero();
  }
  {
    std::lock_guard lock(nodes_.mutex());
    node->listing = below;
  }
  co_return std::make_shared<ListedDirectory>(id, std::move(below), valid_for);
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
    if (child->staged) entry.info.size = child->staged->size();
    entry.mount = below.mount();
    written[name] = {.entry = std::move(entry)};
  }
  std::vector<Listing::Overlay> sorted;
  for (auto& [name, overlay] : written) sorted.push_back(std::move(overlay));
  return sorted;
}

}  // namespace leat
