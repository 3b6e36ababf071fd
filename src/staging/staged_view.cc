// SPDX-License-Identifier: Apache-2.0
// Names are the entries of the view, else those of the store below the longest tree with that
// prefix, else those of the store. An entry or tree with all of its changes done leaves the view;
// that of a save stays, so that its readers and caches keep its version.
#include "staging/staged_view.h"

#include <algorithm>
#include <utility>

#include "staging/staged_key.h"

namespace leat {
namespace {

// Saves that keep their version after they are done.
constexpr size_t kKnownSavesMax = 10'000;
// How long a name that leaves the view stays for readers that asked the store before.
constexpr Clock::duration kGrace = std::chrono::minutes(2);

bool is_below(std::string_view key, std::string_view directory) {
  return directory.empty() || key.starts_with(directory);
}

}  // namespace

SourceObject StagedPlace::object(std::string name, const Id128& log) const {
  SourceObject object;
  object.kind = name.ends_with('/') ? FileKind::kDirectory : FileKind::kFile;
  object.key = std::move(name);
  if (change == nullptr) return object;
  object.attributes = std::make_shared<const PosixAttributes>(change->attributes);
  object.mtime = change->attributes.mtime.value_or(change->since);
  if (kind != Kind::kContent) return object;
  object.size = change->size;
  object.version = staged_version(log, number);
  return object;
}

SourceObject StagedView::shown(SourceObject object, std::string name, const StagedPlace& place) {
  object.key = std::move(name);
  if (place.stored.known() && object.version == place.stored) object.version = place.shown;
  return object;
}

// --- events --------------------------------------------------------------------------------------

Result<> StagedView::apply(const StagedEvents& events, Clock::time_point now) {
  std::lock_guard lock(mutex_);
  if (events.is_whole) {
    clear();
    log_ = events.log;
    term_ = 0;
  }
  if (events.log != log_) {
    return error(StatusCode::kOutOfRange, "the events are of another staging log");
  }
  term_ = std::max(term_, events.term);
  for (const StagedEvent& event : events.events) {
    const bool is_sequence = !events.is_whole && !events.is_part;
    if (is_sequence && event.position <= position_) continue;
    if (is_sequence && event.position != position_ + 1) {
      return error(StatusCode::kOutOfRange, "events of the staging log are missing");
    }
    position_ = event.position;
    if (event.kind == StagedEvent::Kind::kAppend) {
      append(event.number, std::make_shared<const StagedChange>(event.change));
    } else {
      done(event, now);
    }
  }
  if (events.is_whole || events.is_part) {
    position_ = events.position;
  } else {
    position_ = std::max(position_, events.position);
  }
  forget(now);
  return {};
}

void StagedView::clear() {
  ++renames_done_;
  position_ = 0;
  entries_.clear();
  trees_.clear();
  changes_.clear();
  pending_.clear();
  pending_bytes_ = pending_renames_ = 0;
  known_saves_.clear();
  done_names_.clear();
}

void StagedView::append(uint64_t number, StagedChangePtr change) {
  changes_[number] = {.change = change};
  pending_[number] = change;
  pending_bytes_ += change->size;
  if (change->kind == StagedKind::kRename) ++pending_renames_;
  Entry entry{.number = number};
  switch (change->kind) {
    case StagedKind::kSave:
      entry.save = number;
      entry.steps = {{number, change->key}};
      break;
    case StagedKind::kMakeDirectory:
      entry.kind = Entry::Kind::kDirectory;
      entry.change = change;
      break;
    case StagedKind::kRemove:
      entry.kind = Entry::Kind::kMissing;
      break;
    case StagedKind::kRename:
      if (change->key.ends_with('/')) {
        move_directory(number, *change);
      } else {
        move_file(number, *change);
      }
      make_ancestors(number, change->key);
      return;
  }
  entries_[change->key] = std::move(entry);
  if (change->kind != StagedKind::kRemove) make_ancestors(number, change->key);
}

// A directory that was removed is there again with the first name in it.
void StagedView::make_ancestors(uint64_t number, std::string_view key) {
  for (std::string_view at = directory_of(key); !at.empty(); at = directory_of(at)) {
    const auto found = entries_.find(at);
    if (found == entries_.end() || found->second.kind != Entry::Kind::kMissing) continue;
    found->second = {.kind = Entry::Kind::kDirectory, .number = number};
  }
}

std::optional<StagedView::Steps> StagedView::steps_to(std::string_view key) const {
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.kind == Entry::Kind::kObject) {
    return found->second.steps;
  }
  for (std::string_view at = key.ends_with('/') ? key : directory_of(key); !at.empty();
       at = directory_of(at)) {
    const auto tree = trees_.find(at);
    if (tree == trees_.end()) continue;
    if (tree->second.steps.empty()) return std::nullopt;
    Steps steps = tree->second.steps;
    for (Step& step : steps) step.key = moved(key, at, step.key);
    return steps;
  }
  return Steps{{0, std::string(key)}};
}

