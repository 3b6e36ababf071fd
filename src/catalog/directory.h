// SPDX-License-Identifier: Apache-2.0
// Directory: the cached metadata of one directory of a store, its age, and the requests in flight.
// Sends no requests itself. Thread-safe; its mutex is a leaf.
//
// Two layers: the last listing, and single names checked since then.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/snapshot/name_table.h"
#include "runtime/shared_promise.h"
#include "telemetry/trace_registry.h"

namespace leat {

// Result of a request for one name.
struct CheckedName {
  bool exists = false;
  FileRefPtr ref;  // null for a directory
  int64_t mtime_ns = kNoTime;
};

// Times of the request at the store, and of our request to the source, which may have answered from
// memory.
struct AskedAt {
  Clock::time_point store;
  Clock::time_point source = store;
};

// One listing in flight; callers wait for `result`.
struct ListingFlight {
  uint64_t number = 0;
  uint64_t epoch = 0;
  AskedAt fetch_times;
  Clock::duration age_max{0};  // maximum age of an answer from the source's memory
  NameTablePtr known;          // the previous listing
  const std::shared_ptr<Trace> trace = trace_of_shared_work();
  RefreshResult differences;                // set before the result
  std::atomic<unsigned> early_lookups = 0;  // that did not wait for its first page
  // Set with the result, or before it when the store has more than one page of names.
  std::shared_ptr<SharedPromise<bool>> first_page = SharedPromise<bool>::make();
  std::shared_ptr<SharedPromise<bool>> result = SharedPromise<bool>::make();
  std::shared_ptr<SharedPromise<bool>> notified = SharedPromise<bool>::make();  // listener notified
};
using ListingFlightPtr = std::shared_ptr<ListingFlight>;

struct CheckFlight {
  uint64_t epoch = 0;
  Clock::time_point started_at;
  Clock::duration age_max{0};
  bool was_file = false;
  bool before_listing = false;  // nothing of the directory is known
  const std::shared_ptr<Trace> trace = trace_of_shared_work();
  std::shared_ptr<SharedPromise<CheckedName>> result = SharedPromise<CheckedName>::make();
};
using CheckFlightPtr = std::shared_ptr<CheckFlight>;

// Notifications to send after an answer.
struct DirectoryUpdate {
  std::vector<CatalogChange> changes;
  std::vector<std::string> removed_directories;  // paths
  int64_t names_added = 0;                       // may be negative
  RefreshResult differences{};                   // all differences, notified or not
};

class Directory {
 public:
  enum class Need { kNothing, kListing, kCheck };

  // `key` is "" or ends in '/'. `notify_on_create` as in CatalogOptions.
  Directory(std::string path, MountPtr mount, std::string key, bool notify_on_create);

  const std::string& path() const { return path_; }
  const std::string& key() const { return key_; }
  const MountPtr& mount() const { return mount_; }
  const DirectoryPolicy& policy() const { return policy_; }
  bool is_mount_root() const { return path_ == mount_->entry.path; }

  // Returns the fresh cached answer, or nothing.
  std::optional<Result<CatalogEntry>> answer(std::string_view name, Clock::time_point now);
  // Returns the last answer, whatever its age; nothing if it was marked stale since.
  std::optional<Result<CatalogEntry>> last_answer(std::string_view name);
  CatalogEntry entry_of(std::string_view name, const CheckedName& checked,
                        Clock::time_point checked_at) const;
  Status not_found(std::string_view name) const;

  // Returns the cheapest request that answers `name`, and counts it as sent.
  Need need(std::string_view name, Clock::time_point now);
  // Returns success if the listing is fresh, or the error if the directory is known to be missing.
  std::optional<Result<>> listing_state(Clock::time_point now);
  bool loaded() const;
  // A listing, or single names that were checked during the first one.
  bool holds_names() const;

  // Returns the names with the sorted `mounted` ones laid over them. Shared between callers while
  // nothing changes.
  ListingPtr show(std::vector<CatalogEntry> mounted);

  // Returns the number of the cached listing; a caller reads it before its lookup.
  uint64_t listed_by() const;
  // Returns a flight, and true if the caller must run it. Returns no flight if a listing has ended
  // since `seen`: the caller may repeat its lookup.
  std::pair<ListingFlightPtr, bool> join_listing(uint64_t seen, Clock::time_point now);
  // Begins a listing now, whatever is cached or in flight.
  ListingFlightPtr begin_listing(Clock::time_point now);
  std::pair<CheckFlightPtr, bool> join_check(const std::string& name, bool shared,
                                             Clock::time_point now);
  // Each flight ends with one of these two; the caller then sets its result.
  DirectoryUpdate finish_listing(const ListingFlight& flight,
                                 const Result<std::shared_ptr<NameTable>>& table);
  // Replaces the FileRef in `checked` by the previous one if the version is the same.
  DirectoryUpdate finish_check(const CheckFlightPtr& flight, const std::string& name,
                               Result<CheckedName>& checked);

