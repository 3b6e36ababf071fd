// SPDX-License-Identifier: Apache-2.0
// Invariants: a single is never older than the listing below it. Answers of a flight from an
// earlier epoch are kept but not fresh. Listings are installed in the order in which they began.
#include "catalog/directory.h"

#include <fmt/format.h>

#include <algorithm>

#include "catalog/memory_name_table.h"
#include "catalog/mount_table.h"

namespace leat {
namespace {

// Names in one answer of a store (S3: at most 1,000 keys a request).
constexpr uint64_t kNamesPerRequest = 1000;
// Singles of one directory; with more, the directory is listed again, which drops them.
constexpr size_t kSinglesMax = 10'000;
// Missing names that are checked one by one before a fresh listing is repeated for them.
constexpr uint64_t kChecksOfMissing = 8;

Clock::time_point add_saturating(Clock::time_point at, std::chrono::nanoseconds age) {
  if (age >= Clock::time_point::max() - at) return Clock::time_point::max();
  return at + age;
}

CheckedName to_checked(const NameRecord& record) {
  return {true, record.ref, record.mtime_ns};
}

// Returns nothing if there was no table before; either table may be null.
std::vector<NamedChange> differences(const NameTable* before, const NameTable* after) {
  std::vector<NamedChange> found;
  if (before == nullptr) return found;
  static const MemoryNameTable kNothing;
  auto was = before->from(0), is = after != nullptr ? after->from(0) : kNothing.from(0);
  compare_names(*was, *is, [&](std::string_view name, NameChange change, bool was_directory) {
    using Kind = NamedChange::Kind;
    const bool added = change == NameChange::kAdded;
    const Kind kind = added                            ? Kind::kAdded
                      : change == NameChange::kRemoved ? Kind::kRemoved
                                                       : Kind::kChanged;
    found.push_back({std::string(name), kind, added ? is->view().is_directory() : was_directory});
  });
  return found;
}

}  // namespace

Directory::Directory(std::string path, MountPtr mount, std::string key, bool notify_on_create)
    : path_(std::move(path)),
      mount_(std::move(mount)),
      policy_(mount_->entry.policy.of_directory(path_below_mount(*mount_, path_))),
      notify_on_create_(notify_on_create),
      key_(std::move(key)) {}

Clock::time_point Directory::until(const Freshness& freshness, AskedAt at) const {
  if (freshness.mode == Freshness::Mode::kImmutable) return Clock::time_point::max();
  const Clock::duration max_age = std::min<Clock::duration>(freshness.max_age, present_max_.load());
  return std::min(add_saturating(at.store, max_age),
                  add_saturating(at.source, mount_->source->metadata_ttl_max()));
}

Clock::time_point Directory::fresh_until(const NameRecord& record, AskedAt at) const {
  const PathPolicy& policy = record.is_directory() ? policy_ : policy_.of_file(record.name);
  return until(policy.freshness, at);
}

Clock::time_point Directory::listing_until(AskedAt at) const {
  return until(policy_.freshness, at);
}

Clock::time_point Directory::missing_until(std::string_view name, Clock::time_point at) const {
  const Clock::duration age = policy_.of_file(name).freshness.effective_negative_ttl();
  return add_saturating(at, std::min(age, missing_max_.load()));
}

Clock::duration Directory::answer_age_max() const {
  const Clock::duration own = policy_.freshness.peer_reply_age_max();
  if (is_immutable()) return own;
  return std::min(own, present_max_.load() / 2);
}

void Directory::update_ttl_max() {
  const NameTtl ttl = mount_->source->ttl_max(key_);
  present_max_ = ttl.present;
  missing_max_ = ttl.missing;
}

bool Directory::listing_is_fresh(Clock::time_point now) const {
  return listing_ && !expired_ && now < listing_until(listed_at_);
}

NameRecord Directory::record_of(std::string_view name, const CheckedName& state) const {
  return {name, state.ref, state.mtime_ns};
}

CatalogEntry Directory::make_entry(const NameRecord& record, AskedAt at) const {
  CatalogEntry entry;
  entry.info.name = record.name;
  entry.info.mtime = to_mtime(record.mtime_ns);
  entry.mount = mount_;
  entry.fresh_until = fresh_until(record, at);
  if (record.is_directory()) {
    entry.info.kind = FileKind::kDirectory;
    entry.directory_key = fmt::format("{}{}/", key_, record.name);
  } else {
    entry.info.size = record.ref->size;
    entry.ref = record.ref;
  }
  return entry;
}

CatalogEntry Directory::entry_of(std::string_view name, const CheckedName& checked,
                                 Clock::time_point checked_at) const {
  return make_entry(record_of(name, checked), {checked_at});
}

Status Directory::not_found(std::string_view name) const {
  return {StatusCode::kNotFound,
          fmt::format("{}/{} does not exist: there is no {}/{}{}", path_ == "/" ? "" : path_, name,
                      mount_->source->name(), key_, name)};
}

std::optional<Result<CatalogEntry>> Directory::answer(std::string_view name,
                                                      Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (auto single = singles_.find(name); single != singles_.end()) {
    const auto& [state, checked_at, stale, notified] = single->second;
    if (stale) return std::nullopt;
    if (!state.exists) {
      if (now >= missing_until(name, checked_at)) return std::nullopt;
      return Error(not_found(name));
    }
    const NameRecord record = record_of(name, state);
    if (now >= fresh_until(record, {checked_at})) return std::nullopt;
    return make_entry(record, {checked_at});
  }
  if (expired_) return std::nullopt;
  if (missing_) {
    if (now >= missing_until(name, listed_at_.store)) return std::nullopt;
    return Error(*missing_);
  }
  if (!listing_) return std::nullopt;
  if (std::optional<FoundName> record = listing_->find(name)) {
    if (now >= fresh_until(*record, listed_at_)) return std::nullopt;
    CatalogEntry entry = make_entry(*record, listed_at_);
    entry.index = record->index;
    return entry;
  }
  if (now >= missing_until(name, listed_at_.store)) return std::nullopt;
  return Error(not_found(name));
}

std::optional<Result<CatalogEntry>> Directory::last_answer(std::string_view name) {
  std::lock_guard lock(mutex_);
  if (auto single = singles_.find(name); single != singles_.end()) {
    const auto& [state, checked_at, stale, notified] = single->second;
    if (stale) return std::nullopt;
    if (!state.exists) return Error(not_found(name));
    return make_entry(record_of(name, state), {checked_at});
  }
  if (missing_) return Error(*missing_);
  std::optional<NameRecord> record = listing_ ? listing_->find(name) : std::nullopt;
  if (!record) return Error(not_found(name));
  return make_entry(*record, listed_at_);
}

// A stale directory is listed again when that costs no more requests than the single checks since
// then. A directory with at most one request's worth of names is listed at once.
Directory::Need Directory::need(std::string_view name, Clock::time_point now) {
  if (answer(name, now)) return Need::kNothing;
  std::lock_guard lock(mutex_);
  if (!listing_ || singles_.size() >= kSinglesMax) return Need::kListing;
  const bool is_fresh = listing_is_fresh(now);
  const std::optional<CheckedName> known = known_state(name);
  if (is_fresh && known && known->exists) return Need::kCheck;
  // That a name is missing is known for less long than what is there. A program that makes many
  // files asks about each of their names; one listing answers for all of them.
  const uint64_t checks_min = is_fresh ? kChecksOfMissing : 1;
  const uint64_t requests =
      std::max(checks_min, (listing_->size() + kNamesPerRequest - 1) / kNamesPerRequest);
  if (checks_spent_ + 1 >= requests) return Need::kListing;
  ++checks_spent_;
  return Need::kCheck;
}

std::optional<Result<>> Directory::listing_state(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (missing_ && !expired_ && now < missing_until("", listed_at_.store)) return Error(*missing_);
  if (listing_is_fresh(now)) return Result<>();
  return std::nullopt;
}

bool Directory::loaded() const {
  std::lock_guard lock(mutex_);
  return listing_ != nullptr;
}

bool Directory::holds_names() const {
  std::lock_guard lock(mutex_);
  return listing_ != nullptr || !singles_.empty();
}

ListingPtr Directory::show(std::vector<CatalogEntry> mounted) {
  View view;
  {
    std::lock_guard lock(mutex_);
    if (auto shown = shown_.lock(); shown && mounted.empty() && shown_revision_ == revision_) {
      return shown;
    }
    view = {listing_,   singles_,
            listed_at_, expired_ ? listed_at_.store : listing_until(listed_at_),
            revision_,  expired_};
  }
  bool shareable = mounted.empty();
  Listing::Layers layers{.names = view.table,
                         .mount = mount_,
                         .key = key_,
                         .names_fresh_until = view.fresh_until,
                         .overlays = overlays_of(view, std::move(mounted)),
                         .fresh_until = view.fresh_until,
                         .skipped = view.table ? view.table->skipped() : 0};
  auto listing = std::make_shared<const Listing>(std::move(layers));
  if (!shareable) return listing;
  std::lock_guard lock(mutex_);
  if (view.revision != revision_) return listing;
  // If several threads built it at once, all use the first one.
  if (auto shown = shown_.lock(); shown && shown_revision_ == revision_) return shown;
  shown_ = listing;
  shown_revision_ = revision_;
  return listing;
}

std::vector<Listing::Overlay> Directory::overlays_of(const View& view,
                                                     std::vector<CatalogEntry> mounted) const {
  auto name_of = [](const CatalogEntry& entry) -> std::string_view { return entry.info.name; };
  std::vector<Listing::Overlay> overlays;
  for (const auto& [name, single] : view.singles) {
    if (std::ranges::binary_search(mounted, std::string_view(name), {}, name_of)) continue;
    CatalogEntry entry = make_entry(record_of(name, single.state), {single.checked_at});
    if (single.stale) entry.fresh_until = view.listed_at.store;
    overlays.push_back({std::move(entry), single.state.exists});
  }
  // Files with a freshness of their own.
  for (const DirectoryPolicy::FileOverride& own : policy_.file_overrides) {
    if (std::ranges::binary_search(mounted, std::string_view(own.name), {}, name_of)) continue;
    if (view.singles.contains(own.name) || !view.table) continue;
    std::optional<NameRecord> record = view.table->find(own.name);
    if (!record || record->is_directory()) continue;
    CatalogEntry entry = make_entry(*record, view.listed_at);
    if (view.expired) entry.fresh_until = view.listed_at.store;
    overlays.push_back({std::move(entry)});
  }
  for (CatalogEntry& entry : mounted) overlays.push_back({std::move(entry)});
  std::ranges::sort(overlays, {}, [&](const Listing::Overlay& one) { return name_of(one.entry); });
  return overlays;
}

uint64_t Directory::listed_by() const {
  std::lock_guard lock(mutex_);
  return listed_by_;
}

std::pair<ListingFlightPtr, bool> Directory::join_listing(uint64_t seen, Clock::time_point now) {
  update_ttl_max();
  std::lock_guard lock(mutex_);
  if (listed_by_ != seen && !expired_ && !missing_) return {nullptr, false};
  // A flight from before an expire() may return the state before it.
  if (listing_flight_ && listing_flight_->epoch == epoch_) return {listing_flight_, false};
  ListingFlightPtr flight = begin_listing_locked(now);
  flight->age_max = answer_age_max();
  return {flight, true};
}

ListingFlightPtr Directory::begin_listing(Clock::time_point now) {
  std::lock_guard lock(mutex_);
  return begin_listing_locked(now);
}

ListingFlightPtr Directory::begin_listing_locked(Clock::time_point now) {
  listing_flight_ = std::make_shared<ListingFlight>();
  listing_flight_->number = ++flights_;
  listing_flight_->epoch = epoch_;
  listing_flight_->fetch_times = {now};
  listing_flight_->known = listing_;
  return listing_flight_;
}

std::pair<CheckFlightPtr, bool> Directory::join_check(const std::string& name, bool shared,
                                                      Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (auto found = check_flights_.find(name);
      shared && found != check_flights_.end() && found->second->epoch == epoch_) {
    return {found->second, false};
  }
  auto flight = std::make_shared<CheckFlight>();
  flight->epoch = epoch_;
  flight->started_at = now;
  std::optional<CheckedName> known = known_state(name);
  flight->before_listing = listing_ == nullptr;
  flight->was_file = known && known->exists && known->ref != nullptr;
  check_flights_[name] = flight;
  return {flight, true};
}

std::optional<CheckedName> Directory::known_state(std::string_view name) const {
  if (auto single = singles_.find(name); single != singles_.end()) return single->second.state;
  std::optional<NameRecord> record = listing_ ? listing_->find(name) : std::nullopt;
  if (!record) return std::nullopt;
  return to_checked(*record);
}

void Directory::note_change(DirectoryUpdate& update, const NamedChange& change,
                            bool notified) const {
  if (detached_) return;
  update.differences.note(change);
  const bool added = change.kind == NamedChange::Kind::kAdded;
  if (notified || (added && !notifies_of_added())) return;
  update.changes.push_back({path_, change.name, change.kind == NamedChange::Kind::kRemoved});
  if (change.directory && !added)
    update.removed_directories.push_back(join_path(path_, change.name));
}

DirectoryUpdate Directory::finish_listing(const ListingFlight& flight,
                                          const Result<std::shared_ptr<NameTable>>& table) {
  bool missing = !table && (table.error().code() == StatusCode::kNotFound ||
                            table.error().code() == StatusCode::kNotDirectory);
  NameTable* fresh = table ? table->get() : nullptr;
  update_ttl_max();
  for (;;) {
    NameTablePtr before;
    {
      std::lock_guard lock(mutex_);
      before = listing_;
    }
    // Outside the lock, since a directory may have millions of names.
    std::vector<NamedChange> changed = differences(before.get(), fresh);
    std::lock_guard lock(mutex_);
    if (before != listing_) continue;  // another flight ended meanwhile
    if (listing_flight_ && listing_flight_->number == flight.number) listing_flight_ = nullptr;
    DirectoryUpdate update;
    if ((!table && !missing) || flight.number < listed_by_) return update;
    for (const NamedChange& one : changed) {
      if (!singles_.contains(one.name)) note_change(update, one);
    }
    merge_singles(flight, fresh, update);
    listing_ = table ? NameTablePtr(*table) : nullptr;
    missing_ = missing ? std::optional(table.error()) : std::nullopt;
    listed_at_ = flight.fetch_times;
    listed_by_ = flight.number;
    expired_ = flight.epoch != epoch_;
    checks_spent_ = 0;
    ++revision_;
    update.names_added = recount();
    return update;
  }
}

// Decides for each single between it and the new listing, which may be null. A single that was
// checked or marked stale after the listing began stays.
void Directory::merge_singles(const ListingFlight& flight, NameTable* table,
                              DirectoryUpdate& update) {
  for (auto at = singles_.begin(); at != singles_.end();) {
    auto& [name, single] = *at;
    std::optional<NameRecord> record = table != nullptr ? table->find(name) : std::nullopt;
    bool same = record && single.state.exists &&
                same_content(NameView::of(*record), NameView::of(record_of(name, single.state)));
    bool newer = single.checked_at >= flight.fetch_times.store;
    if (same && single.state.ref) table->adopt(name, single.state.ref);
    using Kind = NamedChange::Kind;
    if (!same && !newer && single.state.exists) {
      const Kind kind = record ? Kind::kChanged : Kind::kRemoved;
      note_change(update, {name, kind, single.state.ref == nullptr}, single.notified);
    } else if (!single.state.exists && record && (!newer || single.stale)) {
      if (listing_) note_change(update, {name, Kind::kAdded, record->is_directory()});
      // Marked stale while unknown or missing: it exists until it is checked.
      single.state = to_checked(*record);
    }
    bool stays = newer && (single.stale || !same) && table != nullptr;
    at = stays ? std::next(at) : singles_.erase(at);
  }
}

DirectoryUpdate Directory::finish_check(const CheckFlightPtr& flight, const std::string& name,
                                        Result<CheckedName>& checked) {
  update_ttl_max();
  std::lock_guard lock(mutex_);
  DirectoryUpdate update;
  auto found = check_flights_.find(name);
  // Otherwise a later check replaced it, or the name was marked stale meanwhile.
  bool current = found != check_flights_.end() && found->second == flight;
  if (current) check_flights_.erase(found);
  if (!checked) return update;
  std::optional<CheckedName> before = known_state(name);
  bool existed = before && before->exists;
  bool same =
      existed && checked->exists &&
      same_content(NameView::of(record_of(name, *before)), NameView::of(record_of(name, *checked)));
  if (same) checked->ref = before->ref;
  if (!current || flight->epoch != epoch_) return update;
  if (listing_ ? listed_at_.store > flight->started_at : !keeps_singles_before_listing()) {
    return update;
  }
  auto single = singles_.find(name);
  bool notified = single != singles_.end() && single->second.notified;
  using Kind = NamedChange::Kind;
  if (existed && !same) {
    const Kind kind = checked->exists ? Kind::kChanged : Kind::kRemoved;
    note_change(update, {name, kind, before->ref == nullptr}, notified);
  } else if (!existed && checked->exists && listing_) {
    note_change(update, {name, Kind::kAdded, checked->ref == nullptr});
  }
  singles_[name] = SingleName{*checked, flight->started_at, false, false};
  ++revision_;
  update.names_added = recount();
  return update;
}

// A name may be checked while the first listing takes long; it is not checked again for each
// access.
bool Directory::keeps_singles_before_listing() const {
  return listing_flight_ != nullptr && singles_.size() < kSinglesMax;
}

void Directory::expire() {
  std::lock_guard lock(mutex_);
  ++epoch_;
  ++revision_;
  expired_ = true;
  // The next listing decides, also that of a worker, which has an age.
  for (auto& [name, single] : singles_) {
    single.stale = true;
    single.checked_at = Clock::time_point::min();
  }
}

bool Directory::mark_stale(const std::string& name, bool changed, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  std::optional<CheckedName> known = known_state(name);
  // The first listing may return the state before the change.
  if (!known && !listing_ && !listing_flight_) return false;
  SingleName& single = singles_[name];
  bool notify = changed && known && known->exists && !single.notified && !detached_;
  if (known) single.state = *known;
  single.checked_at = now;
  single.stale = true;
  single.notified |= notify;
  // A check in flight may return the state before the change.
  check_flights_.erase(name);
  ++revision_;
  return notify;
}

uint64_t Directory::detach() {
  std::lock_guard lock(mutex_);
  detached_ = true;
  return std::exchange(counted_, 0);
}

DirectoryPtr Directory::successor(MountPtr mount) {
  auto next = std::make_shared<Directory>(path_, std::move(mount), key_, notify_on_create_);
  std::lock_guard lock(mutex_);
  // No other thread has it yet, so its own lock is not needed.
  next->used_at_ = used_at();
  next->listing_ = listing_;
  next->missing_ = missing_;
  next->listed_at_ = listed_at_;
  next->expired_ = expired_;
  next->listed_by_ = listed_by_;
  next->flights_ = flights_;
  next->checks_spent_ = checks_spent_;
  next->singles_ = singles_;
  next->counted_ = std::exchange(counted_, 0);
  next->present_max_ = present_max_.load();
  next->missing_max_ = missing_max_.load();
  detached_ = true;
  return next;
}

bool Directory::in_flight() const {
  std::lock_guard lock(mutex_);
  return listing_flight_ != nullptr || !check_flights_.empty();
}

int64_t Directory::recount() {
  if (detached_) return 0;
  uint64_t now = 1 + (listing_ ? listing_->names_in_memory() : 0) + singles_.size();
  int64_t added = static_cast<int64_t>(now) - static_cast<int64_t>(counted_);
  counted_ = now;
  return added;
}

}  // namespace leat
