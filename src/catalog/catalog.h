// SPDX-License-Identifier: Apache-2.0
// Catalog: the namespace: the store of each path, its names, and how long they may be served from
// memory. Answers from memory while fresh, else requests them from the store. The first lookup in a
// directory lists it, and one listing serves all waiters. Thread-safe.
//
// Paths are normalised namespace paths ("/data/train/0001.png").
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "catalog/catalog_entry.h"
#include "catalog/listing.h"
#include "model/mount_entry.h"
#include "runtime/context.h"
#include "runtime/task.h"
#include "source/source.h"
#include "source/source_table.h"

namespace leat {

class Executor;

struct CatalogChange {
  std::string parent;  // path of the directory
  std::string name;
  bool removed = false;  // false: another version, or a new name
  // The whole mount at `parent` (no name): its owner and mode, freshness, and names.
  bool whole = false;
  // All directories of the mount at `parent` (no name): their names.
  bool listings = false;
  // Part of an exchange of snapshots; after all such names a change with `listings` or `whole`
  // follows.
  bool snapshot_change = false;
  // Sent on a thread that may wait, by a sender with more changes.
  bool may_block = false;
};

// A difference found for one name.
struct NamedChange {
  enum class Kind : uint8_t { kAdded, kChanged, kRemoved };
  std::string name;  // in its directory
  Kind kind = Kind::kChanged;
  bool directory = false;  // it is a directory, or was one
};

// Returns "added", "changed" or "removed".
std::string_view to_string(NamedChange::Kind kind);

// Result of a refresh.
struct RefreshResult {
  uint64_t added = 0, changed = 0, removed = 0;
  static constexpr size_t kNamedMax = 1000;
  std::vector<NamedChange> first;  // at most kNamedMax of them

  void note(NamedChange change);
  void add(const RefreshResult& more);
};

struct CatalogOptions {
  uint64_t names_max = 20'000'000;  // in memory, over all directories; the least recently used
                                    // directories are evicted
  // Names in memory of one directory. A larger listing goes into an unlinked file in
  // `scratch_directory` and counts as one name. If that is empty, it stays in memory.
  uint64_t names_in_memory_max = 100'000;
  std::string scratch_directory = {};
  // A lookup in a directory without a listing waits so long for its first page. With a far store
  // it hardly waits, for the first few names. Then it requests its name alone, or at once if more
  // pages follow. The listing goes on meanwhile.
  Clock::duration first_page_wait = std::chrono::milliseconds(50);
  std::function<Clock::time_point()> now = &Clock::now;
  // The listener is notified of new names in all directories, since it serves clients with listings
  // of their own.
  bool notify_on_create = false;
};

class Catalog {
 public:
  // Requests to stores run on `executor` as their own tasks, so a waiter that gives up does not
  // cancel the others. `sources` and `executor` must outlive the catalog.
  static std::unique_ptr<Catalog> create(CatalogOptions options, SourceTable& sources,
                                         Executor& executor);
  virtual ~Catalog() = default;

  // Mounts may nest; the longest matching path answers. Returns kExists if the path is taken.
  // Freshness kSnapshot needs a snapshot, and a snapshot sets the freshness to kSnapshot.
  virtual Result<> mount(MountEntry entry, SourcePtr source, SnapshotPtr snapshot = nullptr) = 0;
  virtual Result<> unmount(std::string path) = 0;
  virtual std::vector<MountPtr> mounts() const = 0;

  // From now on the names of the mount at `path` come from `snapshot`; null: from the store, with
  // the previous freshness. Returns kInvalidArgument if the snapshot is of another store or does
  // not cover the mount. Ends after the listener was notified of the differences, which takes as
  // long as reading both snapshots. If only the store knows its present names, the notification
  // covers all directories. Open listings and open files are not affected.
  virtual Task<Result<>> use_snapshot(std::string path, SnapshotPtr snapshot) = 0;

  // Sets the policy of the mount at `path`. Cached metadata stays, except for files with another
  // cache use or pool, which are requested again; a snapshot stays, too. Ends after the listener
  // was notified (CatalogChange::whole).
  virtual Task<Result<>> set_policy(std::string path, Policy policy) = 0;
  // Moves the mount at `from` to `to` and sets its policy. Cached metadata is dropped. Returns
  // kExists if `to` is taken.
  virtual Result<> move(std::string from, std::string to, Policy policy) = 0;

  // Requests from the store now, whatever is cached, and notifies the listener as for any other
  // answer. Lists a directory again. If it is not cached any more, `removed` counts its previous
  // names.
  virtual Task<Result<RefreshResult>> refresh(Context context, std::string path) = 0;
  // Refreshes one name, which may be a file, a directory or missing, if its directory is cached.
  virtual Task<Result<RefreshResult>> refresh_name(Context context, std::string path) = 0;
  // Notes the result of a change by the caller without a request: an object, or nothing where it
  // was removed. It counts as an answer of the store at this moment.
  virtual void note_changed(const std::string& path, const std::optional<SourceObject>& now) = 0;
  // Returns the sorted paths of the directories at and below `path` with a cached listing, parents
  // first. Excludes mounts with a snapshot.
  virtual std::vector<std::string> cached_directories(std::string_view path) const = 0;
  // Returns the same, the most recently used first.
  virtual std::vector<std::string> directories_by_use(std::string_view path) const = 0;

  // In a mount with a snapshot, only the snapshot answers the following calls, at once. Nothing
  // ages and missing names stay missing; invalidate(), expire() and report_changed() have no
  // effect.

  // Answers from memory if fresh; returns nothing if a request to the store is needed. Missing
  // names answer kNotFound while fresh.
  virtual std::optional<Result<CatalogEntry>> try_lookup(std::string_view path) = 0;
  virtual Task<Result<CatalogEntry>> lookup(Context context, std::string path) = 0;
  // Lookup for an open: same as lookup(), but in mode kValidate each call requests
  // this object from the store. If the store does not respond, returns an error: stale
  // metadata is never served instead.
  virtual Task<Result<CatalogEntry>> lookup_for_open(Context context, std::string path) = 0;
  // Returns kNotFound for a missing directory and kNotDirectory for a file. In a store without real
  // directories, one is missing if there is no key and no marker below it, unless it is the mount's
  // root.
  virtual Task<Result<ListingPtr>> list(Context context, std::string path) = 0;
  // Answers from memory if fresh; otherwise returns null.
  virtual ListingPtr try_list(std::string_view path) = 0;
  // Answers from memory whatever the age, and does not count as a use; otherwise returns null. For
  // figures that may lag behind the store.
  virtual ListingPtr last_list(std::string_view path) { return try_list(path); }

  // Marks cached metadata of `path` and below as stale; the next access requests it from the store.
  virtual void invalidate(std::string_view path) = 0;
  // Same for the directory at `path` alone, without the directories below.
  virtual void expire(std::string_view path) = 0;
  // A read found that the object at `path` changed or was removed (kVersionChanged): marks it stale
  // wherever it is mounted.
  virtual void report_changed(std::string_view path) = 0;

  // Sets the listener. It runs on any thread, without locks held, for each name that changed its
  // version, was removed or was mounted. It also runs for mounts with a changed policy. New names
  // are reported in immutable directories, of sources that notify of changes, or in all with
  // CatalogOptions::notify_on_create.
  virtual void set_change_listener(std::function<void(const CatalogChange&)> listener) = 0;

  // Cancels requests to stores. Returns when all have ended and the listener runs no more; from
  // then on only memory answers. Must end before the stores' executor and the listener's objects
  // are destroyed.
  virtual Task<> stop() = 0;
};

}  // namespace leat
