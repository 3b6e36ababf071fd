// SPDX-License-Identifier: Apache-2.0
// Catalog: the namespace. Which store a path belongs to, what is there, and how long that may be
// believed. Answers from memory while fresh, else asks the store: a directory's first touch loads
// the directory, and one load serves everyone who waits for it. Thread-safe.
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
  bool gone = false;  // else: another version, or it came
  // All of the mount at `parent` (and no name): how it is shown, for how long it is believed, and
  // which names there are.
  bool whole = false;
  // All directories of the mount at `parent` (and no name): which names they have.
  bool listings = false;
  // Of a snapshot taken into use or out of it: after all such names `listings` is told or `whole`.
  bool exchange = false;
  // Told on a thread that may wait, by someone who has more to tell.
  bool patient = false;
};

// What was found out about a name.
struct NamedChange {
  enum class Kind : uint8_t { kAdded, kChanged, kGone };
  std::string name;  // in its directory
  Kind kind = Kind::kChanged;
  bool directory = false;  // it is one, or was
};

// "added", "changed", "removed".
std::string_view to_string(NamedChange::Kind kind);

// What asking anew brought.
struct RefreshNews {
  uint64_t added = 0, changed = 0, gone = 0;
  static constexpr size_t kNamedMax = 1000;
  std::vector<NamedChange> first;  // so many of them

  void note(NamedChange change);
  void add(const RefreshNews& more);
};

struct CatalogOptions {
  uint64_t names_max =
      20'000'000;  // kept in memory over all directories; oldest directories go first
  // Of one directory. With more its listing goes into a file without a name in `scratch_directory`
  // and counts as one name; where that is empty, it stays in memory.
  uint64_t names_in_memory_max = 100'000;
  std::string scratch_directory = {};
  std::function<Clock::time_point()> now = &Clock::now;
  // The listener is told of names that came in all directories: it tells those who keep listings of
  // their own.
  bool tells_new = false;
};

class Catalog {
 public:
  // Requests to stores run on `executor` as tasks of their own, so that one who stops waiting does
  // not take the answer from the others. Both must outlive the catalog.
  static std::unique_ptr<Catalog> create(CatalogOptions options, SourceTable& sources,
                                         Executor& executor);
  virtual ~Catalog() = default;

  // Mounts may nest; the longest matching path answers. kExists when the path is taken. A freshness
  // of kSnapshot needs a snapshot, and one makes the freshness kSnapshot.
  virtual Result<> mount(MountEntry entry, SourcePtr source, SnapshotPtr snapshot = nullptr) = 0;
  virtual Result<> unmount(std::string path) = 0;
  virtual std::vector<MountPtr> mounts() const = 0;

  // From now on the names of the mount at `path` come from `snapshot`; null: from the store, with
  // the freshness that it had. kInvalidArgument where the snapshot is of another store or not of
  // all that is mounted. Ends when the listener was told what differs, which takes as long as
  // reading both snapshots; where the store has to be asked for what there is now, of all
  // directories. Listings that are being read, and open files, go on as they are.
  virtual Task<Result<>> use_snapshot(std::string path, SnapshotPtr snapshot) = 0;

  // From now on the mount at `path` has that policy. What is known of it stays known, but where
  // files are cached in another way or pool, which is asked for again; a snapshot stays, too. Ends
  // when the listener was told (CatalogChange::whole).
  virtual Task<Result<>> set_policy(std::string path, Policy policy) = 0;
  // The mount at `from` is at `to` from now on, with that policy. What was known is not known
  // there. kExists where `to` is taken.
  virtual Result<> move(std::string from, std::string to, Policy policy) = 0;

  // Asks the store now, whatever may be believed, and tells the listener as for any other answer.
  // Of a directory: for its listing; where it is known no more, `gone` counts what was in it.
  virtual Task<Result<RefreshNews>> refresh(Context context, std::string path) = 0;
  // Of one name, which may be a file, a directory or missing, as far as its directory is known.
  virtual Task<Result<RefreshNews>> refresh_name(Context context, std::string path) = 0;
  // Paths of the directories at and below `path` whose listing is known, sorted, the outer ones
  // before what is in them. Not in mounts with a snapshot.
  virtual std::vector<std::string> known_directories(std::string_view path) const = 0;
  // The same, the one that was used last first.
  virtual std::vector<std::string> directories_by_use(std::string_view path) const = 0;

  // In a mount with a snapshot that alone answers the following, at once: nothing ages, what is
  // missing stays so, and invalidate(), expire() and report_changed() change nothing.

  // From memory only, if fresh; nothing when the store has to be asked. Missing names answer
  // kNotFound while their age lasts.
  virtual std::optional<Result<CatalogEntry>> try_lookup(std::string_view path) = 0;
  virtual Task<Result<CatalogEntry>> lookup(Context context, std::string path) = 0;
  // For an open: as lookup, but where the mode is kValidate the store is asked about this one
  // object each time. When the store has to be asked and does not answer, that is an error: what
  // has aged is never served instead.
  virtual Task<Result<CatalogEntry>> lookup_for_open(Context context, std::string path) = 0;
  // kNotFound for a directory that is not there (a store without real directories: no key and no
  // marker below it, unless it is the mount's root), kNotDirectory for a file.
  virtual Task<Result<ListingPtr>> list(Context context, std::string path) = 0;
  // From memory only, if fresh; else null.
  virtual ListingPtr try_list(std::string_view path) = 0;
  // From memory only, however old, and not counted as a use; else null. For figures that may be
  // behind the store.
  virtual ListingPtr last_list(std::string_view path) { return try_list(path); }

  // What is known of `path` and below is asked for again at the next touch.
  virtual void invalidate(std::string_view path) = 0;
  // The same of the directory at `path` alone: of those below it nothing changes.
  virtual void expire(std::string_view path) = 0;
  // The object at `path` was seen to have changed or gone (a read answered kChanged): it is asked
  // for again wherever it is mounted.
  virtual void report_changed(std::string_view path) = 0;

  // Called, on any thread and without locks held, for each name whose version changed, which went
  // or which was mounted; in directories that are never asked for again by themselves (immutable)
  // or with CatalogOptions::tells_new in all, also for names that came; and for mounts whose policy
  // changed.
  virtual void set_change_listener(std::function<void(const CatalogChange&)> listener) = 0;

  // Cancels what is asked of stores and returns when all of it has ended and the listener runs no
  // more; from then on memory alone answers. Has to end before the stores' executor and whatever
  // the listener touches go.
  virtual Task<> stop() = 0;
};

}  // namespace leat