  // Marks all cached metadata as stale.
  void expire();
  // Marks one name as stale. `changed`: another version was seen. Returns true if the listener must
  // be notified.
  bool mark_stale(const std::string& name, bool changed, Clock::time_point now);

  // Call when it leaves the tree: nothing is counted or notified any more. Returns the number of
  // names counted for it.
  uint64_t detach();
  // Returns a directory with the same metadata for `mount`, a changed mount that gives files the
  // same FileRefs. It replaces this one in the tree. Flights of this one end without effect on it.
  std::shared_ptr<Directory> successor(MountPtr mount);
  bool in_flight() const;
  void touch(uint64_t tick) { used_at_.store(tick, std::memory_order_relaxed); }
  uint64_t used_at() const { return used_at_.load(std::memory_order_relaxed); }

 private:
  struct SingleName {
    CheckedName state;
    Clock::time_point checked_at;  // or marked stale
    bool stale = false;
    bool notified = false;  // the listener was notified of that change
  };

  // Input of show(), copied under the lock and used outside.
  struct View {
    NameTablePtr table;
    std::map<std::string, SingleName, std::less<>> singles;
    AskedAt listed_at;
    Clock::time_point fresh_until;
    uint64_t revision;
    bool expired;
  };

  std::vector<Listing::Overlay> overlays_of(const View& view,
                                            std::vector<CatalogEntry> mounted) const;
  NameRecord record_of(std::string_view name, const CheckedName& state) const;
  CatalogEntry make_entry(const NameRecord& record, AskedAt at) const;
  // Return the time until which an answer received at `at` is fresh, for a name or for the listing.
  Clock::time_point until(const Freshness& freshness, AskedAt at) const;
  Clock::time_point fresh_until(const NameRecord& record, AskedAt at) const;
  Clock::time_point listing_until(AskedAt at) const;
  Clock::time_point missing_until(std::string_view name, Clock::time_point at) const;
  // Returns the maximum age of metadata that a source returns from memory.
  Clock::duration answer_age_max() const;
  // Reads the source's bounds, which change with the mounts of a cluster. Call without the lock.
  void update_ttl_max();
  // A kernel may keep an immutable listing forever, so it must be notified of new names. A new name
  // that the source reports may be cached as missing.
  bool notifies_of_added() const {
    return notify_on_create_ || is_immutable() || mount_->source->notifies_of_changes();
  }
  bool is_immutable() const { return policy_.freshness.mode == Freshness::Mode::kImmutable; }
  bool listing_is_fresh(Clock::time_point now) const;
  ListingFlightPtr begin_listing_locked(Clock::time_point now);
  std::optional<CheckedName> known_state(std::string_view name) const;
  bool keeps_singles_before_listing() const;
  // Adds one change. The last argument is true if the listener was already notified.
  void note_change(DirectoryUpdate& update, const NamedChange& change, bool notified = false) const;
  void merge_singles(const ListingFlight& flight, NameTable* table, DirectoryUpdate& update);
  int64_t recount();

  const std::string path_;
  const MountPtr mount_;
  const DirectoryPolicy policy_;
  const bool notify_on_create_;
  const std::string key_;
  std::atomic<uint64_t> used_at_ = 0;
  // Source::ttl_max, as of the last request.
  std::atomic<Clock::duration> present_max_ = Clock::duration::max();
  std::atomic<Clock::duration> missing_max_ = Clock::duration::max();

  mutable std::mutex mutex_;
  NameTablePtr listing_;           // null until loaded
  std::optional<Status> missing_;  // reason if there is no listing: the directory does not exist
  AskedAt listed_at_;              // when the listing began
  bool expired_ = false;           // stale whatever its age
  uint64_t epoch_ = 0;             // counts expire()
  uint64_t flights_ = 0;           // ever started
  uint64_t listed_by_ = 0;         // number of the flight of the cached listing
  uint64_t checks_spent_ = 0;      // since the listing became stale
  std::map<std::string, SingleName, std::less<>> singles_;
  ListingFlightPtr listing_flight_;
  std::map<std::string, CheckFlightPtr, std::less<>> check_flights_;
  uint64_t counted_ = 1;  // names, and the directory itself
  bool detached_ = false;
  uint64_t revision_ = 0;  // counts changes that affect show()
  std::weak_ptr<const Listing> shown_;
  uint64_t shown_revision_ = 0;
};
using DirectoryPtr = std::shared_ptr<Directory>;

}  // namespace leat
