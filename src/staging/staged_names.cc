// SPDX-License-Identifier: Apache-2.0
// StagedView: where names are.
#include <utility>

#include "staging/staged_key.h"
#include "staging/staged_view.h"

namespace leat {

// --- names ---------------------------------------------------------------------------------------

bool StagedView::counts(const Entry& entry, const Mark& mark) const {
  return entry.done == 0 || entry.done > mark.position;
}

bool StagedView::is_at(const Step& step) const {
  if (step.number == 0) return true;
  const auto found = changes_.find(step.number);
  return found == changes_.end() || found->second.is_done || found->second.is_copied;
}

const std::string& StagedView::place_of(const Steps& steps) const {
  for (size_t i = steps.size(); i-- > 1;) {
    if (is_at(steps[i])) return steps[i].key;
  }
  return steps.front().key;
}

StagedPlace StagedView::place_of(const Entry& entry) const {
  StagedPlace place{.number = entry.number};
  if (entry.kind == Entry::Kind::kMissing) {
    place.kind = StagedPlace::Kind::kMissing;
    return place;
  }
  if (entry.kind == Entry::Kind::kDirectory) {
    place.kind = StagedPlace::Kind::kDirectory;
    place.change = entry.change;
    return place;
  }
  const auto save = changes_.find(entry.save);
  if (entry.save != 0 && save != changes_.end()) {
    place.change = save->second.change;
    place.number = entry.save;
    if (!save->second.is_done) {
      place.kind = StagedPlace::Kind::kContent;
      return place;
    }
    place.shown = staged_version(log_, entry.save);
    place.stored = entry.stored;
  }
  place.key = place_of(entry.steps);
  return place;
}

StagedPlace StagedView::find_locked(std::string_view key, const Mark& mark) const {
  const auto found = entries_.find(key);
  const bool is_object = found != entries_.end() && found->second.kind == Entry::Kind::kObject;
  if (found != entries_.end() && (is_object || counts(found->second, mark))) {
    const bool is_pending = counts(found->second, mark);
    const bool has_alias = found->second.stored.known();
    if (is_pending || has_alias) return place_of(found->second);
  }
  const std::optional<std::string> stored = stored_key(key);
  if (key.ends_with('/') && has_names_below(key, mark)) {
    return {.kind = StagedPlace::Kind::kDirectory, .key = stored.value_or("")};
  }
  if (!stored) return {.kind = StagedPlace::Kind::kMissing};
  return {.key = *stored};
}

std::optional<std::string> StagedView::stored_key(std::string_view key) const {
  for (std::string_view at = key.ends_with('/') ? key : directory_of(key); !at.empty();
       at = directory_of(at)) {
    const auto tree = trees_.find(at);
    if (tree == trees_.end()) continue;
    if (tree->second.steps.empty()) return std::nullopt;
    return moved(key, at, place_of(tree->second.steps));
  }
  return std::string(key);
}

bool StagedView::has_names_below(std::string_view directory, const Mark& mark) const {
  for (auto at = entries_.upper_bound(directory); at != entries_.end(); ++at) {
    if (!at->first.starts_with(directory)) break;
    if (at->second.kind != Entry::Kind::kMissing && counts(at->second, mark)) return true;
  }
  for (auto at = trees_.upper_bound(directory); at != trees_.end(); ++at) {
    if (!at->first.starts_with(directory)) return false;
    if (!at->second.steps.empty()) return true;
  }
  return false;
}

StagedPlace StagedView::find(std::string_view key, const Mark& mark) const {
  std::lock_guard lock(mutex_);
  return find_locked(key, mark);
}

StagedView::Level StagedView::level(std::string_view directory, const Mark& mark) const {
  if (directory.empty()) return {.exists = true, .stored = ""};
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(directory);
  if (found != entries_.end() && found->second.kind == Entry::Kind::kMissing &&
      counts(found->second, mark)) {
    return {};
  }
  return {.exists = (found != entries_.end() && counts(found->second, mark)) ||
                    has_names_below(directory, mark),
          .stored = stored_key(directory)};
}

std::vector<SourceObject> StagedView::merge(std::string_view directory, std::string_view stored,
                                            std::vector<SourceObject> objects,
                                            std::string_view after, std::string_view last,
                                            const Mark& mark) const {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::optional<SourceObject>> names;
  for (SourceObject& object : objects) {
    std::string key = moved(object.key, stored, directory);
    const StagedPlace place = find_locked(key, mark);
    // A name that the view has elsewhere is shown from there.
    const bool is_here = place.kind == StagedPlace::Kind::kStore && place.key == object.key;
    names[key] = is_here ? std::optional(shown(std::move(object), key, place)) : std::nullopt;
    if (place.kind == StagedPlace::Kind::kDirectory) names[key] = place.object(key, log_);
  }
  const auto add = [&](const std::string& name) {
    if (name <= after || (!last.empty() && name > last)) return;
    const auto known = names.find(name);
    if (known != names.end() && known->second) return;
    const StagedPlace place = find_locked(name, mark);
    if (place.kind == StagedPlace::Kind::kMissing) return;
    SourceObject object = place.object(name, log_);
    if (place.kind == StagedPlace::Kind::kStore) {
      // Renamed, and not listed at its new place: only its stat knows size and version.
      if (place.change == nullptr && !name.ends_with('/')) object.version = {};
      if (place.change != nullptr) {
        object.size = place.change->size;
        object.version = place.shown;
      }
    }
    names[name] = std::move(object);
  };
  for (auto at = entries_.upper_bound(directory); at != entries_.end();) {
    if (!at->first.starts_with(directory)) break;
    const std::string_view rest = std::string_view(at->first).substr(directory.size());
    const size_t slash = rest.find('/');
    const std::string name =
        std::string(directory).append(rest.substr(0, slash == rest.npos ? slash : slash + 1));
    const bool is_present = at->second.kind != Entry::Kind::kMissing && counts(at->second, mark);
    if (is_present) add(name);
    at = is_present && slash != rest.npos ? entries_.lower_bound(end_of(name)) : std::next(at);
  }
  for (auto at = trees_.upper_bound(directory); at != trees_.end(); ++at) {
    if (!at->first.starts_with(directory)) break;
    const std::string_view rest = std::string_view(at->first).substr(directory.size());
    if (at->second.steps.empty()) continue;
    add(std::string(directory).append(rest.substr(0, rest.find('/') + 1)));
  }
  std::vector<SourceObject> merged;
  for (auto& [name, object] : names) {
    if (object) merged.push_back(*std::move(object));
  }
  return merged;
}

}  // namespace leat