void StagedView::move_file(uint64_t number, const StagedChange& change) {
  Entry entry{.number = number};
  const auto found = entries_.find(change.from);
  if (found != entries_.end() && found->second.kind == Entry::Kind::kObject) {
    entry.save = found->second.save;
    entry.stored = found->second.stored;
  }
  entry.steps = steps_to(change.from).value_or(Steps{{0, change.from}});
  entry.steps.push_back({number, change.key});
  entries_[change.from] = {.kind = Entry::Kind::kMissing, .number = number};
  entries_[change.key] = std::move(entry);
}

void StagedView::move_directory(uint64_t number, const StagedChange& change) {
  const std::string &from = change.from, &to = change.key;
  std::optional<Steps> base = steps_to(from);
  // Nothing of an earlier directory with the new name remains.
  entries_.erase(entries_.lower_bound(to), entries_.lower_bound(end_of(to)));
  trees_.erase(trees_.lower_bound(to), trees_.lower_bound(end_of(to)));
  Entries entries;
  const auto first = entries_.lower_bound(from), last = entries_.lower_bound(end_of(from));
  for (auto at = first; at != last; ++at) {
    Entry entry = std::move(at->second);
    std::string key = moved(at->first, from, to);
    entry.done = 0;
    entry.number = number;
    if (entry.kind == Entry::Kind::kObject) entry.steps.push_back({number, key});
    entries.emplace(std::move(key), std::move(entry));
  }
  entries_.erase(first, last);
  entries_.merge(entries);
  std::map<std::string, Tree, std::less<>> trees;
  const auto first_tree = trees_.lower_bound(from), last_tree = trees_.lower_bound(end_of(from));
  for (auto at = first_tree; at != last_tree; ++at) {
    std::string key = moved(at->first, from, to);
    Tree tree{.number = number, .steps = std::move(at->second.steps)};
    if (!tree.steps.empty()) tree.steps.push_back({number, key});
    trees.insert_or_assign(std::move(key), std::move(tree));
  }
  trees_.erase(first_tree, last_tree);
  if (base) base->push_back({number, to});
  trees.insert_or_assign(to, Tree{.number = number, .steps = base.value_or(Steps())});
  trees_.merge(trees);
  trees_[from] = {.number = number};
  entries_[from] = {.kind = Entry::Kind::kMissing, .number = number};
}

void StagedView::done(const StagedEvent& event, Clock::time_point now) {
  const auto found = changes_.find(event.number);
  if (found == changes_.end() || found->second.is_done) return;
  const StagedChange& change = *found->second.change;
  if (change.kind == StagedKind::kRename) ++renames_done_;
  found->second.is_copied = true;
  if (event.kind == StagedEvent::Kind::kCopied) return;
  found->second.is_done = true;
  found->second.stored = event.version;
  pending_.erase(event.number);
  pending_bytes_ -= change.size;
  if (change.kind == StagedKind::kRename) --pending_renames_;
  if (change.kind == StagedKind::kSave) known_saves_.push_back(event.number);
  if (change.kind != StagedKind::kRename || !change.key.ends_with('/')) {
    for (const std::string& key : {change.key, change.from}) {
      const auto at = entries_.find(key);
      if (at != entries_.end()) finish(at, event, now);
    }
    if (change.kind == StagedKind::kSave && pending_renames_ > 0) {
      // The object may have moved since.
      for (auto& [key, entry] : entries_) {
        if (entry.save == event.number) entry.stored = event.version;
      }
    }
  } else {
    for (auto at = entries_.begin(); at != entries_.end(); ++at) finish(at, event, now);
    std::erase_if(trees_, [&](const auto& one) { return one.second.number == event.number; });
  }
  // Directories that this change made.
  for (std::string_view up = directory_of(change.key); !up.empty(); up = directory_of(up)) {
    const auto at = entries_.find(up);
    if (at != entries_.end()) finish(at, event, now);
  }
  if (change.kind != StagedKind::kSave) changes_.erase(event.number);
}

void StagedView::finish(Entries::iterator at, const StagedEvent& event, Clock::time_point now) {
  Entry& entry = at->second;
  if (entry.number != event.number || entry.done != 0) return;
  entry.done = event.position;
  entry.done_at = now;
  // A copy may have another version than its original. A directory's names are not compared.
  entry.stored = event.version;
  done_names_.emplace_back(now, at->first);
}

