// SPDX-License-Identifier: Apache-2.0
// Directory: what is known of one directory of a store, how old that is, and which requests to
// learn more are under way. Asks nothing itself. Thread-safe; its mutex is a leaf.
//
// Two layers: the last listing, and single names that were asked about since then.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/name_table.h"
#include "runtime/shared_result.h"
#include "telemetry/trace_desk.h"

namespace leat {

// What the store said about one name.
struct CheckedName {
  bool exists = false;
  FileRefPtr ref;  // null for a directory
  int64_t mtime_ns = kNoTime;
};

// When the store was asked, and when we asked our source, which may have answered from memory.
struct AskedAt {
  Clock::time_point store;
  Clock::time_point source = store;
};

// One listing under way; whoever wants it waits for `result`.
struct ListingFlight {
  uint64_t number = 0;
  uint64_t epoch = 0;
  AskedAt asked_at;
  Clock::duration age_max{0};  // of what the source may answer from memory
  NameTablePtr known;          // the listing before
  const std::shared_ptr<Trace> trace = trace_of_shared_work();
  RefreshNews news;  // there when the result is
  std::shared_ptr<SharedResult<bool>> result = SharedResult<bool>::make();
  std::shared_ptr<SharedResult<bool>> told = SharedResult<bool>::make();  // the listener, too
};
using ListingFlightPtr = std::shared_ptr<ListingFlight>;

struct CheckFlight {
  uint64_t epoch = 0;
  Clock::time_point started_at;
  Clock::duration age_max{0};
  bool was_file = false;
  const std::shared_ptr<Trace> trace = trace_of_shared_work();
  std::shared_ptr<SharedResult<CheckedName>> result = SharedResult<CheckedName>::make();
};
using CheckFlightPtr = std::shared_ptr<CheckFlight>;

// What others have to be told after something was learnt.
struct DirectoryNews {
  std::vector<CatalogChange> changes;
  std::vector<std::string> gone_directories;  // paths
  int64_t names_added = 0;                    // may be negative
  RefreshNews learnt{};                       // all of it, told or not
};

class Directory {
 public:
  enum class Need { kNothing, kListing, kCheck };

  // `key` is "" or ends in '/'.
  // `tells_new` as in CatalogOptions.
  Directory(std::string path, MountPtr mount, std::string key, bool tells_new);

  const std::string& path() const { return path_; }
  const std::string& key() const { return key_; }
  const MountPtr& mount() const { return mount_; }
  const DirectoryPolicy& policy() const { return policy_; }
  bool is_mount_root() const { return path_ == mount_->entry.path; }

  // What may be believed without asking, or nothing.
  std::optional<Result<CatalogEntry>> answer(std::string_view name, Clock::time_point now);
  // What was learnt last, however old; nothing where it was doubted since.
  std::optional<Result<CatalogEntry>> last_known(std::string_view name);
  CatalogEntry entry_of(std::string_view name, const CheckedName& checked,
                        Clock::time_point checked_at) const;
  Status not_found(std::string_view name) const;

  // The cheapest way to learn about `name`; counts it as taken.
  Need need(std::string_view name, Clock::time_point now);
  // Success when the listing may be believed; the error when the directory is known to be missing.
  std::optional<Result<>> listing_state(Clock::time_point now);
  bool loaded() const;

  // The names with `mounted` ones (sorted) put over them. Shared between callers while nothing
  // changes.
  ListingPtr show(std::vector<CatalogEntry> mounted);

  // The number of the listing that is known now; a caller takes it before it looks.
  uint64_t listed_by() const;
  // A flight and whether the caller has to carry it out. No flight where a listing has ended since
  // `seen`: the caller may look again. `shared` false: one of its own.
  std::pair<ListingFlightPtr, bool> join_listing(uint64_t seen, Clock::time_point now);
  // One that begins now, whatever is known or under way.
  ListingFlightPtr begin_listing(Clock::time_point now);
  std::pair<CheckFlightPtr, bool> join_check(const std::string& name, bool shared,
                                             Clock::time_point now);
  // Each flight ends with one of these; the caller then sets its result.
  DirectoryNews finish_listing(const ListingFlight& flight,
                               const Result<std::shared_ptr<NameTable>>& table);
  // Changes `checked` to the FileRef known before where it is the same version.
  DirectoryNews finish_check(const CheckFlightPtr& flight, const std::string& name,
                             Result<CheckedName>& checked);

