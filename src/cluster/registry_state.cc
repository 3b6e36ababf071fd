// SPDX-License-Identifier: Apache-2.0
#include "cluster/registry_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.h"

namespace leat {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

}  // namespace

RegistryView RegistryState::list(const std::string& prefix) const {
  RegistryView view{.revision = revision_};
  for (auto at = entries_.lower_bound(prefix);
       at != entries_.end() && at->first.starts_with(prefix); ++at) {
    view.entries.push_back(at->second);
  }
  return view;
}

Result<> RegistryState::check(const RegistryChange& change) const {
  std::set<std::string_view> touched;
  for (const auto& put : change.puts) {
    if (!touched.insert(put.key).second) {
      return error(StatusCode::kInvalidArgument, fmt::format("{} is changed twice", put.key));
    }
    if (put.value.size() > Registry::kValueBytesMax) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("the value of {} has {} bytes, more than {}", put.key,
                               put.value.size(), Registry::kValueBytesMax));
    }
  }
  for (const std::string& key : change.removals) {
    if (!touched.insert(key).second) {
      return error(StatusCode::kInvalidArgument, fmt::format("{} is changed twice", key));
    }
  }
  for (const auto& condition : change.conditions) {
    auto found = entries_.find(condition.key);
    const RegistryRevision changed = found == entries_.end() ? 0 : found->second.changed;
    if (changed != condition.changed) {
      return error(StatusCode::kVersionChanged,
                   fmt::format("{} was changed at revision {}, not {}", condition.key, changed,
                               condition.changed));
    }
  }
  for (const auto& put : change.puts) {
    if (put.lease != 0 && !leases_.contains(put.lease)) {
      return error(StatusCode::kNotFound,
                   fmt::format("lease {} of {} has expired", put.lease, put.key));
    }
  }
  return {};
}

void RegistryState::put(RegistryChange::Put put) {
  RegistryEntry& entry = entries_[put.key];
  const bool was_kept = entry.created != 0 && entry.lease == 0;
  if (was_kept || put.lease == 0) durable_revision_ = revision_;
  if (entry.lease != 0) leases_[entry.lease].erase(put.key);
  if (entry.created == 0) entry.created = revision_;
  entry.key = std::move(put.key);
  entry.value = std::move(put.value);
  entry.changed = revision_;
  ++entry.version;
  entry.lease = put.lease;
  if (put.lease != 0) leases_[put.lease].insert(entry.key);
  history_.push_back({RegistryEvent::Kind::kPut, entry});
}

void RegistryState::remove(const std::string& key) {
  auto found = entries_.find(key);
  if (found == entries_.end()) return;
  if (found->second.lease == 0) {
    durable_revision_ = revision_;
  } else {
    leases_[found->second.lease].erase(key);
  }
  history_.push_back({RegistryEvent::Kind::kRemoved, {.key = key, .changed = revision_}});
  entries_.erase(found);
}

// Drops whole revisions.
void RegistryState::trim() {
  while (history_.size() > history_max_) {
    compacted_ = history_.front().entry.changed;
    while (!history_.empty() && history_.front().entry.changed == compacted_) history_.pop_front();
  }
}

Result<RegistryRevision> RegistryState::commit(RegistryChange change) {
  LEAT_CHECK_OK(check(change));
  ++revision_;
  for (auto& put : change.puts) this->put(std::move(put));
  for (const std::string& key : change.removals) remove(key);
  trim();
  return revision_;
}

RegistryLease RegistryState::grant() {
  leases_.emplace(++last_lease_, std::set<std::string>());
  return last_lease_;
}

bool RegistryState::revoke(RegistryLease lease) {
  auto found = leases_.find(lease);
  if (found == leases_.end()) return false;
  const std::set<std::string> keys = std::move(found->second);
  leases_.erase(found);
  if (keys.empty()) return true;
  ++revision_;
  for (const std::string& key : keys) {
    history_.push_back({RegistryEvent::Kind::kRemoved, {.key = key, .changed = revision_}});
    entries_.erase(key);
  }
  trim();
  return true;
}

Result<RegistryEvents> RegistryState::after(const std::string& prefix,
                                            RegistryRevision after) const {
  if (after < compacted_) {
    return error(
        StatusCode::kOutOfRange,
        fmt::format("changes up to revision {} are compacted, those after {} were requested",
                    compacted_, after));
  }
  if (after > revision_) {
    return error(StatusCode::kOutOfRange,
                 fmt::format("the registry is at revision {}, changes after {} were wanted",
                             revision_, after));
  }
  RegistryEvents found{.revision = revision_};
  auto from = std::ranges::upper_bound(history_, after, {},
                                       [](const auto& event) { return event.entry.changed; });
  for (; from != history_.end(); ++from) {
    if (from->entry.key.starts_with(prefix)) found.events.push_back(*from);
  }
  return found;
}

std::string RegistryState::serialize() const {
  Json entries = Json::array();
  for (const auto& [key, entry] : entries_) {
    if (entry.lease != 0) continue;
    entries.push_back({{"key", base64(key)},
                       {"value", base64(entry.value)},
                       {"changed", entry.changed},
                       {"created", entry.created},
                       {"version", entry.version}});
  }
  const Json document = {{"format", kFormat}, {"revision", revision_}, {"entries", entries}};
  return document.dump(1);
}

Result<> RegistryState::restore(const std::string& text) {
  try {
    const Json document = Json::parse(text);
    if (document.at("format").get<int>() != kFormat) {
      return error(StatusCode::kUnsupported, "written by another version of Leat");
    }
    // Entries with a lease are not in it. The revision increases, so that the file's state is not
    // mistaken for an earlier one.
    revision_ = compacted_ = document.at("revision").get<RegistryRevision>() + 1;
    for (const Json& one : document.at("entries")) {
      auto key = from_base64(one.at("key").get<std::string_view>());
      auto value = from_base64(one.at("value").get<std::string_view>());
      if (!key || !value) return error(StatusCode::kCorrupt, "an entry is no base64");
      entries_[*key] = {.key = *key,
                        .value = std::move(*value),
                        .changed = one.at("changed").get<RegistryRevision>(),
                        .created = one.at("created").get<RegistryRevision>(),
                        .version = one.value("version", int64_t{1})};
    }
  } catch (const Json::exception& broken) {
    return error(StatusCode::kCorrupt, broken.what());
  }
  return {};
}

}  // namespace leat