void StagedView::forget(Clock::time_point now) {
  while (!done_names_.empty() && now - done_names_.front().first > kGrace) {
    const auto at = entries_.find(done_names_.front().second);
    if (at != entries_.end()) {
      const Entry& entry = at->second;
      const bool is_known =
          entry.save != 0 && entry.stored.known() && changes_.contains(entry.save);
      const bool leaves = entry.done != 0 && now - entry.done_at > kGrace;
      if (leaves && !is_known) entries_.erase(at);
    }
    done_names_.pop_front();
  }
  while (known_saves_.size() > kKnownSavesMax) {
    const auto found = changes_.find(known_saves_.front());
    if (found != changes_.end()) {
      const auto at = entries_.find(found->second.change->key);
      if (at != entries_.end() && at->second.save == found->first && at->second.done != 0) {
        entries_.erase(at);
      }
      changes_.erase(found);
    }
    known_saves_.pop_front();
  }
}

StagedEvents StagedView::whole() const {
  std::lock_guard lock(mutex_);
  StagedEvents all{.log = log_, .term = term_, .position = position_, .is_whole = true};
  // Known versions first, each where the store has it now: pending renames move it again.
  std::map<uint64_t, const Entry*> known;
  for (const auto& [key, entry] : entries_) {
    if (entry.save != 0 && entry.stored.known()) known[entry.save] = &entry;
  }
  for (const auto& [number, entry] : known) {
    const auto save = changes_.find(number);
    if (save == changes_.end() || !save->second.is_done) continue;
    StagedChange change = *save->second.change;
    change.key = place_of(entry->steps);
    all.events.push_back({.position = number, .number = number, .change = std::move(change)});
    all.events.push_back({.kind = StagedEvent::Kind::kDone,
                          .position = position_,
                          .number = number,
                          .version = entry->stored});
  }
  for (const auto& [number, change] : pending_) {
    all.events.push_back({.position = number, .number = number, .change = *change});
  }
  for (const auto& [number, change] : pending_) {
    if (change->kind != StagedKind::kRename || !is_at({number, ""})) continue;
    all.events.push_back(
        {.kind = StagedEvent::Kind::kCopied, .position = position_, .number = number});
  }
  return all;
}

// --- state ---------------------------------------------------------------------------------------

Id128 StagedView::log() const {
  std::lock_guard lock(mutex_);
  return log_;
}

uint64_t StagedView::term() const {
  std::lock_guard lock(mutex_);
  return term_;
}

uint64_t StagedView::position() const {
  std::lock_guard lock(mutex_);
  return position_;
}

StagedView::Mark StagedView::mark() const {
  std::lock_guard lock(mutex_);
  return {position_, renames_done_};
}

bool StagedView::holds(const Mark& mark) const {
  std::lock_guard lock(mutex_);
  return renames_done_ == mark.renames;
}

bool StagedView::has_renames() const {
  std::lock_guard lock(mutex_);
  return pending_renames_ > 0;
}

bool StagedView::is_quiet() const {
  std::lock_guard lock(mutex_);
  return entries_.empty() && trees_.empty();
}

std::optional<StagedView::Save> StagedView::save(uint64_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = changes_.find(number);
  if (found == changes_.end() || found->second.change->kind != StagedKind::kSave) {
    return std::nullopt;
  }
  return Save{found->second.change, found->second.is_done, found->second.stored};
}

std::map<uint64_t, StagedChangePtr> StagedView::pending() const {
  std::lock_guard lock(mutex_);
  return pending_;
}

bool StagedView::is_pending(uint64_t number) const {
  std::lock_guard lock(mutex_);
  return pending_.contains(number);
}

bool StagedView::is_copied(uint64_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = changes_.find(number);
  return found == changes_.end() || found->second.is_copied;
}

uint64_t StagedView::pending_below(std::string_view key, uint64_t number) const {
  const std::string directory =
      key.empty() || key.ends_with('/') ? std::string(key) : std::string(key) + '/';
  std::lock_guard lock(mutex_);
  uint64_t count = 0;
  for (const auto& [at, change] : pending_) {
    if (number != 0 && at > number) break;
    const auto touches = [&](std::string_view name) {
      return !name.empty() && (is_below(name, directory) || name == key ||
                               (name.ends_with('/') && is_below(key, name)));
    };
    count += touches(change->key) || touches(change->from) ? 1 : 0;
  }
  return count;
}

StagedView::Totals StagedView::totals() const {
  std::lock_guard lock(mutex_);
  Totals totals{.changes = pending_.size(), .bytes = pending_bytes_};
  if (!pending_.empty()) totals.oldest = pending_.begin()->second->since;
  return totals;
}

}  // namespace leat