  // All that is known has to be asked for again.
  void expire();
  // One name has to be asked for again. `changed`: it was seen to be another version; true when
  // others have to be told.
  bool doubt(const std::string& name, bool changed, Clock::time_point now);

  // It left the tree: nothing is counted or told any more. Names that were counted for it.
  uint64_t forget();
  // Takes its place in the tree, with all that it knows, for `mount`, which was changed and gives
  // files the same FileRefs. What is under way goes to its end for nobody.
  std::shared_ptr<Directory> successor(MountPtr mount);
  bool in_flight() const;
  void touch(uint64_t tick) { used_at_.store(tick, std::memory_order_relaxed); }
  uint64_t used_at() const { return used_at_.load(std::memory_order_relaxed); }

 private:
  struct Single {
    CheckedName state;
    Clock::time_point checked_at;  // or doubted
    bool doubtful = false;
    bool told = false;  // of the change that made it doubtful
  };

  // What show() needs, taken under the lock and used outside.
  struct View {
    NameTablePtr table;
    std::map<std::string, Single, std::less<>> singles;
    AskedAt listed_at;
    Clock::time_point fresh_until;
    uint64_t revision;
    bool expired;
  };

  std::vector<Listing::Over> over_of(const View& view, std::vector<CatalogEntry> mounted) const;
  NameRecord record_of(std::string_view name, const CheckedName& state) const;
  CatalogEntry make_entry(const NameRecord& record, AskedAt at) const;
  // What was said at `at` may be believed until then: of a name, of the listing.
  Clock::time_point until(const Freshness& freshness, AskedAt at) const;
  Clock::time_point fresh_until(const NameRecord& record, AskedAt at) const;
  Clock::time_point listing_until(AskedAt at) const;
  Clock::time_point missing_until(std::string_view name, Clock::time_point at) const;
  // How old an answer of a source may be that it gives from memory.
  Clock::duration answer_age_max() const;
  // Asks the source for its bounds, which change with the mounts of a cluster. Not under the lock.
  void note_ttl_max();
  // A kernel may keep the listing for good, so it has to be told of names that come.
  bool tells_added() const { return tells_new_ || kept_for_good(); }
  bool kept_for_good() const { return policy_.freshness.mode == Freshness::Mode::kImmutable; }
  bool listing_is_fresh(Clock::time_point now) const;
  ListingFlightPtr begin_listing_locked(Clock::time_point now);
  std::optional<CheckedName> known_state(std::string_view name) const;
  // `told`: others were told already.
  void note_change(DirectoryNews& news, const NamedChange& change, bool told = false) const;
  void settle_singles(const ListingFlight& flight, NameTable* table, DirectoryNews& news);
  int64_t recount();

  const std::string path_;
  const MountPtr mount_;
  const DirectoryPolicy policy_;
  const bool tells_new_;
  const std::string key_;
  std::atomic<uint64_t> used_at_ = 0;
  // Source::ttl_max, as of the last request.
  std::atomic<Clock::duration> present_max_ = Clock::duration::max();
  std::atomic<Clock::duration> missing_max_ = Clock::duration::max();

  mutable std::mutex mutex_;
  NameTablePtr listing_;           // null until loaded
  std::optional<Status> missing_;  // why there is no listing: the directory does not exist
  AskedAt listed_at_;              // when the listing began
  bool expired_ = false;           // whatever its age
  uint64_t epoch_ = 0;             // counts expire()
  uint64_t flights_ = 0;           // ever started
  uint64_t listed_by_ = 0;         // number of the flight that brought the listing
  uint64_t checks_spent_ = 0;      // since the listing aged
  std::map<std::string, Single, std::less<>> singles_;
  ListingFlightPtr listing_flight_;
  std::map<std::string, CheckFlightPtr, std::less<>> check_flights_;
  uint64_t counted_ = 1;  // names, and the directory itself
  bool forgotten_ = false;
  uint64_t revision_ = 0;  // counts what changes show()
  std::weak_ptr<const Listing> shown_;
  uint64_t shown_revision_ = 0;
};
using DirectoryPtr = std::shared_ptr<Directory>;

}  // namespace leat
