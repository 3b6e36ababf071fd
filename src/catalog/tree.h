// SPDX-License-Identifier: Apache-2.0
// Tree: the mount table and the directories that are known, the part of the catalog which
// requests under way share and which lives until the last of them has ended. Thread-safe.
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
  // Ends with the catalog; for the requests that run on their own.
  std::stop_token stopping() const { return stop_.get_token(); }
  void stop() { stop_.request_stop(); }

  Result<> add_mount(MountPtr mount);
  // Null when nothing was mounted there.
  MountPtr remove_mount(std::string_view path);
  std::vector<MountPtr> mounts() const;
  bool serves(const Directory& directory) const;
  // The mount of `directory` is still there, but its names come from elsewhere now.
  bool replaced(const Directory& directory) const;
  MountTable::Route route(std::string_view path) const;

  // What `change` makes of the mount at `path` takes its place.
  struct Switch {
    MountPtr before, after;
    std::vector<DirectoryPtr> forgotten;  // of the mount before
  };
  enum class Known : uint8_t {
    kForgotten,
    kGoesOn
  };  // of directories, where the files are the same
  Result<Switch> exchange(std::string_view path, Known known,
                          const std::function<Result<Mount>(const Mount&)>& change);
  // kExists where `to` is taken. The mount before and after.
  Result<Switch> move_mount(std::string_view from, const std::string& to, Policy policy);

  // A path that exists because of the mount table alone: a mount point, or a directory that leads
  // to one. Nothing for what only a store can tell. kNotFound where no mount is responsible.
  std::optional<Result<CatalogEntry>> mount_answer(std::string_view path) const;
  // Those of them in directory `path`, sorted by name.
  std::vector<CatalogEntry> mount_entries(std::string_view path) const;

  // The directory at `path` if it is known.
  DirectoryPtr find_directory(std::string_view path);
  // The same, made if need be; null where no mount is responsible, or one with a snapshot.
  DirectoryPtr open_directory(std::string_view path);

  // The names of the directory at `path` where they may be believed without asking; else null.
  ListingPtr known_listing(std::string_view path);
  // The same however old they are, without a touch.
  ListingPtr last_listing(std::string_view path);

  // Wherever an object is mounted, but where a snapshot answers.
  std::vector<std::string> paths_of(const StoreId& store, std::string_view key) const;
  // Whose listing is known, at and below `path`.
  std::vector<std::string> known_directories(std::string_view path) const;
  // The same, the one that was used last first.
  std::vector<std::string> directories_by_use(std::string_view path) const;

  // What is known of the directories at and below `path` has to be asked for again.
  void expire_below(std::string_view path);
  // Of that one alone.
  void expire(std::string_view path);

  // These directories and those below them are not there any more.
  void forget(std::vector<std::string> gone);
  // Takes in what a directory learnt: keeps to the limit of names, tells the listener. Without
  // locks held.
  void take(const DirectoryNews& news);
  void tell(const std::vector<CatalogChange>& changes);
  void set_listener(std::function<void(const CatalogChange&)> listener);
  uint64_t names() const;

 private:
  struct PathHash {
    using is_transparent = void;
    size_t operator()(std::string_view path) const { return hash_bytes(path); }
  };
  using Directories = std::unordered_map<std::string, DirectoryPtr, PathHash, std::equal_to<>>;

  CatalogEntry mount_entry(std::string_view path) const;
  void drop(Directory& directory);
  void forget_locked(std::string_view path);
  void drop_oldest();

  const CatalogOptions options_;
  std::stop_source stop_;
  // A directory may be forgotten before what it learnt last is added, so it can be below 0 for a
  // moment.
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
