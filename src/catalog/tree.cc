// SPDX-License-Identifier: Apache-2.0
// Invariant: a directory in the map belongs to the mount that owns its path now. Mounting and
// unmounting remove directories there under the same lock.
#include "catalog/tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/snapshot_mount.h"

namespace leat {
namespace {

// Mount points change by command, and a lookup of one is cheap.
constexpr auto kMountPointAge = std::chrono::seconds(1);

Error nothing_mounted(std::string_view path) {
  return error(StatusCode::kNotFound,
               fmt::format("nothing is mounted at {}; `leat mounts` lists the mounts", path));
}

}  // namespace

Tree::Tree(CatalogOptions options) : options_(std::move(options)) {}

Result<> Tree::add_mount(MountPtr mount) {
  std::unique_lock lock(mutex_);
  std::string path = mount->entry.path;
  LEAT_CHECK_OK(mounts_.add(std::move(mount)));
  evict_locked(path);
  return {};
}

MountPtr Tree::remove_mount(std::string_view path) {
  std::unique_lock lock(mutex_);
  MountPtr mount = mounts_.remove(path);
  if (mount) evict_locked(path);
  return mount;
}

std::vector<MountPtr> Tree::mounts() const {
  std::shared_lock lock(mutex_);
  return mounts_.all();
}

bool Tree::serves(const Directory& directory) const {
  std::shared_lock lock(mutex_);
  return mounts_.owner(directory.path()) == directory.mount();
}

bool Tree::replaced(const Directory& directory) const {
  std::shared_lock lock(mutex_);
  const MountPtr now = mounts_.owner(directory.path());
  const Mount& then = *directory.mount();
  return now && now != directory.mount() && now->entry.path == then.entry.path &&
         now->source == then.source;
}

MountTable::Route Tree::route(std::string_view path) const {
  std::shared_lock lock(mutex_);
  return mounts_.route(path);
}

Result<Tree::MountSwap> Tree::swap_mount(std::string_view path, CachedDirectories cached,
                                         const std::function<Result<Mount>(const Mount&)>& change) {
  std::unique_lock lock(mutex_);
  MountSwap swap;
  swap.before = mounts_.at(path);
  if (!swap.before) return nothing_mounted(path);
  LEAT_TRY(Mount changed, change(*swap.before));
  swap.after = MountHistory::append(*swap.before, std::move(changed));
  mounts_.replace(swap.after);
  const Policy& policy = swap.after->entry.policy;
  for (auto at = directories_.begin(); at != directories_.end();) {
    DirectoryPtr& directory = at->second;
    if (directory->mount() != swap.before) {
      ++at;
      continue;
    }
    const std::string_view below = path_below_mount(*swap.before, directory->path());
    if (cached == CachedDirectories::kKeep &&
        directory->policy().same_files(policy.of_directory(below))) {
      directory = directory->successor(swap.after);
      ++at;
      continue;
    }
    detach(*directory);
    swap.evicted.push_back(directory);
    at = directories_.erase(at);
  }
  return swap;
}

Result<Tree::MountSwap> Tree::move_mount(std::string_view from, const std::string& to,
                                         Policy policy) {
  std::unique_lock lock(mutex_);
  MountSwap swap;
  swap.before = mounts_.at(from);
  if (!swap.before) return nothing_mounted(from);
  Mount moved = with_policy(*swap.before, std::move(policy));
  moved.entry.path = to;
  swap.after = MountHistory::begin(std::move(moved));
  LEAT_CHECK_OK(mounts_.add(swap.after));
  mounts_.remove(from);
  evict_locked(from);
  evict_locked(to);
  return swap;
}

std::optional<Result<CatalogEntry>> Tree::mount_answer(std::string_view path) const {
  std::shared_lock lock(mutex_);
  const MountTable::Route route = mounts_.route(path);
  if (route.in_mount_table) return mount_entry(path);
  if (route.mount) return std::nullopt;
  return error(StatusCode::kNotFound, fmt::format("nothing is mounted at or above {}", path));
}

CatalogEntry Tree::mount_entry(std::string_view path) const {
  CatalogEntry entry;
  entry.info.name = last_component(path);
  entry.info.kind = FileKind::kDirectory;
  entry.fresh_until = now() + kMountPointAge;
  entry.mount = mounts_.owner(path);
  if (entry.mount) {
    entry.directory_key = directory_key_in_mount(*entry.mount, path);
  }
  return entry;
}

std::vector<CatalogEntry> Tree::mount_entries(std::string_view path) const {
  std::shared_lock lock(mutex_);
  std::vector<CatalogEntry> entries;
  for (const std::string& name : mounts_.names_in(path)) {
    entries.push_back(mount_entry(join_path(path, name)));
  }
  return entries;
}

DirectoryPtr Tree::find_directory(std::string_view path) {
  std::shared_lock lock(mutex_);
  auto found = directories_.find(path);
  if (found == directories_.end()) return nullptr;
  found->second->touch(ticks_.fetch_add(1, std::memory_order_relaxed));
  return found->second;
}

ListingPtr Tree::fresh_listing(std::string_view path) {
  std::vector<CatalogEntry> mounted = mount_entries(path);
  if (const MountTable::Route to = route(path); to.mount && to.mount->snapshot) {
    Result<ListingPtr> listing = list_snapshot(to.mount, path, std::move(mounted));
    return listing ? *std::move(listing) : nullptr;
  }
  const DirectoryPtr directory = find_directory(path);
  if (!directory) return nullptr;
  const std::optional<Result<>> known = directory->listing_state(now());
  return known && *known ? directory->show(std::move(mounted)) : nullptr;
}

ListingPtr Tree::last_listing(std::string_view path) {
  if (const MountTable::Route to = route(path); to.mount && to.mount->snapshot) {
    return fresh_listing(path);
  }
  DirectoryPtr directory;
  {
    std::shared_lock lock(mutex_);
    auto found = directories_.find(path);
    if (found != directories_.end()) directory = found->second;
  }
  return directory && directory->loaded() ? directory->show(mount_entries(path)) : nullptr;
}

DirectoryPtr Tree::open_directory(std::string_view path) {
  if (DirectoryPtr known = find_directory(path)) return known;
  std::unique_lock lock(mutex_);
  MountPtr mount = mounts_.owner(path);
  if (!mount || mount->snapshot) return nullptr;
  auto [at, added] = directories_.try_emplace(std::string(path));
  if (added) {
    at->second = std::make_shared<Directory>(
        std::string(path), mount, directory_key_in_mount(*mount, path), options_.notify_on_create);
    names_.fetch_add(1, std::memory_order_relaxed);
  }
  at->second->touch(ticks_.fetch_add(1, std::memory_order_relaxed));
  return at->second;
}

uint64_t Tree::names() const {
  return static_cast<uint64_t>(std::max<int64_t>(0, names_.load(std::memory_order_relaxed)));
}

void Tree::detach(Directory& directory) {
  names_.fetch_sub(static_cast<int64_t>(directory.detach()), std::memory_order_relaxed);
}

void Tree::evict_locked(std::string_view path) {
  std::erase_if(directories_, [&](const auto& known) {
    if (!is_at_or_below(known.first, path)) return false;
    detach(*known.second);
    return true;
  });
}

std::vector<std::string> Tree::paths_of(const StoreId& store, std::string_view key) const {
  std::shared_lock lock(mutex_);
  std::vector<std::string> paths;
  for (const MountPtr& mount : mounts_.all()) {
    const std::string& prefix = mount->entry.source.prefix;
    if (mount->snapshot || mount->source->id() != store || !key.starts_with(prefix)) continue;
    std::string path = join_path(mount->entry.path, key.substr(prefix.size()));
    const MountTable::Route route = mounts_.route(path);
    if (!route.in_mount_table && route.mount == mount) paths.push_back(std::move(path));
  }
  return paths;
}

std::vector<std::string> Tree::cached_directories(std::string_view path) const {
  std::vector<std::string> paths;
  {
    std::shared_lock lock(mutex_);
    for (const auto& [at, directory] : directories_) {
      if (is_at_or_below(at, path) && directory->holds_names()) paths.push_back(at);
    }
  }
  std::ranges::sort(paths, [](const auto& a, const auto& b) { return compare_paths(a, b) < 0; });
  return paths;
}

std::vector<std::string> Tree::directories_by_use(std::string_view path) const {
  std::vector<std::pair<uint64_t, std::string>> used;
  {
    std::shared_lock lock(mutex_);
    for (const auto& [at, directory] : directories_) {
      if (is_at_or_below(at, path) && directory->holds_names()) {
        used.emplace_back(directory->used_at(), at);
      }
    }
  }
  std::ranges::sort(used, std::greater<>());
  std::vector<std::string> paths;
  for (auto& [tick, at] : used) paths.push_back(std::move(at));
  return paths;
}

void Tree::expire_below(std::string_view path) {
  std::shared_lock lock(mutex_);
  for (auto& [at, directory] : directories_) {
    if (is_at_or_below(at, path)) directory->expire();
  }
}

void Tree::expire(std::string_view path) {
  std::shared_lock lock(mutex_);
  if (auto found = directories_.find(path); found != directories_.end()) found->second->expire();
}

void Tree::evict(std::vector<std::string> removed) {
  if (removed.empty()) return;
  // One pass over the map, however many directories were removed.
  std::ranges::sort(removed);
  std::unique_lock lock(mutex_);
  std::erase_if(directories_, [&](const auto& known) {
    for (std::string_view path = known.first; path != "/"; path = parent_path(path)) {
      if (!std::ranges::binary_search(removed, path)) continue;
      // A mount below a removed directory stays.
      if (mounts_.owner(known.first) != mounts_.owner(path)) return false;
      detach(*known.second);
      return true;
    }
    return false;
  });
}

void Tree::apply(const DirectoryUpdate& update) {
  names_.fetch_add(update.names_added, std::memory_order_relaxed);
  if (names() > options_.names_max) evict_least_recently_used();
  notify(update.changes);
}

// Evicts down to nine tenths of the limit, so that not every listing has to do this.
void Tree::evict_least_recently_used() {
  std::unique_lock lock(mutex_);
  std::vector<DirectoryPtr> by_age;
  for (const auto& [path, directory] : directories_) {
    if (!directory->in_flight()) by_age.push_back(directory);
  }
  std::ranges::sort(by_age, {}, &Directory::used_at);
  if (!by_age.empty()) by_age.pop_back();  // the last one used, even if too large by itself
  for (const DirectoryPtr& directory : by_age) {
    if (names() <= options_.names_max / 10 * 9) break;
    detach(*directory);
    directories_.erase(directory->path());
  }
}

void Tree::notify(const std::vector<CatalogChange>& changes) {
  if (changes.empty()) return;
  std::shared_ptr<const std::function<void(const CatalogChange&)>> listener;
  {
    std::lock_guard lock(listener_mutex_);
    listener = listener_;
  }
  if (!listener || !*listener) return;
  for (const CatalogChange& change : changes) (*listener)(change);
}

void Tree::set_listener(std::function<void(const CatalogChange&)> listener) {
  auto shared =
      std::make_shared<const std::function<void(const CatalogChange&)>>(std::move(listener));
  std::lock_guard lock(listener_mutex_);
  listener_ = std::move(shared);
}

}  // namespace leat
