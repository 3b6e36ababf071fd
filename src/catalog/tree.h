// SPDX-License-Identifier: Apache-2.0
// Tree: the mount table and the cached directories. It is shared by requests in flight and lives
// until the last of them has ended. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "catalog/catalog.h"
#include "catalog/directory.h"
#include "catalog/mount_table.h"

namespace leat {

class Tree {
 public:
  explicit Tree(CatalogOptions options);

  const CatalogOptions& options() const { return options_; }
  Clock::time_point now() const { return options_.now(); }
  // Stops with the catalog; for requests that run as their own tasks.
  std::stop_token stopping() const { return stop_.get_token(); }
  void stop() { stop_.request_stop(); }

  Result<> add_mount(MountPtr mount);
  // Returns null if nothing was mounted there.
  MountPtr remove_mount(std::string_view path);
  std::vector<MountPtr> mounts() const;
  bool serves(const Directory& directory) const;
  // Returns true if the mount of `directory` is still there, but its names have another origin now.
  bool replaced(const Directory& directory) const;
  MountTable::Route route(std::string_view path) const;

  // Replaces the mount at `path` by the result of `change`.
  struct MountSwap {
    MountPtr before, after;
    std::vector<DirectoryPtr> evicted;  // of the previous mount
  };
  enum class CachedDirectories : uint8_t {
    kEvict,
    kKeep
  };  // cached directories, if the files stay the same
  Result<MountSwap> swap_mount(std::string_view path, CachedDirectories cached,
                               const std::function<Result<Mount>(const Mount&)>& change);
  // Returns the mount before and after; kExists if `to` is taken.
  Result<MountSwap> move_mount(std::string_view from, const std::string& to, Policy policy);

  // Answers for a path that exists only by the mount table: a mount point, or a directory that
  // leads to one. Returns nothing if a request to the store is needed, and kNotFound if the path is
  // in no mount.
  std::optional<Result<CatalogEntry>> mount_answer(std::string_view path) const;
  // Returns such entries in directory `path`, sorted by name.
  std::vector<CatalogEntry> mount_entries(std::string_view path) const;

  // Returns the directory at `path` if it is cached.
  DirectoryPtr find_directory(std::string_view path);
  // Same, but creates it if needed; null if the path is in no mount, or in one with a snapshot.
  DirectoryPtr open_directory(std::string_view path);

  // Returns the fresh names of the directory at `path`; else null.
  ListingPtr fresh_listing(std::string_view path);
  // Same whatever the age, and not counted as a use.
  ListingPtr last_listing(std::string_view path);

  // Returns the paths of an object in all mounts without a snapshot.
  std::vector<std::string> paths_of(const StoreId& store, std::string_view key) const;
  // Returns the directories at and below `path` with a cached listing.
  std::vector<std::string> cached_directories(std::string_view path) const;
  // Same, the most recently used first.
  std::vector<std::string> directories_by_use(std::string_view path) const;

  // Marks the directories at and below `path` as stale.
  void expire_below(std::string_view path);
  // Marks that one alone as stale.
  void expire(std::string_view path);

  // Removes these directories and those below them.
  void evict(std::vector<std::string> removed);
  // Applies the result of a request to a directory: enforces the limit of names and notifies the
  // listener. Call without locks held.
  void apply(const DirectoryUpdate& update);
  void notify(const std::vector<CatalogChange>& changes);
  void set_listener(std::function<void(const CatalogChange&)> listener);
  uint64_t names() const;

 private:
  struct PathHash {
    using is_transparent = void;
    size_t operator()(std::string_view path) const { return hash_bytes(path); }
  };
  using Directories = std::unordered_map<std::string, DirectoryPtr, PathHash, std::equal_to<>>;

  CatalogEntry mount_entry(std::string_view path) const;
  void detach(Directory& directory);
  void evict_locked(std::string_view path);
  void evict_least_recently_used();

  const CatalogOptions options_;
  std::stop_source stop_;
  // May be below 0 for a moment: a directory may be removed before its last names are added.
  std::atomic<int64_t> names_ = 0;
  std::atomic<uint64_t> ticks_ = 0;

  mutable std::shared_mutex mutex_;  // before Directory's
  MountTable mounts_;
  Directories directories_;

  std::mutex listener_mutex_;  // leaf
  std::shared_ptr<const std::function<void(const CatalogChange&)>> listener_;
};
using TreePtr = std::shared_ptr<Tree>;

}  // namespace leat
